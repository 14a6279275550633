package event

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// Store keeps events over restarts. It is safe for concurrent use.
type Store interface {
	// AppendEvents adds events in the order of their Seq: all of them, or none and an error.
	AppendEvents(events []Event) error
	// Events returns at most limit events whose Seq is above after and below before, in order. It
	// does not set Node.
	Events(ctx context.Context, after, before uint64, limit int) ([]Event, error)
	// FirstEvent returns the lowest Seq of the events that are not before since; 0 = there is none.
	FirstEvent(ctx context.Context, since time.Time) (uint64, error)
	// LastEvent returns the event with the highest Seq; the zero Event if there is none.
	LastEvent(ctx context.Context) (Event, error)
	// PruneEvents deletes the events before a time; one gap stays in their place.
	PruneEvents(ctx context.Context, before time.Time) error
}

const (
	// maxWaiting is how many events may wait for the store. It is what a burst makes while a disk is
	// busy; more are dropped, and a gap stands for them.
	maxWaiting = 4096
	// writeDelay is how long the first event waits for others, which then share its transaction.
	// retryDelay is the time between two attempts if the store fails.
	writeDelay = 100 * time.Millisecond
	retryDelay = 5 * time.Second
	// maxUnkept is by how much the numbers jump after a node that did not stop in order: it may have
	// given out numbers that the store does not have, and no number may mean two events.
	maxUnkept = 10_000
	// pageSize is how many events are read from the store at once.
	pageSize = 256
)

// writer is the part of a Stream that keeps events in a store. Stream.mu guards the fields that
// change.
type writer struct {
	store   Store
	wake    chan struct{} // holds a token when waiting may have something
	waiting []Event       // the events that the store does not have yet, in order; at most maxWaiting
	missed  int           // how many events were dropped since the last gap
	lost    uint64        // the Seq of the last one of them
	failing bool          // the store failed the last time
}

// OpenStream returns the stream of the node of that name, which keeps its events in a store. Its
// numbers go on where the store ends. Call Run, which writes them.
func OpenStream(node string, s Store) (*Stream, error) {
	last, err := s.LastEvent(context.Background())
	if err != nil {
		return nil, fmt.Errorf("reading the last event: %w", err)
	}
	e := NewStream(node)
	e.writer = &writer{store: s, wake: make(chan struct{}, 1)}
	if e.last = last.Seq; e.last > 0 && last.Type != TypeStopped {
		e.last += maxUnkept
	}
	return e, nil
}

// add queues an event for the store. It does not block: if too many wait, the event is dropped. The
// caller holds Stream.mu.
func (w *writer) add(ev Event) {
	if ev.IsFrequent() {
		return
	}
	if len(w.waiting) >= maxWaiting-1 {
		w.missed, w.lost = w.missed+1, ev.Seq
		return
	}
	w.addGap()
	w.waiting = append(w.waiting, ev)
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// addGap queues a gap for the events that were dropped, if any. The caller holds Stream.mu.
func (w *writer) addGap() {
	if w.missed > 0 && len(w.waiting) < maxWaiting {
		w.waiting = append(w.waiting, gap("", w.lost, w.missed))
		w.missed = 0
	}
}

// gap returns the event that stands for missing events; seq is the number of the last one.
func gap(node string, seq uint64, missed int) Event {
	return Event{Seq: seq, Time: time.Now().UTC(), Type: TypeGap, Node: node, Part: Gap{Missed: missed}}
}

// Run writes the events to the store until ctx ends, in groups. Then it publishes an event "stopped",
// writes the rest and returns. It returns at once if the stream has no store.
func (e *Stream) Run(ctx context.Context) {
	if e.writer == nil {
		return
	}
	for delay := writeDelay; ctx.Err() == nil; {
		select {
		case <-e.writer.wake:
		case <-ctx.Done():
			continue
		}
		timer := time.NewTimer(delay)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			continue
		}
		delay = writeDelay
		if !e.write() {
			delay = retryDelay
		}
	}
	e.Publish(Event{Type: TypeStopped})
	e.write()
}

