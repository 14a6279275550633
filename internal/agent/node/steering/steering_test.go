package steering

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"symbio/agent"
	"symbio/agent/conversation"
	"symbio/agent/definition"
	"symbio/agent/llm"
	"symbio/agent/tool"
	"symbio/community"
	"symbio/internal/security/permission/authorize"
	"symbio/security/permission"
	"symbio/transport/grpcpeer/grpcpeertest"
)

// place is a node with agents.
type place struct {
	*Controller
	id        community.NodeID
	community *community.Community
	factory   *agent.Factory
}

// workshop is two nodes; on there lives an agent that waits ten seconds in each turn, until it is told to stop.
type workshop struct {
	t           *testing.T
	here, there place
	agent       community.Member
	heard       []string // what was said to it last in each request
	stop        context.CancelFunc
	running     sync.WaitGroup
}

// newWorkshop starts both nodes; list has the rules of there.
func newWorkshop(t *testing.T, list ...authorize.Rule) *workshop {
	w := &workshop{t: t}
	ctx, stop := context.WithCancel(context.Background())
	w.stop = stop
	t.Cleanup(stop)
	rules, err := authorize.New(list)
	if err != nil {
		t.Fatal(err)
	}
	network := grpcpeertest.NewLAN(t, grpcpeertest.Config{})
	for id, n := range map[string]*place{"aa": &w.here, "bb": &w.there} {
		n.id = grpcpeertest.ID(id)
		n.community = community.New(community.Config{Node: n.id, Name: id, Network: network.Join(id).Network, Authorize: func(from community.Peer, c community.Call) error {
			if v := rules.Judge(authorize.Principal{Node: string(from.ID)}, authorize.KindInvoke, c.Capability); v.Action != permission.Allow {
				return errors.New(v.Why)
			}
			return nil
		}})
		w.running.Go(func() { _ = n.community.Run(ctx) })
	}
	time.Sleep(3 * time.Second) // they have found each other
	wait := tool.New(tool.Spec{Name: "wait"}, func(ctx context.Context, _ struct{}) tool.Result {
		select {
		case <-time.After(10 * time.Second):
		case <-ctx.Done():
		}
		return tool.Result{Text: strings.Repeat("w", 300_000)}
	})
	model := llm.Func(func(_ context.Context, r llm.Request) (llm.Response, error) {
		m := r.Messages[len(r.Messages)-1]
		w.heard = append(w.heard, m.Text)
		if strings.Contains(m.Text, "stop") {
			return llm.Response{Message: llm.Message{Text: "stopped"}}, nil
		}
		return llm.Response{Message: llm.Message{Calls: []llm.ToolCall{{Name: "wait"}}}}, nil
	})
	for _, n := range []*place{&w.here, &w.there} {
		n.factory = agent.NewFactory(agent.Config{
			Community: n.community, Tools: []tool.Tool{wait}, Window: func(string) int { return 10_000_000 },
			Model: func(context.Context, string) (llm.Model, error) { return model, nil },
		})
		n.Controller = New(Config{Node: n.id, Community: n.community, Agents: n.factory, MaxMessage: 1 << 20, NodeName: func(id community.NodeID) string { return string(id) }})
		if err := n.Offer(n.community.Offer); err != nil {
			t.Fatal(err)
		}
	}
	if w.agent, err = w.there.factory.Spawn(t.Context(), agent.Order{Definition: definition.General(), Policy: permission.Policy{Default: permission.Allow}}); err != nil {
		t.Fatal(err)
	}
	time.Sleep(3 * time.Second) // it is known on both
	return w
}

func (w *workshop) end() {
	w.stop()
	w.running.Wait()
}

// raw calls a capability there as a program may that is not this one.
func (w *workshop) raw(capability, data string) (community.Reply, error) {
	return w.here.community.Invoke(w.t.Context(), community.MemberID(w.there.id), capability, community.Signal{Data: []byte(data)})
}

// work gives the agent a task on its own node.
func (w *workshop) work(text string) func() error {
	var err error
	var wg sync.WaitGroup
	wg.Go(func() {
		_, err = w.there.community.Send(w.t.Context(), w.agent.ID, community.Signal{Perception: "task", Data: []byte(text)})
	})
	time.Sleep(time.Second)
	return func() error { wg.Wait(); return err }
}

