package anthropic

import (
	"bytes"
	"encoding/json"
	"strings"

	"symbio/agent/llm"
	"symbio/internal/agent/llm/sse"
	"symbio/internal/agent/llm/wire"
)

// maxBlocks limits the blocks of one answer, and so the memory that a server can use here.
const maxBlocks = 512

// The answer on the wire. Fields of other JSON types than here are ignored, because compatible
// servers differ in details.
type (
	event struct {
		// Type decides which other fields the event has.
		Type string `json:"type"`
		// Index is the number of the block that the event is about.
		Index   int     `json:"index"`
		Message message `json:"message"`
		// Block begins a block, Delta continues it.
		Block piece `json:"content_block"`
		Delta delta `json:"delta"`
		Usage usage `json:"usage"`
	}
	message struct {
		Usage usage `json:"usage"`
	}
	// piece is a block, or the beginning of one.
	piece struct {
		Type      string          `json:"type"`
		Text      string          `json:"text"`
		Thinking  string          `json:"thinking"`
		Signature string          `json:"signature"`
		Data      string          `json:"data"`
		ID        string          `json:"id"`
		Name      string          `json:"name"`
		Input     json.RawMessage `json:"input"`
	}
	delta struct {
		Type      string `json:"type"`
		Text      string `json:"text"`
		Thinking  string `json:"thinking"`
		Signature string `json:"signature"`
		// JSON is a piece of the arguments of a call.
		JSON string `json:"partial_json"`
		// Stop is in the event message_delta, which is the last but one.
		Stop string `json:"stop_reason"`
		// Details says why the answer was refused.
		Details details `json:"stop_details"`
	}
	details struct {
		Explanation string `json:"explanation"`
	}
	usage struct {
		// Input does not include the cached tokens. The fields are pointers, because an event has
		// only some of them and zero is a count.
		Input      *float64 `json:"input_tokens"`
		Output     *float64 `json:"output_tokens"`
		CacheRead  *float64 `json:"cache_read_input_tokens"`
		CacheWrite *float64 `json:"cache_creation_input_tokens"`
	}
)

// part is a block that may still grow. More text, arguments or a signature arrive in delta events
// until content_block_stop.
type part struct {
	piece
	// index is the server's number of the block.
	index int
	// more has the arguments of a call, or the text of a thought, as they arrive.
	more strings.Builder
	// ended is set by content_block_stop; then the index may be used again.
	ended bool
}

// answer collects one answer, streamed or not. One goroutine uses it. It implements wire.Answer.
type answer struct {
	server *wire.Server
	ids    *llm.CallIDs
	emit   func(llm.Chunk) error
	// outputTool is the tool whose arguments are the answer's text; "" = the answer is free text.
	outputTool string

	// parts are the blocks in the order of their beginnings, at most maxBlocks.
	parts []*part
	// in counts the bytes of the answer.
	in *wire.Exchange
	// text is the number of bytes of text that were emitted, calls the number of calls that began.
	// They are the position of the next thought.
	text  int
	calls int
	// stop is the stop_reason; "" = the answer has not said why it ends. details explains a refusal.
	stop    string
	details details
	counts  counts
}

// counts are the token counts that the server has reported so far. Later events replace earlier
// ones.
type counts struct {
	reported               bool
	input, output          float64
	cacheRead, cacheWrites float64
}

// add replaces the counts that u has. A field that the event does not have is nil and keeps its
// value.
func (c *counts) add(u usage) {
	for _, n := range []struct{ from, to *float64 }{{u.Input, &c.input}, {u.Output, &c.output}, {u.CacheRead, &c.cacheRead}, {u.CacheWrite, &c.cacheWrites}} {
		if n.from != nil {
			*n.to, c.reported = *n.from, true
		}
	}
}

