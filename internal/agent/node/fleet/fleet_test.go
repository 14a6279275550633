package fleet

import (
	"context"
	"errors"
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
	"symbio/agent/tool"
	"symbio/community"
	"symbio/internal/security/permission/authorize"
	symbiov1 "symbio/proto/symbio/v1"
	"symbio/security/permission"
	"symbio/transport/grpcpeer"
	"symbio/transport/grpcpeer/grpcpeertest"
)

// place is a node with a fleet.
type place struct {
	*Fleet
	id        community.NodeID
	community *community.Community
	factory   *agent.Factory
	events    *event.Stream
	rules     authorize.Rules
	authority string // of the nodes that call it
	offers    bool   // fleet.view
	ask       func(context.Context, agent.ApprovalRequest) tool.Answer
}

// lan is a LAN of nodes.
type lan struct {
	t       testing.TB
	network *grpcpeertest.LAN
	ctx     context.Context
	stop    context.CancelFunc
	running sync.WaitGroup
	model   llm.Model
}

func newLAN(t testing.TB, model llm.Model) *lan {
	ctx, stop := context.WithCancel(context.Background())
	t.Cleanup(stop)
	return &lan{t: t, network: grpcpeertest.NewLAN(t, grpcpeertest.Config{}), ctx: ctx, stop: stop, model: model}
}

// start runs a node with a name of two letters; change may change it before.
func (l *lan) start(name string, change func(*place)) *place {
	n := &place{id: grpcpeertest.ID(name), authority: "local", offers: true, events: event.NewStream(name)}
	var err error
	if n.rules, err = authorize.New(nil); err != nil {
		l.t.Fatal(err)
	}
	change(n)
	n.community = community.New(community.Config{Node: n.id, Name: name, Network: l.network.Join(name).Network, Authorize: func(from community.Peer, c community.Call) error {
		if v := n.rules.Judge(authorize.Principal{Node: string(from.ID), Authority: n.authority}, authorize.KindInvoke, c.Capability); v.Action != permission.Allow {
			return errors.New(v.Why)
		}
		return nil
	}})
	wait := tool.New(tool.Spec{Name: "wait"}, func(ctx context.Context, _ struct{}) tool.Result {
		select {
		case <-time.After(10 * time.Second):
		case <-ctx.Done():
		}
		return tool.Result{Text: "waited"}
	})
	n.factory = agent.NewFactory(agent.Config{
		Community: n.community, Tools: []tool.Tool{wait}, Model: func(context.Context, string) (llm.Model, error) { return l.model, nil },
		Report: n.events.Publish,
	})
	n.Fleet = New(Config{Node: n.id, Name: name, Version: "v1", Started: time.Now(), Community: n.community, Nodes: n.nodes, Agents: n.factory, Events: n.events})
	if n.offers {
		if err := n.Offer(); err != nil {
			l.t.Fatal(err)
		}
	}
	changes := n.community.Subscribe()
	l.running.Go(func() { // as the node does
		defer changes.Close()
		for {
			c, err := changes.Next(l.ctx)
			if err != nil {
				return
			}
			if c.Kind != community.Snapshot && c.Kind != community.Gap {
				n.events.Publish(event.Event{Type: string(c.Kind), Agent: string(c.Member.ID)})
			}
		}
	})
	l.running.Go(func() { _ = n.community.Run(l.ctx) })
	l.running.Go(func() { _ = n.Run(l.ctx) })
	return n
}

// nodes returns what a network would know of the nodes.
func (n *place) nodes() []grpcpeer.NodeStatus {
	all := []grpcpeer.NodeStatus{{ID: n.id, Name: n.community.Name(), State: grpcpeer.StateSelf}}
	for _, m := range n.community.Members() {
		if community.NodeID(m.ID) != m.Node {
			continue // an agent
		}
		s := grpcpeer.NodeStatus{ID: m.Node, Name: m.Name, State: grpcpeer.StateConnected}
		if !m.Available {
			s.State = grpcpeer.StateUnavailable
		}
		if m.Node != n.id {
			all = append(all, s)
		}
	}
	return all
}

func (l *lan) end() {
	l.stop()
	l.running.Wait()
}

func (n *place) spawn(t testing.TB, name string) community.Member {
	t.Helper()
	d := definition.General()
	m, err := n.factory.Spawn(t.Context(), agent.Order{Definition: d, Name: name, Policy: permission.Policy{Default: permission.Allow}, Ask: n.ask})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// picture is what a watcher knows.
type picture struct {
	mu       sync.Mutex
	nodes    map[string]*symbiov1.FleetNode
	agents   map[string]*symbiov1.FleetAgent
	events   []event.Event
	messages int
}

func newPicture() *picture {
	return &picture{nodes: map[string]*symbiov1.FleetNode{}, agents: map[string]*symbiov1.FleetAgent{}}
}

func (p *picture) apply(c *symbiov1.FleetChange) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.messages++
	for _, id := range c.GetRemovedNodes() {
		delete(p.nodes, id)
	}
	for _, id := range c.GetRemovedAgents() {
		delete(p.agents, id)
	}
	for _, n := range c.GetNodes() {
		p.nodes[n.GetId()] = n
	}
	for _, a := range c.GetAgents() {
		p.agents[a.GetId()] = a
	}
	p.events = append(p.events, Events(c)...)
	return nil
}

// agent returns the agent of a name as the watcher sees it now; nil = it does not.
func (p *picture) agent(name string) *symbiov1.FleetAgent {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, a := range p.agents {
		if a.GetName() == name {
			return a
		}
	}
	return nil
}

func (p *picture) node(id community.NodeID) *symbiov1.FleetNode {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.nodes[string(id)]
}

