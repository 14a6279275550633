package approvals

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"symbio/agent"
	"symbio/agent/event"
	"symbio/agent/tool"
	symbiov1 "symbio/proto/symbio/v1"
)

// desk is a Queue, and who asks it.
type desk struct {
	*Queue
	t      *testing.T
	events *event.Subscription
}

func newDesk(t *testing.T) desk {
	stream := event.NewStream("a")
	events := stream.Subscribe(time.Time{})
	t.Cleanup(events.Close)
	return desk{New(Config{Timeout: time.Minute, Events: stream}), t, events}
}

// asks puts a decision and returns its id.
func (d desk) asks(ctx context.Context) (id string, answer chan tool.Answer) {
	d.t.Helper()
	answer = make(chan tool.Answer, 1)
	asked := agent.ApprovalRequest{Decision: tool.Decision{Agent: "x", Tool: "Write", Args: map[string]any{"file_path": "a"}}, Name: "worker", OnBehalfOf: []string{"planner"}}
	go func() { answer <- d.Ask(ctx, asked) }()
	var f struct{ ID string }
	if e := d.event("approval"); json.Unmarshal(e.Data, &f) != nil || !strings.Contains(string(e.Data), `"for":["planner"]`) {
		d.t.Fatalf("event = %s", e.Data)
	}
	return f.ID, answer
}

func (d desk) event(kind string) event.Event {
	d.t.Helper()
	e, err := d.events.Next(d.t.Context())
	if err != nil || e.Type != kind {
		d.t.Fatalf("event = %+v, %v; want %s", e, err, kind)
	}
	return e
}

func TestApprovalIsAnsweredOnceAndEndsWithItsTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		for _, want := range []tool.Answer{{Allow: true, By: "terminal"}, {By: "terminal"}, {Allow: true, Always: true, By: "x"}} {
			id, answer := d.asks(t.Context())
			waits := d.list("")
			if len(waits) != 1 || waits[0].GetId() != id || waits[0].GetName() != "worker" || string(waits[0].GetArgs()) != `{"file_path":"a"}` {
				t.Errorf("listed are %v", waits)
			}
			digest := waits[0].GetDigest()
			other := strings.Repeat("0", len(digest))
			if s, err := d.decide(id, other, want); s != nil || !errors.Is(err, errOtherContent) || len(d.list("")) != 1 {
				t.Errorf("an answer to another text was taken: %v", err)
			}
			s, err := d.decide(id, digest, want)
			want.By = describeAnswerer(want)
			if s == nil || err != nil || <-answer != want {
				t.Errorf("the answer %+v did not arrive: %v", want, err)
			}
			if s, _ := d.decide(id, digest, tool.Answer{Allow: true}); s != nil {
				t.Error("an approval was answered twice")
			}
			if e := d.event("answered"); !strings.Contains(string(e.Data), `"id":"`+id+`"`) {
				t.Errorf("event = %s", e.Data)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		id, answer := d.asks(ctx)
		cancel()
		if got := <-answer; got.Allow || !strings.Contains(got.Why, "its task ended") {
			t.Errorf("the end of the task answered %+v", got)
		}
		if s, _ := d.decide(id, "", tool.Answer{Allow: true}); s != nil || len(d.list("")) != 0 {
			t.Error("an approval outlived its task")
		}
	})
}

func TestBeginningOfAnIdAnswersItsApproval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		id, answer := d.asks(t.Context())
		for _, typed := range []string{id[:5], id[:7] + "?"} {
			if len(d.pendingOf(typed)) > 0 {
				t.Errorf("%q fits %q", typed, id)
			}
		}
		if a, err := d.Answer(t.Context(), &symbiov1.AnswerRequest{Id: id[:7], Allow: true}); err != nil || a.GetId() != id {
			t.Errorf("%q: %v, %v", id[:7], a, err)
		}
		if !(<-answer).Allow {
			t.Error("the answer did not arrive")
		}
	})
}

func TestOfTwoAnswersAtOnceOneCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		w, why := d.add(agent.ApprovalRequest{}) // nobody has taken the answer yet
		if w == nil {
			t.Fatal(why)
		}
		first, err := d.decide(w.id, "", tool.Answer{Allow: true})
		second, again := d.decide(w.id, "", tool.Answer{})
		if first == nil || second != nil || err != nil || again != nil || !(<-w.answer).Allow {
			t.Errorf("the first: %v, %v; the second: %v, %v", first, err, second, again)
		}
	})
}

func TestUnansweredApprovalIsDeniedInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		begun := time.Now()
		_, answer := d.asks(t.Context())
		if got := <-answer; got.Allow || !strings.Contains(got.Why, "there was no answer within 1m0s") || time.Since(begun) != time.Minute {
			t.Errorf("after %v: %+v", time.Since(begun), got)
		}
	})
}

func TestTooManyThatWaitAreDeniedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		ctx, cancel := context.WithCancel(t.Context())
		for range maxPending {
			d.asks(ctx)
		}
		if got := d.Ask(ctx, agent.ApprovalRequest{}); got.Allow || !strings.Contains(got.Why, "Too many") {
			t.Errorf("one too many: %+v", got)
		}
		if n := len(d.list("")); n != maxPending {
			t.Errorf("%d wait", n)
		}
		cancel()
		synctest.Wait()
	})
}
