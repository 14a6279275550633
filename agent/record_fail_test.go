package agent_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"symbio/agent"
	"symbio/agent/conversation"
	"symbio/agent/llm"
	"symbio/agent/session"
	"symbio/agent/tool"
	"symbio/community"
	"symbio/security/permission"
)

// full is a store that fails at its commit number at, and, if its disk stays full, at all later ones.
type full struct {
	session.Store
	commits atomic.Int64
	at      int
	stays   bool
}

func (f *full) Commit(w []session.Write) error {
	if n := int(f.commits.Add(1)); n == f.at || f.stays && n > f.at {
		return errors.New("no room")
	}
	return f.Store.Commit(w)
}

// witness checks that everything that takes effect was recorded before.
type witness struct {
	t     *testing.T
	store *full

	mu      sync.Mutex
	effects map[string]int // how often each call ran, by its argument; guarded by mu
	asked   int

	answered int // how many commits there were when the task had its answer
}

// has reports whether any session has an entry for which is is true.
func (w *witness) has(is func(session.Info, session.Entry) bool) bool {
	all, err := w.store.Sessions(w.t.Context(), session.Filter{})
	if err != nil {
		w.t.Error(err)
	}
	for _, s := range all {
		if slices.ContainsFunc(entriesOf(w.t, w.store, s.ID), func(e session.Entry) bool { return is(s, e) }) {
			return true
		}
	}
	return false
}

type effectArgs struct {
	Name string `json:"name"`
}

// effect returns a tool whose effects are counted.
func (w *witness) effect(name string) tool.Tool {
	return tool.New(tool.Spec{Name: name, Description: "has an effect"}, func(_ context.Context, a effectArgs) tool.Result {
		w.mu.Lock()
		w.effects[a.Name]++
		w.mu.Unlock()
		if !w.has(func(_ session.Info, e session.Entry) bool { return e.Kind == session.Call && e.Call.ID == a.Name }) {
			w.t.Errorf("%s ran without a record", a.Name)
		}
		return tool.Result{Text: "did " + a.Name}
	})
}

func (w *witness) ask(_ context.Context, d agent.ApprovalRequest) tool.Answer {
	w.asked++
	if !w.has(func(_ session.Info, e session.Entry) bool { return e.Kind == session.Approval && e.Call.ID == d.CallID }) {
		w.t.Errorf("a person was asked about %s without a record", d.CallID)
	}
	return tool.Answer{Allow: true, By: "me"}
}

// model answers by how far the history is: two calls at once, a sub-agent, a call that needs a person.
func (w *witness) model(_ context.Context, r llm.Request) (llm.Message, error) {
	if err := conversation.Sound(r.Messages); err != nil {
		w.t.Error(err)
	}
	child := strings.Contains(r.System, "You are a sub-agent of")
	if !w.has(func(s session.Info, e session.Entry) bool {
		return e.Kind == session.Request && (s.Parent != "") == child
	}) {
		w.t.Error("a model was asked without a record")
	}
	if child {
		if !w.has(func(_ session.Info, e session.Entry) bool { return e.Kind == session.Child }) {
			w.t.Error("a sub-agent works without a record of it")
		}
		return say("helped")
	}
	if last(r).Role == llm.User && len(r.Messages) > 1 {
		return say("went on")
	}
	switch len(r.Messages) {
	case 1:
		return call(use("a", "effect", effectArgs{"a"}), use("b", "effect", effectArgs{"b"}))
	case 3:
		return call(use("c", "replicate_agent", map[string]any{"reason": "it helps", "task": "help"}))
	case 5:
		return call(use("d", "wait_agents", map[string]any{}))
	case 7:
		return call(use("e", "risky", effectArgs{"e"}))
	}
	return say("done")
}

// life has an agent do the task over a store, or go on with it, and returns its answer and error.
func (w *witness) life(restarted bool) (text string, err error) {
	h, j := journaled(w.t, w.store, script(w.model), w.effect("effect"), w.effect("risky"))
	policy := allowed(w.t, "effect", "replicate_agent", "wait_agents")
	policy.Default = permission.Ask
	o, task := agent.Order{Policy: policy, Ask: w.ask}, "go"
	if restarted {
		if _, err := w.store.Recover(w.t.Context()); err != nil {
			w.t.Fatal(err)
		}
		all, err := w.store.Sessions(w.t.Context(), session.Filter{Roots: true})
		if err != nil || len(all) == 0 {
			return "", err // nothing was recorded
		}
		if o.Session, task = all[0], "more"; all[0].Exchange.Open {
			task = ""
		}
	}
	m := h.spawn(o)
	reply, err := h.community.Send(w.t.Context(), m.ID, community.Signal{Perception: "task", Data: []byte(task)})
	w.answered = int(w.store.commits.Load())
	synctest.Wait()
	j.Suspend()
	if err := h.community.Terminate(w.t.Context(), m.ID); err != nil {
		w.t.Error(err)
	}
	return string(reply.Data), err
}

// Whichever commit fails: nothing takes effect without a record, the task ends with that reason, and the
// session can go on.
func TestUnrecordedCallTakesNoEffect(t *testing.T) {
	commits := 0
	for at := 0; at <= commits; at++ { // the first life finds out how many there are
		for _, stays := range []bool{false, true} {
			t.Run(fmt.Sprintf("commit %d, stays full %v", at, stays), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := &witness{t: t, store: &full{Store: inMemory(t), at: at, stays: stays && at > 0}, effects: map[string]int{}}
					text, err := w.life(false)
					if at == 0 {
						if commits = w.answered; text != "done" || err != nil || w.asked != 1 || len(w.effects) != 3 {
							t.Fatalf("without a failure: %q, %v, effects %v", text, err, w.effects)
						}
						return
					}
					switch {
					case err != nil && !strings.Contains(err.Error(), "cannot be recorded") && !strings.Contains(err.Error(), "no room"):
						t.Errorf("the task ended with %v", err)
					case w.answered < at: // of two calls that end at once, both results may be in one commit
					case err == nil && (stays || text != "done" && text != "went on"):
						t.Errorf("the task was answered %q", text)
					}
					w.store.at = 0
					w.store.stays = false
					if text, err := w.life(true); err != nil {
						t.Errorf("after a restart: %q, %v", text, err)
					}
					for name, n := range w.effects {
						if n > 1 {
							t.Errorf("%s ran %d times", name, n)
						}
					}
				})
			})
		}
	}
	if commits < 10 {
		t.Errorf("the task has %d commits, and not all of its parts", commits)
	}
}
