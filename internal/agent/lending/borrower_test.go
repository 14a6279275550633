package lending

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"symbio/agent/budget"
	"symbio/community"
	"symbio/security/permission"
)

// fakeNode is a community with one other node, that answers with invoke.
type fakeNode struct {
	Community
	invoke func(in request) (community.Reply, error)
}

func (n fakeNode) InvokeStream(_ context.Context, _ community.MemberID, _ string, s community.Signal,
	_ func(community.Update)) (community.Reply, error) {
	var in request
	if err := json.Unmarshal(s.Data, &in); err != nil {
		return community.Reply{}, err
	}
	return n.invoke(in)
}

func (fakeNode) Member(id community.MemberID) (community.Member, bool) {
	return community.Member{ID: id, Name: "helper"}, true
}

func TestLoadOfANodeThatSaysNone(t *testing.T) {
	lost := errors.New("reset")
	for data, want := range map[string]error{`{"load":{"lent":2,"free":1}}`: nil, `{}`: community.ErrInvalid,
		`{`: community.ErrInvalid, "": lost} {
		load, err := Load(t.Context(), fakeNode{invoke: func(in request) (community.Reply, error) {
			if data == "" {
				return community.Reply{}, lost
			}
			return community.Reply{Data: []byte(data)}, nil
		}}, community.Member{}, community.Member{Name: "attic"})
		if !errors.Is(err, want) || err == nil && (load.Lent != 2 || load.Free != 1) {
			t.Errorf("%q: %+v, %v, want %v", data, load, err, want)
		}
	}
}

// borrow returns a borrowed agent that the lender has named, unless member is "".
func borrow(b *Borrower, member community.MemberID) *BorrowedAgent {
	one := &BorrowedAgent{borrower: b, node: community.Member{Node: otherNode}, loan: &budget.Loan{Account: budget.New(budget.Limits{})},
		leased: context.Background(), identified: make(chan struct{}), ended: make(chan struct{})}
	if member != "" {
		one.receive(update{Member: &memberInfo{ID: member}})
	}
	return one
}

func ownedBy(o Owner) func() Owner { return func() Owner { return o } }

func TestProgressOfABorrowedAgent(t *testing.T) {
	var got []string
	b := &Borrower{Community: fakeNode{},
		Owner: ownedBy(Owner{Progress: func(of community.Member, message string) { got = append(got, of.Name+": "+message) }})}
	borrow(b, "").progress(community.Progress{Message: "too early"})
	one := borrow(b, "1")
	one.progress(community.Progress{})
	if len(got) != 0 || one.Activity() != "" {
		t.Errorf("reported: %q", got)
	}
	one.progress(community.Progress{Message: "reading"})
	if len(got) != 1 || got[0] != "helper: reading" || one.Activity() != "reading" {
		t.Errorf("reported: %q, activity %q", got, one.Activity())
	}
}

// A borrower that cannot ask waits for the end of the agent, or until it has waited long enough.
func TestSpendingThatCannotBeAskedForIsAwaited(t *testing.T) {
	for about, tt := range map[string]struct {
		err  error
		ends time.Duration
		want time.Duration
	}{"an answer": {nil, time.Hour, 0}, "no answer": {community.ErrUnavailable, time.Hour, memberTimeout},
		"its end": {community.ErrNotFound, time.Second, time.Second}} {
		synctest.Test(t, func(t *testing.T) {
			var spent int64
			b := &Borrower{Owner: ownedBy(Owner{Spent: func(s budget.Spent) { spent += s.Tokens }}),
				Community: fakeNode{invoke: func(in request) (community.Reply, error) {
					return community.Reply{Data: []byte(`{"spent":{"tokens":7}}`)}, tt.err
				}}}
			one := borrow(b, "1")
			parent := budget.New(budget.Limits{})
			loan, err := parent.OpenLoan(context.Background(), budget.Limits{})
			if err != nil {
				t.Fatal(err)
			}
			one.loan = loan
			end := time.AfterFunc(tt.ends, func() { close(one.ended) })
			defer end.Stop()
			begun := time.Now()
			one.updateSpent(t.Context())
			if took := time.Since(begun); took != tt.want || (spent == 7) != (tt.err == nil) {
				t.Errorf("%s: %d tokens after %v, want it after %v", about, spent, took, tt.want)
			}
		})
	}
}

