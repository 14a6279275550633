package node

import (
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"
)

func TestAnEventIsOneFlatObject(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for want, e := range map[string]Event{
		`{"time":"2026-01-02T03:04:05Z","type":"done","node":"a","agent":"x","text":"hi"}`: {at, "done", "a", "x", json.RawMessage(`{"text":"hi"}`)},
		`{"time":"2026-01-02T03:04:05Z","type":"ready","node":"a","agent":""}`:             {at, "ready", "a", "", nil},
		`{"time":"2026-01-02T03:04:05Z","type":"empty","node":"a","agent":""}`:             {at, "empty", "a", "", json.RawMessage(`{}`)},
	} {
		got, err := json.Marshal(e)
		if err != nil || string(got) != want {
			t.Errorf("event = %s, %v; want %s", got, err, want)
		}
	}
}

func TestASubscriberGetsThePastItAsksForAndAllThatFollows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		events := NewEvents("a")
		events.Publish("old", "", struct{}{})
		time.Sleep(time.Minute)
		events.Publish("recent", "", struct{}{})
		past, live := events.Subscribe(time.Now().Add(-time.Second)), events.Subscribe(time.Time{})
		defer past.Close()
		defer live.Close()
		events.Publish("new", "", struct{}{})
		for _, want := range []struct {
			tap  *Tap
			kind string
		}{{past, "recent"}, {past, "new"}, {live, "new"}} {
			if e, err := want.tap.Next(t.Context()); err != nil || e.Type != want.kind {
				t.Errorf("event = %q, %v; want %q", e.Type, err, want.kind)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if e, err := live.Next(ctx); err == nil {
			t.Errorf("an event nobody published: %+v", e)
		}
	})
}

func TestASlowSubscriberIsToldWhatItMissedAndHoldsNobodyUp(t *testing.T) {
	events := NewEvents("a")
	tap := events.Subscribe(time.Time{})
	const over = 10
	for range queuedEvents + over {
		events.Publish("tick", "", struct{}{})
	}
	for i := range queuedEvents {
		if e, err := tap.Next(t.Context()); err != nil || e.Type != "tick" {
			t.Fatalf("event %d = %q, %v", i, e.Type, err)
		}
	}
	e, err := tap.Next(t.Context())
	if err != nil || e.Type != "gap" || string(e.Data) != `{"missed":10}` {
		t.Errorf("after the queue: %s %s, %v; want a gap of %d", e.Type, e.Data, err, over)
	}
	events.Publish("tick", "", struct{}{})
	if e, err := tap.Next(t.Context()); err != nil || e.Type != "tick" {
		t.Errorf("after the gap: %q, %v", e.Type, err)
	}
	tap.Close()
	events.Publish("tick", "", struct{}{})
	if _, ok := tap.take(); ok {
		t.Error("a closed subscription still gets events")
	}
}

func TestTheMemoryOfEventsIsBounded(t *testing.T) {
	events := NewEvents("a")
	for range 3 * keptEvents {
		events.Publish("tick", "", struct{}{})
	}
	if n := len(events.recent); n > keptEvents {
		t.Errorf("%d events are kept, want at most %d", n, keptEvents)
	}
}
