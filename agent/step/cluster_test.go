package step_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"symbio/agent/step"
	"symbio/agent/tool/guardrail"
	"symbio/community"
	"symbio/internal/agent/tool/peer"
	"symbio/transport/grpcpeer/grpcpeertest"
)

// town is some nodes on a LAN in memory.
type town struct {
	t       *testing.T
	network *grpcpeertest.LAN
	of      map[string]*community.Community
}

func newTown(t *testing.T, names ...string) *town {
	w := &town{t, grpcpeertest.NewLAN(t, grpcpeertest.Config{}), map[string]*community.Community{}}
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for _, name := range names {
		c := community.New(community.Config{Node: grpcpeertest.ID(name), Name: name, Network: w.network.Join(name).Network,
			Authorize: func(community.Peer, community.Call) error { return nil }})
		w.of[name] = c
		wg.Go(func() { _ = c.Run(ctx) })
	}
	t.Cleanup(func() { stop(); wg.Wait() })
	return w
}

// offer has a node answer a capability.
func offer[In, Out any](w *town, node string, c community.Capability,
	f func(context.Context, In) (Out, error), opts ...community.OfferOption) {
	w.t.Helper()
	if err := community.OfferFunc(w.of[node], c, f, opts...); err != nil {
		w.t.Fatal(err)
	}
}

type textIn struct {
	Text string `json:"text"`
}

type count struct {
	Words int    `json:"words"`
	By    string `json:"by"`
}

// counts offers text.count, which takes a time, and counts the calls.
func (w *town) counts(node string, idempotent bool, takes time.Duration) *atomic.Int64 {
	var calls atomic.Int64
	offer(w, node, community.Capability{Name: "text.count", Idempotent: idempotent}, func(ctx context.Context, in textIn) (count, error) {
		calls.Add(1)
		select {
		case <-time.After(takes):
		case <-ctx.Done():
			return count{}, ctx.Err()
		}
		return count{len(strings.Fields(in.Text)), node}, nil
	})
	return &calls
}

// on puts a step on the cluster as a node sees it.
func on[In, Out any](w *town, node string, s step.Step[In, Out]) step.Step[In, Out] {
	synctest.Wait() // all see each other
	return step.With(step.NewCluster(w.of[node]), s)
}

func TestCapabilityIsAStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTown(t, "a", "b", "c")
		w.counts("b", true, 0)
		w.counts("c", true, 0)
		want := count{3, "c"}
		for _, name := range []string{"c", string(grpcpeertest.ID("c"))} {
			if got := run(t, on(w, "a", step.Capability[textIn, count]("text.count", name)), textIn{"one two three"}); got != want {
				t.Errorf("on %s: got %+v, want %+v", name, got, want)
			}
		}
		for what, c := range map[string]struct {
			s    step.Step[textIn, count]
			want error
		}{
			"no such capability":  {on(w, "a", step.Capability[textIn, count]("text.lost")), community.ErrNotFound},
			"not on that node":    {on(w, "a", step.Capability[textIn, count]("text.count", "d")), community.ErrNotFound},
			"its own is no other": {on(w, "b", step.Capability[textIn, count]("text.count", "b")), community.ErrNotFound},
		} {
			if _, err := c.s.Run(t.Context(), textIn{}); !errors.Is(err, c.want) {
				t.Errorf("%s: got %v", what, err)
			}
		}
		if _, err := on(w, "a", step.Capability[string, count]("text.count")).Run(t.Context(), "no object"); !errors.Is(err,
			community.ErrInvalid) {
			t.Errorf("input that does not fit: %v", err)
		}
		if _, err := on(w, "a", step.Capability[textIn, []string]("text.count")).Run(t.Context(), textIn{}); err == nil ||
			!strings.Contains(err.Error(), "capability text.count: its answer is no []string") {
			t.Errorf("output that does not fit: %v", err)
		}
		if _, err := step.Capability[textIn, count]("text.count").Run(t.Context(), textIn{}); err == nil ||
			!strings.Contains(err.Error(), "step.NewCluster") {
			t.Errorf("without a cluster: %v", err)
		}
	})
}

