package event

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// memoryStore is a Store in memory. It fails while broken is set.
type memoryStore struct {
	mu     sync.Mutex
	all    []Event
	broken bool
	calls  int
}

func (s *memoryStore) AppendEvents(events []Event) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.calls++; s.broken {
		return errors.New("the disk is full")
	}
	s.all = append(s.all, events...)
	return nil
}

func (s *memoryStore) Events(_ context.Context, after, before uint64, limit int) (page []Event, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.all {
		if e.Seq > after && e.Seq < before && len(page) < limit {
			page = append(page, e)
		}
	}
	return page, nil
}

func (s *memoryStore) FirstEvent(_ context.Context, since time.Time) (uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.all, func(e Event) bool { return !e.Time.Before(since) })
	if i < 0 {
		return 0, nil
	}
	return s.all[i].Seq, nil
}

func (s *memoryStore) LastEvent(context.Context) (Event, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.all) == 0 {
		return Event{}, nil
	}
	return s.all[len(s.all)-1], nil
}

func (s *memoryStore) PruneEvents(context.Context, time.Time) error { return nil }

func (s *memoryStore) setBroken(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.broken = on
}

// live runs a stream over the store until the returned function is called.
func live(t *testing.T, s *memoryStore) (*Stream, func()) {
	t.Helper()
	e, err := OpenStream("a", s)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var done sync.WaitGroup
	done.Go(func() { e.Run(ctx) })
	return e, func() { cancel(); done.Wait() }
}

// read returns the events that the subscription has now, and closes it.
func read(t *testing.T, s *Subscription) (all []Event) {
	t.Helper()
	defer s.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	for {
		e, err := s.Next(ctx)
		if err != nil {
			return all
		}
		all = append(all, e)
	}
}

func seqs(all []Event) (out []uint64) {
	for _, e := range all {
		out = append(out, e.Seq)
	}
	return out
}

func TestEventsGoOnOverARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(memoryStore)
		first, stop := live(t, s)
		begun := time.Now()
		for range 3 {
			first.Publish(Event{Type: "tick"})
			first.Publish(Event{Type: "text"})
		}
		stop()
		time.Sleep(time.Hour)
		second, stop := live(t, s)
		second.Publish(Event{Type: "tick", Agent: "x"})
		second.Publish(Event{Type: "text", Agent: "x"})
		want := []uint64{1, 3, 5, 7, 8, 9} // without the texts of the first run; 7 is "stopped"
		for name, sub := range map[string]*Subscription{"since": second.Subscribe(begun), "after": second.SubscribeAfter(0)} {
			all := read(t, sub)
			if !slices.Equal(seqs(all), want) {
				t.Errorf("%s: %v, want %v", name, seqs(all), want)
			}
			if e := all[0]; e.Node != "a" || e.Type != "tick" {
				t.Errorf("the first is %+v", e)
			}
		}
		if got := seqs(read(t, second.SubscribeAfter(5))); !slices.Equal(got, want[3:]) {
			t.Errorf("after 5: %v", got)
		}
		if got := seqs(read(t, second.Subscribe(begun.Add(time.Minute)))); !slices.Equal(got, want[4:]) {
			t.Errorf("of the last minutes: %v", got)
		}
		stop()
	})
}

func TestNumbersJumpAfterANodeThatWasKilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &memoryStore{all: []Event{{Seq: 20, Time: time.Now(), Type: "tick"}}}
		e, stop := live(t, s)
		defer stop()
		e.Publish(Event{Type: "tick"})
		if got := seqs(read(t, e.SubscribeAfter(25))); !slices.Equal(got, []uint64{20 + maxUnkept + 1}) {
			t.Errorf("a reader that had seen 25 gets %v", got)
		}
	})
}

// A reader follows from the store into the memory while events are published, written and forgotten.
func TestReaderOfThePastMissesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(memoryStore)
		e, stop := live(t, s)
		defer stop()
		publish := func(n int) {
			for i := range n {
				e.Publish(Event{Type: []string{"tick", "text"}[i%2]})
				if i%1000 == 999 {
					time.Sleep(time.Second) // is written
				}
			}
		}
		publish(3 * keptEvents)
		sub := e.SubscribeAfter(0)
		defer sub.Close()
		last, ticks := uint64(0), 0
		for range 40 {
			for range 100 {
				ev, err := sub.Next(t.Context())
				if err != nil || ev.Seq <= last || ev.Type == TypeGap {
					t.Fatalf("%+v after %d: %v", ev, last, err)
				}
				if last = ev.Seq; ev.Type == "tick" {
					ticks++
				}
			}
			publish(50)
		}
		for _, ev := range read(t, sub) {
			if ev.Seq <= last || ev.Type == TypeGap {
				t.Fatalf("%+v after %d", ev, last)
			}
			if last = ev.Seq; ev.Type == "tick" {
				ticks++
			}
		}
		if want := (3*keptEvents + 40*50) / 2; ticks != want || last != uint64(2*want) {
			t.Errorf("%d ticks up to %d, want %d", ticks, last, want)
		}
	})
}

func TestEventsThatCannotBeWrittenAreAGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &memoryStore{broken: true}
		e, stop := live(t, s)
		for range maxWaiting + 100 {
			e.Publish(Event{Type: "tick"})
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if s.calls > 20 || len(e.writer.waiting) > maxWaiting {
			t.Errorf("%d attempts in a minute, %d wait", s.calls, len(e.writer.waiting))
		}
		s.setBroken(false)
		time.Sleep(time.Minute)
		stop()
		total := 0
		for i, ev := range s.all {
			if i > 0 && ev.Seq <= s.all[i-1].Seq {
				t.Fatalf("%d is after %d", ev.Seq, s.all[i-1].Seq)
			}
			if ev.Type != TypeGap {
				total++
				continue
			}
			f := PartOf[Gap](ev)
			if f.Missed < 1 {
				t.Errorf("gap of %d", f.Missed)
			}
			total += f.Missed
		}
		if want := maxWaiting + 100 + 2; total != want { // and the warning and the end
			t.Errorf("%d events and missed ones, want %d", total, want)
		}
	})
}

func TestGapForEventsThatAreNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := NewStream("a")
		for range keptEvents + 1 {
			e.Publish(Event{Type: "tick"})
		}
		forgotten := keptEvents / 4
		all := read(t, e.SubscribeAfter(10))
		if g := all[0]; g.Type != TypeGap || g.Seq != uint64(forgotten) || PartOf[Gap](g).Missed != forgotten-10 ||
			all[1].Seq != uint64(forgotten)+1 || g.Node != "a" {
			t.Errorf("begins with %+v, %+v", g, all[1])
		}
		if all := read(t, e.SubscribeAfter(uint64(forgotten))); all[0].Seq != uint64(forgotten)+1 || all[0].Type != "tick" {
			t.Errorf("without a hole: %+v", all[0])
		}
		if all := read(t, e.SubscribeAfter(1e6)); all[0].Type != TypeGap || all[1].Type != TypeGap || len(all) < 100 {
			t.Errorf("numbers that began anew: %+v, %+v", all[0], all[1])
		}
	})
}
