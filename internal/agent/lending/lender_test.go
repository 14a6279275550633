package lending

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"symbio/agent/budget"
	"symbio/agent/definition"
	"symbio/agent/tool"
	"symbio/community"
)

const borrowingNode, otherNode = community.NodeID("aa000000000000000000000000000000"), community.NodeID("bb000000000000000000000000000000")

// noMembers is a community in which nobody is known.
type noMembers struct{ Members }

func (noMembers) Member(community.MemberID) (community.Member, bool) {
	return community.Member{}, false
}

func newTestLender(t *testing.T) *Lender {
	return NewLender(LenderConfig{Community: noMembers{}, Definitions: []definition.Definition{{Name: "coder"}}, Max: 3, PerNode: 2})
}

// lent adds a lease of a member to a node.
func lent(t *testing.T, l *Lender, node community.NodeID, member string) *Lease {
	t.Helper()
	n := &Lease{Node: node, Account: budget.New(budget.Limits{})}
	n.link = borrowerLink{member: community.MemberID(member), end: func(error) {}, askTimeout: time.Minute, updates: make(chan update, 2)}
	if err := l.add(n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestLenderAnswersForALentAgentToItsBorrowerOnly(t *testing.T) {
	l := newTestLender(t)
	one, two := strings.Repeat("1", 32), strings.Repeat("2", 32)
	lent(t, l, borrowingNode, one)
	lent(t, l, otherNode, two)
	lent(t, l, borrowingNode, "") // it is being spawned
	for _, tt := range []struct {
		node   community.NodeID
		member string
		want   bool
	}{{borrowingNode, one, true}, {otherNode, two, true}, {borrowingNode, two, false}, {otherNode, one, false},
		{borrowingNode, "", false}} {
		if got := l.Has(tt.node, community.MemberID(tt.member)); got != tt.want {
			t.Errorf("%.2s has %.2s: %t, want %t", tt.node, tt.member, got, tt.want)
		}
		for _, form := range []string{`{"account":%q}`, `{"end":%q}`, `{"answer":{"member":%q,"question":"q"}}`} {
			_, err := l.Provide(t.Context(),
				community.Signal{Data: fmt.Appendf(nil, form, tt.member), Requester: []string{string(tt.node)}})
			answered := tt.want && !strings.Contains(form, "answer") // no question is open
			if tt.member != "" && (err == nil) != answered || err != nil && tt.member != "" && !errors.Is(err, community.ErrNotFound) {
				t.Errorf(form+" of %.2s: got %v, want an answer: %t", tt.member, tt.node, err, answered)
			}
		}
	}
}

func TestLenderKeepsItsLimits(t *testing.T) {
	l := newTestLender(t)
	first := lent(t, l, borrowingNode, "1")
	lent(t, l, borrowingNode, "2")
	if err := l.add(&Lease{Node: borrowingNode}); !errors.Is(err, community.ErrBusy) {
		t.Errorf("the third of one node: %v, want ErrBusy", err)
	}
	if got := l.load(otherNode); got.Lent != 2 || got.Free != 1 {
		t.Errorf("the load for the other node is %+v, want 2 lent, 1 free", got)
	}
	lent(t, l, otherNode, "3")
	if err := l.add(&Lease{Node: otherNode}); !errors.Is(err, community.ErrBusy) {
		t.Errorf("the fourth: %v, want ErrBusy", err)
	}
	if got := l.load(otherNode); got.Lent != 3 || got.Free != 0 {
		t.Errorf("the load for the other node is %+v, want 3 lent, none free", got)
	}
	l.remove(first)
	lent(t, l, otherNode, "4")
}

func TestDrainingNodeLendsNoMore(t *testing.T) {
	l := newTestLender(t)
	first := lent(t, l, borrowingNode, "1")
	l.cfg.Busy = func() error { return community.DrainingError("kitchen") }
	if err := l.add(&Lease{Node: otherNode}); !errors.Is(err, community.ErrBusy) {
		t.Errorf("a new one: %v, want ErrBusy", err)
	}
	if got := l.load(otherNode); got.Free != 0 || got.Lent != 1 {
		t.Errorf("the load is %+v, want none free", got)
	}
	if got := l.Lent(); got[borrowingNode] != 1 || len(got) != 1 || !l.Has(borrowingNode, "1") {
		t.Errorf("lent: %v", got)
	}
	if l.remove(first); len(l.Lent()) != 0 {
		t.Errorf("at the end: %v", l.Lent())
	}
}

func TestLeaseNeedsTime(t *testing.T) {
	l := newTestLender(t)
	for seconds, want := range map[float64]bool{-1: false, 0: false, 1e-9: true, 1: true} {
		n, err := l.lease(request{Agent: "coder", Share: &wireLimits{Wall: &seconds}},
			community.Signal{Requester: []string{string(borrowingNode)}})
		if (err == nil) != want || err == nil && n.MaxLifetime != budget.Seconds(seconds) {
			t.Errorf("of %g s: %+v, %v", seconds, n, err)
		}
	}
}

func TestQuestionToTheBorrower(t *testing.T) {
	for about, tt := range map[string]struct {
		args map[string]any
		do   func(n *Lease, id string, cancel context.CancelFunc)
		want tool.Answer
	}{
		"yes": {do: func(n *Lease, id string, _ context.CancelFunc) {
			n.link.answer(answer{Question: id, Allow: true, By: "ann"})
		}, want: tool.Answer{Allow: true, By: "the node where the task came from: ann"}},
		"no answer":      {want: tool.Answer{Why: "It was denied, because the node where the task came from did not answer within 1m0s."}},
		"cancelled":      {do: func(_ *Lease, _ string, cancel context.CancelFunc) { cancel() }, want: tool.Answer{Why: "It was denied, because its task ended before there was an answer."}},
		"the lease ends": {do: func(n *Lease, _ string, _ context.CancelFunc) { n.link.end(nil) }, want: tool.Answer{Why: "It was denied, because its parent's node is gone."}},
		"too long":       {args: map[string]any{"text": strings.Repeat("x", maxLine)}, want: tool.Answer{Why: "It is too long to be put to a person of another node, so it is denied."}},
		"no JSON":        {args: map[string]any{"text": func() {}}, want: tool.Answer{Why: "It is too long to be put to a person of another node, so it is denied."}},
	} {
		synctest.Test(t, func(t *testing.T) {
			n := lent(t, newTestLender(t), borrowingNode, "1")
			done := make(chan struct{})
			n.link.done, n.link.end = done, func(error) { close(done) }
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var got tool.Answer
			var asking sync.WaitGroup
			asking.Go(func() { got = n.Ask(ctx, Question{Tool: "Bash", Args: tt.args}) })
			synctest.Wait()
			if tt.do != nil {
				asked := <-n.link.updates
				tt.do(n, asked.Question.ID, cancel)
			}
			asking.Wait()
			if got != tt.want {
				t.Errorf("%s: got %+v, want %+v", about, got, tt.want)
			}
			if n.link.answer(answer{Question: "q"}) || n.link.waiting.Load() != 0 {
				t.Errorf("%s: %d questions are open", about, n.link.waiting.Load())
			}
		})
	}
}

// The race detector sees a lender that is used without its lock.
func TestLenderMayBeUsedByManyGoroutines(t *testing.T) {
	for range 50 {
		l := newTestLender(t)
		lent(t, l, otherNode, "1")
		n := &Lease{Node: borrowingNode, link: borrowerLink{member: "2"}}
		var all sync.WaitGroup
		for _, use := range []func(){
			func() {
				if err := l.add(n); err != nil {
					t.Error(err)
				}
			},
			func() { l.Has(borrowingNode, "2") },
			func() { l.Checkout(borrowingNode, "2") },
			func() { l.load(borrowingNode) },
			func() { l.remove(n) },
			func() { l.add(&Lease{Node: borrowingNode}) },
		} {
			all.Go(use)
		}
		all.Wait()
	}
}
