package community_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"symbio/community"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

const peer = community.NodeID("bb000000000000000000000000000000")

// withPeer returns a community that knows a node with a worker and a capability.
func withPeer(t *testing.T, w *wire, tune ...func(*community.Config)) (*community.Community, *community.Lease) {
	cfg := community.Config{Node: id[community.NodeID]("aa"), Network: w}
	for _, f := range tune {
		f(&cfg)
	}
	c, _ := run(t, cfg)
	l := c.Attach(community.Peer{ID: peer, Name: "bb"})
	node := community.Member{ID: community.MemberID(peer), Name: "bb", Node: peer, Provides: []string{"text.upper"}, Available: true}
	l.Snapshot(community.Catalog{
		Members:      []community.Member{remote(peer, id[community.MemberID]("b1"), "ben"), node},
		Capabilities: []community.Capability{{Name: "text.upper"}},
	})
	return c, l
}

func TestOperationsByPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sent := 0
		c, l := withPeer(t, &wire{invoke: func(context.Context, community.NodeID, community.Call) (community.Reply, error) {
			sent++
			return community.Reply{}, nil
		}})
		ann := spawn(t, c, "ann", &worker{}).ID
		ben, node := id[community.MemberID]("b1"), community.MemberID(peer)
		self := community.MemberID(c.Node())
		send := func(to community.MemberID, perception string) error {
			_, err := c.Send(t.Context(), to, community.Signal{Perception: perception})
			return err
		}
		invoke := func(to community.MemberID, name string) error {
			_, err := c.Invoke(t.Context(), to, name, community.Signal{})
			return err
		}
		check := func(what string, got, want error) {
			t.Helper()
			var e *community.Error
			if !errors.Is(got, want) || want != nil && !errors.As(got, &e) {
				t.Errorf("%s: got %v, want %v as an Error", what, got, want)
			}
		}
		check("send to a local agent", send(ann, "work"), nil)
		check("send what it does not accept", send(ann, "play"), community.ErrNotAccepted)
		check("send to a remote agent", send(ben, "work"), nil)
		check("send what that does not accept", send(ben, "play"), community.ErrNotAccepted)
		check("send to a node", send(node, "work"), community.ErrNotAccepted)
		check("send to nobody", send("nobody", "work"), community.ErrNotFound)
		check("invoke a remote capability", invoke(node, "text.upper"), nil)
		check("invoke what it does not provide", invoke(node, "text.lower"), community.ErrNotProvided)
		check("invoke a signal in disguise", invoke(ben, "agent.perception.work"), community.ErrNotProvided)
		check("invoke a local agent", invoke(ann, "work"), community.ErrLocalMember)
		check("invoke this node", invoke(self, "text.upper"), community.ErrLocalMember)
		check("invoke nobody", invoke("nobody", "x"), community.ErrNotFound)
		check("terminate a remote agent", c.Terminate(t.Context(), ben), community.ErrRemoteMember)
		check("terminate a node", c.Terminate(t.Context(), node), community.ErrRemoteMember)
		check("terminate nobody", c.Terminate(t.Context(), "nobody"), community.ErrNotFound)
		if sent != 2 {
			t.Errorf("%d calls left the node, want 2", sent)
		}
		l.Lost(nil)
		check("send to who is unavailable", send(ben, "work"), community.ErrUnavailable)
		check("send what who is unavailable does not accept", send(ben, "play"), community.ErrNotAccepted)
		check("invoke who is unavailable", invoke(node, "text.upper"), community.ErrUnavailable)
		if sent != 2 {
			t.Errorf("%d calls left the node, want 2", sent)
		}
	})
}