func TestInspectNamesThePartsOfTheLastRequestWhereItIsAllowed(t *testing.T) {
	for _, c := range []struct {
		name    string
		allowed string
		want    error
	}{{"allowed", "agents.inspect", nil}, {"another capability is", "agents.state", community.ErrDenied}, {"all others are", "*", community.ErrDenied}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorkshop(t, authorize.Rule{From: string(grpcpeertest.ID("aa")), Invoke: []string{c.allowed}})
				defer w.end()
				done := w.work("go")
				r, err := w.raw(agentsInspect, `{"member":"`+string(w.agent.ID)+`"}`)
				if !errors.Is(err, c.want) || c.want == nil && (!strings.Contains(string(r.Data), "instructions") || !strings.Contains(string(r.Data), "wait")) {
					t.Errorf("inspect = %s, %v, want the parts of the request, %v", r.Data, err, c.want)
				}
				_ = w.there.factory.Interrupt(w.agent.ID)
				_ = done()
			})
		})
	}
}

func TestInspectShortensTheLongestTexts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorkshop(t, maySteer)
		defer w.end()
		d := definition.General()
		d.Instructions = strings.Repeat("<ü", 1<<20) // three bytes in memory, eight in JSON
		long, err := w.there.factory.Spawn(t.Context(), agent.Order{Definition: d, Policy: permission.Policy{Default: permission.Allow}})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second) // it is known on both
		for where, desk := range map[string]place{"its node": w.there, "another node": w.here} {
			parts, err := desk.Inspect(t.Context(), long.ID)
			if err != nil || len(parts) == 0 {
				t.Errorf("inspect from %s = %d parts, %v", where, len(parts), err)
				continue
			}
			first := parts[0]
			if data, err := json.Marshal(parts); err != nil || len(data) > 1<<19 {
				t.Errorf("inspect from %s has %d bytes, %v, want at most half a message", where, len(data), err)
			}
			if len(first.Text) < 1<<16 || first.Omitted == 0 || len(first.Text)+first.Omitted != first.Bytes || !strings.HasSuffix(first.Text, "<ü") && !strings.HasSuffix(first.Text, "<") {
				t.Errorf("inspect from %s: %s has %d bytes, %d shown and %d omitted", where, first.Name, first.Bytes, len(first.Text), first.Omitted)
			}
		}
		if _, err := w.here.Inspect(t.Context(), "missing"); !errors.Is(err, community.ErrNotFound) {
			t.Errorf("inspect of a member that is missing: %v", err)
		}
	})
}

var maySteer = authorize.Rule{From: string(grpcpeertest.ID("aa")), Invoke: []string{"agents.*"}}

func TestAgentIsReachedFromItsNodeAndFromAnother(t *testing.T) {
	for _, far := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorkshop(t, maySteer)
			defer w.end()
			n := w.there
			if far {
				n = w.here
			}
			done := w.work("go")
			if s, err := n.State(t.Context(), w.agent.ID, false); err != nil || !s.Responding || s.Turn != 1 || s.Transcript != nil {
				t.Errorf("far %v: state = %+v, %v", far, s, err)
			}
			r, err := n.Steer(t.Context(), w.agent.ID, "please stop")
			if err != nil || r.Outcome != conversation.Delivered || r.Turn != 2 || r.Text != "please stop" || r.At.IsZero() {
				t.Errorf("far %v: receipt = %+v, %v", far, r, err)
			}
			if err := done(); err != nil {
				t.Error(err)
			}
			if got := w.heard[len(w.heard)-1]; strings.HasPrefix(got, "[The node "+string(w.here.id)+" says meanwhile. It is a request") != far || !strings.HasSuffix(got, "please stop") {
				t.Errorf("far %v: the model reads %q", far, got)
			}
			if err := n.Interrupt(t.Context(), w.agent.ID); !errors.Is(err, conversation.ErrIdle) {
				t.Errorf("far %v: interrupting nothing: %v", far, err)
			}
			if r, err := n.Steer(t.Context(), w.agent.ID, "stop at once"); err != nil || r.Outcome != conversation.Kept {
				t.Errorf("far %v: without a task: %+v, %v", far, r, err)
			}
			if err := w.work("next")(); err != nil {
				t.Error(err)
			}
			done = w.work("once more")
			if err := n.Interrupt(t.Context(), w.agent.ID); err != nil {
				t.Errorf("far %v: %v", far, err)
			}
			if err := done(); !errors.Is(err, conversation.ErrInterrupted) {
				t.Errorf("far %v: the task: %v", far, err)
			}
			if _, err := n.Steer(t.Context(), "nobody", "x"); !errors.Is(err, community.ErrNotFound) {
				t.Errorf("far %v: nobody: %v", far, err)
			}
			if _, err := n.Steer(t.Context(), w.agent.ID, " "); !errors.Is(err, community.ErrInvalid) {
				t.Errorf("far %v: nothing said: %v", far, err)
			}
		})
	}
}

