package ollama

import (
	"bytes"
	"encoding/json"

	"symbio/agent/llm"
	"symbio/internal/agent/llm/sse"
	"symbio/internal/agent/llm/wire"
)

// maxCalls limits the calls of one answer.
const maxCalls = 512

// line is one line of an answer. Fields of other JSON types than here are ignored.
type line struct {
	Message *struct {
		Content   string `json:"content"`
		Thinking  string `json:"thinking"`
		ToolCalls []struct {
			ID       string `json:"id"`
			Function struct {
				Name      string          `json:"name"`
				Arguments json.RawMessage `json:"arguments"`
			} `json:"function"`
		} `json:"tool_calls"`
	} `json:"message"`
	Done   bool    `json:"done"`
	Reason string  `json:"done_reason"`
	Input  float64 `json:"prompt_eval_count"`
	Output float64 `json:"eval_count"`
	// Error is set when the server fails in the middle of an answer.
	Error json.RawMessage `json:"error"`
}

// answer collects one answer. One goroutine uses it. It implements wire.Answer.
type answer struct {
	server *wire.Server
	in     *wire.Exchange // counts the bytes of the answer
	ids    *llm.CallIDs
	emit   func(llm.Chunk) error

	// calls are emitted at the end: an answer that breaks off must not be acted on.
	calls []llm.ToolCall
	// thought has the text of all thoughts.
	thought []byte
	last    line // the line with Done
}

// Event reads one line; last is true for the one that ends the answer.
func (a *answer) Event(e sse.Event) (last bool, err error) {
	data := bytes.TrimSpace(e.Data)
	var l line
	if err := a.server.Decode(data, &l); err != nil {
		return false, err
	}
	if len(l.Error) > 0 && string(l.Error) != "null" {
		return false, a.server.Complain(data)
	}
	if l.Message == nil && !l.Done {
		return false, a.server.Fail(llm.ErrMalformed, 0, "not a line of this wire: "+wire.Start(data))
	}
	if l.Message != nil {
		if err := a.add(l); err != nil {
			return false, err
		}
	}
	if l.Done {
		a.last = l
	}
	return l.Done, nil
}

// add emits the text and the thoughts of a line, and keeps its calls.
func (a *answer) add(l line) error {
	for _, c := range l.Message.ToolCalls {
		if len(a.calls) == maxCalls {
			return a.server.Fail(llm.ErrMalformed, 0, "more than 512 calls in one answer")
		}
		a.calls = append(a.calls, llm.ToolCall{ID: a.ids.Reserve(c.ID), Name: c.Function.Name, Args: arguments(c.Function.Arguments)})
	}
	size := len(l.Message.Content) + len(l.Message.Thinking)
	for _, c := range l.Message.ToolCalls {
		size += len(c.ID) + len(c.Function.Name) + len(c.Function.Arguments)
	}
	if err := a.in.Grow(size); err != nil {
		return err
	}
	a.thought = append(a.thought, l.Message.Thinking...)
	if l.Message.Content == "" && l.Message.Thinking == "" {
		return nil
	}
	return a.emit(llm.Chunk{Text: l.Message.Content, Thought: l.Message.Thinking})
}

// arguments returns the arguments of a call: an object, or one inside of a JSON string, as the other API
// has it.
func arguments(raw json.RawMessage) json.RawMessage {
	var written string
	if json.Unmarshal(raw, &written) == nil && written != "" {
		return llm.Args(written)
	}
	return llm.Args(string(raw))
}

// Document is not called: an answer of one document is a stream of one line.
func (a *answer) Document(doc []byte) error {
	_, err := a.Event(sse.Event{Data: doc})
	return err
}

// Stopped reports whether the answer says why it ended.
func (a *answer) Stopped() bool { return a.last.Done }

// End emits the thoughts, the calls and the last chunk.
func (a *answer) End() error {
	if len(a.thought) > 0 {
		if err := a.emit(llm.Chunk{Thinking: &llm.Thinking{Model: a.server.Name(), Text: string(a.thought)}}); err != nil {
			return err
		}
	}
	end := llm.Chunk{Stop: llm.StopEnd}
	if a.last.Input+a.last.Output > 0 {
		end.Usage = &llm.Usage{Input: wire.Tokens(a.last.Input), Output: wire.Tokens(a.last.Output)}
	}
	for _, c := range a.calls {
		if end.Stop = llm.StopTools; a.last.Reason == "length" {
			break
		}
		if err := a.emit(llm.Chunk{Call: &c}); err != nil {
			return err
		}
	}
	if a.last.Reason == "length" {
		end.Stop = llm.StopLength
	}
	return a.emit(end)
}
