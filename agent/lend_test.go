package agent_test

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"symbio/actor"
	"symbio/agent"
	"symbio/agent/llm"
	"symbio/agent/tool"
	"symbio/community"
	"symbio/transport/memory"
)

// lan is two nodes: agents of a may be lent agents of b.
type lan struct {
	t    *testing.T
	hub  *memory.Hub
	a, b *place
}

// place is one node of it.
type place struct {
	id        community.NodeID
	name      string
	hub       *memory.Hub
	model     llm.Model
	tools     []tool.Tool
	community *community.Community
	factory   *agent.Factory
	lender    *agent.Lender
	end       func() error

	mu     sync.Mutex
	events []agent.Event // guarded by mu
}

func nodeID(name string) community.NodeID {
	sum := sha256.Sum256([]byte(name))
	return community.NodeID(hex.EncodeToString(sum[:16]))
}

// worker is what is lent.
func worker() agent.Definition {
	d := agent.General()
	d.Name = "worker"
	return d
}

func newLAN(t *testing.T, model llm.Model, lend agent.LenderConfig, tools ...tool.Tool) *lan {
	t.Helper()
	hub := memory.NewHub(memory.Config{Delay: time.Millisecond})
	l := &lan{t: t, hub: hub}
	for _, p := range []struct {
		to   **place
		name string
	}{{&l.a, "ann"}, {&l.b, "bob"}} {
		*p.to = &place{id: nodeID(p.name), name: p.name, hub: hub, model: model, tools: tools}
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
	p.community = community.New(community.Config{
		Node: p.id, Name: p.name, System: system, Network: p.hub.Node(p.id, p.name), Drain: time.Second, MaxCall: 5 * time.Minute,
		Authorize: func(community.Peer, community.Call) error { return nil }, CallRate: 1e6, CallBurst: 1e6,
	})
	p.factory = agent.NewFactory(agent.Config{
		Community: p.community, Tools: p.tools, Dir: "/work",
		Model:  func(context.Context, string) (llm.Model, error) { return p.model, nil },
		Report: func(e agent.Event) { p.mu.Lock(); defer p.mu.Unlock(); p.events = append(p.events, e) },
	})
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.community.Run(ctx) }()
	p.end = sync.OnceValue(func() error {
		stop()
		return errors.Join(<-done, system.Shutdown(context.Background()))
	})
}

func (p *place) lend(t *testing.T, cfg agent.LenderConfig) {
	t.Helper()
	cfg.Factory = p.factory
	if cfg.Definitions == nil {
		cfg.Definitions = []agent.Definition{worker()}
	}
	if cfg.Order.Policy.Allow == nil {
		cfg.Order.Policy = allowed(t, "slow", "replicate_agent", "invoke_capability", "send_signal")
	}
	p.lender = agent.NewLender(cfg)
	c, err := p.lender.Capability()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.community.Offer(c, p.lender.Provide, community.WithLease(p.lender.Life())); err != nil {
		t.Fatal(err)
	}
}

// meet waits until the nodes know each other.
func (l *lan) meet() {
	l.t.Helper()
	for range 100 {
		if len(l.a.community.WhoProvides(agent.SpawnCapability)) == 1 && l.b.knows(l.a) {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	l.t.Fatal("the nodes did not meet")
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
		o.Definition = agent.General()
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

func general() agent.LenderConfig { return agent.LenderConfig{Definitions: []agent.Definition{agent.General()}} }

func TestAnAgentOfAnotherNodeIsLent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLAN(t, helper(func(_ context.Context, r llm.Request, task string) (llm.Message, error) {
			if last(r).Role == llm.Tool {
				return say("after it " + last(r).Results[0].Text + ", for " + strings.Fields(r.System[strings.Index(r.System, "sub-agent of "):])[2])
			}
			return call(use("1", "slow", waitArgs{"10m"}))
		}), general(), slow())
		m := l.a.spawn(t, agent.Order{})
		got, err := l.a.task(t.Context(), m, "have help: wait")
		if want := "after it waited 10m, for ann/general,"; got != want || err != nil {
			t.Fatalf("answer %q, %v; want %q", got, err, want)
		}
		here := l.b.here()
		if len(here) != 1 || here[0].Metadata["parent"] != string(m.ID) || here[0].Metadata["lent_to"] != string(l.a.id) {
			t.Fatalf("on the lender live %v", here)
		}
		time.Sleep(time.Second) // what is spent comes by another way than the answer
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
