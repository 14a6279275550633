package conversation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"symbio/agent/llm"
	"symbio/community"
)

// exchange is a message and what comes of it. One goroutine, that of its Send, works on it.
type exchange struct {
	c        *Conversation
	ctx      context.Context
	cancel   context.CancelCauseFunc
	turn     atomic.Int32 // written by Send's goroutine only
	reply    Reply
	history  history // that it began with, and its own messages behind it
	began    int     // where those begin
	parts    []Part  // of the system prompt
	system   string  // the same, joined
	tools    []llm.ToolSpec
	prompt   int         // an estimate of the tokens beside the messages
	fitted   int         // the size that room was made to; 0 = never
	words    []string    // what was asked and said in it, a text for each message
	begun    bool        // the model has begun to answer the request under way
	kept     bool        // the history is that of x
	next     []*steering // stands before its message; returned to its sender when the exchange ends without an answer
	said     []*steering // is in the request under way, and not settled
	received func(llm.Chunk)
	quiet    context.Context // of the tools
}

// open makes x the exchange in flight.
func (x *exchange) open(cancel context.CancelCauseFunc) {
	c := x.c
	x.cancel, x.received = cancel, x.onChunk
	c.mu.Lock()
	defer c.mu.Unlock()
	x.history, x.began = c.history, len(c.history.messages)
	if c.history.lost {
		c.window = c.cfg.Window // the new session may have another model
	}
	c.history.lost = false
	x.next, c.next = c.next, nil
	c.live = x
}

// close ends the exchange for its callers. Steering that the model was not given is returned to its senders.
func (x *exchange) close() {
	c := x.c
	c.mu.Lock()
	left := append(x.said, c.mid...)
	c.mid, c.live = nil, nil
	if !x.kept && c.history.version == x.history.version {
		c.history.clip() // requests may still refer to what stood behind it
	}
	if len(x.next) > 0 {
		c.next = append(x.next, c.next...)
	}
	c.mu.Unlock()
	if len(left) > 0 {
		x.settle(left, Receipt{Outcome: Returned, Why: "The turn ended before the model was given it."})
	}
}

// run takes turns until the model is done. What is remembered of it is settled when it returns.
func (x *exchange) run(text string, images []llm.Image) error {
	err := x.begin(text, images)
	if err == nil {
		err = x.turns()
	}
	x.reply.Turns = int(x.turn.Load())
	switch {
	case err == nil:
		x.keep(false)
	case x.ctx.Err() != nil:
		err = context.Cause(x.ctx)
		if errors.Is(err, ErrInterrupted) {
			x.emit(Event{Kind: Interrupted})
		}
		x.keepWhole()
	case errors.Is(err, ErrTurns):
		x.keepWhole()
	default:
		x.forget()
	}
	return err
}

// begin puts the message behind the history, and before it what is to be said with it.
func (x *exchange) begin(text string, images []llm.Image) error {
	if x.history.lost {
		x.c.cfg.OnLost(true)
		x.history.lost = false
	}
	if len(x.next) > 0 {
		text = joined(x.next) + "\n\n" + text
	}
	if x.history.broken {
		text, x.history.broken = brokenNote+"\n\n"+text, false
	}
	x.history.add(llm.Message{Role: llm.User, Text: text, Images: images})
	x.words = append(x.words, text)
	return x.instruct()
}

// instruct asks for the system prompt.
func (x *exchange) instruct() (err error) {
	x.parts = []Part{{"instructions", x.history.session.Instructions}}
	if system := x.c.cfg.System; system != nil {
		x.parts, err = system(x.ctx)
	}
	x.system = ""
	for _, p := range x.parts {
		x.system += p.Text
	}
	return err
}

func (x *exchange) turns() error {
	cfg := &x.c.cfg
	for turn := 1; turn <= cfg.MaxTurns; turn++ {
		x.turn.Store(int32(turn))
		cfg.Before(x.ctx, turn)
		x.deliverSteering()
		if x.ctx.Err() != nil {
			return x.ctx.Err()
		}
		answer, err := x.ask()
		if err != nil {
			return err
		}
		if len(answer.Message.Calls) == 0 {
			return x.done(answer)
		}
		x.call(answer.Message.Calls)
		if x.ctx.Err() != nil {
			return x.ctx.Err()
		}
	}
	return fmt.Errorf("%w: %d is the limit", ErrTurns, cfg.MaxTurns)
}

// ask has the model answer, after room was made where it is needed. When the model finds the
// request too long all the same, room is made once more, as for a smaller context.
func (x *exchange) ask() (llm.Response, error) {
	x.tools = x.history.session.Tools.Specs()
	x.prompt = promptTokens(x.system, x.tools)
	if err := x.fit(); err != nil {
		return llm.Response{}, err
	}
	answer, err := x.request()
	if errors.Is(err, llm.ErrContextLength) && !x.begun && x.ctx.Err() == nil {
		if more := x.shrink(); more != nil {
			return answer, errors.Join(err, more)
		}
		answer, err = x.request()
	}
	answer, err = x.resume(answer, err)
	if err != nil {
		if x.ctx.Err() != nil && answer.Message.Text != "" {
			x.history.add(llm.Message{Role: llm.Assistant, Text: answer.Message.Text}) // as far as it was heard
		}
		return answer, fmt.Errorf("turn %d of the model: %w", x.turn.Load(), err)
	}
	x.history.add(answer.Message)
	x.history.count(answer.Usage, x.prompt)
	x.emit(Event{Kind: Answered, Usage: answer.Usage})
	return answer, nil
}

