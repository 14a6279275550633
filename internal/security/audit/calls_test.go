package audit_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"symbio/internal/security/audit"
)

// shelf keeps records, or refuses them.
type shelf struct {
	err error

	mu   sync.Mutex
	all  []audit.Entry // guarded by mu
	told int           // guarded by mu
}

func (s *shelf) put(e audit.Entry) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.all = append(s.all, e)
	}
	return s.err
}

func (s *shelf) tell(audit.Entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.told++
}

// got is what was recorded so far.
func (s *shelf) got() []audit.Entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.all)
}

func newCalls(s *shelf, cfg audit.CallsConfig) *audit.Calls {
	cfg.Node, cfg.Append = "n1", s.put
	cfg.Told = s.tell
	return audit.NewCalls(cfg)
}

func call(peer, what string, allowed bool) audit.Inbound {
	return audit.Inbound{Peer: peer, Name: "kitchen", Verb: "invoke", What: what, Requester: []string{"o", "p"}, Allowed: allowed,
		Rule: "from *: invoke " + what, Why: "so"}
}

func note(t *testing.T, c *audit.Calls, in audit.Inbound) {
	t.Helper()
	if err := c.Note(in); err != nil {
		t.Fatal(err)
	}
}

func TestFirstCallOfAKindIsRecordedBeforeItGoesOnAndTheRestAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shelf{}
		c := newCalls(s, audit.CallsConfig{})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- c.Run(ctx) }()
		time.Sleep(10 * time.Second)
		note(t, c, call("b", "x", true))
		if len(s.got()) != 1 {
			t.Fatalf("after the first: %d records", len(s.got()))
		}
		first := s.got()[0]
		if first.Kind != audit.KindInbound || first.Agent != "b" || first.Name != "kitchen" || fmt.Sprint(first.For) != "[p o]" ||
			first.Tool != "invoke" ||
			string(first.Args) != `{"capability":"x"}` || first.Verdict != "allow" || !first.Approved || first.Rule != "from *: invoke x" ||
			first.Source != "authorize" || first.Count != 0 {
			t.Errorf("the first record is %+v", first)
		}
		time.Sleep(time.Second)
		begun := time.Now()
		for range 1000 {
			note(t, c, call("b", "x", true))
			time.Sleep(time.Millisecond)
		}
		note(t, c, call("b", "x", false)) // another verdict
		note(t, c, call("b", "y", true))
		note(t, c, call("d", "x", true))
		if len(s.got()) != 4 {
			t.Errorf("%d records of 4 kinds", len(s.got()))
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(s.got()) != 5 {
			t.Fatalf("%d records after the window, want one more", len(s.got()))
		}
		if got := s.got()[4]; got.Count != 1000 || got.Since == nil || !got.Since.Equal(begun) ||
			!got.Time.Equal(begun.Add(999*time.Millisecond)) || got.Agent != "b" || !got.Approved {
			t.Errorf("the count is recorded as %+v", got)
		}
		time.Sleep(2 * time.Minute)
		note(t, c, call("b", "x", true)) // forgotten meanwhile
		note(t, c, call("b", "x", true))
		if len(s.got()) != 6 {
			t.Errorf("%d records, want a new one of a call that did not come for a window", len(s.got()))
		}
		stop()
		if err := <-done; err != nil || len(s.got()) != 7 || s.got()[6].Count != 1 || s.told != 7 {
			t.Errorf("at the end: %v, %d records, %d told", err, len(s.got()), s.told)
		}
	})
}

func TestFloodOfCallsThatAllDifferFillsNoDisk(t *testing.T) {
	for _, allowed := range []bool{true, false} {
		s := &shelf{}
		c := newCalls(s, audit.CallsConfig{Allowed: 8, Refused: 8})
		for i := range 5000 {
			in := call("b", fmt.Sprint(i), allowed)
			if i%2 == 0 {
				in.What, in.Requester = "x", []string{strings.Repeat("r", i%256), fmt.Sprint(i)}
			}
			if i%100 == 0 {
				in.Requester = []string{strings.Repeat("r", 4000)}
			}
			note(t, c, in)
		}
		note(t, c, call("d", "x", allowed)) // is not counted with another peer's
		if err := c.Flush(); err != nil {
			t.Fatal(err)
		}
		counted := uint64(0)
		for _, e := range s.all {
			counted += max(e.Count, 1)
			if e.Approved != allowed {
				t.Errorf("recorded as %v: %+v", e.Approved, e)
			}
		}
		if len(s.all) != 8+1+1+1 || counted != 5001 {
			t.Errorf("allowed %v: %d records count %d calls, want 11 that count 5001", allowed, len(s.all), counted)
		}
		if err := c.Flush(); err != nil {
			t.Fatal(err)
		}
		note(t, c, call("b", "another", allowed))
		if got := s.all[len(s.all)-1]; string(got.Args) != `{"capability":"another"}` {
			t.Errorf("after the flood a call is recorded as %+v", got)
		}
	}
}

func TestLongCallHasAShortRecord(t *testing.T) {
	s := &shelf{}
	c := newCalls(s, audit.CallsConfig{})
	in := call("b", "x", false)
	in.Requester = []string{strings.Repeat("r", 4000)}
	note(t, c, in)
	note(t, c, in)
	if len(s.all) != 1 || len(s.all[0].For) != 0 || s.all[0].Args != nil || s.all[0].Agent != "b" ||
		!strings.Contains(s.all[0].Why, "too long") {
		t.Errorf("recorded are %+v", s.all)
	}
}

func TestCallThatCannotBeRecordedIsNotDecided(t *testing.T) {
	s := &shelf{err: errors.New("disk full")}
	c := newCalls(s, audit.CallsConfig{})
	if err := c.Note(call("b", "x", true)); err == nil || !strings.Contains(err.Error(), "disk full") {
		t.Errorf("the first: %v", err)
	}
	s.err = nil
	note(t, c, call("b", "x", true))
	note(t, c, call("b", "x", true))
	s.err = errors.New("disk full")
	if c.Flush() == nil {
		t.Error("the count was recorded on a full disk")
	}
	if err := c.Note(call("b", "x", true)); err == nil {
		t.Error("a call was let through although the one before could not be recorded")
	}
	s.err = nil
	note(t, c, call("b", "x", true))
	if n := len(s.all); n != 2 || s.all[1].Count != 1 {
		t.Errorf("%d records: %+v", n, s.all)
	}
	if audit.NewCalls(audit.CallsConfig{}).Note(call("b", "x", true)) == nil {
		t.Error("without a record a call was let through")
	}
}

// BenchmarkNote is what a call of another node costs that repeats a recorded one; its floor is a record of its own.
func BenchmarkNote(b *testing.B) {
	l := open(b, b.TempDir(), audit.Config{})
	c := audit.NewCalls(audit.CallsConfig{Node: "n1", Append: l.Append})
	in := call("90f288f1a52c88bf9f3e1b7465a9af50", "text.wordcount", true)
	b.ReportAllocs()
	var took, least time.Duration
	for b.Loop() {
		begun := time.Now()
		for range 100 {
			if err := c.Note(in); err != nil {
				b.Fatal(err)
			}
		}
		took += time.Since(begun)
		begun = time.Now()
		if err := l.Append(entry(1)); err != nil {
			b.Fatal(err)
		}
		least += time.Since(begun)
	}
	b.ReportMetric(float64(took)/100/float64(b.N), "ns/call")
	b.ReportMetric(float64(took)/100/float64(least), "x-floor")
}