func TestBorrowerWaitsForTheMemberThatTheLenderNames(t *testing.T) {
	lost := errors.New("no such definition")
	for about, tt := range map[string]struct {
		do   func(*BorrowedAgent, context.CancelFunc)
		join community.Member
		want error
		says string
		took time.Duration
	}{
		"it comes":                 {join: community.Member{ID: "11111111111111111111111111111111", Node: otherNode}},
		"it is another node's":     {join: community.Member{ID: "11111111111111111111111111111111", Node: borrowingNode}, want: community.ErrUnavailable, says: "is not among its members", took: memberTimeout},
		"it does not come":         {want: community.ErrUnavailable, says: "is not among its members", took: memberTimeout},
		"the lender does not name": {do: func(one *BorrowedAgent, _ context.CancelFunc) { one.identified = make(chan struct{}) }, want: community.ErrUnavailable, says: "did not name", took: spawnTimeout},
		"the call ends": {do: func(one *BorrowedAgent, _ context.CancelFunc) {
			one.identified = make(chan struct{})
			one.end(lost)
			close(one.ended)
		}, want: lost},
		"the caller ends": {do: func(one *BorrowedAgent, cancel context.CancelFunc) { one.identified = make(chan struct{}); cancel() }, want: context.Canceled},
	} {
		t.Run(about, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := community.New(community.Config{Node: borrowingNode})
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				var running sync.WaitGroup
				defer running.Wait()
				life, end := context.WithCancel(context.Background())
				defer end()
				running.Go(func() {
					if err := c.Run(life); err != nil {
						t.Error(err)
					}
				})
				sub := c.Subscribe()
				defer sub.Close()
				one := borrow(&Borrower{}, "11111111111111111111111111111111")
				if tt.do != nil {
					tt.do(one, cancel)
				}
				if tt.join.ID != "" {
					tt.join.Name, tt.join.Accepts, tt.join.Available = "helper", []string{"text"}, true
					c.Attach(community.Peer{ID: otherNode, Name: "attic"}).Snapshot(community.Catalog{Members: []community.Member{tt.join}})
				}
				begun := time.Now()
				m, err := one.awaitMember(ctx, sub)
				if took := time.Since(begun); !errors.Is(err, tt.want) || err != nil && !strings.Contains(err.Error(), tt.says) ||
					took != tt.took {
					t.Errorf("got %v after %v, want %v after %v", err, took, tt.want, tt.took)
				}
				if err == nil && m.ID != tt.join.ID {
					t.Errorf("got %+v", m)
				}
			})
		})
	}
}

// toldNode is a fakeNode that keeps the constraints that it is told.
type toldNode struct {
	fakeNode
	told *[]string
}

func (n toldNode) InvokeStream(_ context.Context, _ community.MemberID, _ string, s community.Signal,
	_ func(community.Update)) (community.Reply, error) {
	*n.told = append(*n.told, string(s.OnBehalf))
	return community.Reply{}, nil
}

func TestConstraintsThatCannotBeToldDenyAllMeanwhile(t *testing.T) {
	var told []string
	tooMany := errors.New("too many permissions")
	allowed, failure := []byte(`{"links":[{"name":"x","default":"allow"}]}`), error(nil)
	b := &Borrower{Community: toldNode{told: &told}, Owner: ownedBy(Owner{OnlyReads: func() bool { return false },
		Constraints: func(context.Context) ([]byte, error) { return allowed, failure }})}
	one := borrow(b, "1")
	one.constraints.telling, one.cancel = make(chan struct{}, 1), func() { t.Error("the agent is stopped") }
	for _, failure = range []error{nil, tooMany, tooMany, nil} {
		if err := one.tellConstraints(t.Context()); !errors.Is(err, failure) {
			t.Errorf("%v, want %v", err, failure)
		}
	}
	denied, err := permission.DecodeConstraints([]byte(told[1]))
	if err != nil || denied.Judge(permission.Call{Tool: "Read"}).Action != permission.Deny {
		t.Errorf("it is told %s, %v", told[1], err)
	}
	if want := []string{string(allowed), told[1], string(allowed)}; !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
}

