package acpcmd

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"sync"

	acp "github.com/coder/acp-go-sdk"
)

// maxLine is the longest line that is read, in bytes. The SDK closes a connection at a line of 10 MiB.
const maxLine = 10<<20 - 1<<10

// output writes the messages of the SDK and of copyLines. Each message is one call of Write.
type output struct {
	mu sync.Mutex
	to io.Writer
}

// Write implements io.Writer. It is safe for concurrent use.
func (o *output) Write(line []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.to.Write(line)
}

// refuse answers a line that is no request. Its id is not known, so the answer has null.
func (o *output) refuse(err *acp.RequestError) error {
	line, _ := json.Marshal(struct { // strings and numbers have a JSON form
		JSONRPC string            `json:"jsonrpc"`
		ID      any               `json:"id"`
		Error   *acp.RequestError `json:"error"`
	}{"2.0", nil, err})
	_, failed := o.Write(append(line, '\n'))
	return failed
}

// copyLines copies the messages of from to to until from ends. Lines that are too long or no message are answered on answers
// in their place, because the SDK ends the connection at the first kind and is silent about the second.
func copyLines(to io.Writer, from io.Reader, answers *output) error {
	in := bufio.NewReaderSize(from, 64<<10)
	for {
		line, long, err := readLine(in)
		refusal := malformed(line)
		switch {
		case long:
			refusal = acp.NewInvalidRequest(map[string]any{"error": "the line is too long", "max_bytes": maxLine})
		case len(bytes.TrimSpace(line)) == 0:
			refusal = nil
		case refusal == nil:
			if _, err := to.Write(append(line, '\n')); err != nil {
				return err
			}
		}
		if refusal != nil {
			err = errors.Join(err, answers.refuse(refusal))
		}
		if err != nil {
			return err
		}
	}
}

// readLine returns the next line without its end. A line that is longer than maxLine is skipped, and long is true. The last line
// comes with the error.
func readLine(in *bufio.Reader) (line []byte, long bool, err error) {
	for {
		part, err := in.ReadSlice('\n')
		if long = long || len(line)+len(part) > maxLine; long {
			line = nil
		} else {
			line = append(line, part...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return bytes.TrimRight(line, "\r\n"), long, err
		}
	}
}

// malformed returns the error for a line that is no message of JSON-RPC; nil for a message.
func malformed(line []byte) *acp.RequestError {
	var message struct {
		ID     json.RawMessage `json:"id"`
		Method *string         `json:"method"`
	}
	if !json.Valid(line) {
		return acp.NewParseError(nil)
	}
	if err := json.Unmarshal(line, &message); err != nil {
		return acp.NewInvalidRequest(map[string]any{"error": err.Error()})
	}
	if message.Method == nil && message.ID == nil {
		return acp.NewInvalidRequest(map[string]any{"error": "a message has a method or an id"})
	}
	return nil
}
