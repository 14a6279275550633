// Package event has what happens on a node: its agents' steps, changes of the community, decisions
// and warnings, as one stream that any number of readers follow.
//
// Guarantees: Publish never blocks. Each subscriber gets the events in their order; one that falls
// too far behind gets an event "gap" that says how many it missed. With a Store events outlive the
// node, and their numbers go on after a restart.
package event

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"
)

// Event is something that happened on a node: a change of the community, a step of an agent, a call
// from another node.
type Event struct {
	// Seq counts the node's events from 1, over its restarts if they are kept. It orders them: the
	// clock may be set back. A gap has that of the last event that is missing.
	Seq  uint64
	Time time.Time
	Type string
	// Node is the node's name.
	Node string
	// Agent is the id of the member that the event is about; "" means the node itself.
	Agent string
	// Data is a JSON object with the fields of that type (Fields); nil means that there are none.
	Data json.RawMessage
}

// MarshalJSON writes an event as one flat object: time, seq, type, node, agent and the fields of
// Data. Data must not have fields of these names, which would then be there twice.
func (e Event) MarshalJSON() ([]byte, error) {
	text, err := json.Marshal(head{e.Time, e.Seq, e.Type, e.Node, e.Agent})
	if err != nil || len(e.Data) <= len(`{}`) {
		return text, err
	}
	// Both are objects: the } of the first becomes the comma before the fields of the second.
	return append(append(text[:len(text)-1], ','), e.Data[1:]...), nil
}

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
func NewStream(node string) *Stream {
	return &Stream{node: node, subs: map[*Subscription]struct{}{}}
}

// Publish adds an event and gives it the next Seq and the present time. fields is marshalled to its
// Data, and must be a struct or a map; otherwise, or if it cannot be marshalled, the event has no
// Data. It never blocks: a subscriber that is too far behind misses the event. Later changes of
// fields have no effect.
func (e *Stream) Publish(kind, agent string, fields any) {
	data, err := json.Marshal(fields)
	if err != nil || len(data) == 0 || data[0] != '{' {
		data = nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.last++
	ev := Event{Seq: e.last, Time: time.Now().UTC(), Type: kind, Node: e.node, Agent: agent, Data: data}
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

// Warning is the event of something that the person who runs the node should mend.
type Warning struct {
	// Capability is the capability that is concerned; "" if it is none.
	Capability string `json:"capability,omitempty"`
	// Why is what is wrong, Mend what to do about it.
	Why  string `json:"why"`
	Mend string `json:"mend,omitempty"`
}

// Node is the event of something that happened to a node or to the connection to it.
type Node struct {
	ID    string `json:"id,omitempty"`
	Name  string `json:"name,omitempty"`
	State string `json:"state,omitempty"`
	Addr  string `json:"addr,omitempty"`
	Why   string `json:"why,omitempty"`
}

// Warn publishes a warning.
func (e *Stream) Warn(w Warning) { e.Publish("warning", "", w) }

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
// gets one of type "gap" that says how many it missed. The error is the cause of ctx, or that of the
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