// The least loaded provider gets the next one: of twelve that take a second on two nodes, six each, in a bubble's time
// that says that they ran beside each other.
func TestMapPlacesWorkOnTheLeastLoadedProvider(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTown(t, "a", "b", "c")
		b, c := w.counts("b", true, time.Second), w.counts("c", true, time.Second)
		begun := time.Now()
		got := run(t, on(w, "a", step.Map(4, step.Capability[textIn, count]("text.count"))), slices.Repeat([]textIn{{"x y"}}, 12))
		if b.Load() != 6 || c.Load() != 6 || len(got) != 12 || time.Since(begun) != 3*time.Second {
			t.Errorf("%d and %d calls in %s", b.Load(), c.Load(), time.Since(begun))
		}
	})
	synctest.Test(t, func(t *testing.T) {
		w := newTown(t, "a", "b", "c")
		b, c := w.counts("b", true, 9*time.Second), w.counts("c", true, time.Second)
		run(t, on(w, "a", step.Map(2, step.Capability[textIn, count]("text.count"))), make([]textIn, 10))
		if b.Load() != 1 || c.Load() != 9 {
			t.Errorf("a slow one got %d, a quick one %d", b.Load(), c.Load())
		}
	})
}

func TestAnotherProviderIsAskedWhenOneIsLostMeanwhile(t *testing.T) {
	for _, idempotent := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			w := newTown(t, "a", "b", "c")
			b, c := w.counts("b", idempotent, 5*time.Second), w.counts("c", idempotent, time.Second)
			s := on(w, "a", step.Capability[textIn, count]("text.count"))
			var wg sync.WaitGroup
			wg.Go(func() { time.Sleep(2 * time.Second); w.network.Kill(grpcpeertest.ID("b")) })
			defer wg.Wait()
			got, err := s.Run(t.Context(), textIn{"x"})
			if b.Load() != 1 {
				t.Fatalf("b was asked %d times", b.Load())
			}
			if idempotent && (err != nil || got.By != "c") {
				t.Errorf("idempotent: got %+v, %v", got, err)
			}
			if !idempotent && (!errors.Is(err, community.ErrUnavailable) || c.Load() != 0) {
				t.Errorf("not idempotent: got %+v, %v, c was asked %d times", got, err, c.Load())
			}
		})
	}
}

func TestBusyProviderIsPassedByEvenIfNotIdempotent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTown(t, "a", "b", "c")
		offer(w, "b", community.Capability{Name: "work"}, func(context.Context, textIn) (string, error) { return "", community.ErrBusy })
		offer(w, "c", community.Capability{Name: "work"}, func(context.Context, textIn) (string, error) { return "by c", nil })
		s := on(w, "a", step.Capability[textIn, string]("work"))
		for range 3 {
			if got := run(t, s, textIn{}); got != "by c" {
				t.Errorf("got %q", got)
			}
		}
		if _, err := on(w, "a", step.Capability[textIn, string]("work", "b")).Run(t.Context(), textIn{}); !errors.Is(err,
			community.ErrBusy) {
			t.Errorf("when all are busy: %v", err)
		}
		failed := atomic.Int64{}
		offer(w, "b", community.Capability{Name: "bad", Idempotent: true},
			func(context.Context, textIn) (string, error) { failed.Add(1); return "", errTest })
		offer(w, "c", community.Capability{Name: "bad", Idempotent: true},
			func(context.Context, textIn) (string, error) { failed.Add(1); return "", errTest })
		if _, err := on(w, "a", step.Capability[textIn, string]("bad")).Run(t.Context(), textIn{}); !errors.Is(err,
			community.ErrAgentFailed) || failed.Load() != 1 {
			t.Errorf("what fails at one is not tried at others: %v, %d times", err, failed.Load())
		}
	})
}

