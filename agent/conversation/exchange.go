package conversation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"symbio/agent/event"
	"symbio/agent/llm"
	"symbio/agent/session"
	"symbio/community"
	"symbio/internal/actor/term"
)

// exchange is one user message and the turns of the model that answer it. Only the goroutine of its Send
// uses it, except for turn and ctx, which any goroutine may read.
type exchange struct {
	c   *Conversation
	ctx *term.Term
	// turn counts from 1. Only the goroutine of Send writes it.
	turn  atomic.Int32
	reply Reply
	// draft is what the conversation's history becomes; keep makes it that.
	draft  draft
	prompt prompt
	// begun is set when the model has sent the first chunk of its answer to the present request.
	begun bool
	// kept is set when the conversation has taken over draft, resumed when the exchange began in the
	// past.
	kept, resumed bool
	// corrected is set when an answer was sent back because it did not fit the form.
	corrected bool
	// idle is set if there is no message to answer: the history is compacted and that is all.
	idle bool
	// next is steering that goes before the message. If the exchange ends before the model answers, it goes
	// before the next message.
	next []*steering
	// said is steering that is part of the present request and has no receipt yet.
	said []*steering
	// received is onChunk, as one value that is not allocated for each request.
	received func(llm.Chunk)
	// quiet is the context of the tools; nil before the first call.
	quiet context.Context
}

// prompt is what a request has beside its messages: the system prompt, in parts and joined, and the tools.
type prompt struct {
	parts []Part
	text  string
	tools []llm.ToolSpec
	// size is an estimate, in tokens.
	size int
}

// measure sets the size.
func (p *prompt) measure() {
	bytes := len(p.text)
	for _, t := range p.tools {
		bytes += len(t.Name) + len(t.Description) + len(t.Schema) + perMessage
	}
	p.size = bytes / bytesPerToken
}

// open makes x the current exchange of the conversation. close must be called when it ends.
func (x *exchange) open(ctx context.Context) {
	c := x.c
	x.ctx, x.received = term.New(ctx), x.onChunk
	c.mu.Lock()
	defer c.mu.Unlock()
	x.next, c.next = c.next, nil
	c.live = x
}

// takeHistory makes the conversation's history the exchange's, which begins behind it. The caller
// holds mu.
func (x *exchange) takeHistory() {
	c := x.c
	x.draft = draft{history: c.history, began: len(c.history.messages)}
	if c.history.lost {
		c.modelWindow.Store(0) // the new session may have another model
	}
	c.history.lost = false
}

