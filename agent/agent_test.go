package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"symbio/actor"
	"symbio/agent"
	"symbio/agent/budget"
	"symbio/agent/definition"
	"symbio/agent/event"
	"symbio/agent/llm"
	"symbio/agent/tool"
	"symbio/community"
	"symbio/security/permission"
	"symbio/skills"
)

// script is a model that answers by a function of what it is given.
func script(answer func(ctx context.Context, r llm.Request) (llm.Message, error)) llm.Model {
	return llm.Func(func(ctx context.Context, r llm.Request) (llm.Response, error) {
		m, err := answer(ctx, r)
		return llm.Response{Message: m, Stop: llm.StopEnd}, err
	})
}

func say(text string) (llm.Message, error) { return llm.Message{Text: text}, nil }

func call(calls ...llm.ToolCall) (llm.Message, error) { return llm.Message{Calls: calls}, nil }

func use(id, name string, args any) llm.ToolCall {
	raw, err := json.Marshal(args)
	if err != nil {
		panic(err)
	}
	return llm.ToolCall{ID: id, Name: name, Args: raw}
}

// last is the newest message of a request.
func last(r llm.Request) llm.Message { return r.Messages[len(r.Messages)-1] }

// house is a node's worth of parts around a factory, in a bubble.
type house struct {
	t         *testing.T
	community *community.Community
	skills    *skills.Registry
	factory   *agent.Factory
	record    func(agent.RecordedDecision) error // nil = no record is kept; set before the first task
	granted   []permission.Grant                 // to all agents; set between tasks
	sessions  map[string][]permission.Grant      // by the agents without a parent for whose sessions they are; set between tasks

	mu     sync.Mutex
	events []event.Event // guarded by mu
	ended  []string      // the agents without a parent that have ended; guarded by mu
}

func newHouse(t *testing.T, model llm.Model, tools ...tool.Tool) *house {
	t.Helper()
	h := &house{t: t}
	system := actor.NewSystem(actor.Config{})
	h.community = community.New(community.Config{System: system, Drain: time.Second, Authorize: func(community.Peer, community.Call) error { return nil }})
	var err error
	h.skills, err = skills.NewRegistry(system, skills.Config{Bundled: fstest.MapFS{
		"notes/SKILL.md": {Data: []byte("---\nname: notes\ndescription: Takes notes.\nallowed-tools: slow\n---\nWrite it down.\n")},
	}})
	if err != nil {
		t.Fatal(err)
	}
	h.factory = agent.NewFactory(agent.Config{
		Community: h.community, Skills: h.skills, Tools: tools, Dir: "/work",
		Model: func(context.Context, string) (llm.Model, error) { return model, nil },
		Definition: func(name string) (definition.Definition, error) {
			d := definition.General()
			if d.Name, d.Instructions = name, "I work."; name == "brief" {
				d.Budget = budget.Limits{ModelCalls: 2, Agents: -1}
			} else if name != "worker" {
				return d, fmt.Errorf("agent definition %q: %w", name, community.ErrNotFound)
			}
			return d, nil
		},
		Record: h.keep, Approvals: h,
		Report: func(e event.Event) { h.mu.Lock(); defer h.mu.Unlock(); h.events = append(h.events, e) },
	})
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- h.community.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("the community ended with %v", err)
		}
		if err := system.Shutdown(context.Background()); err != nil {
			t.Errorf("actors: %v", err)
		}
	})
	return h
}

// Granted and End make it the agent.Approvals of its agents.
func (h *house) Granted(root string) []permission.Grant {
	return slices.Concat(h.granted, h.sessions[root])
}

func (h *house) End(root string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ended = append(h.ended, root)
}

func (h *house) keep(e agent.RecordedDecision) error {
	if h.record == nil {
		return nil
	}
	return h.record(e)
}

// allowed allows the named tools and denies the rest.
func allowed(t *testing.T, rules ...string) permission.Policy {
	t.Helper()
	var p permission.Policy
	for _, text := range rules {
		r, err := permission.ParseRule(text)
		if err != nil {
			t.Fatal(err)
		}
		p.Allow = append(p.Allow, r)
	}
	return p
}

