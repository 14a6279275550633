package openai

import (
	"bytes"
	"cmp"
	"encoding/json"
	"strings"

	"symbio/agent/llm"
	"symbio/internal/agent/llm/sse"
	"symbio/internal/agent/llm/wire"
)

// maxItems limits the items of one answer, and so the memory that a server can use here.
const maxItems = 512

// The answer of the Responses API. Fields of other JSON types than here are ignored.
type (
	responseEvent struct {
		// Type decides which other fields the event has.
		Type string `json:"type"`
		// Index is the number of the item that the event is about, Part the number of its summary.
		Index    int             `json:"output_index"`
		Part     int             `json:"summary_index"`
		Delta    string          `json:"delta"`
		Item     json.RawMessage `json:"item"`
		Response json.RawMessage `json:"response"`
	}
	// outputItem is a piece of an answer: a message, a thought (reasoning) or a call (function_call).
	outputItem struct {
		Type      string       `json:"type"`
		Status    string       `json:"status"`
		Phase     string       `json:"phase"`
		Content   []outputPart `json:"content"`
		Summary   []outputPart `json:"summary"`
		Encrypted string       `json:"encrypted_content"`
		CallID    string       `json:"call_id"`
		Name      string       `json:"name"`
		Arguments string       `json:"arguments"`
	}
	outputPart struct {
		Text    string `json:"text"`
		Refusal string `json:"refusal"`
	}
	// response is the whole answer, which the last event has.
	response struct {
		Status     string            `json:"status"`
		Output     []json.RawMessage `json:"output"`
		Error      json.RawMessage   `json:"error"`
		Incomplete struct {
			Reason string `json:"reason"`
		} `json:"incomplete_details"`
		Usage *struct {
			Input        float64 `json:"input_tokens"`
			Output       float64 `json:"output_tokens"`
			InputDetails struct {
				Cached float64 `json:"cached_tokens"`
			} `json:"input_tokens_details"`
			OutputDetails struct {
				Reasoning float64 `json:"reasoning_tokens"`
			} `json:"output_tokens_details"`
		} `json:"usage"`
	}
)

// openItem is an item that may still grow.
type openItem struct {
	outputItem
	index int
	// args are the arguments of a call as they arrive; part is the number of the summary so far.
	args strings.Builder
	part int
	// start is the number of bytes of text before the item. begun is set when a part of it was emitted.
	start       int
	begun, done bool
}

// responseAnswer collects one answer of the Responses API, streamed or not. One goroutine uses it. It
// implements wire.Answer.
type responseAnswer struct {
	server *wire.Server
	ids    *llm.CallIDs
	emit   func(llm.Chunk) error
	// items are the items of the answer in their order, at most maxItems.
	items []*openItem
	// in counts the bytes of the answer; text counts the bytes of emitted text, and calls the number of calls that began.
	in          *wire.Exchange
	text, calls int
	refused     bool
	// last is the response at the end; its Status is "" before.
	last response
}

// Document reads an answer that is not streamed.
func (rd *responseAnswer) Document(body []byte) error {
	var doc response
	if err := rd.server.Decode(body, &doc); err != nil {
		return err
	}
	if doc.Status == "" && doc.Output == nil && (len(doc.Error) == 0 || string(doc.Error) == "null") {
		return rd.server.Fail(llm.ErrMalformed, 0, "no answer in "+wire.Start(body))
	}
	return rd.end(body)
}

// Stopped reports whether the answer says why it ended.
func (rd *responseAnswer) Stopped() bool { return rd.last.Status != "" }