// maxResumes is how often one answer is gone on with: a connection that breaks off more often is of
// no use.
const maxResumes = 3

// What stands for the model behind its half of an answer, and for people behind one that reached
// its limit.
const (
	resumeNote = "[The connection broke off here. Go on exactly where your text ends, and repeat nothing of it.]"
	lengthNote = "\n\n[The answer was cut here: it reached the limit of its length.]"
)

// resume asks for the rest of an answer that had begun when the connection or the server failed.
func (x *exchange) resume(answer llm.Response, err error) (llm.Response, error) {
	for i := 1; i <= maxResumes && x.begun && x.ctx.Err() == nil && (errors.Is(err, llm.ErrCut) || errors.Is(err, llm.ErrUnavailable)); i++ {
		name := x.history.session.Model.Name()
		x.emit(Event{Kind: Received, Chunk: llm.Chunk{Retry: &llm.Retry{Model: name, Next: name, Attempt: i, Err: err}}})
		var more []llm.Message
		text := answer.Message.Text
		if strings.TrimSpace(text) != "" {
			more = []llm.Message{{Role: llm.Assistant, Text: text}, {Role: llm.User, Text: resumeNote}}
		}
		answer, err = x.request(more...)
		answer.Message.Text = text + answer.Message.Text
		x.reply.Text = answer.Message.Text
	}
	return answer, err
}

// request makes one request of the model, with more messages than the history has.
func (x *exchange) request(more ...llm.Message) (llm.Response, error) {
	cfg := &x.c.cfg
	x.begun = false
	r := llm.Request{System: x.system, Messages: append(slices.Clip(x.history.shown()), more...), Tools: x.tools, Thinking: cfg.Thinking}
	x.c.mu.Lock()
	x.c.parts, x.c.last = x.parts, r
	x.c.mu.Unlock()
	answer, err := llm.Collect(x.history.session.Model.Stream(x.ctx, r), x.received)
	x.reply.Usage = x.reply.Usage.Add(answer.Usage)
	if answer.Message.Text != "" {
		x.reply.Text = answer.Message.Text
	}
	return answer, err
}

// onChunk hears a piece of the answer. With the first, what was said meanwhile is delivered.
func (x *exchange) onChunk(chunk llm.Chunk) {
	if chunk.Retry == nil {
		x.begun = true
		if len(x.next)+len(x.said) > 0 {
			x.settle(append(x.next, x.said...), Receipt{Outcome: Delivered, Turn: int(x.turn.Load())})
			x.next, x.said = nil, nil
		}
	}
	x.emit(Event{Kind: Received, Chunk: chunk})
}

// call makes the calls of a turn. Each has a result, whatever happens.
func (x *exchange) call(calls []llm.ToolCall) {
	x.emit(Event{Kind: Calling, Calls: calls})
	if x.quiet == nil {
		x.quiet = x.c.cfg.ForTools(community.WithoutListener(x.ctx)) // what others do for these calls, they report to this agent, not to its caller
	}
	x.history.add(llm.Message{Role: llm.Tool, Results: x.history.session.Tools.Run(x.quiet, calls)})
}

// done looks at the last answer. One that reached its limit says so; of one without any text
// nothing is left.
func (x *exchange) done(answer llm.Response) error {
	switch answer.Stop {
	case llm.StopLength:
		if strings.TrimSpace(answer.Message.Text) != "" {
			answer.Message.Text += lengthNote
			x.onChunk(llm.Chunk{Text: lengthNote})
			break
		}
		return fmt.Errorf("the model's answer was cut at its length limit: %w", llm.ErrCut)
	case llm.StopFilter:
		return fmt.Errorf("the model refused to answer: %w", llm.ErrRefused)
	}
	x.reply.Text = answer.Message.Text
	return nil
}

// keep remembers the exchange, unless another history was put in the place of the one that it began
// with.
func (x *exchange) keep(broken bool) {
	c := x.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.history.version == x.history.version {
		x.history.broken = broken
		c.history, x.kept = x.history, true
	}
}

// keepWhole remembers what was done until it was ended, if the model has said anything. What was
// said into a request that the model did not begin to answer is given back, so it is not
// remembered.
func (x *exchange) keepWhole() {
	if last := len(x.history.messages) - 1; len(x.said) > 0 && last > x.began && x.history.messages[last].Role == llm.User {
		x.history.grow(-tokens(x.history.messages[last]))
		x.history.messages = x.history.messages[:last:last] // requests may refer to what stood behind
	}
	if len(x.history.messages) <= x.began+1 {
		x.forget()
		return
	}
	x.keep(true)
}

// forget leaves the history as it was.
func (x *exchange) forget() { x.c.cfg.OnLost(false) }

func (x *exchange) emit(e Event) {
	e.Turn = int(x.turn.Load())
	x.c.cfg.Watch(x.ctx, e)
}

// promptTokens is an estimate of what goes with the messages of a request.
func promptTokens(system string, tools []llm.ToolSpec) int {
	bytes := len(system)
	for _, t := range tools {
		bytes += len(t.Name) + len(t.Description) + len(t.Schema) + perMessage
	}
	return bytes / bytesPerToken
}