func (h *house) spawn(o agent.Order) community.Member {
	h.t.Helper()
	if o.Definition.Name == "" {
		o.Definition = definition.General()
	}
	m, err := h.factory.Spawn(h.t.Context(), o)
	if err != nil {
		h.t.Fatal(err)
	}
	return m
}

func (h *house) task(m community.Member, text string) (string, error) {
	r, err := h.community.Send(h.t.Context(), m.ID, community.Signal{Perception: "task", Data: []byte(text)})
	return string(r.Data), err
}

// settle sleeps until all that happens by the end of d, at its last instant too, has happened.
func settle(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (h *house) seen(kind string) (out []event.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range h.events {
		if e.Type == kind {
			out = append(out, e)
		}
	}
	return out
}

type waitArgs struct {
	For string `json:"for"`
}

// slow is a tool that takes as long as it is told.
func slow() tool.Tool {
	return tool.New(tool.Spec{Name: "slow", Description: "waits"}, func(ctx context.Context, a waitArgs) tool.Result {
		d, err := time.ParseDuration(a.For)
		if err != nil {
			return tool.Result{Text: err.Error(), IsError: true}
		}
		select {
		case <-time.After(d):
			return tool.Result{Text: "waited " + a.For}
		case <-ctx.Done():
			return tool.Result{Text: "interrupted", IsError: true}
		}
	})
}

func TestModelAndTheToolsTakeTurnsUntilTheModelIsDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := script(func(_ context.Context, r llm.Request) (llm.Message, error) {
			if m := last(r); m.Role == llm.Tool {
				var texts []string
				for _, res := range m.Results {
					texts = append(texts, res.CallID+"="+res.Text)
				}
				return say(strings.Join(texts, " "))
			}
			return call(use("1", "slow", waitArgs{"3s"}), use("2", "slow", waitArgs{"1s"}), use("3", "slow", waitArgs{"2s"}))
		})
		h := newHouse(t, model, slow())
		start := time.Now()
		got, err := h.task(h.spawn(agent.Order{Policy: allowed(t, "slow")}), "go")
		if want := "1=waited 3s 2=waited 1s 3=waited 2s"; got != want || err != nil {
			t.Errorf("answer = %q, %v; want %q: results in the order of the calls", got, err, want)
		}
		if took := time.Since(start); took != 3*time.Second {
			t.Errorf("three calls took %v, want 3s: side by side", took)
		}
		if n := len(h.seen(event.TypeDecision)); n != 3 {
			t.Errorf("%d decisions were reported, want 3", n)
		}
	})
}

func TestCallWithoutRuleIsRefusedAndReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ran := false
		danger := tool.New(tool.Spec{Name: "danger"}, func(context.Context, struct{}) tool.Result { ran = true; return tool.Result{} })
		model := script(func(_ context.Context, r llm.Request) (llm.Message, error) {
			if m := last(r); m.Role == llm.Tool {
				return say(fmt.Sprint(m.Results[0].IsError))
			}
			return call(use("1", "danger", struct{}{}))
		})
		h := newHouse(t, model, danger)
		got, err := h.task(h.spawn(agent.Order{Policy: allowed(t, "slow")}), "go")
		if got != "true" || err != nil || ran {
			t.Errorf("answer = %q, %v, ran = %v; want the refusal as a result, and nothing run", got, err, ran)
		}
		d := h.seen(event.TypeDecision)
		if len(d) != 1 || event.PartOf[event.Decision](d[0]).Verdict != "deny" || event.PartOf[event.Decision](d[0]).Approved || d[0].Why == "" {
			t.Errorf("decisions = %+v, want one deny that says why", d)
		}
	})
}

func TestTaskEndsAtTheLimitOfTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := script(func(context.Context, llm.Request) (llm.Message, error) { return call(use("1", "slow", waitArgs{"1s"})) })
		h := newHouse(t, model, slow())
		def := definition.General()
		def.MaxTurns = 3
		_, err := h.task(h.spawn(agent.Order{Definition: def, Policy: allowed(t, "slow")}), "go")
		if !errors.Is(err, agent.ErrTurns) {
			t.Errorf("error = %v, want ErrTurns", err)
		}
		if n := len(h.seen(event.TypeTurn)); n != 3 {
			t.Errorf("the model was asked %d times, want 3", n)
		}
	})
}

func TestTaskEndsWithItsCallerAndWithItsBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := script(func(ctx context.Context, r llm.Request) (llm.Message, error) {
			<-ctx.Done()
			return llm.Message{}, ctx.Err()
		})
		h := newHouse(t, model)
		m := h.spawn(agent.Order{Limits: budget.Limits{Wall: time.Minute}})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		_, err := h.community.Send(ctx, m.ID, community.Signal{Perception: "task", Data: []byte("go")})
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != time.Second {
			t.Errorf("error = %v after %v, want the caller's deadline", err, time.Since(start))
		}
		start = time.Now()
		if _, err := h.task(m, "again"); !errors.Is(err, budget.ErrExceeded) || time.Since(start) != time.Minute {
			t.Errorf("error = %v after %v, want ErrBudget after a minute", err, time.Since(start))
		}
	})
}

func TestFailedTaskLeavesTheConversationWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got [][]llm.Role
		model := script(func(_ context.Context, r llm.Request) (llm.Message, error) {
			var roles []llm.Role
			for _, m := range r.Messages {
				roles = append(roles, m.Role)
			}
			got = append(got, roles)
			switch last(r).Text {
			case "break":
				return call(use("1", "slow", waitArgs{"1s"}))
			case "":
				return llm.Message{}, errors.New("gone")
			}
			return say("fine")
		})
		h := newHouse(t, model, slow())
		m := h.spawn(agent.Order{Policy: allowed(t, "slow")})
		for _, task := range []string{"one", "break", "two"} {
			_, err := h.task(m, task)
			if (err != nil) != (task == "break") {
				t.Errorf("task %s: %v", task, err)
			}
		}
		want := []llm.Role{llm.User, llm.Assistant, llm.User}
		if last := got[len(got)-1]; !slices.Equal(last, want) {
			t.Errorf("after a failure the model is given %v, want %v: no call without its result", last, want)
		}
	})
}

// spawner makes a model whose first agent does what plan says, and whose others answer done.
func spawner(plan func(r llm.Request) (llm.Message, error)) llm.Model {
	return script(func(_ context.Context, r llm.Request) (llm.Message, error) {
		if strings.Contains(r.System, "You are a sub-agent of") {
			return say("done")
		}
		return plan(r)
	})
}

func TestSubAgentsEndWithTheirParent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, spawner(func(r llm.Request) (llm.Message, error) {
			if last(r).Role == llm.Tool {
				return say(last(r).Results[1].Text)
			}
			return call(use("1", "replicate_agent", map[string]any{"reason": "a"}), use("2", "replicate_agent", map[string]any{"reason": "b"}))
		}))
		m := h.spawn(agent.Order{Policy: allowed(t, "replicate_agent")})
		answer, err := h.task(m, "go")
		if err != nil || !strings.Contains(answer, `"success":true`) {
			t.Fatalf("answer = %q, %v", answer, err)
		}
		if n := len(h.community.Members()); n != 3 {
			t.Fatalf("%d members, want the agent and two sub-agents", n)
		}
		if err := h.community.Terminate(t.Context(), m.ID); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if left := h.community.Members(); len(left) != 0 {
			t.Errorf("%v outlived their parent", left)
		}
	})
}

