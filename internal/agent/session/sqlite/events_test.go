package sqlite_test

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"symbio/agent/event"
	"symbio/internal/agent/session/sqlite"
)

func TestEventsAreKeptAndPruned(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sessions.db")
	s, err := sqlite.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if last, err := s.LastEvent(t.Context()); err != nil || last.Seq != 0 {
		t.Fatalf("an empty store has %+v, %v", last, err)
	}
	begun := time.Now().Truncate(time.Microsecond).UTC()
	var events []event.Event
	for i := range 10 {
		events = append(events, event.Event{Seq: uint64(2*i + 1), Time: begun.Add(time.Duration(i) * time.Hour), Type: "tick", Agent: "x"})
	}
	events[1].Type, events[1].Name, events[1].Part = event.TypeServed, "n", event.Call{Capability: "c"}
	for range 2 { // the second time adds nothing
		if err := s.AppendEvents(events); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = sqlite.Open(path); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	check := func(after, before uint64, limit int, want ...string) {
		t.Helper()
		got, err := s.Events(t.Context(), after, before, limit)
		if err != nil || len(got) != len(want) {
			t.Fatalf("%d events, %v; want %v", len(got), err, want)
		}
		for i, e := range got {
			if line, _ := json.Marshal(e); string(line) != want[i] {
				t.Errorf("%s, want %s", line, want[i])
			}
		}
	}
	line := func(e event.Event) string { l, _ := json.Marshal(e); return string(l) }
	check(0, 1<<63+5, 2, line(events[0]), line(events[1]))
	check(3, 7, 100, line(events[2]))
	if seq, err := s.FirstEvent(t.Context(), begun.Add(150*time.Minute)); seq != 7 || err != nil {
		t.Errorf("the first is %d, %v", seq, err)
	}
	if seq, err := s.FirstEvent(t.Context(), begun.Add(100*time.Hour)); seq != 0 || err != nil {
		t.Errorf("the first of none is %d, %v", seq, err)
	}
	for _, hours := range []int{0, 3, 3, 5} {
		if err := s.PruneEvents(t.Context(), begun.Add(time.Duration(hours)*time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	gap := event.Event{Seq: 9, Time: events[4].Time, Type: event.TypeGap, Part: event.Gap{Missed: 5}}
	check(0, 13, 100, line(gap), line(events[5]))
	if last, err := s.LastEvent(t.Context()); err != nil || last.Seq != 19 {
		t.Errorf("the last is %+v, %v", last, err)
	}
}

func TestEventsOfSomeTypesAreReadSinceATime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sessions.db")
	s, err := sqlite.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	begun := time.Now().Truncate(time.Microsecond).UTC()
	var events []event.Event
	for i, kind := range []string{"skill", "tick", "skill", "done"} {
		events = append(events, event.Event{Seq: uint64(i + 1), Time: begun.Add(time.Duration(i) * time.Hour), Type: kind, Agent: "x"})
	}
	if err := s.AppendEvents(events); err != nil {
		t.Fatal(err)
	}
	reader, err := sqlite.OpenReader(path) // as a command beside the node does
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	for about, test := range map[string]struct {
		since time.Time
		types []string
		want  []uint64
	}{
		"all of two types": {begun, []string{"skill", "done"}, []uint64{1, 3, 4}},
		"since a time":     {begun.Add(time.Hour), []string{"skill"}, []uint64{3}},
		"no type":          {begun, nil, nil},
		"none so late":     {begun.Add(24 * time.Hour), []string{"skill"}, nil},
	} {
		got, err := reader.EventsOf(t.Context(), test.since, test.types...)
		var seqs []uint64
		for _, e := range got {
			seqs = append(seqs, e.Seq)
		}
		if err != nil || !slices.Equal(seqs, test.want) {
			t.Errorf("%s: events %v, %v; want %v", about, seqs, err, test.want)
		}
	}
}