func TestInvokeTriesProviderOnceWhenAllAreLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTown(t, "a", "b")
		w.counts("b", true, 0)
		s := on(w, "a", step.Capability[textIn, count]("text.count"))
		w.network.Kill(grpcpeertest.ID("b"))
		synctest.Wait()
		if _, err := s.Run(t.Context(), textIn{}); !errors.Is(err, community.ErrUnavailable) {
			t.Errorf("got %v", err)
		}
	})
}

// clerk is an agent made of a function.
type clerk struct {
	takes   []string
	receive func(context.Context, community.Signal) (community.Reply, error)
}

func (c clerk) Perceptions() []string { return c.takes }

func (c clerk) Receive(ctx context.Context, s community.Signal) (community.Reply, error) {
	return c.receive(ctx, s)
}

func (w *town) spawn(node, name string, c clerk) {
	w.t.Helper()
	if _, err := w.of[node].Spawn(context.Background(), name,
		func(community.Member) (community.Agent, error) { return c, nil }); err != nil {
		w.t.Fatal(err)
	}
}

func TestAgentIsAStepHereAndElsewhere(t *testing.T) {
	for _, home := range []string{"a", "b"} {
		synctest.Test(t, func(t *testing.T) {
			w := newTown(t, "a", "b")
			var got community.Signal
			w.spawn(home, "ann", clerk{[]string{"question"}, func(_ context.Context, s community.Signal) (community.Reply, error) {
				got = s
				return community.Reply{Data: []byte(`{"words":2,"by":"ann"}`)}, nil
			}})
			w.spawn(home, "bob", clerk{[]string{"a", "b"}, func(_ context.Context, s community.Signal) (community.Reply, error) {
				return community.Reply{Data: []byte("as " + s.Perception), ContentType: "text/plain"}, nil
			}})
			ctx := peer.WithRequester(t.Context(), func(context.Context) []string { return []string{"me"} })
			answer, err := on(w, "a", step.Agent[textIn, count]("ann")).Run(ctx, textIn{"x"})
			if err != nil || answer != (count{2, "ann"}) {
				t.Errorf("from %s: got %+v, %v", home, answer, err)
			}
			if string(got.Data) != `{"text":"x"}` || got.Perception != "question" || !slices.Contains(got.Requester, "me") {
				t.Errorf("it was sent %s as %s for %v", got.Data, got.Perception, got.Requester)
			}
			if text := run(t, on(w, "a", step.Agent[string, string]("bob", "b")), "x"); text != "as b" {
				t.Errorf("text: got %q", text)
			}
			for name, c := range map[string]struct {
				s    step.Step[string, string]
				want error
			}{
				"nobody":                  {step.Agent[string, string]("eve"), community.ErrNotFound},
				"which perception":        {step.Agent[string, string]("bob"), community.ErrNotAccepted},
				"a perception it has not": {step.Agent[string, string]("bob", "c"), community.ErrNotAccepted},
			} {
				if _, err := on(w, "a", c.s).Run(t.Context(), "x"); !errors.Is(err, c.want) {
					t.Errorf("%s: got %v", name, err)
				}
			}
		})
	}
}

// Agents do not say that they may be asked twice.
func TestSignalIsNotSentToAnotherWhenItsAgentIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTown(t, "a", "b", "c")
		var asked atomic.Int64
		for _, home := range []string{"b", "c"} {
			w.spawn(home, "ann", clerk{[]string{"q"}, func(ctx context.Context, _ community.Signal) (community.Reply, error) {
				asked.Add(1)
				w.network.Kill(grpcpeertest.ID(home))
				<-ctx.Done()
				return community.Reply{}, ctx.Err()
			}})
		}
		if _, err := on(w, "a", step.Agent[string, string]("ann")).Run(t.Context(), "x"); !errors.Is(err, community.ErrUnavailable) ||
			asked.Load() != 1 {
			t.Errorf("got %v after %d", err, asked.Load())
		}
	})
}