// write writes what waits. It returns false if the store failed; then the events go on waiting, and
// the first time a warning is published.
func (e *Stream) write() bool {
	w := e.writer
	e.mu.Lock()
	w.addGap()
	all := slices.Clone(w.waiting)
	e.mu.Unlock()
	if len(all) == 0 {
		return true
	}
	err := w.store.AppendEvents(all)
	e.mu.Lock()
	first := err != nil && !w.failing
	w.failing = err != nil
	if err == nil {
		w.waiting = slices.Delete(w.waiting, 0, len(all))
	}
	again := err != nil || w.missed > 0
	e.mu.Unlock()
	if first {
		e.Warn("events cannot be kept now: "+err.Error(), "")
	}
	if again {
		select {
		case w.wake <- struct{}{}:
		default:
		}
	}
	return err == nil
}

// Prune deletes the kept events before a time.
func (e *Stream) Prune(ctx context.Context, before time.Time) error {
	if e.writer == nil {
		return nil
	}
	return e.writer.store.PruneEvents(ctx, before)
}

// past is where a subscription is in the events of the store, which come before those in memory.
type past struct {
	since time.Time // where to begin; zero = after
	after uint64    // the Seq of the last event that was read
	page  []Event   // was read and not returned yet
}

// SubscribeAfter returns the kept events after the one with that Seq, and all that follow. If some of
// those are not kept any more, an event "gap" comes in their place. Close it when done.
func (e *Stream) SubscribeAfter(after uint64) *Subscription {
	s := e.subscription()
	e.mu.Lock()
	defer e.mu.Unlock()
	if after > e.last { // the events were lost, and their numbers began anew
		s.queue, after = append(s.queue, gap(e.node, 0, int(after-e.last))), 0
	}
	if e.writer != nil {
		s.past = &past{after: after}
		return s
	}
	if first := e.firstSeq(); after+1 < first {
		s.queue, after = append(s.queue, gap(e.node, first-1, int(first-1-after))), first-1
	}
	e.attach(s, after)
	return s
}

// firstSeq returns the Seq of the first event in memory, or of the next event if there is none. All
// events before it that are kept are in the store. The caller holds mu.
func (e *Stream) firstSeq() uint64 {
	first := e.last + 1
	if len(e.recent) > 0 {
		first = e.recent[0].Seq
	}
	if e.writer != nil && len(e.writer.waiting) > 0 {
		first = min(first, e.writer.waiting[0].Seq)
	}
	return first
}

// attach queues the events in memory after the one with that Seq, and lets the subscription follow.
// The caller holds mu.
func (e *Stream) attach(s *Subscription, after uint64) {
	recent := e.last + 1
	if len(e.recent) > 0 {
		recent = e.recent[0].Seq
	}
	if e.writer != nil {
		for _, ev := range e.writer.waiting {
			if ev.Seq > after && ev.Seq < recent {
				s.queue = append(s.queue, ev)
			}
		}
	}
	for _, ev := range e.recent {
		if ev.Seq > after {
			s.queue = append(s.queue, ev)
		}
	}
	s.limit = len(s.queue) + queuedEvents
	e.subs[s] = struct{}{}
	s.signal()
}

// takePast returns the next event of the store. ok is false if there is none: then the subscription
// follows the stream, or must be asked again.
func (s *Subscription) takePast(ctx context.Context) (ev Event, ok bool, err error) {
	p := s.past
	if len(p.page) == 0 {
		if err := s.readPage(ctx); err != nil {
			return Event{}, false, fmt.Errorf("reading the kept events: %w", err)
		}
	}
	if len(p.page) == 0 {
		return Event{}, false, nil
	}
	ev, p.page = p.page[0], p.page[1:]
	ev.Node = s.events.node
	return ev, true, nil
}

// readPage reads the next events of the store. When the memory goes on from here, it ends the past
// instead.
func (s *Subscription) readPage(ctx context.Context) error {
	e, p := s.events, s.past
	var found uint64
	if !p.since.IsZero() {
		var err error
		if found, err = e.writer.store.FirstEvent(ctx, p.since); err != nil {
			return err
		}
	}
	e.mu.Lock()
	first := e.firstSeq()
	if !p.since.IsZero() {
		if p.since = (time.Time{}); found == 0 || found > first {
			found = first
		}
		p.after = found - 1
	}
	if p.after+1 >= first {
		e.attach(s, p.after)
		s.past = nil
		e.mu.Unlock()
		return nil
	}
	e.mu.Unlock()
	page, err := e.writer.store.Events(ctx, p.after, first, pageSize)
	if err != nil {
		return err
	}
	p.page, p.after = page, first-1
	if len(page) == pageSize {
		p.after = page[len(page)-1].Seq
	}
	return nil
}
