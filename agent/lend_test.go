package agent_test

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"symbio/actor"
	"symbio/agent"
	"symbio/agent/budget"
	"symbio/agent/definition"
	"symbio/agent/event"
	"symbio/agent/llm"
	"symbio/agent/session"
	"symbio/agent/tool"
	"symbio/community"
	"symbio/internal/agent/lending"
	"symbio/internal/agent/team"
	"symbio/security/permission"
	"symbio/skills"
	"symbio/transport/grpcpeer/grpcpeertest"
)

// lan is two nodes: agents of a may be lent agents of b.
type lan struct {
	t       *testing.T
	network *grpcpeertest.LAN
	a, b    *place
}

// place is one node of it.
type place struct {
	id        community.NodeID
	name      string
	network   *grpcpeertest.LAN
	model     llm.Model
	tools     []tool.Tool
	community *community.Community
	factory   *agent.Factory
	lender    *lending.Lender
	end       func() error
	// dir is where agents work, "" = /work.
	dir        string
	workspaces *team.Workspaces
	journal    *session.Journal // nil = nothing is kept
	frames     *frames          // nil = what the node sends is not recorded
	skills     skills.Config    // without Roots the node has no skills
	registry   *skills.Registry // made of it by start

	mu      sync.Mutex
	spawned []time.Time // agents, by others; guarded by mu
}

// worker is what is lent.
func worker() definition.Definition {
	d := definition.General()
	d.Name = "worker"
	return d
}

func newLAN(t *testing.T, model llm.Model, lend lending.LenderConfig, tools ...tool.Tool) *lan {
	t.Helper()
	return newLANOver(t, grpcpeertest.Config{Delay: time.Millisecond}, model, lend, tools...)
}

func newLANOver(t *testing.T, wire grpcpeertest.Config, model llm.Model, lend lending.LenderConfig, tools ...tool.Tool) *lan {
	t.Helper()
	network := grpcpeertest.NewLAN(t, wire)
	l := &lan{t: t, network: network}
	for _, p := range []struct {
		to   **place
		name string
	}{{&l.a, "ann"}, {&l.b, "bob"}} {
		*p.to = &place{id: grpcpeertest.ID(p.name), name: p.name, network: network, model: model, tools: tools}
		(*p.to).start(t)
	}
	l.b.lend(t, lend)
	l.meet()
	t.Cleanup(func() {
		for _, p := range []*place{l.a, l.b} {
			if err := p.end(); err != nil {
				t.Errorf("node %s ended with %v", p.name, err)
			}
		}
	})
	return l
}

// start starts the node, perhaps again after it was killed.
func (p *place) start(t *testing.T) {
	t.Helper()
	system := actor.NewSystem(actor.Config{})
	network := community.Network(p.network.Join(p.name).Network)
	if p.frames != nil {
		network = recordedNetwork{network, p.frames}
	}
	p.community = community.New(community.Config{
		Node: p.id, Name: p.name, System: system, Network: network, Drain: time.Second, MaxCall: 5 * time.Minute,
		Authorize: func(community.Peer, community.Call) error { return nil },
	})
	if p.registry = nil; len(p.skills.Roots) > 0 {
		var err error
		if p.registry, err = skills.NewRegistry(system, p.skills); err != nil {
			t.Fatal(err)
		}
	}
	p.factory = agent.NewFactory(agent.Config{
		Community: p.community, Skills: p.registry, Tools: p.tools, Dir: cmp.Or(p.dir, "/work"), Journal: p.journal, Workspaces: p.workspaces,
		Model: func(context.Context, string) (llm.Model, error) { return p.model, nil },
		Report: func(e event.Event) {
			p.mu.Lock()
			defer p.mu.Unlock()
			if e.Type == event.TypeSpawned {
				p.spawned = append(p.spawned, time.Now())
			}
		},
	})
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.community.Run(ctx) }()
	p.end = sync.OnceValue(func() error {
		stop()
		return errors.Join(<-done, system.Shutdown(context.Background()))
	})
}

func (p *place) lend(t *testing.T, cfg lending.LenderConfig) {
	t.Helper()
	cfg.Community = p.community
	if cfg.Definitions == nil {
		cfg.Definitions = []definition.Definition{worker()}
	}
	cfg.Spawn = p.factory.Lend(agent.Order{Policy: allowed(t, "slow", "replicate_agent", "invoke_capability", "send_signal", "Read", "Write", "Glob", "Bash")})
	p.lender = lending.NewLender(cfg)
	c, err := p.lender.Capability()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.community.Offer(c, p.lender.Provide, community.WithMaxCallDuration(p.lender.MaxCallTime())); err != nil {
		t.Fatal(err)
	}
}

