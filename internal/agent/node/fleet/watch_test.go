package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"symbio/agent"
	"symbio/agent/definition"
	"symbio/agent/llm"
	"symbio/agent/tool"
	"symbio/community"
	"symbio/internal/agent/event/eventtest"
	"symbio/internal/agent/lending"
	"symbio/internal/security/permission/authorize"
	symbiov1 "symbio/proto/symbio/v1"
	"symbio/security/permission"
)

func TestWatcherThatStopsReadingIsDroppedAndTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLAN(t, waiter)
		defer l.end()
		here := l.start("aa", func(*place) {})
		other := l.watch(here)
		stuck, began := make(chan struct{}), time.Now()
		defer close(stuck)
		err := here.Watch(t.Context(), false, func(*symbiov1.FleetChange) error { <-stuck; return nil })
		if !errors.Is(err, ErrSlow) || !strings.Contains(err.Error(), "open it again") || time.Since(began) > sendTimeout+time.Second {
			t.Errorf("watch = %v after %v", err, time.Since(began))
		}
		here.spawn(t, "x")
		settle(time.Second)
		if other.agent("x") == nil {
			t.Error("another watcher sees nothing more")
		}
	})
}

func TestSlowWatcherGetsWhatIsNowAndNotEachStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLAN(t, waiter)
		defer l.end()
		here := l.start("aa", func(*place) {})
		p, steps := newPicture(), 0
		l.running.Go(func() {
			_ = here.Watch(l.ctx, false, func(c *symbiov1.FleetChange) error {
				time.Sleep(9 * time.Second)
				steps += len(c.GetAgents())
				return p.apply(c)
			})
		})
		settle(10 * time.Second)
		for range 50 {
			m := here.spawn(t, "brief")
			settle(100 * time.Millisecond)
			if err := here.community.Terminate(t.Context(), m.ID); err != nil {
				t.Fatal(err)
			}
		}
		here.spawn(t, "last")
		settle(30 * time.Second)
		if got := p.names(); !slices.Equal(got, []string{"aa/last"}) || steps > 25 {
			t.Errorf("agents = %v in %d steps, want the last one, and few of the others", got, steps)
		}
	})
}

func TestNothingRunsWithoutWatcher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLAN(t, waiter)
		defer l.end()
		here, there := l.start("aa", func(*place) {}), l.start("bb", func(*place) {})
		settle(3 * time.Second)
		ctx, stop := context.WithCancel(t.Context())
		l.running.Go(func() { _ = here.Watch(ctx, false, newPicture().apply) })
		settle(3 * time.Second)
		if !here.isFollowed(here.own.table, here.own.demand) || !there.isFollowed(there.own.table, there.own.demand) {
			t.Error("the parts are not kept while they are watched")
		}
		stop()
		settle(2 * time.Minute)
		for _, n := range []*place{here, there} {
			if n.isFollowed(n.view, n.Fleet.demand) || n.isFollowed(n.own.table, n.own.demand) {
				t.Error("the parts are kept without a watcher")
			}
		}
	})
}

// isFollowed reports whether a table is kept up to date.
func (n *place) isFollowed(t *table, d *demand) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	d.mu.Lock()
	defer d.mu.Unlock()
	return t.incarnation != "" || d.stop != nil
}

func TestOnlyPeopleAreShownTheView(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLAN(t, waiter)
		defer l.end()
		here, there := l.start("aa", func(*place) {}), l.start("bb", func(*place) {})
		settle(3 * time.Second)
		for requester, want := range map[string]error{"": nil, string(here.id) + "/" + strings.Repeat("cd", 16): community.ErrDenied} {
			s := community.Signal{Data: []byte(`{}`)}
			if requester != "" {
				s.Requester = []string{requester}
			}
			r, err := here.community.Invoke(t.Context(), community.MemberID(there.id), View, s)
			if !errors.Is(err, want) || (want == nil) != (len(r.Data) > 0) {
				t.Errorf("on behalf of %q: %d bytes, %v, want %v", requester, len(r.Data), err, want)
			}
		}
	})
}

func TestCallOfViewWaitsForChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLAN(t, waiter)
		defer l.end()
		here, there := l.start("aa", func(*place) {}), l.start("bb", func(*place) {})
		settle(3 * time.Second)
		ask := func(r viewRequest) (*symbiov1.FleetPart, time.Duration) {
			t.Helper()
			began := time.Now()
			data, err := json.Marshal(r)
			if err != nil {
				t.Fatal(err)
			}
			reply, err := here.community.Invoke(t.Context(), community.MemberID(there.id), View, community.Signal{Data: data})
			var p symbiov1.FleetPart
			if err := errors.Join(err, proto.Unmarshal(reply.Data, &p)); err != nil {
				t.Fatal(err)
			}
			return &p, time.Since(began)
		}
		first, took := ask(viewRequest{})
		if !first.GetWhole() || took > time.Second {
			t.Fatalf("the first reply after %v: %v", took, first)
		}
		for range 40 {
			there.spawn(t, strings.Repeat("long", 20))
		}
		p, _ := ask(viewRequest{Incarnation: first.GetIncarnation(), Since: first.GetVersion()})
		at, seen := p, len(p.GetChange().GetAgents())
		if p.GetWhole() || seen == 0 {
			t.Errorf("after a change: %v", p)
		}
		for range 100 { // a caller that takes small replies gets all of them
			at, _ = ask(viewRequest{Incarnation: at.GetIncarnation(), Since: at.GetVersion(), MaxBytes: 2000})
			if seen += len(at.GetChange().GetAgents()); len(at.GetChange().GetAgents()) > 12 {
				t.Errorf("%d agents in a reply of 2000 bytes", len(at.GetChange().GetAgents()))
			}
			if seen >= 40 {
				break
			}
		}
		if seen < 40 {
			t.Errorf("%d agents were sent in small replies, want 40", seen)
		}
	})
}

func TestCallThatWaitsForPersonIsShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLAN(t, waiter)
		defer l.end()
		answer := make(chan tool.Answer)
		here := l.start("aa", func(n *place) {
			n.ask = func(context.Context, agent.ApprovalRequest) tool.Answer { return <-answer }
		})
		m, err := here.factory.Spawn(t.Context(), agent.Order{Definition: definition.General(), Name: "x", Policy: permission.Policy{Default: permission.Ask}, Ask: here.ask})
		if err != nil {
			t.Fatal(err)
		}
		p := l.watch(here)
		l.send(here, m, "work")
		settle(2 * time.Second)
		if a := p.agent("x"); a.GetState() != "waiting" || len(a.GetCalls()) != 1 || !a.GetCalls()[0].GetWaiting() || p.node(here.id).GetWaiting() != 1 {
			t.Errorf("while a person is asked: %v", a)
		}
		answer <- tool.Answer{Allow: true}
		settle(2 * time.Second)
		if a := p.agent("x"); a.GetState() != "working" || len(a.GetCalls()) != 1 || a.GetCalls()[0].GetWaiting() {
			t.Errorf("after the answer: %v", a)
		}
	})
}

