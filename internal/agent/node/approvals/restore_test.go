package approvals

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"symbio/agent"
	"symbio/agent/event"
	"symbio/agent/llm"
	"symbio/agent/session"
	"symbio/agent/tool"
	"symbio/security/permission"
)

var (
	interrupted = session.Info{ID: "s1", Member: "x", Name: "worker"}
	waited      = session.Entry{Kind: session.Approval, Call: &llm.ToolCall{ID: "c1", Name: "Write", Args: llm.Args(`{"content":"<b>","file_path":"a"}`)}, Text: "because"}
)

// same is the request of the resumed agent about the call of waited.
func same() agent.ApprovalRequest {
	return agent.ApprovalRequest{Session: "s1", Decision: tool.Decision{
		Agent: "x2", CallID: "c1", Tool: "Write", Args: map[string]any{"file_path": "a", "content": "<b>"}, Verdict: permission.Verdict{Why: "because"},
	}}
}

// restore lists waited again and returns its id, and the channel that tells of its answer.
func (d desk) restore() (id string, answered chan bool) {
	d.t.Helper()
	answered = make(chan bool, 1)
	if err := d.Restore(interrupted, waited, func() { answered <- true }); err != nil {
		d.t.Fatal(err)
	}
	d.event("approval")
	waits := d.list("")
	if len(waits) != 1 || waits[0].GetDeadline() != nil || waits[0].GetTool() != "Write" || waits[0].GetWhy() != "because" {
		d.t.Fatalf("listed are %v", waits)
	}
	return waits[0].GetId(), answered
}

func TestRestoredRequestWaitsForItsAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		id, answered := d.restore()
		time.Sleep(time.Hour)
		for _, want := range []bool{true, false} {
			if s, err := d.decide(id, "", tool.Answer{Allow: want, By: "ann"}); s == nil || err != nil {
				t.Fatal(s, err)
			}
			if s, _ := d.decide(id, "", tool.Answer{Allow: true}); s != nil || len(d.list("")) != 0 {
				t.Error("it was answered twice")
			}
			<-answered
			if got := d.Ask(t.Context(), same()); got.Allow != want || got.By != "ann" {
				t.Errorf("the resumed agent got %+v, want %v", got, want)
			}
			// The answer was for one call.
			begun := time.Now()
			if got := d.Ask(t.Context(), same()); got.Allow || time.Since(begun) != time.Minute {
				t.Errorf("the second call got %+v", got)
			}
			d.events.Close()
			d = newDesk(t)
			id, answered = d.restore()
		}
	})
}

func TestAnswerToRestoredRequestIsForItsCallOnly(t *testing.T) {
	for name, change := range map[string]func(*agent.ApprovalRequest){
		"session":   func(r *agent.ApprovalRequest) { r.Session = "s2" },
		"call":      func(r *agent.ApprovalRequest) { r.CallID = "c2" },
		"tool":      func(r *agent.ApprovalRequest) { r.Tool = "Edit" },
		"argument":  func(r *agent.ApprovalRequest) { r.Args["content"] = "<b> " },
		"more":      func(r *agent.ApprovalRequest) { r.Args["mode"] = int64(7) },
		"less":      func(r *agent.ApprovalRequest) { delete(r.Args, "content") },
		"reason":    func(r *agent.ApprovalRequest) { r.Verdict.Why = "the sandbox cannot hold it" },
		"no record": func(r *agent.ApprovalRequest) { r.Session = "" },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDesk(t)
				id, answered := d.restore()
				if _, err := d.decide(id, "", tool.Answer{Allow: true, By: "ann"}); err != nil {
					t.Fatal(err)
				}
				other := same()
				change(&other)
				<-answered
				if got := d.AskAnswered(t.Context(), other); got.Allow || got.By != "" {
					t.Errorf("without a person, another %s got the answer: %+v", name, got)
				}
				if got := d.Ask(t.Context(), other); got.Allow || !strings.Contains(got.Why, "there was no answer") {
					t.Errorf("another %s got the answer: %+v", name, got)
				}
			})
		})
	}
}

func TestResumedSessionTakesPlaceOfRestoredRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		id, answered := d.restore()
		d.Withdraw("another")
		if len(d.list("")) != 1 {
			t.Error("the request of another session was withdrawn")
		}
		d.Withdraw("s1")
		if s, _ := d.decide(id, "", tool.Answer{Allow: true}); s != nil || len(d.list("")) != 0 || len(answered) != 0 {
			t.Error("a withdrawn request was answered")
		}
		if e := d.event("answered"); e.Part != (event.Answer{ID: id}) {
			t.Errorf("event = %+v", e)
		}
	})
}