// meet waits, in a bubble, until the nodes know each other.
func (l *lan) meet() {
	l.t.Helper()
	for range 100 {
		if l.met() {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	l.t.Fatal("the nodes did not meet")
}

func (l *lan) met() bool {
	return len(l.a.community.WhoProvides(lending.Capability)) == 1 && l.b.knows(l.a)
}

func (p *place) knows(o *place) bool {
	m, ok := p.community.Member(community.MemberID(o.id))
	return ok && m.Available
}

// here are the agents that live on the node.
func (p *place) here() (all []community.Member) {
	for _, m := range p.community.Members() {
		if m.Node == p.id && m.ID != community.MemberID(p.id) {
			all = append(all, m)
		}
	}
	return all
}

func (p *place) spawn(t *testing.T, o agent.Order) community.Member {
	t.Helper()
	o.Definition.Name = cmp.Or(o.Definition.Name, "x")
	if o.Definition.Name == "x" {
		o.Definition = definition.General()
	}
	if o.Policy.Allow == nil {
		o.Policy = allowed(t, "slow", "replicate_agent", "invoke_capability", "send_signal", "find_members", "wait_agents", "stop_agent", "message_agent")
	}
	m, err := p.factory.Spawn(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func (p *place) task(ctx context.Context, m community.Member, text string) (string, error) {
	r, err := p.community.Send(ctx, m.ID, community.Signal{Perception: "task", Data: []byte(text)})
	return string(r.Data), err
}

// helper is a model for parents whose task is "have help: WHAT", and for those that help.
func helper(help func(ctx context.Context, r llm.Request, task string) (llm.Message, error)) llm.Model {
	return script(func(ctx context.Context, r llm.Request) (llm.Message, error) {
		m := last(r)
		what, parent := strings.CutPrefix(firstTask(r), "have help: ")
		switch {
		case !parent:
			return help(ctx, r, firstTask(r))
		case m.Role == llm.User:
			return call(use("1", "replicate_agent", map[string]any{"reason": "it is to help", "node": "bob"}))
		case m.Results[0].IsError, m.Results[0].Name == "send_signal":
			return say(m.Results[0].Text)
		}
		return call(use("2", "send_signal", map[string]any{"member": agentID(m.Results[0].Text), "data": what}))
	})
}

// firstTask is the task of a request.
func firstTask(r llm.Request) string {
	for i := len(r.Messages) - 1; ; i-- {
		if r.Messages[i].Role == llm.User {
			return r.Messages[i].Text
		}
	}
}

func agentID(result string) string {
	_, rest, _ := strings.Cut(result, `"agent_id":"`)
	id, _, _ := strings.Cut(rest, `"`)
	return id
}

func general() lending.LenderConfig {
	return lending.LenderConfig{Definitions: []definition.Definition{definition.General()}}
}

func TestAgentOfAnotherNodeIsLent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLAN(t, helper(func(_ context.Context, r llm.Request, task string) (llm.Message, error) {
			if last(r).Role == llm.Tool {
				return say("after it " + last(r).Results[0].Text + ", for " + strings.Fields(r.System[strings.Index(r.System, "sub-agent of "):])[2])
			}
			return call(use("1", "slow", waitArgs{"10m"}))
		}), general(), slow())
		m := l.a.spawn(t, agent.Order{})
		got, err := l.a.task(t.Context(), m, "have help: wait")
		if want := "after it waited 10m, for ann,"; got != want || err != nil {
			t.Fatalf("answer %q, %v; want %q", got, err, want)
		}
		here := l.b.here()
		if len(here) != 1 || here[0].Metadata["parent"] != string(m.ID) || here[0].Metadata["lent_to"] != string(l.a.id) {
			t.Fatalf("on the lender live %v", here)
		}
		if s, ok := l.a.factory.Spent(m.ID); !ok || s.ModelCalls != 5 || s.Agents != 1 {
			t.Errorf("spent by all: %+v, %v; want 5 calls, of which the sub-agent had 2, and 1 agent", s, ok)
		}
		if err := l.a.community.Terminate(t.Context(), m.ID); err != nil {
			t.Fatal(err)
		}
		if here := l.b.here(); len(here) != 0 {
			t.Errorf("when its parent has ended, there are %v", here)
		}
	})
}

// What the parent may not do, a lent agent may not either, whatever its node allows; nor may those that it spawns.
func TestLentAgentIsHeldToItsParentsPermissionsToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLAN(t, helper(func(_ context.Context, r llm.Request, task string) (llm.Message, error) {
			m := last(r)
			deep := strings.HasPrefix(task, "deep")
			switch {
			case m.Role == llm.User && deep:
				return call(use("1", "replicate_agent", map[string]any{"reason": "deeper"}))
			case m.Role == llm.User:
				return call(use("1", "slow", waitArgs{"1s"}))
			case deep && m.Results[0].Name == "replicate_agent":
				return call(use("2", "send_signal", map[string]any{"member": agentID(m.Results[0].Text), "data": "wait"}))
			}
			return say(m.Results[0].Text)
		}), general(), slow())
		tools := []string{"replicate_agent", "invoke_capability", "send_signal"}
		for _, tt := range []struct {
			name, task string
			rules      []string
			want       string
		}{
			{"who may", "wait", append(tools, "slow"), "waited 1s"},
			{"who may, deeper", "deep wait", append(tools, "slow"), "waited 1s"},
			{"who may not", "wait", tools, "Denied (permissions of general, as another node says)"},
			{"who may not, deeper", "deep wait", tools, "Denied (permissions of general, as another node says)"},
			{"who may not invoke", "wait", []string{"replicate_agent", "send_signal", "slow"}, "To allow it, add to allow: invoke_capability(agents.spawn)"},
		} {
			m := l.a.spawn(t, agent.Order{Policy: allowed(t, tt.rules...)})
			if got, err := l.a.task(t.Context(), m, "have help: "+tt.task); err != nil || !strings.Contains(got, tt.want) {
				t.Errorf("%s: %q, %v; want %q", tt.name, got, err, tt.want)
			}
			// Somebody of the lender's own node asks it, on behalf of nobody: it is held to its parent all the same.
			for _, child := range l.b.here() {
				if child.Metadata["lent_to"] != "" {
					if got, _ := l.b.task(t.Context(), child, "wait"); strings.Contains(got, "waited") != slices.Contains(tt.rules, "slow") {
						t.Errorf("%s: asked by its own node it says %q", tt.name, got)
					}
				}
			}
			if err := l.a.community.Terminate(t.Context(), m.ID); err != nil {
				t.Error(err)
			}
			if left := l.b.here(); len(left) > 0 {
				t.Errorf("%s: %v are left", tt.name, left)
			}
		}
	})
}

func TestDepthCountsOnOverNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLAN(t, helper(func(_ context.Context, r llm.Request, task string) (llm.Message, error) {
			m := last(r)
			switch {
			case m.Role == llm.User:
				return call(use("1", "replicate_agent", map[string]any{"reason": "deeper"}))
			case m.Results[0].IsError, m.Results[0].Name == "send_signal":
				return say(m.Results[0].Text)
			}
			return call(use("2", "send_signal", map[string]any{"member": agentID(m.Results[0].Text), "data": "deep"}))
		}), lending.LenderConfig{Definitions: general().Definitions, Limits: budget.Limits{Depth: 9}})
		for depth := 1; depth <= 3; depth++ {
			m := l.a.spawn(t, agent.Order{Limits: budget.Limits{Depth: depth, Agents: 100}})
			got, err := l.a.task(t.Context(), m, "have help: deep")
			if err != nil || !strings.Contains(got, "over the budget") {
				t.Errorf("%d deep: %q, %v", depth, got, err)
			}
			if here := l.b.here(); len(here) != depth {
				t.Errorf("%d deep: %d generations live at the lender", depth, len(here))
			}
			if err := l.a.community.Terminate(t.Context(), m.ID); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestLenderLendsSoManyAndNoMore(t *testing.T) {
	for _, tt := range []struct {
		most, perNode int
		want          string
	}{
		{3, 2, "busy: 2 agents are lent to that node already"},
		{2, 3, "busy: 2 agents are lent already"},
	} {
		synctest.Test(t, func(t *testing.T) {
			cfg := general()
			cfg.Max, cfg.PerNode = tt.most, tt.perNode
			l := newLAN(t, helper(func(context.Context, llm.Request, string) (llm.Message, error) { return say("done") }), cfg)
			var parents []community.Member
			for i, want := range []string{"done", "done", tt.want} {
				parents = append(parents, l.a.spawn(t, agent.Order{}))
				if got, err := l.a.task(t.Context(), parents[i], "have help: x"); err != nil || !strings.Contains(got, want) {
					t.Errorf("the %d. one: %q, %v; want %q", i+1, got, err, want)
				}
			}
			if n := len(l.b.here()); n != 2 {
				t.Errorf("%d agents live there, want 2", n)
			}
			if err := l.a.community.Terminate(t.Context(), parents[0].ID); err != nil {
				t.Error(err)
			}
			if got, err := l.a.task(t.Context(), parents[2], "have help: x"); got != "done" || err != nil {
				t.Errorf("when there is room again: %q, %v", got, err)
			}
		})
	}
}

// hang is a help that never ends by itself.
func hang(ctx context.Context, _ llm.Request, _ string) (llm.Message, error) {
	<-ctx.Done()
	return llm.Message{}, ctx.Err()
}

// lease is one agent of a that has one of b, which is at work.
func lease(t *testing.T, l *lan) (parent community.Member, answer <-chan string) {
	t.Helper()
	parent = l.a.spawn(t, agent.Order{Limits: budget.Limits{ModelCalls: 100}})
	said := make(chan string, 1)
	go func() {
		got, err := l.a.task(context.Background(), parent, "have help: hang")
		if err != nil {
			got = err.Error()
		}
		said <- got
	}()
	settle(time.Second)
	if len(l.b.here()) != 1 {
		t.Fatalf("at the lender live %v", l.b.here())
	}
	return parent, said
}

func TestLeaseEndsWithWhatItIsFor(t *testing.T) {
	for name, tt := range map[string]struct {
		end    func(l *lan, parent, child community.Member)
		within time.Duration // until the agent is gone
		says   string        // what the parent reads
		lost   bool          // all of the share counts
	}{
		"the parent ends":     {func(l *lan, p, _ community.Member) { l.a.community.Terminate(l.t.Context(), p.ID) }, 3 * time.Second, "", false},
		"its node ends":       {func(l *lan, _, _ community.Member) { l.a.end() }, 3 * time.Second, "", true},
		"its node is killed":  {func(l *lan, _, _ community.Member) { l.network.Kill(l.a.id) }, time.Second, "", true},
		"its node is frozen":  {func(l *lan, _, _ community.Member) { l.network.Freeze(l.a.id) }, 5 * time.Second, "unavailable", true},
		"a partition":         {func(l *lan, _, _ community.Member) { l.network.Partition(l.a.id) }, 5 * time.Second, "unavailable", true},
		"the lender ends":     {func(l *lan, _, _ community.Member) { l.b.end() }, 3 * time.Second, "unavailable", true},
		"the lender is gone":  {func(l *lan, _, _ community.Member) { l.network.Kill(l.b.id) }, 3 * time.Second, "unavailable", true},
		"the lender stops it": {func(l *lan, _, c community.Member) { l.b.community.Terminate(l.t.Context(), c.ID) }, 3 * time.Second, "stopped", false},
		"its time is over":    {func(*lan, community.Member, community.Member) { time.Sleep(10 * time.Minute) }, time.Second, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := general()
				cfg.MaxLifetime = 10 * time.Minute
				l := newLAN(t, helper(hang), cfg)
				parent, said := lease(t, l)
				tt.end(l, parent, l.b.here()[0])
				settle(tt.within)
				if left := l.b.here(); len(left) > 0 {
					t.Errorf("%v after that there are %v", tt.within, left)
				}
				if tt.says == "" {
					return
				}
				if got := <-said; !strings.Contains(got, tt.says) {
					t.Errorf("the parent reads %q, want %q", got, tt.says)
				}
				s, _ := l.a.factory.Spent(parent.ID)
				if lost := s.ModelCalls > 40; lost != tt.lost {
					t.Errorf("%+v is spent; a share of 48 or so is lost: want %v", s, tt.lost)
				}
			})
		})
	}
}