func TestLentAgentIsBelowItsParentOnTheOtherNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lender := llm.Func(func(_ context.Context, r llm.Request) (llm.Response, error) {
			m := r.Messages[len(r.Messages)-1]
			switch {
			case strings.Contains(m.Text, "get help"):
				return llm.Response{Message: llm.Message{Calls: []llm.ToolCall{{ID: "1", Name: "replicate_agent", Args: llm.Args(`{"reason":"help","task":"help","agent":"general","node":"bb","name":"lent"}`)}}}}, nil
			case len(m.Results) > 0:
				return llm.Response{Message: llm.Message{Calls: []llm.ToolCall{{ID: "2", Name: "wait", Args: llm.Args(`{}`)}}}}, nil
			}
			return llm.Response{Message: llm.Message{Text: m.Text}}, nil
		})
		l := newLAN(t, lender)
		defer l.end()
		mayBorrow, err := authorize.New([]authorize.Rule{{From: "*", Invoke: []string{lending.Capability}}})
		if err != nil {
			t.Fatal(err)
		}
		here, there := l.start("aa", func(*place) {}), l.start("bb", func(n *place) { n.rules = mayBorrow })
		lends := lending.NewLender(lending.LenderConfig{Community: there.community, Definitions: []definition.Definition{definition.General()}, Spawn: there.factory.Lend(agent.Order{Policy: permission.Policy{Default: permission.Allow}})})
		c, err := lends.Capability()
		if err == nil {
			err = there.community.Offer(c, lends.Provide, community.WithMaxCallDuration(lends.MaxCallTime()))
		}
		if err != nil {
			t.Fatal(err)
		}
		settle(3 * time.Second)
		p := l.watch(here)
		parent := here.spawn(t, "parent")
		l.send(here, parent, "get help")
		settle(2 * time.Second)
		a := p.agent("lent")
		if a.GetNode() != string(there.id) || a.GetParent() != string(parent.ID) {
			t.Errorf("the lent agent: %v, want it on %s below %s; the parent: %v", a, there.id, parent.ID, p.agent("parent"))
		}
	})
}

// hostile is what a node may send of itself.
func hostile(node community.NodeID, others string) *symbiov1.FleetPart {
	text := "\x1b[2J\u202e" + strings.Repeat("x", 3000)
	calls := make([]*symbiov1.FleetCall, 40)
	for i := range calls {
		calls[i] = &symbiov1.FleetCall{Call: text, Tool: text, Args: text, Since: &timestamppb.Timestamp{Nanos: -5}}
	}
	own := strings.Repeat("c", 32)
	return &symbiov1.FleetPart{Whole: true, Version: 1, Change: &symbiov1.FleetChange{
		Nodes: []*symbiov1.FleetNode{{Id: string(node), Name: "forged", Version: text, Problems: slices.Repeat([]string{text}, 100), Started: &timestamppb.Timestamp{Nanos: -1}}, {Id: "other", Name: text}},
		Agents: []*symbiov1.FleetAgent{
			{Id: own, Name: text, Node: "forged", NodeName: "forged", Parent: text, State: text, Task: text, Calls: calls, Limits: &symbiov1.Budget{Wall: &durationpb.Duration{Nanos: -1, Seconds: 1}}},
			{Id: others, Name: "forged"}, {Id: "short", Name: "forged"},
		},
		RemovedAgents: []string{others}, RemovedNodes: []string{"aa", string(node)},
		Events: []*symbiov1.Event{
			nil, {Json: []byte("{")}, {Json: eventtest.Line("x", "forged", "no id", "{}")}, {Json: eventtest.Line("tool_call", "forged", own, `{"tool":5}`)}, {Json: eventtest.Line(text, "forged", own, `{"text":"\u001b[2J"}`)},
			{Json: eventtest.Line("tool_call", "forged", own, `{"name":"\u001b[2J","tool":"x","args":{"b":[[[[["deep"]]]]],"\u202e":"\u001b"}}`), More: true},
			{Json: eventtest.Line("tool_result", "forged", own, `{"tool":"`+strings.Repeat("x", 2*maxShortData)+`"}`)}, {Json: eventtest.Line("decision", "forged", own, `{"seq":18446744073709551615,"args":[`+strings.Repeat(`"x",`, 8e4)+`1]}`)},
		},
	}}
}

func TestNodeSpeaksForItsOwnAgentsOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLAN(t, waiter)
		defer l.end()
		here, there := l.start("aa", func(*place) {}), l.start("bb", func(*place) {})
		liar := l.start("cc", func(n *place) { n.offers = false })
		near, far := here.spawn(t, "near"), there.spawn(t, "far")
		calls := 0
		if err := liar.community.Offer(community.Capability{Name: View}, func(context.Context, community.Signal) (community.Reply, error) {
			calls++
			id := far.ID
			if calls%2 == 0 {
				id = near.ID
			}
			data, err := proto.Marshal(hostile(liar.id, string(id)))
			return community.Reply{Data: data}, err
		}); err != nil {
			t.Fatal(err)
		}
		p := l.watch(here)
		settle(10 * time.Second)
		if calls < 10 || calls > 60 {
			t.Errorf("it was asked %d times in 10 s: %v", calls, p.node(liar.id))
		}
		if got := p.names(); len(got) != 3 || got[0] != "aa/near" || got[1] != "bb/far" || !strings.HasPrefix(got[2], "cc/[2Jx") {
			t.Errorf("agents = %v", got)
		}
		if n := p.node(liar.id); n.GetName() != "cc" || n.GetState() != "connected" || len(p.nodes) != 3 {
			t.Errorf("the node that lies: %v; nodes: %v", n, p.nodes)
		}
	})
}

func FuzzPart(f *testing.F) {
	others, self, node := strings.Repeat("a", 32), community.NodeID(strings.Repeat("0", 32)), community.NodeID(strings.Repeat("b", 32))
	for _, p := range []*symbiov1.FleetPart{{}, hostile(node, others)} {
		data, err := proto.Marshal(p)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var p symbiov1.FleetPart
		if proto.Unmarshal(data, &p) != nil {
			return
		}
		v := New(Config{Node: self, Community: strangers{}})
		v.nodes = map[community.NodeID]*member{node: {status: &symbiov1.FleetNode{Id: string(node), Name: "b"}}}
		v.view.open(func(t *table) { t.putAgent(&symbiov1.FleetAgent{Id: others, Name: "its own", Node: string(self)}) })
		v.apply(t.Context(), node, &p)
		got := newPicture()
		readAll(got, v.view, cursor{}, 1<<30)
		if a := got.agents[others]; a.GetName() != "its own" {
			t.Errorf("the agent of another node is now %v", a)
		}
		if len(got.nodes) != 1 || got.node(node).GetName() != "b" || len(got.node(node).GetProblems()) > maxProblems {
			t.Errorf("nodes = %v", got.nodes)
		}
		for id, a := range got.agents {
			if id == others {
				continue
			}
			if !memberID().MatchString(id) || a.GetNode() != string(node) || a.GetNodeName() != "b" || len(a.GetCalls()) > maxCalls || proto.Size(a) > 64<<10 {
				t.Errorf("agent = %v", a)
			}
			checkText(t, a.GetName(), a.GetTask(), a.GetState(), a.GetParent(), a.GetModel(), a.GetDefinition(), a.GetSession())
			if a.GetSince() != nil && a.GetSince().CheckValid() != nil || a.GetLimits().GetWall() != nil && a.GetLimits().GetWall().CheckValid() != nil {
				t.Errorf("times of %v", a)
			}
			for _, c := range a.GetCalls() {
				checkText(t, c.GetCall(), c.GetTool(), c.GetArgs())
			}
		}
		for _, e := range got.events {
			checkText(t, e.Type, e.Name, e.Text, e.Why, e.ToolName())
			if line, err := json.Marshal(e); e.Node != "b" || len(line) > 2*maxShortData || err != nil {
				t.Errorf("event = %s, %v", line, err)
			}
		}
	})
}

func checkText(t *testing.T, all ...string) {
	t.Helper()
	for _, s := range all {
		if len(s) > maxText+3 || strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == '\u202e' }) {
			t.Errorf("text %q", s)
		}
	}
}

// strangers is a community that knows no member.
type strangers struct{ Community }

func (strangers) Member(community.MemberID) (community.Member, bool) {
	return community.Member{}, false
}