// Document reads an answer that is not streamed. Some compatible servers ignore "stream": true.
func (a *answer) Document(body []byte) error {
	var doc struct {
		Type    string          `json:"type"`
		Content []piece         `json:"content"`
		Stop    string          `json:"stop_reason"`
		Details details         `json:"stop_details"`
		Usage   usage           `json:"usage"`
		Error   json.RawMessage `json:"error"`
	}
	if err := a.server.Decode(body, &doc); err != nil {
		return err
	}
	if doc.Type == "error" || len(doc.Error) > 0 && string(doc.Error) != "null" {
		return a.server.Complain(body)
	}
	if doc.Type != "message" && len(doc.Content) == 0 {
		return a.server.Fail(llm.ErrMalformed, 0, "no answer in "+wire.Start(body))
	}
	a.counts.add(doc.Usage)
	for i, p := range doc.Content {
		if err := a.begin(i, p); err != nil {
			return err
		}
		if err := a.end(i); err != nil {
			return err
		}
	}
	// A document is whole, so the answer is, too, also without a reason.
	a.details = doc.Details
	if a.stop = doc.Stop; a.stop == "" {
		a.stop = "end_turn"
	}
	return nil
}

// Stopped reports whether the answer says why it ended.
func (a *answer) Stopped() bool { return a.stop != "" }

// Event reads one event; last is true for message_stop. llm.ErrCut: message_stop came without a
// reason before it. Unknown types, such as ping, are ignored, because the API may add some.
func (a *answer) Event(e sse.Event) (last bool, err error) {
	data := bytes.TrimSpace(e.Data)
	if len(data) == 0 || string(data) == "[DONE]" {
		return false, nil
	}
	var ev event
	if err := a.server.Decode(data, &ev); err != nil {
		return false, err
	}
	switch ev.Type {
	case "error":
		return false, a.server.Complain(data)
	case "message_start":
		a.counts.add(ev.Message.Usage)
	case "content_block_start":
		return false, a.begin(ev.Index, ev.Block)
	case "content_block_delta":
		return false, a.grow(ev.Index, ev.Delta)
	case "content_block_stop":
		return false, a.end(ev.Index)
	case "message_delta":
		a.counts.add(ev.Usage)
		if ev.Delta.Stop != "" {
			a.stop, a.details = ev.Delta.Stop, ev.Delta.Details
		}
	case "message_stop":
		if a.stop == "" {
			return false, a.server.Fail(llm.ErrCut, 0, "the answer does not say why it ended")
		}
		return true, nil
	case "":
		return false, a.server.Fail(llm.ErrMalformed, 0, "not an event of this wire: "+wire.Start(data))
	}
	return false, nil // ping, and what later versions add
}

// begin starts a block and emits the text or thought that it begins with. llm.ErrMalformed: the
// answer has too many blocks; other errors come from Grow.
func (a *answer) begin(index int, p piece) error {
	if len(a.parts) == maxBlocks {
		return a.server.Fail(llm.ErrMalformed, 0, "more than 512 blocks in one answer")
	}
	a.parts = append(a.parts, &part{piece: p, index: index})
	if p.Type == "tool_use" && p.Name != a.outputTool {
		a.calls++
	}
	if err := a.in.Grow(len(p.Text) + len(p.Thinking) + len(p.Signature) + len(p.Data) + len(p.ID) + len(p.Name) + len(p.Input)); err != nil {
		return err
	}
	switch p.Type {
	case "text":
		return a.piece(p.Text, "")
	case "thinking":
		return a.piece("", p.Thinking)
	}
	return nil
}

// find returns the block of that index that is not ended; nil if there is none.
func (a *answer) find(index int) *part {
	for i := len(a.parts) - 1; i >= 0; i-- {
		if a.parts[i].index == index && !a.parts[i].ended {
			return a.parts[i]
		}
	}
	return nil
}

// grow adds a delta to a block. Some compatible servers omit content_block_start; for text and
// thoughts the delta starts the block then.
func (a *answer) grow(index int, d delta) error {
	p := a.find(index)
	if p == nil {
		kind := map[string]string{"text_delta": "text", "thinking_delta": "thinking"}[d.Type]
		if kind == "" {
			return a.server.Fail(llm.ErrMalformed, 0, "more of a block that did not begin")
		}
		if err := a.begin(index, piece{Type: kind}); err != nil {
			return err
		}
		p = a.find(index)
	}
	if err := a.in.Grow(len(d.Text) + len(d.Thinking) + len(d.Signature) + len(d.JSON)); err != nil {
		return err
	}
	switch d.Type {
	case "text_delta":
		return a.piece(d.Text, "")
	case "thinking_delta":
		p.more.WriteString(d.Thinking)
		return a.piece("", d.Thinking)
	case "signature_delta":
		p.Signature += d.Signature
	case "input_json_delta":
		p.more.WriteString(d.JSON)
	}
	return nil
}

