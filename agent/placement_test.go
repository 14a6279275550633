package agent_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"symbio/agent"
	"symbio/agent/definition"
	"symbio/agent/event"
	"symbio/agent/llm"
	"symbio/community"
	"symbio/internal/agent/lending"
	"symbio/internal/agent/node/places"
	"symbio/internal/agent/placement"
)

// placed is the node a of a lan whose sub-agents are placed, and what its agents reported.
type placed struct {
	*lan
	mu     sync.Mutex
	events []event.Event
}

func (p *placed) texts(kind string) (all []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range p.events {
		if e.Type == kind {
			all = append(all, strings.TrimSpace(event.PartOf[event.Spawn](e).On+" "+e.Text+": "+e.Why))
		}
	}
	return all
}

// newPlaced gives the node a a Chooser with so many places, and a definition worker as it is lent.
func newPlaced(l *lan, local int, own definition.Definition) *placed {
	p := &placed{lan: l}
	self := community.Member{ID: community.MemberID(l.a.id), Node: l.a.id, Name: "ann"}
	l.a.factory = agent.NewFactory(agent.Config{
		Community: l.a.community, Tools: l.a.tools, Dir: "/work",
		Model:      func(context.Context, string) (llm.Model, error) { return l.a.model, nil },
		Definition: func(string) (definition.Definition, error) { return own, nil },
		Report: func(e event.Event) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.events = append(p.events, e)
		},
		Chooser: places.AgentChooser{Chooser: placement.New(placement.Config{
			Self: self, Local: local, Queue: 4,
			Lenders: func(d string) []community.Member { return lending.Lenders(l.a.community, l.a.id, d) },
			Load: func(ctx context.Context, node community.Member) (placement.Load, error) {
				return lending.Load(ctx, l.a.community, self, node)
			},
		})},
	})
	return p
}

// parts is a model whose parent gives as many tasks as its task says, with these arguments, and answers what it was told of
// them and their results; a sub-agent works as long as its task says.
func parts(args map[string]any, later ...func()) llm.Model {
	return script(func(ctx context.Context, r llm.Request) (llm.Message, error) {
		m := last(r)
		if strings.Contains(r.System, "You are a sub-agent of") {
			if m.Role == llm.User {
				return call(use("1", "slow", waitArgs{strings.Fields(firstTask(r))[1]}))
			}
			return say("did " + strings.Fields(firstTask(r))[0])
		}
		var n int
		var each string
		if _, err := fmt.Sscan(firstTask(r), &n, &each); err != nil {
			return llm.Message{}, err
		}
		switch {
		case m.Role == llm.User:
			var calls []llm.ToolCall
			for i := range n {
				with := map[string]any{"reason": "a part", "agent": "worker", "task": fmt.Sprintf("part%d %s", i, each)}
				for k, v := range args {
					with[k] = v
				}
				calls = append(calls, use(fmt.Sprint(i), "replicate_agent", with))
			}
			return llm.Message{Calls: calls}, nil
		case m.Results[0].Name == "replicate_agent":
			for _, f := range later {
				f()
			}
			var told []string
			for _, one := range m.Results {
				told = append(told, one.Text)
			}
			return llm.Message{Text: strings.Join(told, "\n"), Calls: []llm.ToolCall{use("w", "wait_agents", map[string]any{})}}, nil
		}
		return say(r.Messages[len(r.Messages)-2].Text + "\n" + m.Results[0].Text)
	})
}

func lentPlaces(n int) lending.LenderConfig {
	return lending.LenderConfig{Max: n, PerNode: n, Definitions: []definition.Definition{worker()}}
}

func TestTasksWaitForPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlaced(newLAN(t, parts(nil), lentPlaces(2), slow()), 1, worker())
		m := p.a.spawn(t, agent.Order{})
		began := time.Now()
		got, err := p.a.task(t.Context(), m, "7 10s")
		if err != nil {
			t.Fatal(err)
		}
		// Seven tasks of ten seconds on three places.
		if took := time.Since(began); took < 30*time.Second || took > 31*time.Second {
			t.Errorf("it took %v, want three rounds of 10s", took)
		}
		for i := range 7 {
			if want := fmt.Sprintf(`"status":"done","result":"did part%d"`, i); strings.Count(got, want) != 1 {
				t.Errorf("%d results are %s, want 1", strings.Count(got, want), want)
			}
		}
		if n := strings.Count(got, `"waiting":"it waits for a place`); n != 4 {
			t.Errorf("%d tasks were told to wait, want 4:\n%s", n, got)
		}
		queued, spawned := p.texts(event.TypeQueued), p.texts(event.TypeSpawned)
		if len(queued) != 4 || len(spawned) != 7 || spawned[0] != "a part: this node has 0 of 1 places taken" || spawned[1] != "bob a part: this node has 1 of 1 places taken, and bob has 0 of 2 places taken, and no other that fits has one free" {
			t.Errorf("queued %q\nspawned %q", queued, spawned)
		}
	})
}

func TestFullQueueRefusesTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlaced(newLAN(t, parts(map[string]any{"where": []string{"node=ann"}}), lentPlaces(1), slow()), 1, worker())
		got, err := p.a.task(t.Context(), p.a.spawn(t, agent.Order{}), "6 10s")
		if err != nil || strings.Count(got, "all places are taken, and 4 tasks wait already") != 1 || strings.Count(got, `"status":"done"`) != 5 {
			t.Errorf("%v\n%s", err, got)
		}
	})
}

func TestWhereSendsTaskToNode(t *testing.T) {
	rules := []string{"replicate_agent", "slow", "send_signal"}
	for name, tt := range map[string]struct {
		where, rules []string
		want, reason string
	}{
		"there":     {[]string{"node=bob"}, append(rules, "invoke_capability"), "did part0", "bob a part: bob has 0 of 2 places taken, and no other that fits has one free"},
		"nowhere":   {[]string{"gpu"}, append(rules, "invoke_capability"), "no node fits: no node with gpu can have the agent worker. There are ann (), bob ()", ""},
		"no label":  {[]string{"A B"}, rules, "is no label", ""},
		"forbidden": {[]string{"node=bob"}, rules, "passed by: bob: you may not spawn agents there", ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPlaced(newLAN(t, parts(map[string]any{"where": tt.where}), lentPlaces(2), slow()), 1, worker())
				got, err := p.a.task(t.Context(), p.a.spawn(t, agent.Order{Policy: allowed(t, tt.rules...)}), "1 1s")
				if err != nil || !strings.Contains(got, tt.want) {
					t.Errorf("%v\n%s", err, got)
				}
				if spawned := strings.Join(p.texts(event.TypeSpawned), "|"); spawned != tt.reason {
					t.Errorf("spawned %q, want %q", spawned, tt.reason)
				}
			})
		})
	}
}

// "Do this on all machines" is one call; so are two of the same task with a node each.
func TestOneTaskOnEveryNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlaced(newLAN(t, parts(map[string]any{"where": []string{"each"}}), lentPlaces(2), slow()), 1, worker())
		got, err := p.a.task(t.Context(), p.a.spawn(t, agent.Order{}), "1 1s")
		spawned := p.texts(event.TypeSpawned)
		if err != nil || strings.Count(got, `"result":"did part0"`) != 2 || len(spawned) != 2 || strings.HasPrefix(spawned[0], "bob") || !strings.HasPrefix(spawned[1], "bob") {
			t.Errorf("%v, spawned %q\n%s", err, spawned, got)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		ways := []string{"node=ann", "node=bob", "node=bob"}
		model := script(func(_ context.Context, r llm.Request) (llm.Message, error) {
			switch m := last(r); {
			case strings.Contains(r.System, "You are a sub-agent of"):
				return say("did it")
			case m.Role == llm.User:
				var calls []llm.ToolCall
				for i, way := range ways {
					calls = append(calls, use(fmt.Sprint(i), "replicate_agent", map[string]any{"reason": "x", "agent": "worker", "task": "count", "where": []string{way}}))
				}
				return llm.Message{Calls: calls}, nil
			default:
				var refused []string
				for i, one := range m.Results {
					if one.IsError && strings.Contains(one.Text, "in progress already") {
						refused = append(refused, fmt.Sprint(i))
					}
				}
				return say("refused " + strings.Join(refused, " "))
			}
		})
		p := newPlaced(newLAN(t, model, lentPlaces(2), slow()), 1, worker())
		if got, err := p.a.task(t.Context(), p.a.spawn(t, agent.Order{}), "go"); err != nil || got != "refused 2" {
			t.Errorf("%q, %v; want the second one on the same node refused", got, err)
		}
	})
}

// A task that may not go to another node stays here, and the event says why; it is never done silently elsewhere.
func TestDeniedPlaceFallsBackToQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlaced(newLAN(t, parts(nil), lentPlaces(2), slow()), 1, worker())
		began := time.Now()
		got, err := p.a.task(t.Context(), p.a.spawn(t, agent.Order{Policy: allowed(t, "replicate_agent", "slow")}), "2 10s")
		if err != nil || strings.Count(got, `"status":"done"`) != 2 || time.Since(began) < 20*time.Second {
			t.Errorf("after %v: %v\n%s", time.Since(began), err, got)
		}
		if here := p.b.here(); len(here) > 0 {
			t.Errorf("%v live at bob", here)
		}
	})
}

