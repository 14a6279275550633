package agent_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"symbio/agent"
	"symbio/agent/budget"
	"symbio/agent/llm"
	"symbio/agent/session"
	"symbio/community"
)

// mortal is a store whose node may be killed: from then on it keeps nothing.
type mortal struct {
	session.Store
	dead atomic.Bool
}

func (m *mortal) Commit(w []session.Write) error {
	if m.dead.Load() {
		return errors.New("the node was killed")
	}
	return m.Store.Commit(w)
}

// priced is a model for parents that have the help of a lent agent, and for that one. It counts the calls
// that were answered, and their tokens.
type priced struct {
	calls  atomic.Int64
	tokens atomic.Int64
}

func (p *priced) spent() budget.Spent {
	return budget.Spent{ModelCalls: int(p.calls.Load()), Tokens: p.tokens.Load()}
}

func (p *priced) model() llm.Model {
	return llm.Func(func(ctx context.Context, r llm.Request) (llm.Response, error) {
		m, err := p.answer(ctx, r)
		if err != nil {
			return llm.Response{}, err
		}
		n := p.calls.Add(1)
		u := llm.Usage{Input: 100 + int(n), Output: 7}
		p.tokens.Add(int64(u.Input + u.Output))
		return llm.Response{Message: m, Stop: llm.StopEnd, Usage: u}, nil
	})
}

func (p *priced) answer(ctx context.Context, r llm.Request) (llm.Message, error) {
	what, isTask := strings.CutPrefix(firstTask(r), "have help: ")
	m := last(r)
	switch {
	case strings.Contains(r.System, "You are a sub-agent of") && m.Role == llm.User:
		return call(use("c", "none", nil))
	case strings.Contains(r.System, "You are a sub-agent of") && m.Text == "" && firstTask(r) == "hang":
		return hang(ctx, r, "")
	case strings.Contains(r.System, "You are a sub-agent of"):
		return say("helped")
	case m.Role == llm.User && isTask:
		return call(use("1", "replicate_agent", map[string]any{"reason": "it is to help", "node": "bob"}))
	case m.Role == llm.Tool && m.Results[0].Name == "replicate_agent" && !m.Results[0].IsError:
		return call(use("2", "send_signal", map[string]any{"member": agentID(m.Results[0].Text), "data": what}))
	}
	return say("done")
}

// The sums are those of the model, to the token: of the agent, and of what it lent from another node.
func TestSpendingCountsOverRestartOfBorrower(t *testing.T) {
	for name, lifetime := range map[string]bool{"lifetime": true, "each task": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &priced{}
				l := newLAN(t, p.model(), general())
				restart := func(store session.Store) {
					t.Helper()
					if err := l.a.end(); err != nil {
						t.Fatal(err)
					}
					l.a.journal = session.NewJournal(store, "ann")
					l.a.start(t)
					time.Sleep(5 * time.Second)
					l.meet()
				}
				inner := inMemory(t)
				store := &mortal{Store: inner}
				restart(store)
				order := agent.Order{Limits: budget.Limits{ModelCalls: 100, Tokens: 1_000_000}, LifetimeBudget: lifetime}
				root := l.a.spawn(t, order)
				if text, err := l.a.task(t.Context(), root, "have help: work"); text != "done" || err != nil {
					t.Fatal(text, err)
				}
				first := p.spent()
				killed := make(chan bool)
				go func() {
					defer close(killed)
					_, _ = l.a.task(context.Background(), root, "have help: hang")
				}()
				settle(time.Second)
				before := p.spent()
				if before.ModelCalls != first.ModelCalls+3 {
					t.Fatalf("%d calls were answered before the end, and %d in the first task", before.ModelCalls, first.ModelCalls)
				}
				store.dead.Store(true)
				l.a.journal.Suspend()
				if err := l.a.community.Terminate(t.Context(), root.ID); err != nil {
					t.Fatal(err)
				}
				<-killed
				restart(inner)
				open, err := inner.Recover(t.Context())
				if err != nil || len(open) != 1 || !open[0].Exchange.Open {
					t.Fatalf("interrupted are %+v, %v", open, err)
				}
				order.Session = open[0]
				root = l.a.spawn(t, order)
				count := func(when string, want budget.Spent) {
					t.Helper()
					if got, ok := l.a.factory.Spent(root.ID); !ok || got.ModelCalls != want.ModelCalls || got.Tokens != want.Tokens {
						t.Errorf("%s %d calls and %d tokens are spent, want %d and %d", when, got.ModelCalls, got.Tokens, want.ModelCalls, want.Tokens)
					}
				}
				skipped := budget.Spent{ModelCalls: -first.ModelCalls, Tokens: -first.Tokens}
				if lifetime {
					skipped = budget.Spent{}
					count("before the task goes on", before)
				}
				if reply, err := l.a.community.Send(t.Context(), root.ID, community.Signal{Perception: "task"}); string(reply.Data) != "done" || err != nil {
					t.Errorf("it went on to %q, %v", reply.Data, err)
				}
				count("after the task", p.spent().Add(skipped))
			})
		})
	}
}