func TestBudgetHoldsOverTheWholeTree(t *testing.T) {
	for name, test := range map[string]struct {
		limits budget.Limits
		want   string
	}{
		"count": {budget.Limits{Agents: 2, SpawnsPerMinute: 100}, "2 sub-agents live already"},
		"rate":  {budget.Limits{Agents: 100, SpawnsPerMinute: 2}, "2 sub-agents a minute"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHouse(t, spawner(func(r llm.Request) (llm.Message, error) {
					if last(r).Role == llm.Tool {
						var failed []string
						for _, res := range last(r).Results {
							if res.IsError {
								failed = append(failed, res.Text)
							}
						}
						return say(strings.Join(failed, "|"))
					}
					c := use("1", "replicate_agent", map[string]any{"reason": "a"})
					return call(c, c, c)
				}))
				got, err := h.task(h.spawn(agent.Order{Policy: allowed(t, "replicate_agent"), Limits: test.limits}), "go")
				if err != nil || strings.Count(got, "|") != 0 || !strings.Contains(got, test.want) {
					t.Errorf("refusals = %q, %v; want exactly one, with %q", got, err, test.want)
				}
				if n := len(h.community.Members()); n != 3 {
					t.Errorf("%d members, want 3", n)
				}
			})
		})
	}
}

func TestDepthIsLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// Each agent makes one more and gives it the task, until one cannot.
		model := script(func(_ context.Context, r llm.Request) (llm.Message, error) {
			m := last(r)
			if m.Role == llm.User {
				return call(use("1", "replicate_agent", map[string]any{"reason": "deeper"}))
			}
			if m.Results[0].IsError || m.Results[0].Name == "send_signal" {
				return say(m.Results[0].Text)
			}
			var child struct {
				ID string `json:"agent_id"`
			}
			if err := json.Unmarshal([]byte(m.Results[0].Text), &child); err != nil {
				return llm.Message{}, err
			}
			return call(use("2", "send_signal", map[string]any{"member": child.ID, "data": "go deeper"}))
		})
		h := newHouse(t, model)
		got, err := h.task(h.spawn(agent.Order{Policy: allowed(t, "replicate_agent", "send_signal"), Limits: budget.Limits{Depth: 2}}), "go")
		if err != nil || !strings.Contains(got, "nested 2 deep") {
			t.Errorf("answer = %q, %v; want the limit of depth", got, err)
		}
	})
}

func TestCopyHasAtMostItsParentsPermissions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ask := func(r llm.Request, keep any) (llm.Message, error) {
			m := last(r)
			switch {
			case m.Role == llm.User && strings.Contains(r.System, "sub-agent"):
				return call(use("1", "slow", waitArgs{"1s"}))
			case m.Role == llm.User:
				return call(use("1", "replicate_agent", map[string]any{"reason": "x", "tools": keep}))
			case m.Results[0].Name == "replicate_agent" && !m.Results[0].IsError:
				var child struct {
					ID string `json:"agent_id"`
				}
				if err := json.Unmarshal([]byte(m.Results[0].Text), &child); err != nil {
					return llm.Message{}, err
				}
				return call(use("2", "send_signal", map[string]any{"member": child.ID, "data": "go"}))
			}
			return say(m.Results[0].Text)
		}
		for name, test := range map[string]struct {
			policy permission.Policy
			keep   any
			want   string
		}{
			"all that the parent may": {allowed(t, "slow", "replicate_agent", "send_signal"), nil, "waited 1s"},
			"what it was left":        {allowed(t, "slow", "replicate_agent", "send_signal"), []string{"slow"}, "waited 1s"},
			"not what it was not":     {allowed(t, "slow", "replicate_agent", "send_signal"), []string{"find_members"}, "Denied"},
			"not what no parent may":  {allowed(t, "replicate_agent", "send_signal"), []string{"slow"}, "Denied"},
			"nothing unknown":         {allowed(t, "replicate_agent"), []string{"Bash(*)"}, "you do not have the tools"},
		} {
			h := newHouse(t, script(func(_ context.Context, r llm.Request) (llm.Message, error) { return ask(r, test.keep) }), slow())
			got, err := h.task(h.spawn(agent.Order{Policy: test.policy}), "go")
			if err != nil || !strings.Contains(got, test.want) {
				t.Errorf("%s: answer = %q, %v; want %q", name, got, err, test.want)
			}
		}
	})
}

