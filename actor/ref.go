package actor

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"

	proto "github.com/asynkron/protoactor-go/actor"

	"symbio/internal/actor/term"
)

// Ref is a handle on an actor. It stays valid, and refuses, when the actor has ended; it never reaches
// another actor that has the same name later. The zero Ref and a nil one refuse with ErrNoActor.
type Ref struct {
	sys        *System
	props      Props // with the name that was generated
	pid        *proto.PID
	registered bool // guarded by sys.mu

	gate       gate
	queue      proto.Mailbox          // of calls that the gate has admitted
	stopSignal atomic.Pointer[signal] // made by the first Ask, closed when the gate is

	// Used by the goroutine that works off the mailbox only; there is one at a time.
	behavior Behavior
	ended    bool // Proto.Actor has stopped it; what is queued is still to be answered

	killed  atomic.Bool
	current atomic.Pointer[term.Term] // the context of the call in flight

	mu      sync.Mutex
	over    bool          // all is done, and done is closed or will not be made; guarded by mu
	done    chan struct{} // made by the first who waits; guarded by mu
	failure *failureState // made by the first failure; guarded by mu
}

// signal holds a channel that is created on first use: most actors are never asked while they stop.
type signal struct{ c chan struct{} }

// Name returns the name that the actor was spawned with, or the generated one.
func (r *Ref) Name() string { return r.props.Name }

// Ask sends msg and waits for the answer: what Receive returned, value and error. It also returns
//
//   - ErrBusy, at once, when the mailbox is full;
//   - ErrStopped when the actor is stopping, or stops while msg is queued: Receive has not seen msg; when
//     the error is context.Canceled as well, Receive had begun, and gave up because the actor must end;
//   - ErrNoActor when it had ended before (then it is ErrStopped too);
//   - a *PanicError, which is ErrPanicked, when Receive panicked;
//   - the cause of ctx when that ends first. A message that is still queued then is never handled, and
//     one that is being handled sees its context end.
func (r *Ref) Ask(ctx context.Context, msg any) (any, error) {
	c := &call{ref: r, ctx: ctx, msg: msg, answer: make(chan outcome, 1)}
	if err := r.send(c); err != nil {
		return nil, err
	}
	return c.wait(r.stopping())
}

// send queues a call, or returns why it is refused. It does not block. It passes Proto.Actor by, which would drop the
// call when the actor has ended meanwhile: the gate keeps it from ending while a call is on its way.
func (r *Ref) send(c *call) error {
	if r == nil || r.sys == nil {
		return ErrNoActor
	}
	if c.ctx.Err() != nil {
		return context.Cause(c.ctx)
	}
	if err := r.gate.acquire(); err != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.over {
			return errEnded
		}
		return err
	}
	r.queue.PostUserMessage(c)
	return nil
}

// Post is Ask for a sender that does not wait. Unless it returns an error, which is ErrBusy, ErrStopped or
// ErrNoActor as for Ask, done is called once: with msg, and the error that Ask would have returned or nil. The
// actor calls it before it goes on, so it must neither block nor panic. A Post is never withdrawn: when ctx
// ends, a message that is still queued comes to done in its turn, unhandled. A ctx that is a Term (package term) of this Post
// is itself the context of Receive; done must close it.
func (r *Ref) Post(ctx context.Context, msg any, done func(msg any, err error)) error {
	return r.send(&call{ref: r, ctx: ctx, msg: msg, done: done})
}

// Tell is Post for a sender that does not want to know what becomes of msg. Receive's context has no deadline.
func (r *Ref) Tell(msg any) error { return r.Post(context.Background(), msg, func(any, error) {}) }

// Stop ends the actor and returns when it has ended. New messages are refused from now on, queued ones
// are answered with ErrStopped, and the one in flight may finish. When ctx ends first, the context of
// the one in flight is canceled with the cause ErrStopped, and Stop returns an error that wraps the
// cause of ctx; the actor ends when that Receive returns.
//
// Stop may be called any number of times and while others wait in it; nil says that the actor has ended,
// for whatever reason. Called from the actor's own Receive, it waits for itself until ctx ends.
func (r *Ref) Stop(ctx context.Context) error {
	if r == nil || r.sys == nil {
		return ErrNoActor
	}
	r.close(nil)
	if err := r.await(ctx); err != nil {
		r.kill()
		return fmt.Errorf("stop actor %s: %w", r.props.Name, err)
	}
	return nil
}

