package conversation

import (
	"context"
	"slices"
	"strings"
	"time"
)

// Steering is something said to a model while it works.
type Steering struct {
	Text string
	// Keep has it wait for the next message when nothing is in flight. Else it is given back then.
	Keep bool
	// Behind has a kept text stand behind the next message, as one that was said after it.
	Behind bool
	// Queued is called when what is said later stands behind it. Default: nothing.
	Queued func()
	// Taken is called before the model is given it, from the goroutine of the Send. Default: nothing.
	Taken func()
}

// steering is on its way.
type steering struct {
	Steering
	done chan Receipt // has room for the one receipt; nil if no caller waits
}

// Steer adds a text to the next message: the texts of several calls stand before it, in their
// order. During an exchange that is still the next message, and not the one in flight. When the
// model does not begin to answer that message, they wait for the one after it. ErrBusy.
func (c *Conversation) Steer(text string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.keep(&steering{Steering: Steering{Text: text}})
}

// keep is under mu.
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

// Interject says something into the exchange in flight: the model is given it with the results of
// the calls that are being made, before it is asked again. It waits until the model answers that,
// or until it is clear that it will not: the exchange ended before, or failed. What is given back
// is not kept anywhere.
//
// The error is ErrBusy, or the cause of ctx; then the receipt says whether it was withdrawn in time.
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

// returnSteering is for who waits no longer.
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

// settle tells what became of them.
func (x *exchange) settle(all []*steering, r Receipt) {
	r.At = time.Now()
	for _, s := range all {
		own := r
		own.Text = s.Text
		x.emit(Event{Kind: Steered, Receipt: &own}) // before the receipt, by which its sender knows it as its own
		if s.done != nil {
			s.done <- own
		}
	}
}

// deliverSteering puts what was said meanwhile behind the messages. Nothing is half done then.
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
	text := joined(all)
	if x.history.say(text) {
		x.words[len(x.words)-1] += "\n\n" + text
	} else {
		x.words = append(x.words, text)
	}
}

// joined is what was said, as one text.
func joined(all []*steering) string {
	var b strings.Builder
	for i, s := range all {
		if s.Taken != nil {
			s.Taken()
		}
		if i > 0 {
			b.WriteString("\n\n")
		}
		b.WriteString(s.Text)
	}
	return b.String()
}