// A sub-agent has a place. If its own waited for one, and all that have one did so, none would ever be free.
func TestSubAgentsOfSubAgentsDoNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := script(func(_ context.Context, r llm.Request) (llm.Message, error) {
			m, depth := last(r), strings.Count(firstTask(r), "deep")
			switch {
			case m.Role == llm.User && depth < 3:
				return call(use("1", "replicate_agent", map[string]any{"reason": "deeper", "task": firstTask(r) + " deep", "agent": "worker"}))
			case m.Role == llm.Tool && m.Results[0].Name == "replicate_agent":
				return call(use("2", "wait_agents", map[string]any{}))
			}
			return say("done at " + fmt.Sprint(depth))
		})
		p := newPlaced(newLAN(t, model, lentPlaces(1)), 1, worker())
		p.b.lender, _ = nil, p.b.community.Withdraw(lending.Capability)
		time.Sleep(time.Second)
		if got, err := p.a.task(t.Context(), p.a.spawn(t, agent.Order{}), "go"); err != nil || got != "done at 0" {
			t.Errorf("%q, %v", got, err)
		}
		if spawned := p.texts(event.TypeSpawned); len(spawned) != 3 || !strings.Contains(spawned[2], "but the task does not wait") {
			t.Errorf("spawned %q", spawned)
		}
	})
}

func TestLostTaskIsRepeatedIfItMayBe(t *testing.T) {
	for _, repeatable := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			own := worker()
			own.Repeatable, own.Placement = repeatable, string(placement.Spread)
			var l *lan
			kill := func() { time.Sleep(3 * time.Second); l.network.Kill(l.b.id) }
			l = newLAN(t, parts(nil, kill), lentPlaces(1), slow())
			p := newPlaced(l, 1, own)
			got, err := p.a.task(t.Context(), p.a.spawn(t, agent.Order{}), "2 10s")
			done, lost := strings.Count(got, `"status":"done"`), strings.Count(got, "it is lost, because its node did not report its end")
			repeated := p.texts(event.TypeRepeated)
			if err != nil || repeatable && (done != 2 || lost != 0 || len(repeated) != 1) || !repeatable && (done != 1 || lost != 1 || len(repeated) != 0) {
				t.Errorf("repeatable %v: %v, %d done, %d lost, repeated %q\n%s", repeatable, err, done, lost, repeated, got)
			}
		})
	}
}

func TestStoppedTaskLeavesQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := []llm.ToolCall{
			use("3", "message_agent", map[string]any{"agent": "second", "message": "be quick"}),
			use("4", "wait_agents", map[string]any{"until": "now"}),
			use("5", "stop_agents", map[string]any{"agents": []string{"second"}}),
			use("6", "message_agent", map[string]any{"agent": "second", "message": "are you there?"}),
		}
		turn, told := 0, []string(nil)
		model := script(func(ctx context.Context, r llm.Request) (llm.Message, error) {
			m := last(r)
			switch {
			case strings.Contains(r.System, "You are a sub-agent of"):
				return hang(ctx, r, "")
			case m.Role == llm.User:
				return llm.Message{Calls: []llm.ToolCall{
					use("1", "replicate_agent", map[string]any{"reason": "x", "task": "a", "name": "first", "where": []string{"node=ann"}}),
					use("2", "replicate_agent", map[string]any{"reason": "x", "task": "b", "name": "second", "where": []string{"node=ann"}}),
				}}, nil
			}
			for _, one := range m.Results {
				told = append(told, one.Text)
			}
			if turn++; turn <= len(calls) {
				return llm.Message{Calls: calls[turn-1 : turn]}, nil
			}
			return say(strings.Join(told, "\n"))
		})
		p := newPlaced(newLAN(t, model, lentPlaces(1)), 1, worker())
		got, err := p.a.task(t.Context(), p.a.spawn(t, agent.Order{}), "go")
		for _, want := range []string{`"name":"second","status":"waiting","doing":"it waits for a place; 0 tasks are before it"`, "second was not told: it waits for a place and has not begun", "second was not started: spawn another one with replicate_agent", `"name":"second","status":"failed","error":"second was not started: context canceled"`} {
			if err != nil || !strings.Contains(got, want) {
				t.Errorf("%v: want %s in\n%s", err, want, got)
			}
		}
		if here := p.a.here(); len(here) != 2 || !slices.ContainsFunc(here, func(m community.Member) bool { return m.Name == "first" }) {
			t.Errorf("%v live", here)
		}
	})
}
