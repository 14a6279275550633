package event

import (
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"
)

func TestEventIsOneFlatObject(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for want, e := range map[string]Event{
		`{"time":"2026-01-02T03:04:05Z","seq":7,"type":"done","node":"a","agent":"x","text":"hi"}`: {7, at, "done", "a", "x", json.RawMessage(`{"text":"hi"}`)},
		`{"time":"2026-01-02T03:04:05Z","seq":7,"type":"ready","node":"a","agent":""}`:             {7, at, "ready", "a", "", nil},
		`{"time":"2026-01-02T03:04:05Z","seq":7,"type":"empty","node":"a","agent":""}`:             {7, at, "empty", "a", "", json.RawMessage(`{}`)},
	} {
		got, err := json.Marshal(e)
		if err != nil || string(got) != want {
			t.Errorf("event = %s, %v; want %s", got, err, want)
		}
		var back Event
		if err := json.Unmarshal(got, &back); err != nil {
			t.Error(err)
		}
		if again, err := json.Marshal(back); err != nil || string(again) != want {
			t.Errorf("read and written again: %s, %v; want %s", again, err, want)
		}
	}
}

func TestFieldsOfAnEvent(t *testing.T) {
	e := Event{Type: "transcript", Data: json.RawMessage(`{"text":"hi","pending_steering":2,"args":{"a":1},"spent":{"model_calls":3,"tokens":4,"wall":0.5},"unknown":true}`)}
	f, err := e.Fields()
	if err != nil || f.Text != "hi" || f.PendingSteering != 2 || string(f.Args) != `{"a":1}` || f.Spent == nil || f.Spent.ModelCalls != 3 {
		t.Errorf("fields = %+v, %v", f, err)
	}
	if f, err := (Event{Type: "bare"}).Fields(); err != nil || f.Text != "" {
		t.Errorf("without data: %+v, %v", f, err)
	}
	if f, err := (Event{Type: "odd", Data: json.RawMessage(`{"why":"w","text":1}`)}).Fields(); err == nil || f.Why != "" {
		t.Errorf("data of another shape: %+v, %v", f, err)
	}
}

func TestSubscriberGetsThePastItAsksForAndAllThatFollows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		events := NewStream("a")
		events.Publish("old", "", struct{}{})
		time.Sleep(time.Minute)
		events.Publish("recent", "", struct{}{})
		past, live := events.Subscribe(time.Now().Add(-time.Second)), events.Subscribe(time.Time{})
		defer past.Close()
		defer live.Close()
		events.Publish("new", "", struct{}{})
		for _, want := range []struct {
			tap  *Subscription
			kind string
			seq  uint64
		}{{past, "recent", 2}, {past, "new", 3}, {live, "new", 3}} {
			if e, err := want.tap.Next(t.Context()); err != nil || e.Type != want.kind || e.Seq != want.seq {
				t.Errorf("event %d = %q, %v; want %d, %q", e.Seq, e.Type, err, want.seq, want.kind)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if e, err := live.Next(ctx); err == nil {
			t.Errorf("an event nobody published: %+v", e)
		}
	})
}

// The clock is set back by an hour after the second event; the third is the latest, and has the earliest time.
func TestEventsKeepTheirOrderWhenTheClockIsSetBack(t *testing.T) {
	now := time.Now()
	events := NewStream("a")
	for i, at := range []time.Duration{-time.Hour, 0, -2 * time.Hour} {
		events.Publish("tick", "", struct{}{})
		events.recent[i].Time = now.Add(at)
	}
	tap := events.Subscribe(now.Add(-time.Minute))
	defer tap.Close()
	for _, want := range []uint64{2, 3} {
		if e, ok := tap.Take(); !ok || e.Seq != want {
			t.Errorf("event %d, %v; want %d", e.Seq, ok, want)
		}
	}
}

func TestGapComesBeforeLaterEvents(t *testing.T) {
	events := NewStream("a")
	tap := events.Subscribe(time.Time{})
	for range queuedEvents + 1 {
		events.Publish("tick", "", struct{}{})
	}
	last := uint64(0)
	for range queuedEvents / 2 { // the reader catches up in part
		e, _ := tap.Take()
		last = e.Seq
	}
	events.Publish("tick", "", struct{}{})
	gaps := 0
	for e, ok := tap.Take(); ok; e, ok = tap.Take() {
		if e.Seq <= last {
			t.Errorf("event %d (%s) comes after event %d", e.Seq, e.Type, last)
		}
		if last = e.Seq; e.Type == "gap" {
			gaps++
		}
	}
	if gaps != 1 {
		t.Errorf("%d gaps, want 1", gaps)
	}
}

func TestSlowSubscriberIsToldWhatItMissedAndHoldsNobodyUp(t *testing.T) {
	events := NewStream("a")
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
	if err != nil || e.Type != "gap" || string(e.Data) != `{"missed":10}` || e.Seq != queuedEvents+over {
		t.Errorf("after the queue: %d %s %s, %v; want a gap of %d", e.Seq, e.Type, e.Data, err, over)
	}
	events.Publish("tick", "", struct{}{})
	if e, err := tap.Next(t.Context()); err != nil || e.Type != "tick" {
		t.Errorf("after the gap: %q, %v", e.Type, err)
	}
	tap.Close()
	events.Publish("tick", "", struct{}{})
	if _, ok := tap.Take(); ok {
		t.Error("a closed subscription still gets events")
	}
}

func TestMemoryOfEventsIsBounded(t *testing.T) {
	events := NewStream("a")
	for range 3 * keptEvents {
		events.Publish("tick", "", struct{}{})
	}
	if n := len(events.recent); n > keptEvents {
		t.Errorf("%d events are kept, want at most %d", n, keptEvents)
	}
}
