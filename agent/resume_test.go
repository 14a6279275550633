package agent_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"symbio/agent"
	"symbio/agent/budget"
	"symbio/agent/definition"
	"symbio/agent/llm"
	"symbio/agent/session"
	"symbio/community"
)

// journaled returns a house that keeps sessions in the store.
func journaled(t *testing.T, store session.Store, model llm.Model, realTime bool) (*house, *session.Journal) {
	h, j := newHouse(t, model), session.NewJournal(store, "a")
	h.factory = agent.NewFactory(agent.Config{
		Community: h.community, Dir: "/work", Journal: j, RealTime: realTime,
		Model: func(context.Context, string) (llm.Model, error) { return model, nil },
	})
	return h, j
}

// stop ends the agents of a house as the end of its node does, and returns the sessions that it interrupted.
func (h *house) stop(j *session.Journal, m community.Member) []session.Info {
	h.t.Helper()
	j.Suspend()
	if err := h.community.Terminate(h.t.Context(), m.ID); err != nil {
		h.t.Fatal(err)
	}
	synctest.Wait()
	all, err := j.Store().Recover(h.t.Context())
	if err != nil {
		h.t.Fatal(err)
	}
	return all
}

func TestClockOfAResumedTask(t *testing.T) {
	for name, want := range map[string]time.Duration{"running": 20 * time.Minute, "real": 5 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var left time.Duration
				model := script(func(ctx context.Context, r llm.Request) (llm.Message, error) {
					switch len(r.Messages) {
					case 1:
						time.Sleep(10 * time.Minute)
						return call(use("1", "none", nil))
					case 3:
						<-ctx.Done()
						return llm.Message{}, ctx.Err()
					}
					at, _ := ctx.Deadline()
					left = time.Until(at)
					return say("done")
				})
				store := &session.Memory{}
				h, j := journaled(t, store, model, false)
				m := h.spawn(agent.Order{Definition: definition.General(), Limits: budget.Limits{Wall: 30 * time.Minute}})
				h.background(m, "go")
				time.Sleep(10*time.Minute + time.Second)
				open := h.stop(j, m)
				if len(open) != 1 || !open[0].Open {
					t.Fatalf("interrupted are %+v", open)
				}
				ran := session.RunningTime(session.Latest(entriesOf(t, store, open[0].ID)))
				time.Sleep(15*time.Minute - time.Second)
				h, _ = journaled(t, store, model, name == "real")
				m = h.spawn(agent.Order{Definition: definition.General(), Limits: budget.Limits{Wall: 30 * time.Minute}, Session: open[0]})
				if _, err := h.community.Send(t.Context(), m.ID, community.Signal{Perception: "task", Data: []byte("null")}); err != nil {
					t.Fatal(err)
				}
				if left.Round(time.Minute) != want || ran.Round(time.Minute) != 10*time.Minute {
					t.Errorf("it has %v left of 30m after %v, want %v", left, ran, want)
				}
			})
		})
	}
}

func entriesOf(t *testing.T, store session.Store, id string) []session.Entry {
	t.Helper()
	all, err := store.Entries(t.Context(), id, 0)
	if err != nil {
		t.Fatal(err)
	}
	return all
}
