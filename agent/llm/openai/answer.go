package openai

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"time"

	"symbio/agent/llm"
	"symbio/agent/llm/retry"
	"symbio/agent/llm/sse"
	"symbio/agent/llm/wire"
)

const (
	maxEvent  = 8 << 20  // one event: a call that writes a large file, sent whole
	maxAnswer = 32 << 20 // all text and arguments of one answer
	// ending is how long a server may take to close an answer after saying why it stopped. Some never do.
	ending = 2 * time.Second
)

// The answer, as the wire has it. What is of another type than here is left out, not refused.
type (
	frame struct {
		Object  string          `json:"object"`
		Choices []choice        `json:"choices"`
		Usage   *usage          `json:"usage"`
		Error   json.RawMessage `json:"error"`
	}
	choice struct {
		Index   int    `json:"index"`
		Delta   delta  `json:"delta"`
		Message *delta `json:"message"` // of an answer that is not streamed
		Finish  string `json:"finish_reason"`
	}
	delta struct {
		Content json.RawMessage `json:"content"` // a string, or a list of parts
		Refusal string          `json:"refusal"`
		// What the model thinks, under the names that servers have for it.
		Reasoning        json.RawMessage `json:"reasoning"`
		ReasoningContent json.RawMessage `json:"reasoning_content"`
		Calls            []fragment      `json:"tool_calls"`
	}
	usage struct {
		Input   float64 `json:"prompt_tokens"`
		Output  float64 `json:"completion_tokens"`
		Details struct {
			Cached float64 `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
	}
)

// reading is an answer being put together.
type reading struct {
	server  *wire.Server
	emit    func(llm.Chunk) bool // false: nobody wants more
	calls   calls
	size    int
	text    bool // some was yielded
	finish  string
	refused bool
	usage   *llm.Usage
}

// answer reads the answer and emits it. It returns nil when the answer is whole.
func (m *Model) answer(x *wire.Exchange, ids *llm.CallIDs, emit func(llm.Chunk) bool) error {
	rd := &reading{server: m.server, emit: emit}
	in := bufio.NewReader(x.Body)
	first, err := firstByte(in)
	if err != nil {
		return rd.server.Broken(err)
	}
	if first == '{' {
		return rd.document(in, ids)
	}
	return rd.stream(x, in, ids)
}

// firstByte finds the first byte that is not white space, which some servers send to keep the
// connection alive, or part of a byte order mark.
func firstByte(in *bufio.Reader) (byte, error) {
	for n := 0; n < 64<<10; n++ {
		b, err := in.ReadByte()
		if err != nil {
			return 0, err
		}
		if strings.IndexByte(" \t\r\n\xef\xbb\xbf", b) < 0 {
			return b, in.UnreadByte()
		}
	}
	return 0, nil
}

// document reads an answer that is one JSON document although a stream was asked for.
func (rd *reading) document(in io.Reader, ids *llm.CallIDs) error {
	body, err := io.ReadAll(io.LimitReader(in, maxAnswer+1))
	if err != nil {
		return rd.server.Broken(err)
	}
	if len(body) > maxAnswer {
		return rd.server.Fail(llm.ErrMalformed, 0, "the answer is too long")
	}
	if err := rd.take(body); err != nil {
		return err
	}
	if rd.finish == "" && !rd.text && rd.calls.empty() {
		return rd.server.Fail(llm.ErrMalformed, 0, "no answer in "+string(body[:min(len(body), 1000)]))
	}
	if rd.finish == "" {
		rd.finish = "stop" // the document is whole, so the answer is
	}
	return rd.end(ids)
}

// stream reads server-sent events.
func (rd *reading) stream(x *wire.Exchange, in io.Reader, ids *llm.CallIDs) error {
	events := sse.NewReader(in, maxEvent)
	seen := false
	for {
		e, err := events.Next()
		switch {
		case errors.Is(err, sse.ErrTooLong):
			return rd.server.Fail(llm.ErrMalformed, 0, err.Error())
		case err != nil && x.Wanted() != nil:
			return err
		case err != nil && rd.finish != "":
			return rd.end(ids) // the answer said that it was whole; how the connection ended does not matter
		case err == io.EOF && !seen:
			return rd.server.Fail(llm.ErrMalformed, 0, "the answer is neither JSON nor a stream of events")
		case err != nil:
			return rd.server.Broken(err)
		}
		if err := x.Wanted(); err != nil {
			return err // although there is more in the buffer
		}
		seen = true
		done, err := rd.event(e)
		if err != nil {
			return err
		}
		if done {
			return rd.close(x, events, ids)
		}
		if rd.finish != "" {
			x.Ending(ending)
		} else {
			x.Progressed()
		}
	}
}

// close ends a stream after its [DONE], and reads what follows it, which is nothing: a connection
// is used again only when it was read to its end.
func (rd *reading) close(x *wire.Exchange, events *sse.Reader, ids *llm.CallIDs) error {
	if rd.finish == "" && !rd.text && rd.calls.empty() {
		return rd.server.Fail(llm.ErrCut, 0, "the answer ended before it began")
	}
	if rd.finish == "" {
		rd.finish = "stop" // [DONE] says as much
	}
	if err := rd.end(ids); err != nil {
		return err
	}
	x.Ending(ending / 10)
	_, _ = events.Next()
	return nil
}

// event takes one event. done means that it was the last.
func (rd *reading) event(e sse.Event) (done bool, err error) {
	data := bytes.TrimSpace(e.Data)
	if len(data) == 0 {
		return false, nil
	}
	if string(data) == "[DONE]" {
		return true, nil
	}
	// Some servers leave out the blank line between two events: then each line is one.
	if !json.Valid(data) && bytes.ContainsRune(data, '\n') {
		for line := range bytes.Lines(data) {
			if done, err = rd.event(sse.Event{Name: e.Name, Data: line}); done || err != nil {
				return done, err
			}
		}
		return false, nil
	}
	if e.Name == "error" {
		return false, rd.server.Complain(data)
	}
	return false, rd.take(data)
}

// take takes one JSON document: a piece of an answer, or all of it.
func (rd *reading) take(data []byte) error {
	var f frame
	err := json.Unmarshal(data, &f)
	var other *json.UnmarshalTypeError
	if err != nil && incomplete(data) {
		return rd.server.Fail(llm.ErrCut, 0, "in the middle of a JSON object")
	}
	if data[0] != '{' || err != nil && !errors.As(err, &other) {
		return rd.server.Fail(llm.ErrMalformed, 0, "not a JSON object: "+string(data[:min(len(data), 1000)]))
	}
	if len(f.Error) > 0 && string(f.Error) != "null" || f.Object == "error" {
		return rd.server.Complain(data)
	}
	if f.Usage != nil {
		u := llm.Usage{Input: tokens(f.Usage.Input), Output: tokens(f.Usage.Output)}
		u.CacheRead = min(tokens(f.Usage.Details.Cached), u.Input)
		rd.usage = &u
	}
	for _, c := range f.Choices {
		if c.Index != 0 {
			continue // one answer was asked for
		}
		if c.Message != nil {
			c.Delta = *c.Message
		}
		if err := rd.add(c); err != nil {
			return err
		}
	}
	return nil
}

// incomplete reports whether data is the beginning of a JSON document.
func incomplete(data []byte) bool {
	var doc json.RawMessage
	return errors.Is(json.NewDecoder(bytes.NewReader(data)).Decode(&doc), io.ErrUnexpectedEOF)
}

func tokens(n float64) int { return int(min(max(n, 0), 1<<40)) }

func (rd *reading) add(c choice) error {
	text := written(c.Delta.Content) + c.Delta.Refusal
	thought := written(c.Delta.ReasoningContent)
	if thought == "" {
		thought = written(c.Delta.Reasoning)
	}
	rd.refused = rd.refused || c.Delta.Refusal != ""
	rd.size += len(text) + len(thought)
	for _, f := range c.Delta.Calls {
		rd.size += len(f.ID) + len(f.Function.Name) + len(f.Function.Arguments)
		if err := rd.calls.add(f); err != nil {
			return rd.server.Fail(llm.ErrMalformed, 0, err.Error())
		}
	}
	if rd.size > maxAnswer {
		return rd.server.Fail(llm.ErrMalformed, 0, "the answer is too long")
	}
	if c.Finish != "" && c.Finish != "null" {
		rd.finish = c.Finish
	}
	rd.text = rd.text || text != ""
	if (text != "" || thought != "") && !rd.emit(llm.Chunk{Text: text, Thought: thought}) {
		return retry.ErrStopped
	}
	return nil
}

// written is the text of a delta: a string, or the text parts of a list.
func written(v json.RawMessage) string {
	var s string
	if len(v) == 0 || json.Unmarshal(v, &s) == nil {
		return s
	}
	var parts []struct{ Text string }
	_ = json.Unmarshal(v, &parts) // what is no text has none
	for _, p := range parts {
		s += p.Text
	}
	return s
}

// end emits the calls and the last chunk.
func (rd *reading) end(ids *llm.CallIDs) error {
	whole, err := rd.calls.whole(rd.finish == "length" || rd.finish == "max_tokens")
	if err != nil {
		return rd.server.Fail(llm.ErrMalformed, 0, err.Error())
	}
	for i := range whole {
		whole[i].ID = ids.Take(whole[i].ID)
		if !rd.emit(llm.Chunk{Call: &whole[i]}) {
			return retry.ErrStopped
		}
	}
	stop := rd.stop(len(whole))
	if stop == llm.StopTools && len(whole) == 0 {
		if !rd.text {
			return rd.server.Fail(llm.ErrMalformed, 0, "the answer announces calls and has none")
		}
		stop = llm.StopEnd
	}
	if !rd.emit(llm.Chunk{Usage: rd.usage, Stop: stop}) {
		return retry.ErrStopped
	}
	return nil
}

func (rd *reading) stop(calls int) llm.Stop {
	switch {
	case rd.finish == "length" || rd.finish == "max_tokens":
		return llm.StopLength
	case rd.finish == "content_filter" || rd.refused && calls == 0:
		return llm.StopFilter
	case calls > 0 || rd.finish == "tool_calls":
		return llm.StopTools // many servers say "stop" even so
	}
	return llm.StopEnd
}
