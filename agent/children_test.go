package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"symbio/agent"
	"symbio/agent/budget"
	"symbio/agent/definition"
	"symbio/agent/llm"
	"symbio/community"
)

// parents makes a model whose first agent makes one call after the other, as plan says from the results so far, and whose
// sub-agents do what child says.
func parents(plan func(n int, results []llm.ToolResult) (llm.Message, error), child func(ctx context.Context, r llm.Request) (llm.Message, error)) llm.Model {
	return script(func(ctx context.Context, r llm.Request) (llm.Message, error) {
		if strings.Contains(r.System, "You are a sub-agent of") {
			return child(ctx, r)
		}
		var results []llm.ToolResult
		for _, m := range r.Messages {
			results = append(results, m.Results...)
		}
		return plan(len(results), results)
	})
}

// waited is what wait_agents and stop_agents answer.
type waited struct {
	Agents, Stopped []struct {
		ID      community.MemberID `json:"agent_id"`
		Name    string
		Status  string
		Result  string
		Error   string
		Doing   string
		Spent   budget.Spent
		NotTold []string `json:"not_told"`
	}
	Note string
}

func read[T any](t *testing.T, r llm.ToolResult) (v T) {
	t.Helper()
	if err := json.Unmarshal([]byte(r.Text), &v); err != nil || r.IsError {
		t.Errorf("%s answered %q, %v", r.Name, r.Text, err)
	}
	return v
}

func TestSubAgentsWorkBesideTheirParentAndTheirResultsComeInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var start time.Time
		var got waited
		var busy time.Duration
		h := newHouse(t, parents(func(n int, results []llm.ToolResult) (llm.Message, error) {
			switch n {
			case 0:
				return call(
					use("1", "replicate_agent", map[string]any{"reason": "a", "name": "slowest", "task": "3s"}),
					use("2", "replicate_agent", map[string]any{"reason": "b", "name": "broken", "task": "fail"}),
					use("3", "replicate_agent", map[string]any{"reason": "c", "name": "quick", "task": "1s"}))
			case 3:
				busy = time.Since(start)
				return call(use("4", "wait_agents", map[string]any{}))
			}
			got = read[waited](t, results[3])
			return say("done")
		}, func(ctx context.Context, r llm.Request) (llm.Message, error) {
			d, err := time.ParseDuration(last(r).Text)
			if err != nil {
				return llm.Message{}, errors.New("it broke")
			}
			time.Sleep(d)
			return say("after " + last(r).Text)
		}))
		start = time.Now()
		m := h.spawn(agent.Order{Policy: allowed(t, "replicate_agent")})
		if _, err := h.task(m, "go"); err != nil {
			t.Fatal(err)
		}
		if busy != 0 || time.Since(start) != 3*time.Second {
			t.Errorf("it went on after %v and was done after %v, want 0s and 3s", busy, time.Since(start))
		}
		var lines []string
		for _, a := range got.Agents {
			lines = append(lines, fmt.Sprintf("%s %s %q %v %d", a.Name, a.Status, a.Result, strings.Contains(a.Error, "it broke"), a.Spent.ModelCalls))
		}
		want := []string{`slowest done "after 3s" false 1`, `broken failed "" true 1`, `quick done "after 1s" false 1`}
		if diff := cmp.Diff(want, lines); diff != "" {
			t.Errorf("results (-want +got):\n%s", diff)
		}
		spent, ok := h.factory.Spent(m.ID)
		if !ok || spent.ModelCalls != 6 || spent.Agents != 3 || spent.Wall != 3 {
			t.Errorf("all have spent %+v, %v; want 6 calls by 3 agents in 3s", spent, ok)
		}
		if err := h.community.Terminate(t.Context(), m.ID); err != nil {
			t.Fatal(err)
		}
		if left := h.community.Members(); len(left) != 0 {
			t.Errorf("%v outlived their parent", left)
		}
	})
}