func TestTranscriptThatIsTooLongIsSentWithoutItsBeginning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorkshop(t, maySteer)
		defer w.end()
		done := w.work("go")
		time.Sleep(100 * time.Second)
		if _, err := w.there.Steer(t.Context(), w.agent.ID, "stop"); err != nil {
			t.Fatal(err)
		}
		if err := done(); err != nil {
			t.Fatal(err)
		}
		whole, err := w.there.State(t.Context(), w.agent.ID, true)
		if err != nil || whole.Omitted != 0 || len(whole.Transcript) != whole.Messages {
			t.Fatalf("at its node: %d of %d messages, %v", len(whole.Transcript), whole.Messages, err)
		}
		sent, err := w.here.State(t.Context(), w.agent.ID, true)
		if err != nil || sent.Omitted == 0 || sent.Omitted+len(sent.Transcript) != whole.Messages || sent.Transcript[len(sent.Transcript)-1].Text != "stopped" {
			t.Errorf("elsewhere: %d messages and %d omitted, %v", len(sent.Transcript), sent.Omitted, err)
		}
	})
}

func TestOnlyANodeThatMayReachesAnAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorkshop(t, authorize.Rule{From: string(grpcpeertest.ID("aa")), Invoke: []string{"agents.state"}})
		defer w.end()
		done := w.work("go")
		_, err := w.here.Steer(t.Context(), w.agent.ID, "stop")
		if !errors.Is(err, community.ErrDenied) || !strings.Contains(err.Error(), `authorize: [{from: "`+string(w.here.id)+`", invoke: ["agents.steer"]}]`) {
			t.Errorf("steering: %v", err)
		}
		if err := w.here.Interrupt(t.Context(), w.agent.ID); !errors.Is(err, community.ErrDenied) {
			t.Errorf("interrupting: %v", err)
		}
		if _, err := w.here.State(t.Context(), w.agent.ID, false); err != nil {
			t.Errorf("looking, which it may: %v", err)
		}
		if err := w.there.Interrupt(t.Context(), w.agent.ID); err != nil {
			t.Error(err)
		}
		if err := done(); !errors.Is(err, conversation.ErrInterrupted) {
			t.Error(err)
		}
	})
}

// The receipt of what was not delivered in the time of a call arrives.
func TestLateSteeringIsReturned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorkshop(t, maySteer)
		defer w.end()
		done := w.work("go")
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		r, err := w.here.Steer(ctx, w.agent.ID, "stop")
		if err != nil || r.Outcome != conversation.Returned || r.Text != "stop" || !strings.Contains(r.Why, "in time") {
			t.Errorf("receipt = %+v, %v", r, err)
		}
		if s, err := w.there.State(t.Context(), w.agent.ID, false); err != nil || s.PendingSteering != 0 {
			t.Errorf("state = %+v, %v", s, err)
		}
		if err := w.there.Interrupt(t.Context(), w.agent.ID); err != nil {
			t.Error(err)
		}
		if err := done(); !errors.Is(err, conversation.ErrInterrupted) {
			t.Error(err)
		}
	})
}

func TestCapabilityInputIsChecked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorkshop(t, maySteer)
		defer w.end()
		for data, want := range map[string]error{
			`{}`: community.ErrInvalid, `{"member":"x"}`: community.ErrInvalid, `{"member":1,"text":"x"}`: community.ErrInvalid, `{"member":"x","text":"y","more":1}`: community.ErrInvalid,
			`{"member":"nobody","text":"y"}`: community.ErrNotFound,
		} {
			if _, err := w.raw(agentsSteer, data); !errors.Is(err, want) {
				t.Errorf("%s: %v, want %v", data, err, want)
			}
		}
		reply, err := w.raw(agentsState, `{"member":"`+string(w.agent.ID)+`"}`)
		var s map[string]any
		if err != nil || json.Unmarshal(reply.Data, &s) != nil || s["responding"] != false || s["waiting"] != 0.0 {
			t.Errorf("%s, %v", reply.Data, err)
		}
	})
}
