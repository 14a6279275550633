package conversation

import (
	"context"
	"fmt"
	"slices"

	"symbio/agent/llm"
	"symbio/agent/session"
	"symbio/security/visible"
)

// Journal records a conversation, so that it can be built again from the entries (Config.Past). A
// *session.Log is one.
type Journal interface {
	// Add records entries that are durable no later than those of the next Commit.
	Add(entries ...session.Entry) error
	// Commit records entries and returns when they and all before them are durable.
	Commit(entries ...session.Entry) error
}

// noJournal is the Journal of a conversation that is not kept.
type noJournal struct{}

func (noJournal) Add(...session.Entry) error    { return nil }
func (noJournal) Commit(...session.Entry) error { return nil }

// openExchange is an exchange of the past that has no end: the program ended while it ran.
type openExchange struct {
	history history
	began   int
	words   []string
	turn    int // how many answers the model gave
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
			h.broken = false
			x = &openExchange{history: h, began: len(h.messages), words: []string{e.Message.Text}}
			x.history.clip()
			x.history.add(*e.Message)
		case session.Compaction:
			switch {
			case e.Began < 0: // Replace: an exchange that ran is not kept, and its entries are ignored
				h, x = history{session: h.session}, nil
				h.put(e.Messages)
			case x != nil:
				x.history.put(e.Messages)
				x.began = e.Began
			}
		case session.End:
			if x == nil {
				continue
			}
			h = x.history
			h.put(slices.Clip(h.messages[:min(e.Count, len(h.messages))]))
			h.broken = e.Status == session.Interrupted && len(h.messages) > x.began
			x = nil
		default:
			if x != nil {
				x.apply(e)
			}
		}
	}
	return h, x
}

// addResult records the result of one of the last calls, and adds the results to the history when
// all of them are there.
func (x *openExchange) addResult(r llm.ToolResult) {
	x.results[r.CallID] = r
	var results []llm.ToolResult
	for _, c := range x.calls {
		r, ok := x.results[c.ID]
		if !ok {
			return
		}
		results = append(results, r)
	}
	x.history.add(llm.Message{Role: llm.Tool, Results: results})
	x.calls = nil
}

// apply adds an entry to the exchange.
func (x *openExchange) apply(e session.Entry) {
	switch e.Kind {
	case session.Text:
		if x.history.say(e.Text) {
			x.words[len(x.words)-1] += "\n\n" + e.Text
		} else {
			x.words = append(x.words, e.Text)
		}
	case session.Answer:
		x.turn++
		x.history.add(*e.Message)
		x.calls, x.started, x.results = e.Message.Calls, map[string]bool{}, map[string]llm.ToolResult{}
		x.answered = len(x.calls) == 0
	case session.Call:
		x.started[e.Call.ID] = true
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
// whether they ran, unless their tool only reads: then they run again. note is added to the text that
// tells the model about the interruption. The error is ErrIdle if there is no such exchange.
func (c *Conversation) Resume(ctx context.Context, note string) (Reply, error) {
	return c.exchange(ctx, func(x *exchange) error {
		c.mu.Lock()
		o := c.unfinished
		c.unfinished = nil
		c.mu.Unlock()
		if o == nil {
			return ErrIdle
		}
		return x.resumePast(o, note)
	})
}

// resumePast goes on with an exchange of the past.
func (x *exchange) resumePast(o *openExchange, note string) error {
	x.takeHistory()
	s, version := x.history.session, x.history.version
	x.history, x.began, x.words = o.history, o.began, o.words
	x.history.session, x.history.version = s, version
	x.turn.Store(int32(o.turn))
	if err := x.c.cfg.Journal.Commit(session.Entry{Kind: session.Resume}); err != nil {
		return err
	}
	x.c.cfg.OnLost(true)
	if err := x.instruct(); err != nil {
		return err
	}
	if o.answered {
		x.reply.Text = x.history.messages[len(x.history.messages)-1].Text
		return nil
	}
	if len(o.calls) > 0 {
		o.callAgain(x)
		if x.ctx.Err() != nil {
			return x.ctx.Err()
		}
	}
	if note != "" {
		note = "\n\n" + note
	}
	x.addText(restartNote + note)
	return x.turns()
}

// callAgain gives each call of the last answer a result: that of the record, or that it is not known,
// or that of running it now.
func (o *openExchange) callAgain(x *exchange) {
	var missing []llm.ToolCall
	for _, c := range o.calls {
		_, known := o.results[c.ID]
		switch {
		case known:
		case o.started[c.ID] && !x.history.session.Tools.IsReadOnly(c):
			o.recordUnknown(x.c.cfg.Journal, c)
		default:
			missing = append(missing, c)
		}
	}
	if len(missing) > 0 {
		for _, r := range x.runCalls(missing) {
			o.addResult(r)
		}
	}
	x.history = o.history
}

// recordUnknown gives a call that had started the result that it is not known whether it ran.
func (o *openExchange) recordUnknown(j Journal, c llm.ToolCall) {
	r := llm.ToolResult{CallID: c.ID, Name: c.Name, IsError: true, Text: fmt.Sprintf(
		"Interrupted: the program ended during this call of %s, and it is not known whether it ran. It was not repeated. Check what it has done before you call it again. Its arguments were %s",
		c.Name, visible.Prefix(string(c.Args), maxArgsShown))}
	o.addResult(r)
	_ = j.Add(session.Entry{Kind: session.Result, Result: &r}) // the next Commit reports the error
}

// abandon ends the exchange of the past because another message comes in its place: it is kept like
// an interrupted one.
func (c *Conversation) abandon() error {
	c.mu.Lock()
	o := c.unfinished
	c.unfinished = nil
	c.mu.Unlock()
	if o == nil {
		return nil
	}
	for _, call := range o.calls {
		if _, known := o.results[call.ID]; known {
			continue
		}
		if o.started[call.ID] {
			o.recordUnknown(c.cfg.Journal, call)
			continue
		}
		r := llm.ToolResult{CallID: call.ID, Name: call.Name, IsError: true, Text: fmt.Sprintf("The call of %s did not run: the program ended before.", call.Name)}
		o.addResult(r)
		_ = c.cfg.Journal.Add(session.Entry{Kind: session.Result, Result: &r}) // the Commit below reports the error
	}
	keep := len(o.history.messages)
	if keep <= o.began+1 {
		keep = o.began // the model had not answered
	}
	err := c.cfg.Journal.Commit(session.Entry{Kind: session.End, Status: session.Interrupted, Count: keep, Text: "the program ended"})
	c.mu.Lock()
	defer c.mu.Unlock()
	version := c.history.version
	c.history = o.history
	c.history.version = version
	c.history.put(slices.Clip(o.history.messages[:keep]))
	c.history.broken = !o.answered && keep > o.began
	return err
}