func TestWaitingEndsWithTheFirstOrWithTheTimeOrAtOnce(t *testing.T) {
	for until, test := range map[string]struct {
		seconds float64
		after   time.Duration
		want    string
	}{
		"any": {0, time.Second, "working done"},
		"now": {0, 0, "working working"},
		"all": {0.25, 250 * time.Millisecond, "working working"},
	} {
		synctest.Test(t, func(t *testing.T) {
			var start time.Time
			h := newHouse(t, parents(func(n int, results []llm.ToolResult) (llm.Message, error) {
				switch n {
				case 0:
					return call(use("1", "replicate_agent", map[string]any{"reason": "a", "task": "1h"}), use("2", "replicate_agent", map[string]any{"reason": "b", "task": "1s"}))
				case 2:
					start = time.Now()
					return call(use("3", "wait_agents", map[string]any{"until": until, "seconds": test.seconds}))
				}
				if took := time.Since(start); took != test.after {
					t.Errorf("%s: it waited %v, want %v", until, took, test.after)
				}
				var status []string
				for _, a := range read[waited](t, results[2]).Agents {
					status = append(status, a.Status)
				}
				return say(strings.Join(status, " "))
			}, func(ctx context.Context, r llm.Request) (llm.Message, error) {
				d, _ := time.ParseDuration(last(r).Text)
				select {
				case <-time.After(d):
				case <-ctx.Done():
				}
				return say("done")
			}))
			m := h.spawn(agent.Order{Policy: allowed(t, "replicate_agent")})
			if got, err := h.task(m, "go"); got != test.want || err != nil {
				t.Errorf("%s: %q, %v; want %q", until, got, err, test.want)
			}
			// The one that works is not waited for, nor does it outlive its parent.
			start = time.Now()
			if err := h.community.Terminate(t.Context(), m.ID); err != nil || time.Since(start) > time.Second {
				t.Errorf("the end: %v after %v", err, time.Since(start))
			}
			if left := h.community.Members(); len(left) != 0 {
				t.Errorf("%v outlived their parent", left)
			}
		})
	}
}

func TestTaskThatIsBeingDoneIsNotGivenTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		same := map[string]any{"reason": "a", "name": "one", "task": "count  the\nfiles"}
		var results []llm.ToolResult
		h := newHouse(t, parents(func(n int, all []llm.ToolResult) (llm.Message, error) {
			results = all
			switch n {
			case 0: // in one turn, at the same time
				return call(use("1", "replicate_agent", same), use("2", "replicate_agent", map[string]any{"reason": "b", "task": "count the files"}))
			case 2:
				return call(use("3", "replicate_agent", map[string]any{"reason": "b", "task": "count the files"}))
			case 3:
				return call(use("4", "wait_agents", map[string]any{}))
			case 4:
				return call(use("5", "replicate_agent", map[string]any{"reason": "again", "task": "count the files"}))
			}
			return say("done")
		}, func(context.Context, llm.Request) (llm.Message, error) {
			time.Sleep(time.Second)
			return say("2")
		}))
		if _, err := h.task(h.spawn(agent.Order{Policy: allowed(t, "replicate_agent")}), "go"); err != nil {
			t.Fatal(err)
		}
		refused := 0
		for _, r := range results[:2] {
			if r.IsError && strings.Contains(r.Text, "in progress already") {
				refused++
			}
		}
		if refused != 1 {
			t.Errorf("of two at the same time %d were refused, want 1: %q, %q", refused, results[0].Text, results[1].Text)
		}
		if r := results[2]; !r.IsError || !strings.Contains(r.Text, "in progress already, by ") || !strings.Contains(r.Text, "wait_agents") {
			t.Errorf("while it is done: %q, want a refusal that names who does it", r.Text)
		}
		if r := results[4]; r.IsError {
			t.Errorf("when it is done: %q, want another", r.Text)
		}
	})
}

func TestIdleSubAgentTakesAMessageAsItsTaskAndAWorkingOneIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var results []llm.ToolResult
		var heard []string
		h := newHouse(t, parents(func(n int, all []llm.ToolResult) (llm.Message, error) {
			results = all
			switch n {
			case 0:
				return call(use("1", "replicate_agent", map[string]any{"reason": "a", "name": "ann"}))
			case 1:
				return call(use("2", "wait_agents", map[string]any{"agents": []string{"ann"}}))
			case 2:
				return call(use("3", "message_agent", map[string]any{"agent": "ann", "message": "begin"}))
			case 3:
				time.Sleep(500 * time.Millisecond)
				return call(use("4", "message_agent", map[string]any{"agent": "ann", "message": "only the large ones"}))
			case 4:
				return call(use("5", "wait_agents", map[string]any{}))
			}
			return say("done")
		}, func(_ context.Context, r llm.Request) (llm.Message, error) {
			for _, m := range r.Messages[max(0, len(r.Messages)-2):] {
				heard = append(heard, string(m.Role)+": "+m.Text)
			}
			if last(r).Text == "begin" {
				return call(use("1", "slow", waitArgs{"1s"}))
			}
			return say("as I was told")
		}), slow())
		if _, err := h.task(h.spawn(agent.Order{Policy: allowed(t, "replicate_agent", "slow")}), "go"); err != nil {
			t.Fatal(err)
		}
		if idle := read[waited](t, results[1]).Agents; len(idle) != 1 || idle[0].Status != "idle" {
			t.Errorf("before its task it is %+v, want idle, without waiting", idle)
		}
		if !strings.Contains(results[2].Text, `"outcome":"started"`) || !strings.Contains(results[3].Text, `"outcome":"delivered"`) {
			t.Errorf("the messages: %q, %q; want started, delivered", results[2].Text, results[3].Text)
		}
		if got := strings.Join(heard, "|"); !strings.Contains(got, "only the large ones") {
			t.Errorf("it heard %q", got)
		}
		if done := read[waited](t, results[4]).Agents; len(done) != 1 || done[0].Result != "as I was told" {
			t.Errorf("in the end %+v", done)
		}
	})
}