func TestSkillsGrantsAreItsTakersOnlyAndEndWithIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// The agent takes the skill, which allows slow; its copy does not, and may not.
		model := script(func(_ context.Context, r llm.Request) (llm.Message, error) {
			m := last(r)
			if m.Role == llm.Tool {
				return say(m.Results[len(m.Results)-1].Text)
			}
			switch m.Text {
			case "take":
				return call(use("1", "activate_skill", map[string]any{"skillName": "notes"}), use("2", "slow", waitArgs{"1s"}))
			case "copy":
				return call(use("1", "replicate_agent", map[string]any{"reason": "x", "name": "copy"}))
			}
			return call(use("1", "slow", waitArgs{"1s"}))
		})
		h := newHouse(t, model, slow())
		m := h.spawn(agent.Order{Policy: allowed(t, "activate_skill", "replicate_agent")})
		step := func(to community.Member, task, want string) {
			t.Helper()
			if got, err := h.task(to, task); err != nil || !strings.Contains(got, want) {
				t.Errorf("%s: answer = %q, %v; want %q", task, got, err, want)
			}
		}
		step(m, "before", "Denied")
		step(m, "take", "waited 1s")
		step(m, "copy", "success")
		for _, other := range h.community.Members() {
			if other.ID != m.ID {
				step(other, "child", "Denied")
			}
		}
		if err := h.community.Terminate(t.Context(), m.ID); err != nil {
			t.Fatal(err)
		}
		if left := h.skills.Granted(string(m.ID)); len(left) != 0 {
			t.Errorf("grants that outlived their agent: %v", left)
		}
	})
}

func TestTaskOfAnotherNodeIsMarkedAsOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, script(func(_ context.Context, r llm.Request) (llm.Message, error) { return say(r.System) }))
		m := h.spawn(agent.Order{})
		const mark = "comes from another node"
		for name, test := range map[string]struct {
			requester []string
			want      bool
		}{
			"a person here":  {nil, false},
			"an agent here":  {[]string{"ownnode/agent"}, false},
			"another node":   {[]string{"othernode"}, true},
			"its agent":      {[]string{"othernode", "othernode/agent"}, true},
			"for an agent 2": {[]string{"ownnode/agent", "othernode"}, false},
		} {
			r, err := h.community.Send(t.Context(), m.ID, community.Signal{Perception: "task", Data: []byte("go"), Requester: test.requester})
			if got := strings.Contains(string(r.Data), mark); err != nil || got != test.want {
				t.Errorf("%s: marked = %v, %v; want %v", name, got, err, test.want)
			}
		}
	})
}

func TestSkillThatACopyTakesDoesNotLiftItOverItsParent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := script(func(_ context.Context, r llm.Request) (llm.Message, error) {
			m := last(r)
			switch {
			case m.Role == llm.Tool:
				return say(m.Results[len(m.Results)-1].Text)
			case m.Text == "copy":
				return call(use("1", "replicate_agent", map[string]any{"reason": "x"}))
			}
			return call(use("1", "activate_skill", map[string]any{"skillName": "notes"}), use("2", "slow", waitArgs{"1s"}))
		})
		h := newHouse(t, model, slow())
		parent := h.spawn(agent.Order{Policy: allowed(t, "activate_skill", "replicate_agent")})
		if _, err := h.task(parent, "copy"); err != nil {
			t.Fatal(err)
		}
		for _, m := range h.community.Members() {
			if m.ID == parent.ID {
				continue
			}
			// The skill allows slow to the copy, but nothing allows it to the parent.
			if got, err := h.task(m, "take"); err != nil || !strings.Contains(got, "Denied") {
				t.Errorf("the copy: %q, %v; want a refusal", got, err)
			}
		}
		if got, err := h.task(parent, "take"); err != nil || !strings.Contains(got, "waited 1s") {
			t.Errorf("the parent, once it has the skill: %q, %v", got, err)
		}
	})
}
