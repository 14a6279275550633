package actor

import (
	"context"
	"sync/atomic"

	"symbio/internal/actor/term"
)

// call is a message on its way to one actor, and the way back for the answer. It is what
// Proto.Actor carries.
type call struct {
	ref    *Ref
	ctx    context.Context
	msg    any
	answer chan outcome     // capacity 1; nil for a Post
	done   func(any, error) // of a Post
	state  atomic.Int32
}

type outcome struct {
	value any
	err   error
}

const (
	waiting   int32 = iota
	begun           // Receive has it, or had it
	withdrawn       // the asker gave up before Receive began
)

// begin reports whether Receive may have the call; the asker can no longer withdraw it then.
func (c *call) begin() bool { return c.ctx.Err() == nil && c.state.CompareAndSwap(waiting, begun) }

// withdraw reports whether Receive will never see the call.
func (c *call) withdraw() bool { return c.state.CompareAndSwap(waiting, withdrawn) }

// finish answers the call. Only the first answer counts; it never blocks.
func (c *call) finish(value any, err error) {
	if c.done != nil {
		c.done(c.msg, err)
		return
	}
	select {
	case c.answer <- outcome{value, err}:
	default:
	}
}

// wait returns the answer, or the cause of the asker's context. A call that is still queued when halt
// is closed comes back as ErrStopped at once, however long the one before it takes.
func (c *call) wait(halt <-chan struct{}) (any, error) {
	asker, late := term.Ends(c.ctx)
	for {
		select {
		case o := <-c.answer:
			return o.value, o.err
		case <-asker:
			return nil, context.Cause(c.ctx)
		case <-late:
			return nil, context.Cause(c.ctx)
		case <-halt:
			if c.withdraw() {
				return nil, ErrStopped
			}
			halt = nil // Receive has begun: its answer is coming
		}
	}
}

// IgnoreDeadLetterLogging keeps Proto.Actor from logging the message itself.
func (*call) IgnoreDeadLetterLogging() {}