// A call that does not end although its caller is gone, as one that a relay holds open, is no lease any longer.
func TestLeaseEndsWithTheBorrowersNodeWhateverBecomesOfTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := general()
		cfg.MaxLifetime = 10 * time.Minute
		l := newLAN(t, helper(hang), cfg)
		c, err := l.b.lender.Capability()
		if err := errors.Join(err, l.b.community.Withdraw(lending.Capability)); err != nil {
			t.Fatal(err)
		}
		held := func(ctx context.Context, s community.Signal) (community.Reply, error) {
			return l.b.lender.Provide(context.WithoutCancel(ctx), s)
		}
		if err := l.b.community.Offer(c, held, community.WithMaxCallDuration(l.b.lender.MaxCallTime())); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		lease(t, l)
		l.network.Partition(l.a.id)
		settle(5 * time.Second)
		if left := l.b.here(); len(left) > 0 {
			t.Errorf("5 s after the borrower's node is gone there are %v", left)
		}
	})
}

func TestAfterARestartALenderLendsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLAN(t, helper(hang), general())
		parent, said := lease(t, l)
		l.network.Kill(l.b.id)
		if got := <-said; !strings.Contains(got, "unavailable") {
			t.Errorf("the parent reads %q", got)
		}
		if err := l.b.end(); err != nil {
			t.Error(err)
		}
		l.b.model = helper(func(context.Context, llm.Request, string) (llm.Message, error) { return say("again") })
		l.b.start(t)
		l.b.lend(t, general())
		time.Sleep(5 * time.Second)
		l.meet()
		if got, err := l.a.task(t.Context(), parent, "have help: x"); got != "again" || err != nil {
			t.Errorf("after the restart: %q, %v", got, err)
		}
	})
}

func TestLostLentAgentIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := script(func(ctx context.Context, r llm.Request) (llm.Message, error) {
			switch m := last(r); {
			case strings.Contains(r.System, "You are a sub-agent of"):
				if m.Role == llm.User {
					return call(use("1", "nothing", nil))
				}
				return hang(ctx, r, "")
			case m.Role == llm.User:
				return call(use("1", "replicate_agent", map[string]any{"reason": "it is to help", "node": "bob", "task": "help"}))
			case m.Results[0].Name == "replicate_agent":
				return call(use("2", "wait_agents", map[string]any{}))
			default:
				return say(m.Results[0].Text)
			}
		})
		l := newLAN(t, model, general())
		if err := l.b.end(); err != nil {
			t.Fatal(err)
		}
		store := inMemory(t)
		l.b.journal = session.NewJournal(store, "bob")
		l.b.start(t)
		l.b.lend(t, general())
		time.Sleep(5 * time.Second)
		l.meet()
		_, said := lease(t, l)
		// What a restart of the lender would find.
		lost, err := store.Recover(t.Context())
		if err != nil || len(lost) != 1 || lost[0].State != session.Lost || lost[0].Requester == "" {
			t.Errorf("the lender's sessions are %+v, %v", lost, err)
		}
		l.network.Kill(l.b.id)
		got := <-said
		for _, want := range []string{`"status":"failed"`, "it is lost, because its node did not report its end; it had reported 1 model calls", `"spent":{"model_calls":41,`} { // of a share of 49
			if !strings.Contains(got, want) {
				t.Errorf("the parent reads %q, want %q", got, want)
			}
		}
	})
}

// However far the spawning of a lent agent is when it is given up, nothing of it stays, on either node.
func TestAbandonedLoanLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLAN(t, helper(hang), general())
		met := map[int]bool{}
		for after := time.Duration(0); after < 20*time.Millisecond; after += 500 * time.Microsecond {
			parent := l.a.spawn(t, agent.Order{})
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() { defer close(done); l.a.task(ctx, parent, "have help: hang") }()
			time.Sleep(after)
			met[len(l.b.here())] = true
			cancel()
			<-done
			if err := l.a.community.Terminate(t.Context(), parent.ID); err != nil {
				t.Error(err)
			}
			settle(10 * time.Millisecond) // until the lender hears of it
			if left := l.b.here(); len(left) > 0 {
				t.Fatalf("given up after %v, there are %v", after, left)
			}
		}
		if !met[0] || !met[1] {
			t.Errorf("at the lender lived %v: it was not given up both before and after the spawn", met)
		}
	})
}