// Event reads one event; last is true for the one with the whole response. Unknown types are ignored,
// because the API may add some.
func (rd *responseAnswer) Event(e sse.Event) (last bool, err error) {
	data := bytes.TrimSpace(e.Data)
	if len(data) == 0 || string(data) == "[DONE]" {
		return false, nil
	}
	var ev responseEvent
	if err := rd.server.Decode(data, &ev); err != nil {
		return false, err
	}
	if err := rd.in.Grow(len(ev.Delta) + len(ev.Item)); err != nil {
		return false, err
	}
	switch ev.Type {
	case "response.output_item.added":
		_, err = rd.open(ev.Index, ev.Item)
	case "response.output_item.done":
		err = rd.close(ev.Index, ev.Item)
	case "response.output_text.delta", "response.refusal.delta":
		err = rd.addText(ev.Index, ev.Delta, ev.Type == "response.refusal.delta")
	case "response.reasoning_summary_text.delta", "response.reasoning_text.delta":
		err = rd.addThought(ev)
	case "response.function_call_arguments.delta":
		if it := rd.find(ev.Index); it != nil {
			it.args.WriteString(ev.Delta)
		}
	case "response.completed", "response.incomplete", "response.failed", "response.cancelled":
		return true, rd.end(ev.Response)
	case "error":
		return false, rd.server.Complain(data)
	case "":
		return false, rd.server.Fail(llm.ErrMalformed, 0, "not an event of this wire: "+wire.Start(data))
	}
	return false, err
}

// find returns the item of that number that is not done; nil if there is none.
func (rd *responseAnswer) find(index int) *openItem {
	for i := len(rd.items) - 1; i >= 0; i-- {
		if it := rd.items[i]; it.index == index && !it.done {
			return it
		}
	}
	return nil
}

// open begins an item.
func (rd *responseAnswer) open(index int, raw json.RawMessage) (*openItem, error) {
	if len(rd.items) == maxItems {
		return nil, rd.server.Fail(llm.ErrMalformed, 0, "more than 512 items in one answer")
	}
	it := &openItem{index: index, start: rd.text}
	_ = json.Unmarshal(raw, &it.outputItem) // an item of other types has nothing to read
	if it.Type == "function_call" {
		rd.calls++
	}
	rd.items = append(rd.items, it)
	return it, nil
}

// close ends an item, which the server sends whole, and emits what was not emitted before. Calls are
// emitted by End, because only the end of the answer shows whether they are complete.
func (rd *responseAnswer) close(index int, raw json.RawMessage) (err error) {
	it := rd.find(index)
	if it == nil {
		if it, err = rd.open(index, raw); err != nil {
			return err
		}
	}
	_ = json.Unmarshal(raw, &it.outputItem) // likewise
	it.done = true
	switch it.Type {
	case "message":
		return rd.closeMessage(it)
	case "reasoning":
		return rd.closeThought(it, raw)
	}
	return nil
}

// closeMessage ends a message. Its text is in the answer already; its phase is kept, to be sent back with it.
func (rd *responseAnswer) closeMessage(it *openItem) error {
	for _, p := range it.Content {
		rd.refused = rd.refused || p.Refusal != ""
		if it.begun {
			continue
		}
		if err := rd.piece(p.Text+p.Refusal, ""); err != nil {
			return err
		}
	}
	if it.Phase == "" {
		return nil
	}
	raw, err := json.Marshal(item{Type: "message", Phase: it.Phase})
	if err != nil {
		return err
	}
	return rd.keep(raw, it.start)
}

// closeThought ends a thought. Without encrypted content the server, which stores nothing, would not find
// it, so it is not kept.
func (rd *responseAnswer) closeThought(it *openItem, raw json.RawMessage) error {
	for i, p := range it.Summary {
		if it.begun {
			break
		}
		if err := rd.piece("", strings.Repeat("\n\n", min(i, 1))+p.Text); err != nil {
			return err
		}
	}
	if it.Encrypted == "" {
		return nil
	}
	return rd.keep(raw, rd.text)
}

// keep emits what is to be sent back after that many bytes of the text.
func (rd *responseAnswer) keep(raw json.RawMessage, afterText int) error {
	if len(raw) > llm.MaxRaw {
		return nil
	}
	return rd.emit(llm.Chunk{Thinking: &llm.Thinking{Model: rd.server.Name(), Raw: raw, AfterText: afterText, AfterCalls: rd.calls}})
}