func TestGuardrailsHoldForAgentsAndCapabilities(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTown(t, "a", "b")
		calls := w.counts("b", true, 0)
		var asked atomic.Int64
		w.spawn("b", "ann", clerk{[]string{"question"}, func(context.Context, community.Signal) (community.Reply, error) {
			asked.Add(1)
			return community.Reply{Data: []byte(`{}`)}, nil
		}})
		capability, agent := step.Capability[textIn, count]("text.count"), step.Agent[textIn, count]("ann")
		denied := []step.Step[textIn, count]{
			step.Guardrail(capability, guardrail.Deny("invoke_capability(text.*)")),
			step.Guardrail(step.Guardrail(capability, guardrail.Override("invoke_capability(text.count)")),
				guardrail.DenyFinal("invoke_capability")),
			step.Guardrail(capability, guardrail.AskUser("invoke_capability")),
			step.Guardrail(agent, guardrail.Deny("send_signal(question)")),
			step.Guardrail(agent, guardrail.Preset("readOnly")),
		}
		for i, s := range denied {
			if _, err := on(w, "a", s).Run(t.Context(), textIn{"x"}); !errors.Is(err, community.ErrDenied) {
				t.Errorf("%d: got %v", i, err)
			}
		}
		if calls.Load() != 0 || asked.Load() != 0 {
			t.Errorf("what was denied was asked: %d, %d", calls.Load(), asked.Load())
		}
		run(t, on(w, "a", step.Guardrail(capability, guardrail.Deny("invoke_capability(disk.*)"))), textIn{"x"})
		run(t, on(w, "a", step.Guardrail(step.Guardrail(agent, guardrail.Override("send_signal(question)")),
			guardrail.Deny("send_signal"))), textIn{"x"})
		if calls.Load() != 1 || asked.Load() != 1 {
			t.Errorf("what was allowed: %d, %d", calls.Load(), asked.Load())
		}
	})
}

func TestParallelOverTheCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTown(t, "a", "b", "c")
		w.counts("b", true, 2*time.Second)
		w.counts("c", true, time.Second)
		s := step.Capability[textIn, count]("text.count")
		results := run(t, on(w, "a", step.Parallel(0, s, s, step.Capability[textIn, count]("text.lost"))), textIn{"x"})
		var by []string
		for _, v := range results.Values() {
			by = append(by, v.By)
		}
		if diff := cmp.Diff([]string{"c", "b"}, by); diff != "" || !errors.Is(results.Err(), community.ErrNotFound) {
			t.Errorf("%s %v", diff, results.Err())
		}
	})
}

// Who is asked to work inside a guardrail lifts nothing of it.
func TestAgentWorksInsideTheGuardrailsOfWhoAsksIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTown(t, "a")
		inner := step.Guardrail(calls(t), guardrail.Override("Bash(rm:*)"))
		w.spawn("a", "ann", clerk{[]string{"task"}, func(ctx context.Context, s community.Signal) (community.Reply, error) {
			_, err := inner.Run(ctx, "Bash rm x")
			return community.Reply{Data: fmt.Appendf(nil, "%q", fmt.Sprint(err))}, nil
		}})
		ask := step.Agent[string, string]("ann")
		if got := run(t, on(w, "a", ask), "x"); got != "<nil>" {
			t.Errorf("outside: %s", got)
		}
		if got := run(t, on(w, "a", step.Guardrail(ask, guardrail.Deny("Bash(rm:*)"))), "x"); !strings.HasPrefix(got, "Denied") {
			t.Errorf("inside: %s", got)
		}
	})
}

// The events of steps that answer a call of another node reach who listens to it.
func TestEventsReachListenersOfCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTown(t, "a", "b")
		s := step.EmitBefore("asked", nil, step.Empty[string]())
		offer(w, "b", community.Capability{Name: "work"}, s.Run)
		synctest.Wait()
		var told []string
		_, err := w.of["a"].InvokeStream(t.Context(), community.MemberID(grpcpeertest.ID("b")), "work",
			community.Signal{Data: []byte(`"x"`)}, func(u community.Update) {
				told = append(told, u.Progress.Message)
			})
		if diff := cmp.Diff([]string{"asked"}, told); err != nil || diff != "" {
			t.Errorf("%v %s", err, diff)
		}
	})
}