// A lent agent whose share is used up says so, with how far it got, and its parent goes on.
func TestLentAgentSaysThatItsShareIsUsedUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLAN(t, script(func(_ context.Context, r llm.Request) (llm.Message, error) {
			m := last(r)
			switch {
			case strings.Contains(m.Text, "budget of this task is used up"):
				return say("half of it is done")
			case firstTask(r) == "toil":
				return call(use("1", "slow", waitArgs{"1s"}))
			case m.Role == llm.User:
				return call(use("1", "replicate_agent", map[string]any{"reason": "it is to help", "node": "bob", "task": "toil", "budget": map[string]any{"model_calls": 3}}))
			case m.Results[0].Name == "wait_agents":
				return say(m.Results[0].Text)
			}
			return call(use("2", "wait_agents", map[string]any{}))
		}), general(), slow())
		parent := l.a.spawn(t, agent.Order{})
		got, err := l.a.task(t.Context(), parent, "begin")
		if err != nil || !strings.Contains(got, "failed") || !strings.Contains(got, "over the budget: 3 model calls. How far it got: half of it is done") {
			t.Errorf("the parent reads %q, %v", got, err)
		}
		if s, _ := l.a.factory.Spent(parent.ID); s.ModelCalls != 6 {
			t.Errorf("%+v is spent, want 3 calls of each", s)
		}
	})
}

// Where a rule has people say whether something is invoked, they say whether an agent is spawned elsewhere, though
// spawning is allowed.
func TestPersonIsAskedAboutSpawningElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLAN(t, helper(func(context.Context, llm.Request, string) (llm.Message, error) { return say("done") }), general())
		policy := allowed(t, "replicate_agent", "send_signal")
		policy.Default = permission.Ask
		for _, yes := range []bool{false, true} {
			var asked []agent.ApprovalRequest
			m := l.a.spawn(t, agent.Order{Policy: policy, Ask: func(_ context.Context, d agent.ApprovalRequest) tool.Answer {
				asked = append(asked, d)
				return tool.Answer{Allow: yes}
			}})
			got, err := l.a.task(t.Context(), m, "have help: x")
			if err != nil || (got == "done") != yes {
				t.Errorf("after %v: %q, %v", yes, got, err)
			}
			if len(asked) != 1 || asked[0].Tool != "replicate_agent" || asked[0].Args["node"] != "bob" {
				t.Errorf("a person was asked %+v, want about replicate_agent on bob", asked)
			}
		}
	})
}

func TestLentAgentHasTheToolsThatItsParentLeavesIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLAN(t, script(func(_ context.Context, r llm.Request) (llm.Message, error) {
			m := last(r)
			switch {
			case firstTask(r) == "wait":
				var names []string
				for _, spec := range r.Tools {
					names = append(names, spec.Name)
				}
				if m.Role == llm.User {
					return call(use("1", "send_signal", map[string]any{"member": "x", "data": "x"}))
				}
				return say(strings.Join(names, " ") + ": " + m.Results[0].Text)
			case m.Role == llm.User:
				return call(use("1", "replicate_agent", map[string]any{"reason": "it is to help", "node": "bob", "task": "wait", "tools": []string{"slow"}}))
			case m.Results[0].Name == "replicate_agent":
				return call(use("2", "wait_agents", map[string]any{}))
			}
			return say(m.Results[0].Text)
		}), general(), slow())
		got, err := l.a.task(t.Context(), l.a.spawn(t, agent.Order{}), "begin")
		if err != nil || !strings.Contains(got, `"result":"slow: `) || !strings.Contains(got, "Denied") {
			t.Errorf("it says %q, %v; want that it has slow alone, and is denied what else it tries", got, err)
		}
	})
}

// The account of an answered task is exact, even if what is told meanwhile comes later than the answer.
func TestLentAgentReportsSpendingWithAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := helper(func(_ context.Context, r llm.Request, _ string) (llm.Message, error) { return say("done") })
		l := newLANOver(t, grpcpeertest.Config{Delay: time.Millisecond, Jitter: 80 * time.Millisecond}, model, general())
		for i := range 30 {
			m := l.a.spawn(t, agent.Order{})
			if got, err := l.a.task(t.Context(), m, "have help: x"); got != "done" || err != nil {
				t.Fatalf("%q, %v", got, err)
			}
			if s, _ := l.a.factory.Spent(m.ID); s.ModelCalls != 4 {
				t.Fatalf("the %d. time %+v is known to be spent, want 4 calls", i+1, s)
			}
			if err := l.a.community.Terminate(t.Context(), m.ID); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second) // until the lender has ended it
		}
	})
}
