package mapcmd

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"symbio/cmd/symbio/internal/chat"
	"symbio/cmd/symbio/internal/command"
)

// outcome is what became of an item: a line of the output. The JSON names are a contract.
type outcome struct {
	// Index counts the items from 0, in the order of the input.
	Index int `json:"index"`
	// Item is the path of the file, or the line: JSON, or its text as JSON.
	Item json.RawMessage `json:"item"`
	// Result is what the agent wrote, as a JSON string, or the JSON of the capability.
	Result json.RawMessage `json:"result,omitempty"`
	// Error says why there is no result.
	Error string `json:"error,omitempty"`
	// Lost reports that it is not known what was done: the node is gone, or symbio map was, in the middle.
	Lost bool `json:"lost,omitempty"`
	// Node is the name of the node that worked last.
	Node string `json:"node,omitempty"`
	// Attempts counts how often a node began with it.
	Attempts int `json:"attempts"`
	// Spent is what the agent used: model_calls, tokens, and cost in USD.
	Spent map[string]float64 `json:"spent,omitempty"`
	// Denials are calls that were denied because no person could be asked, so that the work may not be done. OmittedDenials
	// is the number of further ones.
	Denials        []chat.Denial `json:"denials,omitempty"`
	OmittedDenials int           `json:"omitted_denials,omitempty"`

	// Hash is the hash of the item. State is waiting or begun while the outcome is not known. Only the journal has them.
	Hash  string `json:"hash,omitempty"`
	State string `json:"state,omitempty"`
	again bool   // an earlier run began it
}

// journal keeps the outcomes of the items in a file, one line for each change. The lines stay when the process
// is killed. It is safe for concurrent use.
type journal struct {
	mu   sync.Mutex
	file *os.File
	size int64
	// at is 1 and where the latest line about an item begins, by its index; 0 = there is none. It is all that grows in
	// memory.
	at []int64
}

// openJournal reads what an earlier run left in the file. A line that was cut off is dropped.
func openJournal(f *os.File) (*journal, error) {
	j := &journal{file: f}
	r := bufio.NewReader(f)
	for n := 0; ; n++ {
		line, err := r.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return j, f.Truncate(j.size)
		}
		if err != nil {
			return nil, err
		}
		var o outcome
		// Items begin in order, at most maxParallel at a time.
		if err := json.Unmarshal(line, &o); err != nil || o.Hash == "" || o.Index < 0 || o.Index > n+maxParallel {
			return nil, j.differs(fmt.Sprintf("line %d is damaged", n+1))
		}
		j.add(o.Index, len(line))
	}
}

// differs returns the error for a journal that does not belong to this run.
func (j *journal) differs(why string) error {
	return command.Usage(fmt.Errorf("%s is not of this run (%s): repeat the command that began it, with the same input, to go on; or remove the file to begin anew", j.file.Name(), why))
}

// add takes note of a line at the end.
func (j *journal) add(index, length int) {
	for len(j.at) <= index {
		j.at = append(j.at, 0)
	}
	j.at[index] = j.size + 1
	j.size += int64(length)
}

// put writes an outcome in one piece. It replaces the earlier ones of its item.
func (j *journal) put(o outcome) error {
	data, err := json.Marshal(o)
	j.mu.Lock()
	defer j.mu.Unlock()
	if err == nil {
		_, err = j.file.WriteAt(append(data, '\n'), j.size)
	}
	if err != nil {
		return fmt.Errorf("keeping the results: %w", err)
	}
	j.add(o.Index, len(data)+1)
	return nil
}

// get returns the latest outcome of an item; without a hash if there is none.
func (j *journal) get(index int) (o outcome, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if index >= len(j.at) || j.at[index] == 0 {
		return o, nil
	}
	at := j.at[index] - 1
	line, err := bufio.NewReader(io.NewSectionReader(j.file, at, j.size-at)).ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &o)
	}
	return o, err
}

// write writes all outcomes in the order of the items.
func (j *journal) write(to io.Writer) error {
	buffer := bufio.NewWriter(to)
	out := json.NewEncoder(buffer)
	out.SetEscapeHTML(false)
	for i := range j.at {
		o, err := j.get(i)
		if err != nil {
			return err
		}
		o.Hash = ""
		if err := out.Encode(o); err != nil {
			return err
		}
	}
	return buffer.Flush()
}
