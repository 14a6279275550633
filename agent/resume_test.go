package agent_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"symbio/agent"
	"symbio/agent/budget"
	"symbio/agent/definition"
	"symbio/agent/llm"
	"symbio/agent/session"
	"symbio/agent/tool"
	"symbio/community"
	"symbio/internal/agent/tool/peer"
)

// journaled returns a house that keeps sessions in the store.
func journaled(t *testing.T, store session.Store, model llm.Model, tools ...tool.Tool) (*house, *session.Journal) {
	h, j := newHouse(t, model), session.NewJournal(store, "a")
	h.factory = agent.NewFactory(agent.Config{
		Community: h.community, Dir: "/work", Tools: tools, Journal: j,
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
	all, err := j.Recover(h.t.Context())
	if err != nil {
		h.t.Fatal(err)
	}
	return all
}

// Time in which the node did not run does not count.
func TestClockOfAResumedTask(t *testing.T) {
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
		store := inMemory(t)
		h, j := journaled(t, store, model)
		m := h.spawn(agent.Order{Definition: definition.General(), Limits: budget.Limits{Wall: 30 * time.Minute}})
		h.background(m, "go")
		time.Sleep(10*time.Minute + time.Second)
		open := h.stop(j, m)
		if len(open) != 1 || !open[0].Exchange.Open {
			t.Fatalf("interrupted are %+v", open)
		}
		ran := session.RunningTime(session.Latest(entriesOf(t, store, open[0].ID)))
		time.Sleep(15*time.Minute - time.Second)
		h, _ = journaled(t, store, model)
		m = h.spawn(agent.Order{Definition: definition.General(), Limits: budget.Limits{Wall: 30 * time.Minute}, Session: open[0]})
		if _, err := h.community.Send(t.Context(), m.ID, community.Signal{Perception: "task", Data: []byte("null")}); err != nil {
			t.Fatal(err)
		}
		if left.Round(time.Minute) != 20*time.Minute || ran.Round(time.Minute) != 10*time.Minute {
			t.Errorf("it has %v left of 30m after %v, want 20m", left, ran)
		}
	})
}

// Who steers an agent is a requester of its calls until the task ends, also after the end of the node.
func TestSteererIsARequesterOfAResumedTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var chains []string
		who := tool.New(tool.Spec{Name: "who"}, func(ctx context.Context, _ struct{}) tool.Result {
			time.Sleep(time.Second)
			chains = append(chains, strings.Join(peer.Requester(ctx), " "))
			return tool.Result{}
		})
		ended := false
		model := script(func(ctx context.Context, r llm.Request) (llm.Message, error) {
			switch {
			case len(chains) == 3:
				return say("done")
			case len(chains) == 2 && !ended:
				ended = true
				<-ctx.Done()
				return llm.Message{}, ctx.Err()
			}
			return call(use("", "who", nil))
		})
		store := inMemory(t)
		h, j := journaled(t, store, model, who)
		m := h.spawn(agent.Order{Policy: allowed(t, "who")})
		h.background(m, "go")
		time.Sleep(500 * time.Millisecond)
		by := community.Signal{Requester: []string{"other", "other/x"}, OnBehalf: []byte(`{"links":[{"name":"x","allow":["who"],"default":"deny"}]}`)}
		if _, err := h.factory.SteerFrom(t.Context(), m.ID, "and who are you?", by); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		open := h.stop(j, m)
		h, _ = journaled(t, store, model, who)
		again := h.spawn(agent.Order{Policy: allowed(t, "who"), Session: open[0]})
		if got, err := h.community.Send(t.Context(), again.ID, community.Signal{Perception: "task", Data: []byte("null")}); err != nil || string(got.Data) != "done" {
			t.Fatalf("the resumed task: %q, %v", got.Data, err)
		}
		first, second := peer.Address(m), peer.Address(again)
		if want := []string{first, first + " other other/x", second + " other other/x"}; !slices.Equal(chains, want) {
			t.Errorf("the calls are on behalf of %q, want %q", chains, want)
		}
	})
}

func entriesOf(t *testing.T, store session.Store, id string) []session.Entry {
	t.Helper()
	all, err := store.Entries(t.Context(), id, 0)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestKeptAgentLivesAgainUntilItIsTerminated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := inMemory(t)
		model := script(func(_ context.Context, r llm.Request) (llm.Message, error) {
			if last(r).Text == "panic" {
				panic("as asked")
			}
			return say(r.Messages[0].Text)
		})
		h, j := journaled(t, store, model)
		first := h.spawn(agent.Order{Definition: definition.General(), Session: session.Info{Keep: true}})
		kept := func() session.Info {
			all, err := store.Sessions(t.Context(), session.Filter{})
			if err != nil || len(all) != 1 {
				t.Fatalf("%d sessions, %v", len(all), err)
			}
			return all[0]
		}
		if !kept().Keep || kept().Member != string(first.ID) {
			t.Errorf("before its first task: %+v", kept())
		}
		if text, err := h.task(first, "one"); text != "one" || err != nil {
			t.Error(text, err)
		}
		if _, err := h.task(first, "panic"); err == nil || !kept().Keep {
			t.Errorf("after a failure: %v, %+v", err, kept())
		}
		h.stop(j, first)
		if !kept().Keep {
			t.Error("the end of the node ended it for good")
		}
		h, _ = journaled(t, store, model)
		again := h.spawn(agent.Order{Definition: definition.General(), Session: kept()})
		if again.ID != first.ID {
			t.Errorf("it lives again as %s, want %s", again.ID, first.ID)
		}
		if _, err := h.factory.Spawn(t.Context(), agent.Order{Definition: definition.General(), Session: kept()}); err == nil {
			t.Error("it lives twice")
		}
		if text, err := h.task(again, "two"); text != "one" || err != nil {
			t.Errorf("its conversation begins with %q, %v", text, err)
		}
		if err := h.community.Terminate(t.Context(), again.ID); err != nil || kept().Keep {
			t.Errorf("after its end: %v, %+v", err, kept())
		}
	})
}

// An agent that supervision has restarted works in its session as before.
func TestRestartedAgentHasItsSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := script(func(ctx context.Context, r llm.Request) (llm.Message, error) {
			switch last(r).Text {
			case "panic":
				panic("as asked")
			case "one":
				return say("first")
			}
			<-ctx.Done()
			return llm.Message{}, ctx.Err()
		})
		store := inMemory(t)
		h, j := journaled(t, store, model)
		m := h.spawn(agent.Order{Definition: definition.General()})
		if text, err := h.task(m, "one"); text != "first" || err != nil {
			t.Fatal(text, err)
		}
		if _, err := h.task(m, "panic"); err == nil {
			t.Error("a panic is no error")
		}
		wait := h.background(m, "wait")
		time.Sleep(time.Minute) // until it is restarted
		synctest.Wait()
		s := h.factory.Session(m.ID)
		if _, err := h.factory.Spawn(t.Context(), agent.Order{Definition: definition.General(), Session: s}); !errors.Is(err, session.ErrInUse) || !j.IsInUse(s.ID) {
			t.Errorf("while the restarted agent works another one goes on with its session: %v", err)
		}
		if err := h.community.Terminate(t.Context(), m.ID); err != nil {
			t.Fatal(err)
		}
		_, _ = wait()
		var texts []string
		for _, e := range entriesOf(t, store, s.ID) {
			if e.Kind == session.Task {
				texts = append(texts, e.Message.Text)
			}
		}
		if len(texts) != 3 || j.IsInUse(s.ID) {
			t.Errorf("the session has the tasks %q, and is in use: %v", texts, j.IsInUse(s.ID))
		}
	})
}
