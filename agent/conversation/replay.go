package conversation

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"symbio/agent/llm"
	"symbio/agent/session"
	"symbio/internal/security/visible"
)

// Journal records a conversation, so that it can be built again from the entries (Config.Past). A
// *session.Log is one.
type Journal interface {
	// Add records entries that are durable no later than the entries of the next Commit.
	Add(entries ...session.Entry) error
	// Commit records entries and returns when they and all before them are durable.
	Commit(entries ...session.Entry) error
}

// recorder writes to a Journal, if the conversation has one.
type recorder struct{ journal Journal }

// add records an entry. The entry is a function's result, because making it for nothing takes as long
// as the rest of a short exchange.
func (r recorder) add(entry func() session.Entry) error {
	if r.journal == nil {
		return nil
	}
	return r.journal.Add(entry())
}

// commit records entries like add, and waits until they are durable.
func (r recorder) commit(entries ...session.Entry) error {
	if r.journal == nil {
		return nil
	}
	return r.journal.Commit(entries...)
}

// request records that the model is about to be asked; size is an estimate in tokens.
func (r recorder) request(m llm.Model, size int) error {
	if r.journal == nil {
		return nil
	}
	return r.commit(session.Entry{Kind: session.Request, Usage: &llm.Usage{Input: size, Model: m.Name()}})
}

// end records the end of an exchange, after which messages of the history stay. why is nil if it is Done.
func (r recorder) end(status session.State, messages int, why error) error {
	e := session.Entry{Kind: session.End, Status: status, Count: messages}
	if why != nil {
		e.Text = why.Error()
	}
	return r.commit(e)
}

// openExchange is an exchange of the past that has no end: the program ended while it ran.
type openExchange struct {
	draft draft
	turn  int // how many answers the model gave
	// calls are the calls of the last answer if not all of them have results; started and results
	// say what is known about them, by id.
	calls   []llm.ToolCall
	started map[string]bool
	results map[string]llm.ToolResult
	// answered is true if the last message is an answer without calls, so that only the end is
	// missing.
	answered bool
}

// replay builds the history of the entries of a session, and the exchange that was running at their
// end; nil = none was.
func replay(h history, past []session.Entry) (history, *openExchange) {
	var x *openExchange
	for _, e := range past {
		switch e.Kind {
		case session.Task:
			// An exchange without an end before this one could not be recorded any more. Its
			// messages are dropped, as they were in memory.
			x = &openExchange{draft: draft{history: h, began: len(h.messages), words: []string{e.Message.Text}}}
			x.draft.clip()
			x.draft.broken = false
			x.draft.add(*e.Message)
		case session.Compaction:
			switch {
			case e.Began < 0: // Replace: an exchange that ran is not kept, and its entries are ignored
				h, x = history{session: h.session}, nil
				h.put(slices.Clone(e.Messages))
			case x != nil:
				x.draft.put(slices.Clone(e.Messages)) // addText changes the last one, which the entry has, too
				x.draft.began = e.Began
			}
		case session.End:
			if x != nil && e.Count > x.draft.began { // else nothing of it is kept
				h = x.draft.history
				h.put(slices.Clip(h.messages[:min(e.Count, len(h.messages))]))
				h.broken = e.Status != session.Done
			}
			x = nil
		default:
			if x != nil {
				x.apply(e)
			}
		}
	}
	return h, x
}

// load builds the history of the past. The error says why no model would accept it: then entries are
// missing, or were changed, and the conversation stays empty.
func (c *Conversation) load(past []session.Entry) error {
	for _, e := range past {
		if err := e.Check(); err != nil {
			return err
		}
	}
	h, x := replay(c.history, past)
	messages := h.messages
	if x != nil {
		messages = x.withResults()
	}
	if err := Sound(messages); err != nil {
		return err
	}
	c.history, c.unfinished = h, x
	return nil
}

// withResults returns the messages as if the last calls had results.
func (x *openExchange) withResults() []llm.Message {
	if len(x.calls) == 0 {
		return x.draft.messages
	}
	m := llm.Message{Role: llm.Tool}
	for _, c := range x.calls {
		m.Results = append(m.Results, llm.ToolResult{CallID: c.ID})
	}
	return append(slices.Clip(x.draft.messages), m)
}

// addResult records the result of one of the last calls, and adds the results to the history when
// all of them are there.
func (x *openExchange) addResult(r llm.ToolResult) {
	if len(x.calls) == 0 {
		return // no call waits for it
	}
	x.results[r.CallID] = r
	var results []llm.ToolResult
	for _, c := range x.calls {
		r, ok := x.results[c.ID]
		if !ok {
			return
		}
		results = append(results, r)
	}
	x.draft.add(llm.Message{Role: llm.Tool, Results: results})
	x.calls = nil
}

// apply adds an entry to the exchange.
func (x *openExchange) apply(e session.Entry) {
	switch e.Kind {
	case session.Text:
		var images []llm.Image
		if e.Message != nil {
			images = e.Message.Images
		}
		x.draft.say(e.Text, images...)
	case session.Answer:
		x.turn++
		x.draft.add(*e.Message)
		x.calls, x.started, x.results = e.Message.Calls, map[string]bool{}, map[string]llm.ToolResult{}
		x.answered = len(x.calls) == 0 && e.Status == ""
	case session.Call:
		if x.started != nil { // else it has no answer
			x.started[e.Call.ID] = true
		}
	case session.Result:
		x.addResult(*e.Result)
	}
}