// end ends a block and emits complete thoughts. Calls are emitted by End, because only the end of
// the answer shows whether they are complete.
func (a *answer) end(index int) error {
	p := a.find(index)
	if p == nil {
		return nil
	}
	p.ended = true
	block := llm.Thinking{Model: a.server.Name(), AfterText: a.text, AfterCalls: a.calls}
	switch p.Type {
	case "thinking":
		block.Text, block.Signature = p.Thinking+p.more.String(), p.Signature
	case "redacted_thinking":
		block.Sealed = p.Data
	default:
		return nil
	}
	// Without a signature the provider would refuse the thought in the history.
	if block.Signature == "" && block.Sealed == "" {
		return nil
	}
	return a.emit(llm.Chunk{Thinking: &block})
}

// piece emits a piece of the answer's text, or of a thought for observers; a complete thought follows at the end of
// its block. With a structured answer, text beside the tool is no part of it.
func (a *answer) piece(text, thought string) error {
	if a.outputTool != "" {
		text = ""
	}
	if text+thought == "" {
		return nil
	}
	a.text += len(text)
	return a.emit(llm.Chunk{Text: text, Thought: thought})
}

// End emits the calls and the last chunk. It returns llm.ErrCut or llm.ErrMalformed for a call
// whose arguments are not complete.
func (a *answer) End() error {
	cut := a.stop == "max_tokens" || a.stop == "model_context_window_exceeded"
	calls, formed := 0, false
	for _, p := range a.parts {
		if p.Type != "tool_use" {
			continue
		}
		args, whole := p.args()
		if cut && !whole {
			continue
		}
		if p.Name == a.outputTool && a.outputTool != "" {
			if formed {
				continue // one answer was asked for
			}
			formed = true
			if err := a.emit(llm.Chunk{Text: string(args)}); err != nil {
				return err
			}
			continue
		}
		calls++
		if err := a.emit(llm.Chunk{Call: &llm.ToolCall{ID: a.ids.Reserve(p.ID), Name: p.Name, Args: args}}); err != nil {
			return err
		}
	}
	switch {
	case a.stop == "pause_turn" && calls == 0:
		// The model would go on if it were asked again; a conversation resumes an answer that is cut.
		return a.server.Fail(llm.ErrCut, 0, "the server paused it")
	case a.stop == "refusal" && a.text == 0:
		if err := a.piece(a.details.Explanation, ""); err != nil {
			return err
		}
	}
	return a.emit(llm.Chunk{Usage: a.usage(), Stop: a.stopReason(cut, calls)})
}

// args returns a call's arguments; whole is true if they are a complete, non-empty object.
func (p *part) args() (args json.RawMessage, whole bool) {
	written := p.more.String()
	if strings.TrimSpace(written) == "" {
		written = string(p.Input)
	}
	args = llm.Args(written)
	return args, args[0] == '{' && len(args) > len("{}")
}

// usage returns the token counts, or nil if the server reported none. The wire counts cached tokens
// separately; llm.Usage includes them in Input.
func (a *answer) usage() *llm.Usage {
	if !a.counts.reported {
		return nil
	}
	u := llm.Usage{Output: wire.Tokens(a.counts.output), CacheRead: wire.Tokens(a.counts.cacheRead), CacheWrite: wire.Tokens(a.counts.cacheWrites)}
	u.Input = wire.Tokens(a.counts.input) + u.CacheRead + u.CacheWrite // the wire counts them apart
	return &u
}

// stopReason maps the server's stop reason. cut means that a call was left out because it was
// incomplete.
func (a *answer) stopReason(cut bool, calls int) llm.Stop {
	switch {
	case cut:
		return llm.StopLength
	case a.stop == "refusal":
		return llm.StopFilter
	case calls > 0:
		return llm.StopTools
	}
	return llm.StopEnd
}