func TestLoanThatALenderRefusesIsClosedAtOnce(t *testing.T) {
	for name, tt := range map[string]struct {
		final update
		err   error
		free  bool // the one place, at once
		says  string
	}{
		"it says why":     {update{Why: "its model cannot be opened there now"}, nil, true, "unavailable: its model cannot be opened there now"},
		"busy":            {update{}, community.ErrBusy, true, "busy"},
		"it did not come": {update{}, community.ErrUnavailable, false, "unavailable"},
	} {
		parent := budget.New(budget.Limits{Agents: 1})
		one := borrow(&Borrower{Owner: ownedBy(Owner{Spent: func(budget.Spent) {}})}, "")
		var err error
		if one.loan, err = parent.OpenLoan(t.Context(), budget.Limits{}); err != nil {
			t.Fatal(err)
		}
		one.settle(tt.final, tt.err)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := parent.Open(ended, budget.Limits{}, budget.Limits{}); (err == nil) != tt.free || !strings.Contains(one.state.endReason.Error(), tt.says) {
			t.Errorf("%s: %v, and the agent ended because %v", name, err, one.state.endReason)
		}
	}
}

func TestLinesOfALenderAreReadAtABoundedRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lines := bytes.Repeat([]byte("{\"spent\":{\"model_calls\":1}}\n"), 10*lineRate+lineBurst)
		b := &Borrower{Community: chattyNode{lines: lines}, Owner: ownedBy(Owner{Spent: func(budget.Spent) {}})}
		one := borrow(b, "")
		one.cancel = func() {}
		began := time.Now()
		one.run(t.Context(), community.Signal{})
		if took := time.Since(began).Round(time.Second); took != 10*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

// chattyNode is a fakeNode that says lines at once.
type chattyNode struct {
	fakeNode
	lines []byte
}

func (n chattyNode) InvokeStream(_ context.Context, _ community.MemberID, _ string, _ community.Signal,
	onUpdate func(community.Update)) (community.Reply, error) {
	onUpdate(community.Update{Output: n.lines})
	return community.Reply{}, community.ErrBusy
}

// Of what a lender says that it denied, each call is told once, bounded and printable.
func TestDeniedCallsOfALentAgentAreToldOnce(t *testing.T) {
	var told []string
	one := borrow(&Borrower{Owner: ownedBy(Owner{Spent: func(budget.Spent) {}, Denied: func(_ community.Member, q Question) {
		if content, _ := q.Args["content"].(string); len(content) > 210 {
			t.Error("it shows the whole content")
		}
		told = append(told, q.Name+" "+q.Why)
	}})}, "1")
	lease := lent(t, newTestLender(t), borrowingNode, "1")
	report := func(want ...string) {
		t.Helper()
		reply, err := replyOf(lease.reported())
		if err != nil {
			t.Fatal(err)
		}
		u, err := readUpdate(reply.Data)
		if err != nil {
			t.Fatal(err)
		}
		one.receive(u)
		if !slices.Equal(told, want) {
			t.Errorf("told %q, want %q", told, want)
		}
	}
	report()
	long := Question{Name: "x\x1b", Tool: "Write", Args: map[string]any{"content": strings.Repeat("x", maxLine)}}
	lease.Deny(long, "a")
	report("x a")
	lease.Ask(t.Context(), long)
	report("x a", "x It is too long to be put to a person of another node, so it is denied.")
	for range 2 * maxDenied {
		lease.Deny(Question{Name: "z", Tool: "Write"}, "b")
	}
	report(slices.Concat(told, slices.Repeat([]string{"z b"}, maxDenied-2))...)
	many := lease.reported()
	many.Denied = append(many.Denied, many.Denied[0])
	reply, err := replyOf(many)
	if _, bad := readUpdate(reply.Data); err != nil || bad == nil {
		t.Error("more are read")
	}
}
