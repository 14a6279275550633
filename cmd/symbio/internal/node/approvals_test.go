package node

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"symbio/agent"
	"symbio/agent/tool"
)

// desk is approvals, and who asks them.
type desk struct {
	*approvals
	t   *testing.T
	tap *Tap
	ev  *Events
}

func newDesk(t *testing.T) desk {
	events := NewEvents("a")
	tap := events.Subscribe(time.Time{})
	t.Cleanup(tap.Close)
	return desk{&approvals{timeout: time.Minute}, t, tap, events}
}

// asks puts a decision and returns its id.
func (d desk) asks(ctx context.Context) (id string, answer chan tool.Answer) {
	d.t.Helper()
	answer = make(chan tool.Answer, 1)
	asked := agent.Asked{Decision: tool.Decision{Agent: "x", Tool: "Write", Args: map[string]any{"file_path": "a"}}, Name: "worker", For: []string{"planner"}}
	go func() { answer <- d.ask(ctx, d.ev, asked) }()
	var f struct{ ID string }
	if e := d.event("approval"); json.Unmarshal(e.Data, &f) != nil || !strings.Contains(string(e.Data), `"for":["planner"]`) {
		d.t.Fatalf("event = %s", e.Data)
	}
	return f.ID, answer
}

func (d desk) event(kind string) Event {
	d.t.Helper()
	e, err := d.tap.Next(d.t.Context())
	if err != nil || e.Type != kind {
		d.t.Fatalf("event = %+v, %v; want %s", e, err, kind)
	}
	return e
}

func TestAnApprovalIsAnsweredOnceAndEndsWithItsTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		for _, want := range []tool.Answer{{Allow: true, By: "terminal"}, {By: "terminal"}, {Allow: true, Always: true, By: "x"}} {
			id, answer := d.asks(t.Context())
			if waits := d.list(); len(waits) != 1 || waits[0].GetId() != id || waits[0].GetName() != "worker" || string(waits[0].GetArgs()) != `{"file_path":"a"}` {
				t.Errorf("listed are %v", waits)
			}
			if !d.answer(id, want) || <-answer != want {
				t.Errorf("the answer %+v did not arrive", want)
			}
			if d.answer(id, tool.Answer{Allow: true}) {
				t.Error("an approval was answered twice")
			}
			if e := d.event("answered"); !strings.Contains(string(e.Data), `"id":"`+id+`"`) {
				t.Errorf("event = %s", e.Data)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		id, answer := d.asks(ctx)
		cancel()
		if got := <-answer; got.Allow || !strings.Contains(got.Why, "canceled") {
			t.Errorf("the end of the task answered %+v", got)
		}
		if d.answer(id, tool.Answer{Allow: true}) || len(d.list()) != 0 {
			t.Error("an approval outlived its task")
		}
	})
}

func TestWhatNobodyAnswersIsDeniedInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		begun := time.Now()
		_, answer := d.asks(t.Context())
		if got := <-answer; got.Allow || !strings.Contains(got.Why, "nobody answered within 1m0s") || time.Since(begun) != time.Minute {
			t.Errorf("after %v: %+v", time.Since(begun), got)
		}
	})
}

func TestTooManyThatWaitAreDeniedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		ctx, cancel := context.WithCancel(t.Context())
		for range mostApprovals {
			d.asks(ctx)
		}
		if got := d.ask(ctx, d.ev, agent.Asked{}); got.Allow || !strings.Contains(got.Why, "Too many") {
			t.Errorf("one too many: %+v", got)
		}
		if n := len(d.list()); n != mostApprovals {
			t.Errorf("%d wait", n)
		}
		cancel()
		synctest.Wait()
	})
}