// addText emits a piece of a message.
func (rd *responseAnswer) addText(index int, text string, refusal bool) error {
	it := rd.find(index)
	if it == nil {
		var err error
		if it, err = rd.open(index, json.RawMessage(`{"type":"message"}`)); err != nil {
			return err
		}
	}
	it.begun, rd.refused = it.begun || text != "", rd.refused || refusal
	return rd.piece(text, "")
}

// addThought emits a piece of a thought. A blank line separates the parts of a summary.
func (rd *responseAnswer) addThought(ev responseEvent) error {
	if it := rd.find(ev.Index); it != nil {
		if it.begun && it.part != ev.Part {
			ev.Delta = "\n\n" + ev.Delta
		}
		it.begun, it.part = true, ev.Part
	}
	return rd.piece("", ev.Delta)
}

// piece emits a piece of the text, or of a thought for observers.
func (rd *responseAnswer) piece(text, thought string) error {
	if text+thought == "" {
		return nil
	}
	rd.text += len(text)
	return rd.emit(llm.Chunk{Text: text, Thought: thought})
}

// end reads the whole response of the last event. Parts without an event are read from it.
func (rd *responseAnswer) end(raw json.RawMessage) error {
	if err := rd.server.Decode(raw, &rd.last); err != nil {
		return err
	}
	if rd.last.Status == "failed" || len(rd.last.Error) > 0 && string(rd.last.Error) != "null" {
		return rd.server.Complain(raw)
	}
	seen := len(rd.items)
	for i, one := range rd.last.Output {
		if seen > 0 && rd.find(i) == nil {
			continue
		}
		if err := rd.close(i, one); err != nil {
			return err
		}
	}
	if rd.last.Status == "" {
		rd.last.Status = "completed" // a whole document without a status is a whole answer
	}
	return nil
}

// End emits the calls and then the last chunk. llm.ErrMalformed: a call has no name; llm.ErrCut: the
// answer was cancelled.
func (rd *responseAnswer) End() error {
	if rd.last.Status != "completed" && rd.last.Status != "incomplete" {
		return rd.server.Fail(llm.ErrCut, 0, "the answer has the status "+rd.last.Status)
	}
	cut, calls := rd.last.Status == "incomplete", 0
	for _, it := range rd.items {
		args, whole := it.arguments()
		if it.Type != "function_call" || cut && !whole {
			continue
		}
		calls++
		if err := rd.emit(llm.Chunk{Call: &llm.ToolCall{ID: rd.ids.Reserve(it.CallID), Name: it.Name, Args: args}}); err != nil {
			return err
		}
	}
	return rd.emit(llm.Chunk{Usage: rd.usage(), Stop: rd.stop(calls)})
}

// arguments returns the arguments of a call; whole is true if the server has ended it, and they are an object.
func (it *openItem) arguments() (args json.RawMessage, whole bool) {
	it.Arguments = cmp.Or(it.Arguments, it.args.String())
	args = llm.Args(it.Arguments)
	return args, it.done && it.Status != "incomplete" && args[0] == '{'
}

// usage returns the token counts, or nil if the server reported none.
func (rd *responseAnswer) usage() *llm.Usage {
	n := rd.last.Usage
	if n == nil {
		return nil
	}
	u := llm.Usage{Input: wire.Tokens(n.Input), Output: wire.Tokens(n.Output)}
	u.CacheRead, u.Reasoning = min(wire.Tokens(n.InputDetails.Cached), u.Input), min(wire.Tokens(n.OutputDetails.Reasoning), u.Output)
	return &u
}

// stop maps the server's reason. calls is the number of complete calls.
func (rd *responseAnswer) stop(calls int) llm.Stop {
	switch {
	case rd.last.Incomplete.Reason == "content_filter", rd.refused && calls == 0:
		return llm.StopFilter
	case rd.last.Status == "incomplete":
		return llm.StopLength
	case calls > 0:
		return llm.StopTools
	}
	return llm.StopEnd
}