// restartNote tells the model that its work was interrupted and goes on.
const restartNote = "[The program was stopped here and has been started again; the work goes on. Time has passed: what you rely on may have changed.]"

// CanResume reports whether the last exchange of the past has no end, so that Resume goes on with it.
func (c *Conversation) CanResume() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.unfinished != nil
}

// Resume goes on with the exchange that the past ended in, like a Send without a message. Calls
// whose start is not recorded run now. Calls that had started have the result that it is not known
// whether they ran, unless their tool only reads: then they run again. The text and images of note are
// added to the text that tells the model about the interruption. The error is ErrIdle if there is no such exchange. After any
// other error the history keeps the messages up to the last complete turn.
func (c *Conversation) Resume(ctx context.Context, note llm.Message) (Reply, error) {
	return c.exchange(ctx, func(x *exchange) error {
		o := c.takeUnfinished()
		if o == nil {
			return ErrIdle
		}
		return x.resumePast(o, note)
	})
}

// takeUnfinished returns the exchange of the past, which is the caller's from now on; nil = there is
// none.
func (c *Conversation) takeUnfinished() *openExchange {
	c.mu.Lock()
	defer c.mu.Unlock()
	o := c.unfinished
	c.unfinished = nil
	return o
}

// resumePast goes on with an exchange of the past.
func (x *exchange) resumePast(o *openExchange, note llm.Message) error {
	x.c.mu.Lock()
	x.takeHistory()
	x.c.mu.Unlock()
	s, version := x.draft.session, x.draft.version
	x.draft, x.resumed = o.draft, true
	x.draft.session, x.draft.version = s, version
	x.turn.Store(int32(o.turn))
	if err := x.c.record.commit(session.Entry{Kind: session.Resume}); err != nil {
		x.c.mu.Lock()
		defer x.c.mu.Unlock()
		x.c.unfinished = o // nothing was done of it
		return err
	}
	if err := x.instruct(); err != nil {
		return err
	}
	if o.answered {
		x.reply.Text = x.draft.messages[len(x.draft.messages)-1].Text
		return nil
	}
	if len(o.calls) > 0 {
		o.callAgain(x)
		if x.ctx.Err() != nil {
			return x.ctx.Err()
		}
	}
	text := strings.TrimSpace(restartNote + "\n\n" + note.Text)
	if len(x.next) > 0 {
		more, images := joined(x.ctx, x.next)
		text, note.Images = text+"\n\n"+more, append(note.Images, images...)
	}
	x.addText(text, note.Images...)
	return x.turns()
}

// callAgain gives each call of the last answer a result: the recorded one, or that it is not known,
// or the result of running it now.
func (o *openExchange) callAgain(x *exchange) {
	var missing []llm.ToolCall
	for _, c := range o.missing() {
		if o.started[c.ID] && !x.draft.session.Tools.IsReadOnly(c) {
			r := unknownResult(c)
			_ = x.c.record.add(func() session.Entry { return session.Entry{Kind: session.Result, Result: &r} }) // the next Commit reports the error
			o.addResult(r)
		} else {
			missing = append(missing, c)
		}
	}
	if len(missing) > 0 {
		for _, r := range x.runCalls(missing) {
			o.addResult(r)
		}
	}
	x.draft = o.draft
}

// missing returns the calls of the last answer that have no result.
func (o *openExchange) missing() (calls []llm.ToolCall) {
	for _, c := range o.calls {
		if _, known := o.results[c.ID]; !known {
			calls = append(calls, c)
		}
	}
	return calls
}

// unknownResult returns the result of a call that had started: it is not known whether it ran.
func unknownResult(c llm.ToolCall) llm.ToolResult {
	return llm.ToolResult{CallID: c.ID, Name: c.Name, IsError: true, Text: fmt.Sprintf(
		"Interrupted: the program ended during this call of %s, and it is not known whether it ran. It was not repeated. Check what it has done before you call it again. Its arguments were %s",
		c.Name, visible.Prefix(string(c.Args), maxArgsShown))}
}

// abandon ends the exchange of the past because another message comes in its place: it is kept like
// an interrupted one. With an error it is not ended, and the next message tries again.
func (c *Conversation) abandon() error {
	past := c.takeUnfinished()
	if past == nil {
		return nil
	}
	o := *past
	o.draft.clip()
	o.results = maps.Clone(o.results)
	entries := []session.Entry{{Kind: session.Resume}}
	for _, call := range o.missing() {
		r := unknownResult(call)
		if !o.started[call.ID] {
			r.Text = fmt.Sprintf("The call of %s did not run: the program ended before.", call.Name)
		}
		o.addResult(r)
		entries = append(entries, session.Entry{Kind: session.Result, Result: &r})
	}
	status, keep := session.Interrupted, o.draft.lastWhole()
	if o.answered {
		status = session.Done
	}
	err := c.record.commit(append(entries, session.Entry{Kind: session.End, Status: status, Count: keep, Text: "the program ended"})...)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err != nil:
		c.unfinished = past
	case keep > o.draft.began:
		version := c.history.version
		c.history = o.draft.history
		c.history.version, c.history.broken = version, !o.answered
		c.history.put(slices.Clip(o.draft.messages[:keep]))
	}
	return err
}
