package step

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"symbio/agent/tool"
	"symbio/community"
)

// EventName names what happens in steps. Programs declare theirs as constants.
type EventName string

// Event is something that happened.
type Event struct {
	Name EventName
	// Payload is what whoever emitted it said of it; nil = nothing. It is shared, and not to be
	// changed.
	Payload any
	Time    time.Time
	// Missed is how many events the listener was too slow for since the one before.
	Missed int
}

// waitingEvents is how many events may wait for a listener; what comes beyond is missed, and
// counted. A burst of a Map over a hundred values fits.
const waitingEvents = 256

// EventBus brings events to listeners. Put it around steps by With. The zero
// EventBus is ready, and safe for concurrent use. It must not be copied; Close it.
type EventBus struct {
	// Logger gets what a listener panics with. Default: silent.
	Logger *slog.Logger

	mu        sync.Mutex
	listeners []*listener // in the order in which they came; guarded by mu
	closed    bool        // guarded by mu
	running   sync.WaitGroup
}

// delivery is an event for one listener, which says in heard that it has handled it.
type delivery struct {
	Event
	received chan<- struct{}
}

type listener struct {
	name   EventName
	queue  chan delivery
	missed int // guarded by the bus's mu
}

// On has f called with each event of that name from now on: one at a time, in the order in which
// they were emitted, in a goroutine of its own. EmitBefore and EmitAfter return when it has handled
// the event, or after a second. So f may block and panic, and no step fails: events that it is too slow
// for it misses. off ends that, without waiting for f; it may be called again.
func (b *EventBus) On(name EventName, f func(Event)) (off func()) {
	l := &listener{name: name, queue: make(chan delivery, waitingEvents)}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return func() {}
	}
	b.listeners = append(b.listeners, l)
	b.running.Go(func() {
		for e := range l.queue {
			b.dispatch(f, e.Event)
			e.received <- struct{}{}
		}
	})
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if i := slices.Index(b.listeners, l); i >= 0 {
			b.listeners = slices.Delete(b.listeners, i, i+1)
			close(l.queue)
		}
	}
}

func (b *EventBus) dispatch(f func(Event), e Event) {
	defer func() {
		if p := recover(); p != nil && b.Logger != nil {
			b.Logger.Error("listener panicked", "event", string(e.Name), "err", fmt.Sprint(p))
		}
	}()
	f(e)
}

// emitTimeout is how long a step waits for a listener: one that blocks holds it up that long, and
// no longer.
const emitTimeout = time.Second

// Emit tells the listeners of an event. It never blocks. A nil bus has no listeners.
func (b *EventBus) Emit(name EventName, payload any) {
	if b != nil {
		b.send(name, payload)
	}
}

// emitAndWait is Emit, and returns when every listener has handled the event and those before it,
// or after patience.
func (b *EventBus) emitAndWait(ctx context.Context, name EventName, payload any) {
	if b == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, emitTimeout)
	defer cancel()
	heard, sent := b.send(name, payload)
	for range sent {
		select {
		case <-heard:
		case <-ctx.Done():
			return
		}
	}
}

// send returns how many listeners will say in heard that they have handled the event.
func (b *EventBus) send(name EventName, payload any) (heard chan struct{}, sent int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	heard = make(chan struct{}, len(b.listeners)) // with room for all, so that none waits for who has left
	e := Event{Name: name, Payload: payload, Time: time.Now()}
	for _, l := range b.listeners {
		if l.name != name {
			continue
		}
		e.Missed = l.missed
		select {
		case l.queue <- delivery{e, heard}:
			l.missed = 0
			sent++
		default:
			l.missed++
		}
	}
	return heard, sent
}

// Close ends all listening, and returns when every listener has heard what was emitted before. No
// listener may call it.
func (b *EventBus) Close() {
	b.mu.Lock()
	for _, l := range b.listeners {
		close(l.queue)
	}
	b.listeners, b.closed = nil, true
	b.mu.Unlock()
	b.running.Wait()
}

// EmitBefore is s, with an event each time before it runs. payload makes what the event carries of
// the input; nil is nothing.
//
// Events go to the *EventBus of the context. Where the step runs for an agent's tool call, or for a
// call from another node, who watches that is told of the event too, by its name, as progress: so
// it is in the node's event stream.
func EmitBefore[In, Out any](name EventName, payload func(In) any, s Step[In, Out]) Step[In, Out] {
	return Func(func(ctx context.Context, in In) (Out, error) {
		emit(ctx, name, payload, in)
		return s.Run(ctx, in)
	})
}

// EmitAfter is EmitBefore after each run that succeeds, with a payload made of the output.
func EmitAfter[In, Out any](name EventName, payload func(Out) any, s Step[In, Out]) Step[In, Out] {
	return Func(func(ctx context.Context, in In) (Out, error) {
		out, err := s.Run(ctx, in)
		if err == nil {
			emit(ctx, name, payload, out)
		}
		return out, err
	})
}

func emit[T any](ctx context.Context, name EventName, payload func(T) any, v T) {
	var carried any
	if payload != nil {
		carried = payload(v)
	}
	bus, _ := lookup[*EventBus](ctx)
	bus.emitAndWait(ctx, name, carried)
	p := community.Progress{Message: string(name)}
	tool.Report(ctx, p)
	community.Report(ctx, p)
}
