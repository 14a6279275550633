package conversation

import (
	"context"
	"slices"
	"strings"
	"time"

	"symbio/agent/event"
	"symbio/agent/llm"
	"symbio/agent/session"
)

// Steering is a text for a model that is working.
type Steering struct {
	Text string
	// Keep makes the text wait for the next message when there is no current exchange. Otherwise it is
	// returned then.
	Keep bool
	// Behind puts a kept text after the next message instead of before it.
	Behind bool
	// Queued is called when the text has its place in the queue: later ones come after it. Default: not
	// called.
	Queued func()
	// Taken is called before the text becomes part of a request, on the goroutine of the Send, and returns what the model
	// is shown behind it. Default: nothing.
	Taken func(ctx context.Context) (more llm.Message)
}

// steering is a Steering that waits for a request or for its receipt.
type steering struct {
	Steering
	done chan Receipt // has room for the one receipt; nil if no caller waits
}

// Steer puts a text before the next message; several texts keep their order. During an exchange the next
// message is the one after it. If the model does not begin to answer that message, the texts wait for the
// following one. The error is ErrBusy when Config.Waiting texts wait already. It never blocks.
func (c *Conversation) Steer(text string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.keep(&steering{Steering: Steering{Text: text}})
}

// keep queues s for the next message, or returns ErrBusy. The caller holds mu.
func (c *Conversation) keep(s *steering) error {
	if len(c.next)+len(c.mid) >= c.cfg.Waiting {
		return ErrBusy
	}
	if s.Behind {
		c.mid = append(c.mid, s)
	} else {
		c.next = append(c.next, s)
	}
	return nil
}

// Interject puts a text into the current exchange: the model gets it together with the results of its
// present calls, in the next request. Interject blocks until the model begins to answer that request, or
// until the exchange ends without it; the receipt says which. A returned text is not kept.
//
// The error is ErrBusy when Config.Waiting texts wait already, or the cause of ctx; the receipt then says
// whether the text was withdrawn in time.
func (c *Conversation) Interject(ctx context.Context, s Steering) (Receipt, error) {
	if ctx.Err() != nil {
		return returned(s.Text, context.Cause(ctx).Error()), context.Cause(ctx)
	}
	mine := &steering{Steering: s}
	c.mu.Lock()
	switch {
	case c.live == nil && !s.Keep:
		c.mu.Unlock()
		return returned(s.Text, "Nothing is in flight."), nil
	case c.live == nil:
		err := c.keep(mine)
		c.mu.Unlock()
		if err != nil {
			return returned(s.Text, err.Error()), err
		}
		return Receipt{Outcome: Kept, Text: s.Text, At: time.Now()}, nil
	case len(c.next)+len(c.mid) >= c.cfg.Waiting:
		c.mu.Unlock()
		return returned(s.Text, ErrBusy.Error()), ErrBusy
	}
	mine.done = make(chan Receipt, 1)
	c.mid = append(c.mid, mine)
	c.mu.Unlock()
	if s.Queued != nil {
		s.Queued()
	}
	select {
	case r := <-mine.done:
		return r, nil
	case <-ctx.Done():
		return c.returnSteering(mine, context.Cause(ctx))
	}
}

// returnSteering withdraws a text whose sender has stopped waiting. If a request has it already, the receipt
// says Sent, because it is not known whether the model will answer.
func (c *Conversation) returnSteering(s *steering, why error) (Receipt, error) {
	c.mu.Lock()
	i := slices.Index(c.mid, s)
	if i >= 0 {
		c.mid = slices.Delete(c.mid, i, i+1)
	}
	c.mu.Unlock()
	if i >= 0 {
		return returned(s.Text, why.Error()), why
	}
	select {
	case r := <-s.done:
		return r, nil // it was settled at that moment
	default:
		return Receipt{Outcome: Sent, Text: s.Text, At: time.Now()}, why
	}
}

func returned(text, why string) Receipt {
	return Receipt{Outcome: Returned, Text: text, At: time.Now(), Why: why}
}

// settle sends each text the receipt r, and reports it as an event first.
func (x *exchange) settle(all []*steering, r Receipt) {
	r.At = time.Now()
	for _, s := range all {
		own := r
		own.Text = s.Text
		// before the receipt: the sender tells its own event by it
		x.c.cfg.Watch(x.ctx, event.Event{Type: event.TypeSteered, Text: own.Text, Why: own.Why,
			Part: event.Steering{Turn: own.Turn, Outcome: string(own.Outcome)}})
		if s.done != nil {
			s.done <- own
		}
	}
}

// deliverSteering adds the texts that came since the last turn to the history. It runs between turns, when
// every call has its result.
func (x *exchange) deliverSteering() {
	c := x.c
	c.mu.Lock()
	all := c.mid
	c.mid = nil
	c.mu.Unlock()
	if len(all) == 0 {
		return
	}
	x.said = append(x.said, all...)
	text, images := joined(x.ctx, all)
	x.addText(text, images...)
}

// addText adds a user's text and images to the history and records them.
func (x *exchange) addText(text string, images ...llm.Image) {
	e := session.Entry{Kind: session.Text, Text: text}
	if len(images) > 0 {
		e.Message = &llm.Message{Role: llm.User, Images: images}
	}
	_ = x.c.record.add(func() session.Entry { return e }) // the Commit before the next request reports the error
	x.draft.say(text, images...)
}

// joined returns the texts as one, with blank lines between them, each with what its Taken returned.
func joined(ctx context.Context, all []*steering) (text string, images []llm.Image) {
	var texts []string
	for _, s := range all {
		texts = append(texts, s.Text)
		if s.Taken == nil {
			continue
		}
		more := s.Taken(ctx)
		if images = append(images, more.Images...); more.Text != "" {
			texts = append(texts, more.Text)
		}
	}
	return strings.Join(texts, "\n\n"), images
}