// close refuses new messages and makes Proto.Actor stop the actor. The first one decides why.
func (r *Ref) close(why error) {
	if !r.gate.close() {
		return
	}
	r.mu.Lock()
	if r.failure == nil && why != nil {
		r.failure = &failureState{}
	}
	if r.failure != nil {
		r.failure.why = why
		r.cancelRestart()
	}
	r.mu.Unlock()
	close(r.stopping())
	r.sys.root.Stop(r.pid)
}

// stopping returns the channel that close closes.
func (r *Ref) stopping() chan struct{} {
	if h := r.stopSignal.Load(); h != nil {
		return h.c
	}
	r.stopSignal.CompareAndSwap(nil, &signal{make(chan struct{})})
	return r.stopSignal.Load().c
}

// await returns when the actor has ended, or the cause of ctx.
func (r *Ref) await(ctx context.Context) error {
	r.mu.Lock()
	if r.over {
		r.mu.Unlock()
		return nil
	}
	if r.done == nil {
		r.done = make(chan struct{})
	}
	done := r.done
	r.mu.Unlock()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// kill ends the context of the call in flight, and of one that begins now.
func (r *Ref) kill() {
	r.killed.Store(true)
	if ctx := r.current.Load(); ctx != nil {
		ctx.End(ErrStopped)
	}
}

// newBehavior calls New; a panic of it is an error.
func (r *Ref) newBehavior() (b Behavior, err error) {
	defer func() {
		if v := recover(); v != nil {
			b, err = nil, &PanicError{r.props.Name, v, debug.Stack()}
		}
	}()
	b, err = r.props.New()
	if err == nil && b == nil {
		err = errors.New("no Behavior came from New")
	}
	return b, err
}

// receive lets the behavior handle c. When it panics (or ends its goroutine) the asker is told at once,
// and the error is given to fail before anything else runs.
func (r *Ref) receive(c *call, fail func(error)) {
	ctx, own := c.ctx.(*term.Term)
	if own = own && c.done != nil; !own {
		ctx = term.New(c.ctx)
	}
	r.current.Store(ctx)
	if r.killed.Load() {
		ctx.End(ErrStopped)
	}
	returned := false
	defer func() {
		if returned {
			return
		}
		v := recover()
		if v == nil {
			v = "Receive called runtime.Goexit"
		}
		r.current.Store(nil)
		err := &PanicError{r.props.Name, v, debug.Stack()}
		ctx.End(err)
		c.finish(nil, err)
		fail(err)
	}()
	value, err := r.behavior.Receive(ctx, c.msg)
	returned = true
	r.current.Store(nil)
	if err != nil {
		err = r.explain(c, err)
	}
	c.finish(value, err)
	if !own {
		ctx.Close()
	}
}

// explain turns a cancellation that the asker knows nothing of into ErrStopped.
func (r *Ref) explain(c *call, err error) error {
	if r.killed.Load() && errors.Is(err, context.Canceled) && (c.ctx.Err() == nil || context.Cause(c.ctx) == ErrStopped) {
		err = fmt.Errorf("%w: %w", ErrStopped, err)
	}
	return err
}

// finish is the last that happens to an actor: everything queued has been answered.
func (r *Ref) finish() {
	r.behavior = nil
	r.mu.Lock()
	var why error
	if r.failure != nil {
		why = r.failure.why
	}
	r.mu.Unlock()
	r.report(why)
	r.sys.remove(r)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over = true
	if r.done != nil {
		close(r.done)
	}
}

// report tells the owner, or else the log, how the actor ended.
func (r *Ref) report(why error) {
	if r.props.Stopped == nil {
		if why != nil {
			r.sys.cfg.Logger.Error("actor stopped", "actor", r.props.Name, "err", why)
		}
		return
	}
	defer func() {
		if v := recover(); v != nil {
			r.sys.cfg.Logger.Error("stopped callback panicked", "failure", &PanicError{r.props.Name, v, debug.Stack()})
		}
	}()
	r.props.Stopped(why)
}