// close ends the exchange for its callers. Steering that the model was not given is returned to its senders.
func (x *exchange) close() {
	c := x.c
	defer x.ctx.Close()
	c.mu.Lock()
	left := append(x.said, c.mid...)
	c.mid, c.live = nil, nil
	if !x.kept && c.history.version == x.draft.version {
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

// run alternates between the model and its tools until the model answers without a call, and then decides
// which messages the conversation keeps: all after an answer, those up to the interruption after an end of
// ctx, ErrTurns or ErrNoAnswer, and none after another error.
func (x *exchange) run(do func(*exchange) error) error {
	err := do(x)
	x.reply.Turns = int(x.turn.Load())
	switch {
	case err == nil:
		if err = x.keep(session.Done, nil); err != nil {
			x.c.cfg.OnLost(false)
		}
	case x.ctx.Err() != nil:
		err = context.Cause(x.ctx)
		x.keepWhole(session.Interrupted, err)
	case x.resumed, errors.Is(err, ErrTurns), errors.Is(err, ErrNoAnswer), errors.Is(err, llm.ErrUnfit):
		x.keepWhole(session.Failed, err)
	case errors.Is(err, ErrIdle):
	default:
		x.forget(err)
	}
	return err
}

// begin adds the user's message to the history, and records it before all else; it is durable before the first request.
// Steering that waited for it, and the note after a broken exchange, go before its text.
func (x *exchange) begin(m Message) error {
	byPerson := 0
	if m.ByPerson {
		byPerson = len(m.Text)
	}
	if len(x.next) > 0 {
		text, images := joined(x.ctx, x.next)
		m.Text, m.Images = text+"\n\n"+m.Text, append(images, m.Images...)
	}
	err := x.recordBegin(m.Text, m.Images, byPerson)
	if err == nil && m.Taken != nil {
		var more llm.Message
		if more, err = m.Taken(x.ctx); err == nil && more.Text != "" {
			x.addText(more.Text, more.Images...)
		}
	}
	if x.draft.lost {
		x.c.cfg.OnLost(true)
		x.draft.lost = false
	}
	if err != nil {
		return err
	}
	return x.instruct()
}

// recordBegin takes the history and records the first message. It holds mu for both, so that the record
// has a Replace on the same side of the message as the history. A person wrote the last byPerson bytes of text.
func (x *exchange) recordBegin(text string, images []llm.Image, byPerson int) error {
	x.c.mu.Lock()
	defer x.c.mu.Unlock()
	x.takeHistory()
	if x.draft.broken {
		text, x.draft.broken = brokenNote+"\n\n"+text, false
	}
	m := llm.Message{Role: llm.User, Text: text, Images: images}
	x.draft.add(m)
	x.draft.words = append(x.draft.words, text)
	return x.c.record.add(func() session.Entry { return session.Entry{Kind: session.Task, Message: new(m), Count: byPerson} })
}

// instruct computes the system prompt. The error comes from Config.System.
func (x *exchange) instruct() (err error) {
	x.prompt.parts = []Part{{"instructions", x.draft.session.Instructions}}
	if system := x.c.cfg.System; system != nil {
		x.prompt.parts, err = system(x.ctx)
	}
	x.prompt.text = ""
	for _, p := range x.prompt.parts {
		x.prompt.text += p.Text
	}
	return err
}

// turns runs up to Config.MaxTurns turns; the error is then ErrTurns. A turn is one request to the model
// and the calls in its answer. Steering is delivered between turns.
func (x *exchange) turns() error {
	cfg := &x.c.cfg
	for int(x.turn.Load()) < cfg.MaxTurns {
		turn := int(x.turn.Add(1))
		if cfg.Before(x.ctx, turn) {
			if err := x.instruct(); err != nil {
				return err
			}
		}
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
		x.draft.add(llm.Message{Role: llm.Tool, Results: x.runCalls(answer.Message.Calls)})
		if x.ctx.Err() != nil {
			return x.ctx.Err()
		}
	}
	return fmt.Errorf("%w: %d is the limit", ErrTurns, cfg.MaxTurns)
}

// ask requests the model's next answer and adds it to the history. It compacts the history before if it
// nearly fills the context, and again, once, if the model refuses the request as too long. An answer that
// breaks off is resumed.
func (x *exchange) ask() (llm.Response, error) {
	x.prompt.tools = x.draft.session.Tools.Specs()
	x.prompt.measure()
	x.c.updateWindow()
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
	answer, err = x.askAgain(answer, err)
	if err != nil {
		if x.ctx.Err() != nil && answer.Message.Text != "" {
			// as far as it was received; request has recorded its usage
			x.addAnswer(llm.Response{Message: llm.Message{Role: llm.Assistant, Text: answer.Message.Text}}, session.Interrupted)
		}
		return answer, fmt.Errorf("turn %d of the model: %w", x.turn.Load(), err)
	}
	x.addAnswer(answer, "")
	x.draft.count(answer.Usage, x.prompt.size)
	x.report(event.TypeTurn, "", event.Turn{Usage: new(answer.Usage), Context: x.draft.size(x.prompt.size), Window: x.c.Limit()})
	return answer, nil
}

// addAnswer adds an answer to the history and records it. status is Interrupted if the answer is not
// whole. The next Commit returns an error, too, without which nothing follows from the answer.
func (x *exchange) addAnswer(answer llm.Response, status session.State) {
	x.draft.add(answer.Message)
	_ = x.c.record.add(func() session.Entry {
		return session.Entry{Kind: session.Answer, Message: new(answer.Message), Usage: new(answer.Usage), Status: status}
	})
}

// maxResumes is how often one answer is resumed. A connection that breaks more often is of no use.
const maxResumes = 3

// resumeNote tells the model to finish an answer that broke off. lengthNote tells people that an answer
// ended at the model's length limit.
const (
	resumeNote = "[The connection broke off here. Go on exactly where your text ends, and repeat nothing of it.]"
	lengthNote = "\n\n[The answer was cut here: it reached the limit of its length.]"
)

// resume requests the rest of an answer that had begun when the connection or the server failed. The model
// gets its own text so far and resumeNote. It returns the joined answer, or the last error.
func (x *exchange) resume(answer llm.Response, err error) (llm.Response, error) {
	for i := 1; i <= maxResumes && x.begun && x.ctx.Err() == nil && (errors.Is(err, llm.ErrCut) || errors.Is(err, llm.ErrUnavailable)); i++ {
		name := x.draft.session.Model.Name()
		x.c.cfg.Watch(x.ctx, retried(x.turn.Load(), llm.Retry{Model: name, Next: name, Attempt: i, Err: err}))
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

// maxAsks is how often a model that answered with nothing is asked again.
const maxAsks = 2

// emptyNote and droppedNote are the texts that it gets then. They are no part of the history, and neither is the answer:
// servers refuse messages without content.
const (
	emptyNote   = "[Your answer was empty. Go on: call a tool, or answer in words.]"
	droppedNote = "[You wanted to call a tool, but no call arrived. Make the call again, or answer in words.]"
)

// askAgain requests another answer in place of one that has neither a call nor a text, that was to have calls and has
// none, or that does not fit the form. After maxAsks tries the error is ErrNoAnswer, after one for the form llm.ErrUnfit.
// The answers before are recorded by what they cost.
func (x *exchange) askAgain(answer llm.Response, err error) (llm.Response, error) {
	for i := 1; err == nil && x.ctx.Err() == nil; i++ {
		note, name := missing(answer), x.draft.session.Model.Name()
		doc, wrong := document(x.c.cfg.Form, answer)
		if note == "" && wrong == nil {
			answer.Message.Text = doc
			return answer, nil
		}
		failed, last := fmt.Errorf("%w, %d times", ErrNoAnswer, i), i > maxAsks
		more := []llm.Message{{Role: llm.User, Text: note}}
		if note == "" {
			failed, last = &llm.Error{Model: name, Detail: wrong.Error(), Err: llm.ErrUnfit}, x.corrected
			x.corrected = true
			more = []llm.Message{{Role: llm.Assistant, Text: answer.Message.Text}, {Role: llm.User, Text: x.c.cfg.Form.Correction(wrong)}}
		}
		addReport(x, answer.Usage, x.begun, nil)
		if last {
			return answer, failed
		}
		x.c.cfg.Watch(x.ctx, retried(x.turn.Load(), llm.Retry{Model: name, Next: name, Attempt: i, Err: errors.Unwrap(failed)}))
		answer, err = x.resume(x.request(more...))
	}
	return answer, err
}

// document returns the text of an answer as it fits the form, if there is one: of calls, and of an answer that was cut or
// refused, nothing is asked.
func document(form *llm.Form, answer llm.Response) (string, error) {
	if form == nil || len(answer.Message.Calls) > 0 || answer.Stop == llm.StopLength || answer.Stop == llm.StopFilter {
		return answer.Message.Text, nil
	}
	return form.Document(answer.Message.Text)
}

// missing returns what to tell a model whose answer is neither calls nor an answer; "" if it is one. An answer that was cut
// or refused has a failure of its own.
func missing(answer llm.Response) string {
	switch {
	case len(answer.Message.Calls) > 0 || answer.Stop == llm.StopLength || answer.Stop == llm.StopFilter:
		return ""
	case answer.Stop == llm.StopTools:
		return droppedNote
	case strings.TrimSpace(answer.Message.Text) == "":
		return emptyNote
	}
	return ""
}

// request sends one request: the history, and more messages after it that the history does not keep.
func (x *exchange) request(more ...llm.Message) (llm.Response, error) {
	cfg := &x.c.cfg
	x.begun = false
	r := llm.Request{System: x.prompt.text, Messages: append(slices.Clip(x.draft.shown()), more...), Tools: x.prompt.tools, Thinking: cfg.Thinking}
	if err := x.c.record.request(x.draft.session.Model, x.draft.size(x.prompt.size)); err != nil {
		return llm.Response{}, err
	}
	x.c.mu.Lock()
	x.c.parts, x.c.last = x.prompt.parts, r
	x.c.mu.Unlock()
	answer, err := llm.Collect(x.draft.session.Model.Stream(x.ctx, r), x.received)
	if err != nil {
		addReport(x, answer.Usage, x.begun, err)
	}
	for i, c := range answer.Message.Calls {
		answer.Message.Calls[i] = x.draft.session.Tools.Repair(c)
	}
	x.reply.Usage = x.reply.Usage.Add(answer.Usage)
	if answer.Message.Text != "" {
		x.reply.Text = answer.Message.Text
	}
	return answer, err
}

// addReport records what the model reported for a request without an Answer. One that was refused before the answer
// began costs nothing. Without a record it counts with its estimated size, since the provider may charge a request
// that was broken off.
func addReport(x *exchange, used llm.Usage, begun bool, err error) {
	refused := err != nil && !begun && x.ctx.Err() == nil
	if refused || used != (llm.Usage{}) {
		_ = x.c.record.add(func() session.Entry { return session.Entry{Kind: session.Report, Usage: new(used)} }) // the Commit before the next request reports the error
	}
}

// onChunk is called with each chunk of the answer. The first one shows that the model has the request, so
// it settles the steering in it as delivered. A chunk with Retry is no answer.
func (x *exchange) onChunk(chunk llm.Chunk) {
	if chunk.Retry == nil {
		x.begun = true
		if len(x.next)+len(x.said) > 0 {
			x.settle(append(x.next, x.said...), Receipt{Outcome: Delivered, Turn: int(x.turn.Load())})
			x.next, x.said = nil, nil
		}
	}
	if chunk.Retry != nil {
		x.c.cfg.Watch(x.ctx, retried(x.turn.Load(), *chunk.Retry))
	}
	if chunk.Thought != "" {
		x.report(event.TypeThought, chunk.Thought, event.Turn{})
	}
	if chunk.Text != "" && x.c.cfg.Form == nil { // else done reports what fits
		x.report(event.TypeText, chunk.Text, event.Turn{})
	}
}

// runCalls runs calls and returns their results. Every call gets a result, also after an interruption, because models
// refuse a history with a call that has none.
func (x *exchange) runCalls(calls []llm.ToolCall) []llm.ToolResult {
	for _, c := range calls {
		community.Report(x.ctx, community.Progress{Message: "asks for " + c.Name})
	}
	if x.quiet == nil {
		// Progress of calls to other agents is for this agent, not for its caller.
		x.quiet = x.c.cfg.ForTools(community.WithoutListener(x.ctx))
	}
	return x.draft.session.Tools.Run(x.quiet, calls)
}

// done checks why the last answer ended. An answer cut at the length limit gets lengthNote, or is ErrCut if
// it has no text or was to fit a form. An answer stopped by the provider's filter is ErrRefused.
func (x *exchange) done(answer llm.Response) error {
	switch answer.Stop {
	case llm.StopLength:
		if strings.TrimSpace(answer.Message.Text) != "" && x.c.cfg.Form == nil {
			answer.Message.Text += lengthNote
			x.onChunk(llm.Chunk{Text: lengthNote})
			break
		}
		return fmt.Errorf("the model's answer was cut at its length limit: %w", llm.ErrCut)
	case llm.StopFilter:
		return fmt.Errorf("the model refused to answer: %w", llm.ErrRefused)
	}
	x.reply.Text = answer.Message.Text
	if x.c.cfg.Form != nil {
		x.report(event.TypeText, x.reply.Text, event.Turn{})
	}
	return nil
}

// keep makes the history of x the conversation's, unless Replace has changed that meanwhile. broken
// records the end. An exchange that is not Done has no answer; the next message then begins with a note about it. why is the
// reason; nil = it is Done. The error comes from the record.
func (x *exchange) keep(status session.State, why error) error {
	c := x.c
	if err := x.c.record.end(status, len(x.draft.messages), why); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.history.version == x.draft.version {
		x.draft.broken = status != session.Done
		c.history, x.kept = x.draft.history, true
	}
	return nil
}

// keepWhole keeps the messages of an interrupted exchange, if the model has answered at all.
func (x *exchange) keepWhole(status session.State, why error) {
	keep := x.draft.lastWhole()
	if keep == x.draft.began {
		x.forget(why)
		return
	}
	for _, m := range x.draft.messages[keep:] {
		x.draft.grow(-tokens(m))
	}
	x.draft.messages = x.draft.messages[:keep:keep] // requests may refer to the array behind it
	_ = x.keep(status, why)                         // the exchange has an error already
}

// forget drops the messages of the exchange: the conversation's history stays as it was.
func (x *exchange) forget(why error) {
	status := session.Failed
	if x.ctx.Err() != nil {
		status = session.Interrupted
	}
	_ = x.c.record.end(status, x.draft.began, why) // the exchange has an error already
	x.c.cfg.OnLost(false)
}

// report reports an event of the present turn to Config.Watch.
func (x *exchange) report(kind, text string, part event.Turn) {
	part.Turn = int(x.turn.Load())
	x.c.cfg.Watch(x.ctx, event.Event{Type: kind, Text: text, Part: part})
}

// retried returns the event of a request that is repeated.
func retried(turn int32, r llm.Retry) event.Event {
	return event.Event{Type: event.TypeRetry, Why: r.Err.Error(),
		Part: event.Retry{Turn: int(turn), Model: r.Model, Next: r.Next, Attempt: r.Attempt, Wait: r.Wait.Seconds()}}
}