func (p *picture) names() (all []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, a := range p.agents {
		all = append(all, a.GetNodeName()+"/"+a.GetName())
	}
	slices.Sort(all)
	return all
}

// watch follows the view of a node until the end of the test.
func (l *lan) watch(n *place) *picture {
	p := newPicture()
	l.running.Go(func() { _ = n.Watch(l.ctx, false, p.apply) })
	return p
}

// settle sleeps until all that happens by the end of d, at its last instant too, has happened.
func settle(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// waiter is a model that calls the tool wait, and ends when it has waited.
var waiter = llm.Func(func(_ context.Context, r llm.Request) (llm.Response, error) {
	cost := 0.25
	u := llm.Usage{Input: 100, Output: 10, CacheRead: 40, Cost: &cost}
	if len(r.Messages[len(r.Messages)-1].Results) > 0 {
		return llm.Response{Message: llm.Message{Text: "done"}, Usage: u}, nil
	}
	return llm.Response{Message: llm.Message{Calls: []llm.ToolCall{{ID: "c1", Name: "wait", Args: llm.Args(`{}`)}}}, Usage: u}, nil
})

func (l *lan) send(n *place, m community.Member, text string) {
	l.running.Go(func() {
		_, _ = n.community.Send(l.ctx, m.ID, community.Signal{Perception: "task", Data: []byte(text)})
	})
}

func TestWatcherSeesAgentsOfBothNodesAsTheyWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLAN(t, waiter)
		defer l.end()
		here, there := l.start("aa", func(*place) {}), l.start("bb", func(*place) {})
		settle(3 * time.Second) // they have found each other
		near := here.spawn(t, "near")
		p := l.watch(here)
		settle(time.Second)
		far := there.spawn(t, "far")
		settle(time.Second) // within a second
		if got := p.names(); !slices.Equal(got, []string{"aa/near", "bb/far"}) {
			t.Fatalf("agents = %v, want those of both nodes", got)
		}
		l.send(here, near, "look\x1b[31m around\nplease")
		l.send(there, far, "work")
		settle(time.Second)
		for name, node := range map[string]*place{"near": here, "far": there} {
			a := p.agent(name)
			if a.GetState() != "working" || a.GetTurn() != 1 || len(a.GetCalls()) != 1 || a.GetCalls()[0].GetTool() != "wait" || a.GetNode() != string(node.id) || a.GetDefinition() != "general" {
				t.Errorf("%s at work: %v", name, a)
			}
			if s := a.GetSpent(); s.GetInput() != 100 || s.GetOutput() != 10 || s.GetCached() != 40 || s.GetCost() != 0.25 || s.GetModelCalls() != 1 {
				t.Errorf("%s has spent %v", name, s)
			}
			if n := p.node(node.id); n.GetAgents() != 1 || n.GetWorking() != 1 || n.GetSpent().GetInput() != 100 || n.GetVersion() != "v1" || n.Withheld != nil || n.GetSelf() != (node == here) {
				t.Errorf("the node of %s: %v", name, n)
			}
		}
		if task := p.agent("near").GetTask(); task != "look[31m around please" {
			t.Errorf("task = %q, want it on one line", task)
		}
		settle(11 * time.Second)
		for _, name := range []string{"near", "far"} {
			if a := p.agent(name); a.GetState() != "idle" || a.GetTurn() != 2 || len(a.GetCalls()) != 0 || a.GetSpent().GetCost() != 0.5 {
				t.Errorf("%s after work: %v", name, a)
			}
		}
		if !slices.ContainsFunc(p.events, func(e event.Event) bool {
			return e.Type == "done" && e.Agent == string(far.ID) && e.Node == "bb"
		}) {
			t.Error("the event done of the other node is missing")
		}
		if err := there.community.Terminate(t.Context(), far.ID); err != nil {
			t.Fatal(err)
		}
		settle(time.Second)
		if got := p.names(); !slices.Equal(got, []string{"aa/near"}) {
			t.Errorf("agents = %v after the other one ended", got)
		}
		l.network.Kill(there.id)
		settle(time.Second)
		if n := p.node(there.id); n.GetState() != "unavailable" || n.GetVersion() != "" {
			t.Errorf("the killed node: %v", n)
		}
	})
}

func TestNodesThatShowNothingSayWhy(t *testing.T) {
	denies, err := authorize.New([]authorize.Rule{{From: "local", Deny: []string{"fleet.*"}}})
	if err != nil {
		t.Fatal(err)
	}
	everything, err := authorize.New([]authorize.Rule{{From: "*", Invoke: []string{"*"}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		change func(*place)
		want   string // "" = it shows its agents
	}{
		{"the same user", func(*place) {}, ""},
		{"another user", func(n *place) { n.authority, n.rules = "lab", everything }, `authorize: [{from: "` + string(grpcpeertest.ID("aa")) + `", invoke: ["fleet.view"]}]`},
		{"a deny", func(n *place) { n.rules = denies }, "authorize"},
		{"an older version", func(n *place) { n.offers = false }, "update symbio on that node"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLAN(t, waiter)
				defer l.end()
				here, there := l.start("aa", func(*place) {}), l.start("bb", c.change)
				there.spawn(t, "far")
				settle(3 * time.Second)
				p := newPicture()
				if err := here.Watch(t.Context(), true, p.apply); err != nil {
					t.Fatal(err)
				}
				n := p.node(there.id)
				if n.GetState() != "connected" || !strings.Contains(n.GetWithheld(), c.want) || c.want == "" && n.Withheld != nil {
					t.Errorf("node = %v, want withheld %q", n, c.want)
				}
				if shows := len(p.names()) == 1; shows != (c.want == "") {
					t.Errorf("agents = %v", p.names())
				}
			})
		})
	}
}
