package event

import (
	"context"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestEventIsOneFlatObject(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for want, e := range map[string]Event{
		`{"time":"2026-01-02T03:04:05Z","seq":7,"type":"done","node":"a","agent":"x","text":"hi","status":"done"}`: {Seq: 7, Time: at, Type: TypeDone, Node: "a", Agent: "x", Text: "hi", Part: End{Status: "done"}},
		`{"time":"2026-01-02T03:04:05Z","seq":7,"type":"ready","node":"a","agent":""}`:                             {Seq: 7, Time: at, Type: "ready", Node: "a"},
		`{"time":"2026-01-02T03:04:05Z","seq":7,"type":"session","node":"a","agent":""}`:                           {Seq: 7, Time: at, Type: TypeSession, Node: "a", Part: Session{}},
	} {
		got, err := json.Marshal(e)
		if err != nil || string(got) != want {
			t.Errorf("event = %s, %v; want %s", got, err, want)
		}
		var back Event
		if err := json.Unmarshal(got, &back); err != nil || !reflect.DeepEqual(back, e) {
			t.Errorf("read again: %+v, %v; want %+v", back, err, e)
		}
	}
}

func TestPartOfAnEvent(t *testing.T) {
	decode := func(line string) (e Event, err error) {
		err = json.Unmarshal([]byte(line), &e)
		return e, err
	}
	e, err := decode(`{"type":"tool_call","args":{"a":1},"name":"n","call":"7","unknown":true,"status":"done"}`)
	if call := PartOf[Tool](e); err != nil || e.Name != "n" || call.Call != "7" || string(call.Args) != `{"a":1}` {
		t.Errorf("event = %+v, %v", e, err)
	}
	if end := PartOf[End](e); end.Status != "" {
		t.Errorf("a part of another type: %+v", end)
	}
	if e, err := decode(`{"type":"new","tool":1}`); err != nil || e.Part != nil {
		t.Errorf("an unknown type: %+v, %v", e, err)
	}
	if e, err := decode(`{"type":"tool_call","tool":1}`); err == nil || e.Part != nil {
		t.Errorf("fields of another shape: %+v, %v", e, err)
	}
	if line, err := json.Marshal(Event{Type: TypeToolCall, Text: "x", Part: Tool{Args: json.RawMessage(`{`)}}); err != nil ||
		!json.Valid(line) || !strings.Contains(string(line), `"text":"x"`) {
		t.Errorf("a part without a JSON form: %s, %v", line, err)
	}
}

func TestSubscriberGetsThePastItAsksForAndAllThatFollows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		events := NewStream("a")
		events.Publish(Event{Type: "old"})
		time.Sleep(time.Minute)
		events.Publish(Event{Type: "recent"})
		past, live := events.Subscribe(time.Now().Add(-time.Second)), events.Subscribe(time.Time{})
		defer past.Close()
		defer live.Close()
		events.Publish(Event{Type: "new"})
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
		events.Publish(Event{Type: "tick"})
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
		events.Publish(Event{Type: "tick"})
	}
	last := uint64(0)
	for range queuedEvents / 2 { // the reader catches up in part
		e, _ := tap.Take()
		last = e.Seq
	}
	events.Publish(Event{Type: "tick"})
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

func TestSlowSubscriberGetsGapAndBlocksNoOther(t *testing.T) {
	events := NewStream("a")
	tap := events.Subscribe(time.Time{})
	const over = 10
	for range queuedEvents + over {
		events.Publish(Event{Type: "tick"})
	}
	for i := range queuedEvents {
		if e, err := tap.Next(t.Context()); err != nil || e.Type != "tick" {
			t.Fatalf("event %d = %q, %v", i, e.Type, err)
		}
	}
	e, err := tap.Next(t.Context())
	if err != nil || e.Type != "gap" || PartOf[Gap](e).Missed != over || e.Seq != queuedEvents+over {
		t.Errorf("after the queue: %d %s %v, %v; want a gap of %d", e.Seq, e.Type, e.Part, err, over)
	}
	events.Publish(Event{Type: "tick"})
	if e, err := tap.Next(t.Context()); err != nil || e.Type != "tick" {
		t.Errorf("after the gap: %q, %v", e.Type, err)
	}
	tap.Close()
	events.Publish(Event{Type: "tick"})
	if _, ok := tap.Take(); ok {
		t.Error("a closed subscription still gets events")
	}
}

func TestMemoryOfEventsIsBounded(t *testing.T) {
	events := NewStream("a")
	for range 3 * keptEvents {
		events.Publish(Event{Type: "tick"})
	}
	if n := len(events.recent); n > keptEvents {
		t.Errorf("%d events are kept, want at most %d", n, keptEvents)
	}
}
