package openai

import (
	"bytes"
	"encoding/json"

	"symbio/agent/llm"
	"symbio/internal/agent/llm/sse"
	"symbio/internal/agent/llm/wire"
)

// The answer on the wire. Fields of other JSON types than here are ignored, because compatible
// servers differ in details.
type (
	// frame is one event, or a whole answer that is not streamed.
	frame struct {
		// Object is "error" in the errors of some servers; otherwise it is not used.
		Object  string   `json:"object"`
		Choices []choice `json:"choices"`
		// Usage comes in the last event, whose list of choices is empty, or in every event with the
		// counts so far. The last one counts.
		Usage *usage `json:"usage"`
		// Error is an object or a string in place of an answer, also after a part of it.
		Error json.RawMessage `json:"error"`
	}
	choice struct {
		Index int   `json:"index"`
		Delta delta `json:"delta"`
		// Message replaces Delta in an answer that is not streamed.
		Message *delta `json:"message"`
		// Finish is set in the last event with a choice; some servers send "" or "null" before.
		Finish string `json:"finish_reason"`
	}
	delta struct {
		// Content is a string, or a list of parts.
		Content json.RawMessage `json:"content"`
		// Refusal is the text with which the model declines; it takes the place of Content.
		Refusal string `json:"refusal"`
		// Reasoning and ReasoningContent are thoughts, under the names that servers have for them.
		Reasoning        json.RawMessage `json:"reasoning"`
		ReasoningContent json.RawMessage `json:"reasoning_content"`
		Calls            []fragment      `json:"tool_calls"`
		// raw is the whole delta if it may have fields of the server's own.
		raw json.RawMessage
	}
	usage struct {
		// The counts are floats because some servers write 12.0. Input includes Cached.
		Input   float64 `json:"prompt_tokens"`
		Output  float64 `json:"completion_tokens"`
		Details struct {
			Cached float64 `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
		OutputDetails struct {
			Reasoning float64 `json:"reasoning_tokens"`
		} `json:"completion_tokens_details"`
	}
)

// counts returns the counts as the package llm has them.
func (n *usage) counts() *llm.Usage {
	u := llm.Usage{Input: wire.Tokens(n.Input), Output: wire.Tokens(n.Output)}
	u.CacheRead, u.Reasoning = min(wire.Tokens(n.Details.Cached), u.Input), min(wire.Tokens(n.OutputDetails.Reasoning), u.Output)
	return &u
}

// answer collects one answer, streamed or not. One goroutine uses it. It implements wire.Answer.
type answer struct {
	server *wire.Server
	ids    *llm.CallIDs
	emit   func(llm.Chunk) error
	calls  calls
	// own are the fields of the server's own, thoughts those that are parts of the content.
	own, thoughts fields
	// in counts the bytes of the answer.
	in *wire.Exchange
	// text reports whether some text was emitted.
	text bool
	// finish is the finish_reason; "" = the answer has not said why it ends.
	finish string
	// refused reports whether a part of the text came as a refusal.
	refused bool
	// usage is the last report of the server; nil = none.
	usage *llm.Usage
}

// Document reads an answer that is not streamed. Some compatible servers ignore "stream": true.
func (rd *answer) Document(body []byte) error {
	if err := rd.readDocument(body); err != nil {
		return err
	}
	if rd.finish == "" && !rd.text && rd.calls.empty() {
		return rd.server.Fail(llm.ErrMalformed, 0, "no answer in "+wire.Start(body))
	}
	if rd.finish == "" {
		// The document is whole, so the answer is, too.
		rd.finish = "stop"
	}
	return nil
}

// Stopped reports whether the answer says why it ended.
func (rd *answer) Stopped() bool { return rd.finish != "" }

// Event reads one event; last is true for [DONE]. [DONE] without a reason counts as "stop" if there
// is an answer, and as llm.ErrCut if there is none.
func (rd *answer) Event(e sse.Event) (last bool, err error) {
	if last, err = rd.event(e); !last || err != nil || rd.finish != "" {
		return last, err
	}
	if !rd.text && rd.calls.empty() {
		return false, rd.server.Fail(llm.ErrCut, 0, "the answer ended before it began")
	}
	// [DONE] alone ends the answers of some servers.
	rd.finish = "stop"
	return true, nil
}

// event is Event without the check of [DONE]. It calls itself for each line of an event whose data
// is several JSON documents; a line has no line break, so the depth is two.
func (rd *answer) event(e sse.Event) (done bool, err error) {
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
	return false, rd.readDocument(data)
}

// readDocument reads one JSON document: a piece of an answer, or a whole one.
func (rd *answer) readDocument(data []byte) error {
	var f frame
	if err := rd.server.Decode(data, &f); err != nil {
		return err
	}
	if len(f.Error) > 0 && string(f.Error) != "null" || f.Object == "error" {
		return rd.server.Complain(data)
	}
	if f.Usage != nil {
		rd.usage = f.Usage.counts()
	}
	var whole wholeFrame
	if hasKept(data) {
		_ = json.Unmarshal(data, &whole) // it was read before
	}
	for i, c := range f.Choices {
		if c.Index != 0 {
			continue // one answer was asked for
		}
		if c.Message != nil {
			c.Delta = *c.Message
		}
		if i < len(whole.Choices) {
			whole.Choices[i].addTo(&c.Delta)
		}
		if err := rd.add(c); err != nil {
			return err
		}
	}
	return nil
}

// wholeFrame is a frame with the JSON of its deltas and fragments, for fields of the server's own.
type wholeFrame struct {
	Choices []wholeChoice `json:"choices"`
}

type wholeChoice struct {
	Delta   json.RawMessage `json:"delta"`
	Message json.RawMessage `json:"message"`
}

// addTo adds the JSON to a delta and its fragments.
func (w wholeChoice) addTo(d *delta) {
	if d.raw = w.Delta; len(w.Message) > 0 && string(w.Message) != "null" {
		d.raw = w.Message
	}
	var calls struct {
		List []json.RawMessage `json:"tool_calls"`
	}
	_ = json.Unmarshal(d.raw, &calls) // it was read before
	for i := range min(len(d.Calls), len(calls.List)) {
		d.Calls[i].raw = calls.List[i]
	}
}

// add adds a piece of the answer: text, a refusal, a thought or fragments of calls. Text and
// thoughts are emitted at once, calls by End. llm.ErrMalformed: more calls than maxCalls; other errors come from Grow.
func (rd *answer) add(c choice) error {
	text, thought := rd.texts(c.Delta)
	rd.refused = rd.refused || c.Delta.Refusal != ""
	size := len(text) + len(thought) + rd.own.add(c.Delta.raw)
	for _, f := range c.Delta.Calls {
		size += len(f.ID) + len(f.Function.Name) + len(f.Function.Arguments) + len(f.raw)
		if err := rd.calls.add(f); err != nil {
			return rd.server.Fail(llm.ErrMalformed, 0, err.Error())
		}
	}
	if err := rd.in.Grow(size); err != nil {
		return err
	}
	if c.Finish != "" && c.Finish != "null" {
		rd.finish = c.Finish
	}
	rd.text = rd.text || text != ""
	if text == "" && thought == "" {
		return nil
	}
	return rd.emit(llm.Chunk{Text: text, Thought: thought})
}

// texts returns the text and the thought of a delta, and keeps the thoughts that are parts of the content.
func (rd *answer) texts(d delta) (text, thought string) {
	text, thoughts := textOf(d.Content)
	if thought, _ = textOf(d.ReasoningContent); thought == "" {
		thought, _ = textOf(d.Reasoning)
	}
	for _, one := range thoughts {
		rd.thoughts.addPiece("content", append(append(json.RawMessage("["), one...), ']'))
		thought += thoughtIn(one)
	}
	return text + d.Refusal, thought
}

// textOf returns the text of a delta, which is a string or a list of parts, and the parts that are thoughts.
func textOf(v json.RawMessage) (text string, thoughts []json.RawMessage) {
	if len(v) == 0 || json.Unmarshal(v, &text) == nil {
		return text, nil
	}
	var parts []json.RawMessage
	_ = json.Unmarshal(v, &parts) // other types have no text; they are ignored
	for _, p := range parts {
		var part struct{ Type, Text string }
		if _ = json.Unmarshal(p, &part); part.Type == "thinking" {
			thoughts = append(thoughts, p)
		} else {
			text += part.Text
		}
	}
	return text, thoughts
}

// thoughtIn returns the text of a part that is a thought.
func thoughtIn(part json.RawMessage) string {
	var p struct{ Thinking json.RawMessage }
	_ = json.Unmarshal(part, &p) // it was read before
	text, _ := textOf(p.Thinking)
	return text
}

// keep emits what is to be sent back with the message, or with the call of that id.
func (rd *answer) keep(f *fields, call string) error {
	raw := f.raw()
	if raw == nil {
		return nil
	}
	return rd.emit(llm.Chunk{Thinking: &llm.Thinking{Model: rd.server.Name(), Raw: raw, CallID: call}})
}

// End emits the calls and then the last chunk, with the usage and the reason of the end. At the
// maximal length it leaves out calls whose arguments are incomplete. llm.ErrMalformed: calls were announced and there are none.
func (rd *answer) End() error {
	whole := rd.calls.whole(rd.finish == "length" || rd.finish == "max_tokens")
	if err := rd.keep(&rd.own, ""); err != nil {
		return err
	}
	if err := rd.keep(&rd.thoughts, ""); err != nil {
		return err
	}
	for _, c := range whole {
		c.ID = rd.ids.Reserve(c.ID)
		if err := rd.keep(c.own, c.ID); err != nil {
			return err
		}
		if err := rd.emit(llm.Chunk{Call: &c.ToolCall}); err != nil {
			return err
		}
	}
	stop := rd.stop(len(whole))
	if stop == llm.StopTools && len(whole) == 0 {
		if !rd.text {
			return rd.server.Fail(llm.ErrMalformed, 0, "the answer announces calls and has none")
		}
		stop = llm.StopEnd
	}
	return rd.emit(llm.Chunk{Usage: rd.usage, Stop: stop})
}

// stop maps the server's finish reason. calls is the number of complete calls. Some servers say
// "stop" although there are calls; the calls decide.
func (rd *answer) stop(calls int) llm.Stop {
	switch {
	case rd.finish == "length" || rd.finish == "max_tokens":
		return llm.StopLength
	case rd.finish == "content_filter" || rd.refused && calls == 0:
		return llm.StopFilter
	case calls > 0 || rd.finish == "tool_calls":
		return llm.StopTools
	}
	return llm.StopEnd
}
