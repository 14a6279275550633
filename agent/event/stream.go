// Package event has what happens on a node: its agents' steps, changes of the community, decisions
// and warnings, as one stream that any number of readers follow.
//
// Guarantees: Publish never blocks. Each subscriber gets the events in their order; one that falls
// too far behind gets an event "gap" that says how many it missed.
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
	// Seq counts the node's events from 1, from its start on. It orders them: the clock may be set
	// back. A gap has that of the last event that is missing.
	Seq   uint64
	Time  time.Time
	Type  string
	Node  string          // the node's name
	Agent string          // the member it is about; "" = the node itself
	Data  json.RawMessage // a JSON object with the fields of that type; nil = none
}

// MarshalJSON writes an event as one flat object: time, seq, type, node, agent and the fields of Data.
func (e Event) MarshalJSON() ([]byte, error) {
	head, err := json.Marshal(struct {
		Time  time.Time `json:"time"`
		Seq   uint64    `json:"seq"`
		Type  string    `json:"type"`
		Node  string    `json:"node"`
		Agent string    `json:"agent"`
	}{e.Time, e.Seq, e.Type, e.Node, e.Agent})
	if err != nil || len(e.Data) <= len(`{}`) {
		return head, err
	}
	return append(append(head[:len(head)-1], ','), e.Data[1:]...), nil
}

const (
	keptEvents   = 4096 // how far back `symbio events --since` can reach
	queuedEvents = 1024 // how far a subscriber may fall behind before it gets a gap
)

// Stream is a node's stream of events: a bounded memory of the recent ones and any number of
// subscribers, each with a bounded queue. Publishing never blocks. It is safe for concurrent use.
type Stream struct {
	node string

	mu     sync.Mutex
	last   uint64                     // guarded by mu; the Seq of the last event
	recent []Event                    // guarded by mu; the oldest first
	subs   map[*Subscription]struct{} // guarded by mu
}

// NewStream returns the stream of the node of that name.
func NewStream(node string) *Stream {
	return &Stream{node: node, subs: map[*Subscription]struct{}{}}
}

// Publish adds an event; fields is marshalled to its Data, and must be a struct or a map.
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
		e.recent = slices.Delete(e.recent, 0, keptEvents/4)
	}
	e.recent = append(e.recent, ev)
	for s := range e.subs {
		s.offer(ev)
	}
}

// Warning is the event of something that the person who runs the node should mend.
type Warning struct {
	Capability string `json:"capability,omitempty"`
	Why        string `json:"why"`
	Mend       string `json:"mend,omitempty"`
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

// Subscribe returns the recent events from the first that is not before since on, and all that
// follow; a zero since means none of the recent ones. Close it when done.
func (e *Stream) Subscribe(since time.Time) *Subscription {
	s := &Subscription{events: e, ready: make(chan struct{}, 1)}
	e.mu.Lock()
	defer e.mu.Unlock()
	if !since.IsZero() {
		if i := slices.IndexFunc(e.recent, func(ev Event) bool { return !ev.Time.Before(since) }); i >= 0 {
			s.queue = slices.Clone(e.recent[i:]) // also those that a clock set back since has made older
		}
		s.signal()
	}
	s.limit = len(s.queue) + queuedEvents
	e.subs[s] = struct{}{}
	return s
}

// Subscription is one subscriber's view of the events. Next is for one goroutine at a time.
type Subscription struct {
	events *Stream
	ready  chan struct{} // holds a token when the queue may have something
	// limit bounds the queue, and so the memory that a reader who does not read can hold.
	limit int // of the queue: the past that it was given, and queuedEvents

	mu     sync.Mutex
	queue  []Event // guarded by mu
	missed int     // guarded by mu
	lost   uint64  // guarded by mu; the Seq of the last that was missed
}

// offer queues an event, or counts it as missed when the subscriber is too far behind.
func (s *Subscription) offer(ev Event) {
	s.mu.Lock()
	if len(s.queue) >= s.limit {
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

// Next returns the next event. After a subscriber fell behind it gets one of type "gap" that says
// how many it missed.
func (s *Subscription) Next(ctx context.Context) (Event, error) {
	for {
		if ev, ok := s.Take(); ok {
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

// Take returns the next event without waiting; false if there is none yet.
func (s *Subscription) Take() (Event, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) > 0 {
		ev := s.queue[0]
		s.queue = s.queue[1:]
		return ev, true
	}
	if s.missed > 0 {
		data, err := json.Marshal(map[string]int{"missed": s.missed})
		s.missed = 0
		return Event{Seq: s.lost, Time: time.Now().UTC(), Type: "gap", Node: s.events.node, Data: data}, err == nil
	}
	return Event{}, false
}

// Close ends the subscription. Events that were not read are dropped.
func (s *Subscription) Close() {
	s.events.mu.Lock()
	defer s.events.mu.Unlock()
	delete(s.events.subs, s)
}