func TestStoppedSubAgentsEndWithAllBelowThemAndMakeRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var results []llm.ToolResult
		h := newHouse(t, parents(func(n int, all []llm.ToolResult) (llm.Message, error) {
			results = all
			switch n {
			case 0:
				return call(use("1", "replicate_agent", map[string]any{"reason": "a", "name": "ann", "task": "deeper"}))
			case 1:
				return call(use("2", "slow", waitArgs{"1s"}))
			case 2:
				return call(use("3", "replicate_agent", map[string]any{"reason": "too many"}))
			case 3:
				var ann struct {
					ID string `json:"agent_id"`
				}
				if err := json.Unmarshal([]byte(all[0].Text), &ann); err != nil {
					t.Error(err)
				}
				return call(use("4", "stop_agents", map[string]any{"agents": []string{ann.ID}}))
			case 4:
				return call(use("5", "replicate_agent", map[string]any{"reason": "again"}))
			}
			return say("done")
		}, func(ctx context.Context, r llm.Request) (llm.Message, error) {
			if strings.Contains(last(r).Text, "deeper") {
				return call(use("1", "replicate_agent", map[string]any{"reason": "b", "task": "for ever"}))
			}
			<-ctx.Done()
			return llm.Message{}, ctx.Err()
		}), slow())
		m := h.spawn(agent.Order{Policy: allowed(t, "replicate_agent", "slow"), Limits: budget.Limits{Agents: 2}})
		if _, err := h.task(m, "go"); err != nil {
			t.Fatal(err)
		}
		if !results[2].IsError || !strings.Contains(results[2].Text, "2 sub-agents live already") {
			t.Errorf("the third: %q, want the limit", results[2].Text)
		}
		if stopped := read[waited](t, results[3]).Stopped; len(stopped) != 1 || stopped[0].Status != "failed" {
			t.Errorf("stopped: %+v, want one that did not come to its end", stopped)
		}
		if results[4].IsError || len(h.community.Members()) != 2 {
			t.Errorf("then: %q, with the members %v; want the agent and a new one", results[4].Text, h.community.Members())
		}
	})
}

func TestSubAgentsOfOthersAreOutOfReach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var of string
		var results []llm.ToolResult
		h := newHouse(t, parents(func(n int, all []llm.ToolResult) (llm.Message, error) {
			results = all
			if of == "" && n == 0 {
				return call(use("1", "replicate_agent", map[string]any{"reason": "a", "name": "ann"}))
			}
			if of != "" && n == 0 {
				return call(use("1", "message_agent", map[string]any{"agent": of, "message": "x"}), use("2", "wait_agents", map[string]any{"agents": []string{of}}), use("3", "stop_agents", map[string]any{"agents": []string{of}}))
			}
			return say("done")
		}, func(context.Context, llm.Request) (llm.Message, error) { return say("no") }))
		policy := allowed(t, "replicate_agent")
		first := h.spawn(agent.Order{Policy: policy})
		if _, err := h.task(first, "go"); err != nil {
			t.Fatal(err)
		}
		for _, m := range h.community.Members() {
			if m.ID != first.ID {
				of = string(m.ID)
			}
		}
		if _, err := h.task(h.spawn(agent.Order{Policy: policy}), "go"); err != nil {
			t.Fatal(err)
		}
		for _, r := range results {
			if !r.IsError || !strings.Contains(r.Text, "you have no sub-agent") {
				t.Errorf("%s: %q, want that there is none", r.Name, r.Text)
			}
		}
		if _, there := h.community.Member(community.MemberID(of)); !there {
			t.Error("the sub-agent of another was stopped")
		}
	})
}

func TestDenialHoldsForOwnSubAgents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, parents(func(n int, results []llm.ToolResult) (llm.Message, error) {
			switch n {
			case 0:
				return call(use("1", "replicate_agent", map[string]any{"reason": "a"}))
			case 1:
				return call(use("2", "wait_agents", map[string]any{}), use("3", "stop_agents", map[string]any{}))
			}
			return say(fmt.Sprint(results[1].IsError, " ", results[2].IsError))
		}, func(context.Context, llm.Request) (llm.Message, error) { return say("no") }))
		policy := allowed(t, "replicate_agent")
		policy.Deny = allowed(t, "stop_agents").Allow
		if got, err := h.task(h.spawn(agent.Order{Policy: policy}), "go"); got != "false true" || err != nil {
			t.Errorf("%q, %v; want that it may wait, and not stop them", got, err)
		}
	})
}