func TestCallCarriesRequesterDeadlineAndTrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls []community.Call
		c, _ := withPeer(t, &wire{invoke: func(ctx context.Context, node community.NodeID, call community.Call) (community.Reply, error) {
			if node != peer {
				t.Errorf("the call goes to %s", node)
			}
			if d, ok := ctx.Deadline(); !ok || time.Until(d) != 5*time.Minute {
				t.Errorf("it has until %v, %v; want 5m", time.Until(d), ok)
			}
			calls = append(calls, call)
			return community.Reply{Data: []byte("r"), ContentType: "text/plain"}, nil
		}})
		s := community.Signal{Perception: "work", Data: []byte("d"), ContentType: "text/x", Requester: []string{"user"}}
		ben := id[community.MemberID]("b1")
		r, err := c.Send(t.Context(), ben, s)
		if diff := cmp.Diff(community.Reply{Data: []byte("r"), ContentType: "text/plain"}, r); err != nil || diff != "" {
			t.Errorf("got %v (-want +got):\n%s", err, diff)
		}
		if _, err := c.Invoke(t.Context(), community.MemberID(peer), "text.upper", s); err != nil {
			t.Fatal(err)
		}
		if calls[0].ID == "" || calls[0].ID == calls[1].ID {
			t.Errorf("the calls have the ids %q and %q", calls[0].ID, calls[1].ID)
		}
		want := []community.Call{
			{ID: calls[0].ID, Member: ben, Capability: "agent.perception.work", Payload: s.Data, ContentType: s.ContentType, Requester: s.Requester},
			{ID: calls[1].ID, Capability: "text.upper", Payload: s.Data, ContentType: s.ContentType, Requester: s.Requester},
		}
		if diff := cmp.Diff(want, calls, cmpopts.EquateComparable(community.Trace{})); diff != "" {
			t.Errorf("the calls are others (-want +got):\n%s", diff)
		}
	})
}

func TestAnswerThatComesAfterItsLeaseDoesNotCount(t *testing.T) {
	for name, retire := range map[string]func(*community.Community, *community.Lease){
		"lost":    func(_ *community.Community, l *community.Lease) { l.Lost(errors.New("silence")) },
		"goodbye": func(_ *community.Community, l *community.Lease) { l.Goodbye("done") },
		"newer":   func(c *community.Community, _ *community.Lease) { c.Attach(community.Peer{ID: peer}) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				answered, release := false, make(chan bool)
				c, l := withPeer(t, &wire{invoke: func(ctx context.Context, _ community.NodeID, _ community.Call) (community.Reply, error) {
					if <-ctx.Done(); !errors.Is(context.Cause(ctx), community.ErrUnavailable) {
						t.Errorf("the call was cancelled because of %v", context.Cause(ctx))
					}
					<-release
					answered = true
					return community.Reply{Data: []byte("too late")}, nil
				}})
				var call sync.WaitGroup
				var r community.Reply
				var err error
				call.Go(func() { r, err = c.Send(context.Background(), id[community.MemberID]("b1"), work("")) })
				synctest.Wait()
				retire(c, l)
				close(release)
				call.Wait()
				if !answered || !errors.Is(err, community.ErrUnavailable) || r.Data != nil {
					t.Errorf("got %q, %v; want ErrUnavailable", r.Data, err)
				}
			})
		})
	}
}

func TestMessagesBetweenNodesHaveASize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		size := 0
		c, _ := withPeer(t, &wire{invoke: func(context.Context, community.NodeID, community.Call) (community.Reply, error) {
			return community.Reply{Data: make([]byte, size)}, nil
		}}, func(cfg *community.Config) { cfg.MaxMessage = 100 })
		ben := id[community.MemberID]("b1")
		said := work("")
		said.OnBehalf = make([]byte, community.MaxOnBehalf+1)
		if _, err := c.Send(t.Context(), ben, said); !errors.Is(err, community.ErrTooLarge) {
			t.Errorf("too much said of who asks: got %v, want ErrTooLarge", err)
		}
		if _, err := c.Send(t.Context(), ben, work(string(make([]byte, 101)))); !errors.Is(err, community.ErrTooLarge) {
			t.Errorf("101 bytes out: got %v, want ErrTooLarge", err)
		}
		if _, err := c.Send(t.Context(), ben, work(string(make([]byte, 100)))); err != nil {
			t.Errorf("100 bytes out: %v", err)
		}
		size = 101
		if _, err := c.Send(t.Context(), ben, work("")); !errors.Is(err, community.ErrTooLarge) {
			t.Errorf("101 bytes back: got %v, want ErrTooLarge", err)
		}
	})
}

func TestCancellationReachesALocalAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := run(t, community.Config{})
		saw := make(chan error, 1)
		m := spawn(t, c, "ann", &worker{receive: func(ctx context.Context, _ community.Signal) (community.Reply, error) {
			<-ctx.Done()
			saw <- ctx.Err()
			return community.Reply{}, ctx.Err()
		}})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := c.Send(ctx, m.ID, work("")); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		if err := <-saw; !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the agent saw %v", err)
		}
	})
}

func TestFullMailboxRefusesCallAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := run(t, community.Config{System: withMailbox(t, 2)})
		release := make(chan bool)
		m := spawn(t, c, "ann", &worker{receive: func(context.Context, community.Signal) (community.Reply, error) {
			<-release
			return community.Reply{}, nil
		}})
		var calls sync.WaitGroup
		for range 3 {
			calls.Go(func() {
				if _, err := c.Send(context.Background(), m.ID, work("")); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		if _, err := c.Send(t.Context(), m.ID, work("")); !errors.Is(err, community.ErrBusy) {
			t.Errorf("got %v, want ErrBusy", err)
		}
		close(release)
		calls.Wait()
	})
}

func TestAgentsOwnErrorReachesALocalCaller(t *testing.T) {
	own := errors.New("the oven is cold")
	c, _ := run(t, community.Config{})
	m := spawn(t, c, "baker", &worker{receive: func(context.Context, community.Signal) (community.Reply, error) {
		return community.Reply{}, fmt.Errorf("bake: %w", own)
	}})
	_, err := c.Send(t.Context(), m.ID, work(""))
	if !errors.Is(err, own) || err.Error() != "send work to baker: bake: the oven is cold" {
		t.Errorf("got %v", err)
	}
}

// A signal that is refused at once is an error of Tell itself; what fails later is reported to Undelivered.
func TestTellReturnsWhatRefusesTheSignal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		offline := errors.New("no route")
		c, _ := withPeer(t, &wire{tell: func(community.NodeID, community.Call) error { return offline }},
			func(cfg *community.Config) { cfg.System, cfg.MaxMessage = withMailbox(t, 1), 100 })
		release := make(chan bool)
		ann := spawn(t, c, "ann", &worker{receive: func(context.Context, community.Signal) (community.Reply, error) {
			<-release
			return community.Reply{}, nil
		}}).ID
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		ben, large := id[community.MemberID]("b1"), work(string(make([]byte, 101)))
		check := func(about string, got, want error) {
			t.Helper()
			var e *community.Error
			if !errors.Is(got, want) || want != nil && !errors.As(got, &e) {
				t.Errorf("%s: got %v, want %v as an Error", about, got, want)
			}
		}
		check("a context that has ended", c.Tell(ended, ann, work("")), context.Canceled)
		check("what she does not accept", c.Tell(t.Context(), ann, community.Signal{Perception: "play"}), community.ErrNotAccepted)
		check("the first", c.Tell(t.Context(), ann, work("")), nil)
		synctest.Wait()
		check("the second, which waits", c.Tell(t.Context(), ann, work("")), nil)
		check("the third", c.Tell(t.Context(), ann, work("")), community.ErrBusy)
		check("an unknown member", c.Tell(t.Context(), "nobody", work("")), community.ErrNotFound)
		check("a node that cannot be reached", c.Tell(t.Context(), ben, work("")), offline)
		check("what is too large for a node", c.Tell(t.Context(), ben, large), community.ErrTooLarge)
		close(release)
	})
}
