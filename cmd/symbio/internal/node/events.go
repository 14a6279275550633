package node

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
	Time  time.Time
	Type  string
	Node  string          // the node's name
	Agent string          // the member it is about; "" = the node itself
	Data  json.RawMessage // a JSON object with the fields of that type; nil = none
}

// MarshalJSON writes an event as one flat object: time, type, node, agent and the fields of Data.
func (e Event) MarshalJSON() ([]byte, error) {
	head, err := json.Marshal(struct {
		Time  time.Time `json:"time"`
		Type  string    `json:"type"`
		Node  string    `json:"node"`
		Agent string    `json:"agent"`
	}{e.Time, e.Type, e.Node, e.Agent})
	if err != nil || len(e.Data) <= len(`{}`) {
		return head, err
	}
	return append(append(head[:len(head)-1], ','), e.Data[1:]...), nil
}

const (
	keptEvents   = 4096 // how far back `symbio events --since` can reach
	queuedEvents = 1024 // how far a subscriber may fall behind before it gets a gap
)

// Events is a node's stream of events: a bounded memory of the recent ones and any number of
// subscribers, each with a bounded queue. Publishing never blocks. It is safe for concurrent use.
type Events struct {
	node string

	mu     sync.Mutex
	recent []Event           // guarded by mu; the oldest first
	subs   map[*Tap]struct{} // guarded by mu
}

// NewEvents returns the stream of the node of that name.
func NewEvents(node string) *Events {
	return &Events{node: node, subs: map[*Tap]struct{}{}}
}

// Publish adds an event; fields is marshalled to its Data, and must be a struct or a map.
func (e *Events) Publish(kind, agent string, fields any) {
	data, err := json.Marshal(fields)
	if err != nil || len(data) == 0 || data[0] != '{' {
		data = nil
	}
	ev := Event{Time: time.Now().UTC(), Type: kind, Node: e.node, Agent: agent, Data: data}
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.recent) == keptEvents {
		e.recent = slices.Delete(e.recent, 0, keptEvents/4)
	}
	e.recent = append(e.recent, ev)
	for s := range e.subs {
		s.offer(ev)
	}
}

// Subscribe returns the recent events from since on and all that follow; a zero since means none of
// the recent ones. Close it when done.
func (e *Events) Subscribe(since time.Time) *Tap {
	s := &Tap{events: e, ready: make(chan struct{}, 1)}
	e.mu.Lock()
	defer e.mu.Unlock()
	if !since.IsZero() {
		for _, ev := range e.recent {
			if !ev.Time.Before(since) {
				s.queue = append(s.queue, ev)
			}
		}
		s.signal()
	}
	s.limit = len(s.queue) + queuedEvents
	e.subs[s] = struct{}{}
	return s
}

// Tap is one subscriber's view of the events. Next is for one goroutine at a time.
type Tap struct {
	events *Events
	ready  chan struct{} // holds a token when the queue may have something
	limit  int           // of the queue: the past that it was given, and queuedEvents

	mu     sync.Mutex
	queue  []Event // guarded by mu
	missed int     // guarded by mu
}

// offer queues an event, or counts it as missed when the subscriber is too far behind.
func (s *Tap) offer(ev Event) {
	s.mu.Lock()
	if len(s.queue) >= s.limit {
		s.missed++
	} else {
		s.queue = append(s.queue, ev)
	}
	s.mu.Unlock()
	s.signal()
}

func (s *Tap) signal() {
	select {
	case s.ready <- struct{}{}:
	default:
	}
}

// Next returns the next event. After a subscriber fell behind it gets one of type "gap" that says
// how many it missed.
func (s *Tap) Next(ctx context.Context) (Event, error) {
	for {
		if ev, ok := s.take(); ok {
			return ev, nil
		}
		select {
		case <-s.ready:
		case <-ctx.Done():
			return Event{}, context.Cause(ctx)
		}
	}
}

func (s *Tap) take() (Event, bool) {
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
		return Event{Time: time.Now().UTC(), Type: "gap", Node: s.events.node, Data: data}, err == nil
	}
	return Event{}, false
}

// Close ends the subscription.
func (s *Tap) Close() {
	s.events.mu.Lock()
	defer s.events.mu.Unlock()
	delete(s.events.subs, s)
}