func TestAnotherDefinitionDoesNotGiveAnAgentToolsThatItWasNotGiven(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var results []llm.ToolResult
		h := newHouse(t, parents(func(n int, all []llm.ToolResult) (llm.Message, error) {
			results = all
			switch n {
			case 0:
				return call(use("1", "replicate_agent", map[string]any{"reason": "a", "agent": "worker", "task": "go"}), use("2", "replicate_agent", map[string]any{"reason": "a", "agent": "nobody"}))
			case 2:
				return call(use("3", "wait_agents", map[string]any{}))
			}
			return say("done")
		}, func(_ context.Context, r llm.Request) (llm.Message, error) {
			if last(r).Role == llm.Tool {
				return say(r.System[:6] + last(r).Results[0].Text)
			}
			return call(use("1", "slow", waitArgs{"1s"}))
		}), slow())
		planner := definition.General()
		planner.Name, planner.Tools = "planner", []string{"replicate_agent"}
		if _, err := h.task(h.spawn(agent.Order{Definition: planner, Policy: allowed(t, "replicate_agent", "slow")}), "go"); err != nil {
			t.Fatal(err)
		}
		if !results[1].IsError || !strings.Contains(results[1].Text, "nobody") {
			t.Errorf("an unknown definition: %q", results[1].Text)
		}
		got := read[waited](t, results[2]).Agents
		if len(got) != 1 || !strings.HasPrefix(got[0].Result, "I work") || !strings.Contains(got[0].Result, "Denied") {
			t.Errorf("the worker: %+v, want its own instructions, and that it may not", got)
		}
	})
}

func TestSeveralAreToldWhichTheyAre(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []string
		h := newHouse(t, parents(func(n int, results []llm.ToolResult) (llm.Message, error) {
			switch n {
			case 0:
				return call(use("1", "replicate_agent", map[string]any{"reason": "a", "count": 4, "name": "voter", "task": "vote"}))
			case 1:
				if !strings.Contains(results[0].Text, "3 of 4: over the budget: 3 sub-agents live already") {
					t.Errorf("more than there may be: %q", results[0].Text)
				}
				return call(use("2", "wait_agents", map[string]any{}))
			}
			for _, a := range read[waited](t, results[1]).Agents {
				got = append(got, a.Name+a.Result)
			}
			return say("done")
		}, func(_ context.Context, r llm.Request) (llm.Message, error) {
			return say(last(r).Text[strings.Index(last(r).Text, "["):])
		}))
		if _, err := h.task(h.spawn(agent.Order{Policy: allowed(t, "replicate_agent"), Limits: budget.Limits{Agents: 3}}), "go"); err != nil {
			t.Fatal(err)
		}
		want := []string{
			"voter-1[You are number 1 of 4 agents that were given this task.]", "voter-2[You are number 2 of 4 agents that were given this task.]",
			"voter-3[You are number 3 of 4 agents that were given this task.]",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("the voters (-want +got):\n%s", diff)
		}
	})
}

// A parent that is ended at any time leaves nobody behind, whatever they do.
func TestTreeEndsWithItsRootAtAnyTime(t *testing.T) {
	for ms := range 12 {
		synctest.Test(t, func(t *testing.T) {
			h := newHouse(t, script(func(ctx context.Context, r llm.Request) (llm.Message, error) {
				time.Sleep(300 * time.Millisecond) // a model that is not interrupted
				if last(r).Role == llm.User && len(r.Messages) == 1 {
					return call(use("1", "replicate_agent", map[string]any{"reason": "a", "task": "x" + last(r).Text}), use("2", "replicate_agent", map[string]any{"reason": "b", "task": "y" + last(r).Text}))
				}
				return call(use("3", "wait_agents", map[string]any{}))
			}))
			m := h.spawn(agent.Order{Policy: allowed(t, "replicate_agent")})
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() {
				_, err := h.community.Send(ctx, m.ID, community.Signal{Perception: "task", Data: []byte("go")})
				ended <- err
			}()
			time.Sleep(time.Duration(ms) * 150 * time.Millisecond)
			cancel()
			if err := h.community.Terminate(t.Context(), m.ID); err != nil {
				t.Errorf("after %dms: %v", ms*150, err)
			}
			<-ended
			synctest.Wait()
			if left := h.community.Members(); len(left) != 0 {
				t.Errorf("after %dms %v are left", ms*150, left)
			}
		})
	}
}
