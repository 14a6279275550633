package actor

import (
	"context"
	"sync/atomic"

	proto "github.com/asynkron/protoactor-go/actor"
)

// gate counts the calls that wait for one actor and admits at most limit, and none after close. One
// atomic word holds both the flag and the count, so that the count only falls after close: an actor
// that finds it at zero knows that no sender is between acquire and the queue.
type gate struct {
	word  atomic.Uint32 // closed, and the count
	limit uint32
}

const (
	gateClosed = 1 << 31
	gateMax    = gateClosed - 1
)

// acquire counts a call in, or says why not.
func (g *gate) acquire() error {
	for {
		w := g.word.Load()
		if w&gateClosed != 0 {
			return ErrStopped
		}
		if w >= g.limit {
			return ErrBusy
		}
		if g.word.CompareAndSwap(w, w+1) {
			return nil
		}
	}
}

// release counts a call out; it returns how many are left.
func (g *gate) release() (left uint32) { return g.word.Add(^uint32(0)) &^ gateClosed }

// close reports whether it was this call that closed the gate.
func (g *gate) close() bool { return g.word.Or(gateClosed)&gateClosed == 0 }

func (g *gate) closed() bool { return g.word.Load()&gateClosed != 0 }
func (g *gate) empty() bool  { return g.word.Load()&^gateClosed == 0 }

// mailbox stands around a mailbox of Proto.Actor's, on both of its sides: what goes in is counted and
// refused when it is too much, and what comes out after the actor has stopped is answered, which
// Proto.Actor would drop.
type mailbox struct {
	proto.Mailbox
	sys   *System
	ref   *Ref
	actor proto.MessageInvoker
}

func newMailbox(s *System) *mailbox { return &mailbox{Mailbox: newEngineMailbox(), sys: s} }

// stockMailbox: the lock-free one takes 600 bytes less for an idle actor than proto.Unbounded, and is no
// slower behind our gate.
var newEngineMailbox = proto.UnboundedLockfree()

// RegisterHandlers puts the mailbox between Proto.Actor's mailbox and its actor.
func (m *mailbox) RegisterHandlers(actor proto.MessageInvoker, d proto.Dispatcher) {
	pid := actor.(proto.Context).Self()
	m.actor = actor
	m.ref = m.sys.find(pid.Id)
	m.ref.pid = pid
	m.Mailbox.RegisterHandlers((*invoker)(m), d)
}

// PostUserMessage runs on the sender's goroutine.
func (m *mailbox) PostUserMessage(msg any) {
	if c, ok := msg.(*call); ok {
		if c.refused = m.ref.gate.acquire(); c.refused != nil {
			return
		}
	}
	m.Mailbox.PostUserMessage(msg)
}

// invoker is the mailbox's other side: what Proto.Actor's mailbox hands its messages to, on the one
// goroutine that works it off.
type invoker mailbox

func (i *invoker) InvokeUserMessage(msg any) {
	c, ok := msg.(*call)
	if !ok {
		i.actor.InvokeUserMessage(msg)
		return
	}
	r := i.ref
	left := r.gate.release()
	switch {
	case r.gate.closed():
		c.finish(nil, ErrStopped)
		if r.ended && left == 0 {
			r.finish()
		}
	case c.begin():
		i.actor.InvokeUserMessage(c)
	default: // the asker gave up, or the context of a Post ended
		c.finish(nil, context.Cause(c.ctx))
	}
}

func (i *invoker) InvokeSystemMessage(msg any) {
	switch msg.(type) {
	case *proto.Restart:
		i.restart(msg)
	case *proto.Stop:
		i.actor.InvokeSystemMessage(msg)
		i.stopped()
	default:
		i.actor.InvokeSystemMessage(msg)
	}
}

func (i *invoker) EscalateFailure(reason, msg any) { i.actor.EscalateFailure(reason, msg) }

// restart makes a new behavior, and only then lets Proto.Actor resume the mailbox.
func (i *invoker) restart(msg any) {
	b, err := i.ref.newBehavior()
	if err != nil {
		i.actor.EscalateFailure(err, msg)
		return
	}
	i.ref.behavior = b
	i.actor.InvokeSystemMessage(msg)
}

// stopped has what is still queued handed out, to be answered. An actor that is stopped while it waits
// for its restart has a suspended mailbox, which would keep everything for ever.
func (i *invoker) stopped() {
	if i.ref.ended {
		return
	}
	i.ref.ended = true
	if i.ref.gate.empty() {
		i.ref.finish()
		return
	}
	i.Mailbox.PostSystemMessage(&proto.ResumeMailbox{})
}

// adapter is what Proto.Actor takes for the actor. It has no state: each call knows its own.
type adapter struct{}

func (adapter) Receive(c proto.Context) {
	if call, ok := c.Message().(*call); ok {
		call.ref.receive(call, func(err error) { c.(proto.MessageInvoker).EscalateFailure(err, nil) })
	}
}
