// Package event has what happens on a node: its agents' steps, changes of the community, decisions
// and warnings, as one stream that any number of readers follow.
//
// Guarantees: Publish never blocks. Each subscriber gets the events in their order; one that falls
// too far behind gets an event "gap" that says how many it missed. With a Store events outlive the
// node, and their numbers go on after a restart.
package event

import (
	"context"
	"slices"
	"sync"
	"time"
)

const (
	// keptEvents is the number of events that Stream has in memory: how far `symbio events --since`
	// can reach back without a Store.
	keptEvents = 4096
	// queuedEvents is how many events a subscriber may fall behind before it gets a gap.
	queuedEvents = 1024
)

// Stream is a node's stream of events: a bounded memory of the recent ones and any number of
// subscribers, each with a bounded queue. Publishing never blocks. It is safe for concurrent use.
//
// Stream.mu is locked before Subscription.mu, never the other way round. It is held while an event
// is given to all subscribers, so that all of them see the same order.
type Stream struct {
	// node is the name of the node in all events.
	node string

	mu sync.Mutex
	// last is the Seq of the last event; guarded by mu.
	last uint64
	// recent has at most keptEvents events, the oldest first; guarded by mu.
	recent []Event
	// subs are the open subscriptions; guarded by mu.
	subs map[*Subscription]struct{}
	// writer keeps events in a store; nil = they are not kept.
	writer *writer
}

// NewStream returns the stream of the node of that name.
func NewStream(node string) *Stream { return &Stream{node: node, subs: map[*Subscription]struct{}{}} }

// Publish adds an event and gives it the next Seq, the present time and the node's name. It never
// blocks: a subscriber that is too far behind misses the event. The caller must not change what ev
// refers to afterwards.
func (e *Stream) Publish(ev Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.last++
	ev.Seq, ev.Time, ev.Node = e.last, time.Now().UTC(), e.node
	if len(e.recent) == keptEvents {
		// A quarter at a time, so that the events need not be moved for each new one.
		e.recent = slices.Delete(e.recent, 0, keptEvents/4)
	}
	e.recent = append(e.recent, ev)
	if e.writer != nil {
		e.writer.add(ev)
	}
	for s := range e.subs {
		s.offer(ev)
	}
}

// Warn publishes a warning: why something is wrong, and how to mend it, "" if that is clear.
func (e *Stream) Warn(why, mend string) {
	e.Publish(Event{Type: TypeWarning, Why: why, Part: Warning{Mend: mend}})
}

// subscription returns a Subscription that does not follow the stream yet.
func (e *Stream) subscription() *Subscription {
	s := &Subscription{events: e, ready: make(chan struct{}, 1)}
	s.signal()
	return s
}

// Subscribe returns the events from the first that is not before since on, and all that follow; a
// zero since means only the latter. Events that are only in the store come from Next, not from Take.
// Close it when done.
func (e *Stream) Subscribe(since time.Time) *Subscription {
	s := e.subscription()
	e.mu.Lock()
	defer e.mu.Unlock()
	after := e.last
	if !since.IsZero() {
		i := slices.IndexFunc(e.recent, func(ev Event) bool { return !ev.Time.Before(since) })
		if e.writer != nil && (i == 0 || len(e.recent) == 0) { // the memory does not reach further back than since
			s.past = &past{since: since}
			return s
		}
		if i >= 0 {
			// The order of Seq counts: if the clock was set back, some of these events have a time
			// before since.
			after = e.recent[i].Seq - 1
		}
	}
	e.attach(s, after)
	return s
}

// SubscribeLast returns the last n events in memory, fewer if there are not as many, and all that
// follow. Close it when done.
func (e *Stream) SubscribeLast(n int) *Subscription {
	s := e.subscription()
	e.mu.Lock()
	defer e.mu.Unlock()
	after := e.last
	if first := max(0, len(e.recent)-n); first < len(e.recent) {
		after = e.recent[first].Seq - 1
	}
	e.attach(s, after)
	return s
}

// Subscription is one subscriber's view of the events. Next, Take and Ready are for one goroutine
// at a time. A Subscription starts no goroutine.
type Subscription struct {
	events *Stream
	// ready holds a token when the queue may have something.
	ready chan struct{}
	// past is set while the events of the store come first; used by Next only.
	past *past
	// limit bounds the queue, and so the memory that a reader who does not read can hold. It is the
	// number of past events that the queue began with, and queuedEvents.
	limit int

	mu sync.Mutex
	// queue has the events that were not taken yet, in order; guarded by mu.
	queue []Event
	// missed is the number of events that did not fit since the last gap; guarded by mu.
	missed int
	// lost is the Seq of the last event that did not fit; guarded by mu.
	lost uint64
}

// offer queues an event, or counts it as missed when the subscriber is too far behind. After a
// missed event all are missed until Take has returned the gap, so that the order of Seq holds.
func (s *Subscription) offer(ev Event) {
	s.mu.Lock()
	if s.missed > 0 || len(s.queue) >= s.limit {
		s.missed, s.lost = s.missed+1, ev.Seq
	} else {
		s.queue = append(s.queue, ev)
	}
	s.mu.Unlock()
	s.signal()
}

// signal wakes Next. It does not block: a token that is in ready already is enough.
func (s *Subscription) signal() {
	select {
	case s.ready <- struct{}{}:
	default:
	}
}

// Next returns the next event, and waits for one if necessary. After a subscriber fell behind it
// gets one of type "gap" that says how many it missed. The error is the cause of ctx, or the error of the
// store, after which the next call tries again; Close
// does not end a waiting Next.
func (s *Subscription) Next(ctx context.Context) (Event, error) {
	for {
		ev, ok := s.Take()
		if s.past != nil && !ok {
			var err error
			if ev, ok, err = s.takePast(ctx); err == nil && !ok {
				continue
			} else if err != nil {
				return Event{}, err
			}
		}
		if ok {
			return ev, nil
		}
		select {
		case <-s.ready:
		case <-ctx.Done():
			return Event{}, context.Cause(ctx)
		}
	}
}

// Ready has a value when Take may have an event. Call Take until it returns false, because several
// events can come with one value.
func (s *Subscription) Ready() <-chan struct{} { return s.ready }

// Take returns the next event without waiting; false if there is none yet. A gap comes after the
// events that were queued before it, with the Seq of the last event that was missed.
func (s *Subscription) Take() (Event, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) > 0 {
		ev := s.queue[0]
		s.queue = s.queue[1:]
		return ev, true
	}
	if s.missed > 0 {
		ev := gap(s.events.node, s.lost, s.missed)
		s.missed = 0
		return ev, true
	}
	return Event{}, false
}

// Close ends the subscription: the queue gets no more events. Those in it can still be taken. It
// may be called several times.
func (s *Subscription) Close() {
	s.events.mu.Lock()
	defer s.events.mu.Unlock()
	delete(s.events.subs, s)
}
