package community_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"symbio/community"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

var stranger = community.Peer{ID: id[community.NodeID]("cc"), Name: "not to be trusted", Authority: "home"}

func TestInboundCallsAreAuthorisedBeforeAnythingElse(t *testing.T) {
	secret := errors.New("secret rule 7")
	for name, tt := range map[string]struct {
		authorize func(community.Peer, community.Call) error
		want      error
	}{
		"by default":          {nil, community.ErrDenied},
		"by the authoriser":   {func(community.Peer, community.Call) error { return secret }, community.ErrDenied},
		"by a panic":          {func(community.Peer, community.Call) error { panic("oops") }, community.ErrDenied},
		"though it is absent": {anybody, community.ErrNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			c, _ := run(t, community.Config{Authorize: tt.authorize})
			_, err := c.Serve(t.Context(), stranger,
				community.Call{Member: id[community.MemberID]("dd"), Capability: "agent.perception.work"})
			if err != tt.want {
				t.Errorf("got %v, want %v and no more", err, tt.want)
			}
		})
	}
}

func TestAuthoriserSeesWhoIsBehindACallButNotThePayload(t *testing.T) {
	var from community.Peer
	var seen community.Call
	c, _ := run(t, community.Config{Authorize: func(p community.Peer, call community.Call) error { from, seen = p, call; return nil }})
	got := make(chan community.Signal, 1)
	m := spawn(t, c, "ann", &worker{receive: func(_ context.Context, s community.Signal) (community.Reply, error) {
		got <- s
		return community.Reply{Data: []byte("r"), ContentType: "text/plain"}, nil
	}})
	call := community.Call{ID: "7", Member: m.ID, Capability: "agent.perception.work", Payload: []byte("d"), ContentType: "text/x",
		Requester: []string{"user"}}
	r, err := c.Serve(t.Context(), stranger, call)
	if diff := cmp.Diff(community.Reply{Data: []byte("r"), ContentType: "text/plain"}, r); err != nil || diff != "" {
		t.Errorf("got %v (-want +got):\n%s", err, diff)
	}
	chain := []string{string(stranger.ID), "user"}
	want := community.Call{ID: "7", Member: m.ID, Capability: "agent.perception.work", ContentType: "text/x", Requester: chain}
	if diff := cmp.Diff(want, seen, cmpopts.EquateComparable(community.Trace{})); diff != "" || from != stranger {
		t.Errorf("the authoriser saw %v and (-want +got):\n%s", from, diff)
	}
	signal := community.Signal{Perception: "work", Data: []byte("d"), ContentType: "text/x", Requester: chain}
	if diff := cmp.Diff(signal, <-got); diff != "" {
		t.Errorf("the agent got (-want +got):\n%s", diff)
	}
}

func TestInboundCallReachesAllowedMembersOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := withPeer(t, &wire{}, func(cfg *community.Config) { cfg.Authorize = anybody })
		ann := spawn(t, c, "ann", &worker{}).ID
		if err := c.Offer(community.Capability{Name: "text.upper"}, (&worker{}).Receive); err != nil {
			t.Fatal(err)
		}
		for name, tt := range map[string]struct {
			to         community.MemberID
			capability string
			want       error
		}{
			"an agent":                        {ann, "agent.perception.work", nil},
			"an agent, what it does not take": {ann, "agent.perception.play", community.ErrNotAccepted},
			"an agent's capability":           {ann, "text.upper", community.ErrNotProvided},
			"no capability":                   {ann, "", community.ErrNotProvided},
			"the node":                        {"", "text.upper", nil},
			"the node by its id":              {community.MemberID(c.Node()), "text.upper", nil},
			"the node, what it has not":       {"", "text.lower", community.ErrNotProvided},
			"the node with a signal":          {"", "agent.perception.work", community.ErrNotProvided},
			"nobody":                          {"nobody", "agent.perception.work", community.ErrNotFound},
			"a third node's agent":            {id[community.MemberID]("b1"), "agent.perception.work", community.ErrNotFound},
		} {
			if _, err := c.Serve(t.Context(), stranger, community.Call{Member: tt.to, Capability: tt.capability}); err != tt.want {
				t.Errorf("%s: got %v, want %v", name, err, tt.want)
			}
		}
		if err := c.Withdraw("text.upper"); err != nil {
			t.Error(err)
		}
		if _, err := c.Serve(t.Context(), stranger, community.Call{Capability: "text.upper"}); err != community.ErrNotProvided {
			t.Errorf("after Withdraw: got %v, want ErrNotProvided", err)
		}
		if err := c.Withdraw("text.upper"); !errors.Is(err, community.ErrNotFound) {
			t.Errorf("a second Withdraw: got %v, want ErrNotFound", err)
		}
	})
}

func TestInboundCallsAreLimitedForEachPeerAndEachAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := run(t, community.Config{Authorize: anybody, MaxNodeCalls: 6, MaxAgentCalls: 2})
		release := make(chan bool)
		hold := func(context.Context, community.Signal) (community.Reply, error) {
			<-release
			return community.Reply{}, nil
		}
		m := spawn(t, c, "ann", &worker{receive: hold})
		if err := c.Offer(community.Capability{Name: "hold"}, hold); err != nil {
			t.Fatal(err)
		}
		var calls sync.WaitGroup
		call := func(from community.Peer, to community.MemberID, capability string) error {
			var err error
			calls.Go(func() {
				_, err = c.Serve(context.Background(), from, community.Call{Member: to, Capability: capability})
			})
			synctest.Wait()
			return err
		}
		other := community.Peer{ID: id[community.NodeID]("dd")}
		for i, tt := range []struct {
			err  error
			want error
		}{
			{call(stranger, m.ID, "agent.perception.work"), nil},
			{call(stranger, m.ID, "agent.perception.work"), nil},
			{call(stranger, m.ID, "agent.perception.work"), community.ErrBusy}, // the agent's third
			{call(stranger, "", "hold"), nil},
			{call(stranger, "", "hold"), community.ErrBusy}, // the peer's fourth
			{call(other, "", "hold"), nil},
			{call(other, m.ID, "agent.perception.work"), community.ErrBusy},
		} {
			if !errors.Is(tt.err, tt.want) {
				t.Errorf("call %d: got %v, want %v", i, tt.err, tt.want)
			}
		}
		close(release)
		calls.Wait()
		for range 5 {
			if err := call(stranger, m.ID, "agent.perception.work"); err != nil {
				t.Errorf("after the rush: %v", err)
			}
		}
	})
}

func TestAllowedCallsHaveNoRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := run(t, community.Config{Authorize: anybody})
		if err := c.Offer(community.Capability{Name: "echo"}, func(_ context.Context, s community.Signal) (community.Reply, error) {
			return community.Reply{Data: s.Data}, nil
		}); err != nil {
			t.Fatal(err)
		}
		for i := range 10_000 { // at one time of the bubble's clock
			if _, err := c.Serve(t.Context(), stranger, community.Call{Capability: "echo"}); err != nil {
				t.Fatalf("call %d: %v", i, err)
			}
		}
	})
}

func TestPeersShareANodeFairly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := run(t, community.Config{Authorize: anybody, Name: "b"})
		release := make(chan bool)
		if err := c.Offer(community.Capability{Name: "hold"}, func(context.Context, community.Signal) (community.Reply, error) {
			<-release
			return community.Reply{}, nil
		}); err != nil {
			t.Fatal(err)
		}
		var calls sync.WaitGroup
		// fill is how many calls of a peer come through, and why the next does not.
		fill := func(from community.Peer) (n int, err error) {
			failed := make(chan error, 1)
			for ; ; n++ {
				calls.Go(func() {
					if _, err := c.Serve(context.Background(), from, community.Call{Capability: "hold"}); err != nil {
						failed <- err
					}
				})
				synctest.Wait()
				if len(failed) > 0 {
					return n, <-failed
				}
			}
		}
		for i, want := range []int{128, 64, 32} {
			n, err := fill(community.Peer{ID: community.NodeID(fmt.Sprintf("%032x", i+1))})
			if n != want {
				t.Errorf("%d calls of peer %d came through, want %d", n, i, want)
			}
			if want := "busy: b serves 256 calls of other nodes at a time (limits.node_calls)"; !strings.HasPrefix(err.Error(), want) {
				t.Errorf("the next got %q, want %q", err, want)
			}
		}
		close(release)
		calls.Wait()
	})
}

func TestInboundCallsAreLimitedInSize(t *testing.T) {
	asked := false
	c, _ := run(t, community.Config{MaxMessage: 100, Authorize: func(community.Peer, community.Call) error { asked = true; return nil }})
	if err := c.Offer(community.Capability{Name: "double"}, func(_ context.Context, s community.Signal) (community.Reply, error) {
		return community.Reply{Data: append(s.Data, s.Data...)}, nil
	}); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		call  community.Call
		want  error
		asked bool
	}{
		"fits":           {community.Call{Payload: make([]byte, 50)}, nil, true},
		"reply too big":  {community.Call{Payload: make([]byte, 51)}, community.ErrTooLarge, true},
		"too big":        {community.Call{Payload: make([]byte, 101)}, community.ErrTooLarge, false},
		"chain":          {community.Call{Requester: make([]string, 32)}, nil, true},
		"chain too long": {community.Call{Requester: make([]string, 33)}, community.ErrTooLarge, false},
		"said too much":  {community.Call{OnBehalf: make([]byte, community.MaxOnBehalf+1)}, community.ErrTooLarge, false},
		"chain too wide": {community.Call{Requester: []string{strings.Repeat("x", 257)}}, community.ErrTooLarge, false},
	} {
		asked = false
		tt.call.Capability = "double"
		_, err := c.Serve(t.Context(), stranger, tt.call)
		if !errors.Is(err, tt.want) || asked != tt.asked {
			t.Errorf("%s: got %v, the authoriser was asked: %v; want %v, %v", name, err, asked, tt.want, tt.asked)
		}
	}
}

func TestInboundCallsHaveADeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := run(t, community.Config{Authorize: anybody, MaxCall: time.Minute})
		left := func(ctx context.Context) (d time.Duration) {
			if err := c.Offer(community.Capability{Name: "look"}, func(ctx context.Context, _ community.Signal) (community.Reply, error) {
				end, _ := ctx.Deadline()
				d = time.Until(end)
				return community.Reply{}, nil
			}); err != nil {
				t.Fatal(err)
			}
			if _, err := c.Serve(ctx, stranger, community.Call{Capability: "look"}); err != nil {
				t.Error(err)
			}
			if err := c.Withdraw("look"); err != nil {
				t.Error(err)
			}
			return d
		}
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		long, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		for _, tt := range []struct {
			ctx  context.Context
			want time.Duration
		}{{t.Context(), time.Minute}, {short, time.Second}, {long, time.Minute}} {
			if got := left(tt.ctx); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		}
	})
}

func TestPeersLearnNothingFromErrors(t *testing.T) {
	c, _ := run(t, community.Config{Authorize: anybody})
	var answer error
	if err := c.Offer(community.Capability{Name: "fail"}, func(context.Context, community.Signal) (community.Reply, error) {
		if answer == nil {
			panic("secret")
		}
		return community.Reply{Data: []byte("half")}, answer
	}); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		answer error
		is     error
		says   string
	}{
		"panic":             {nil, community.ErrAgentFailed, "the agent failed"},
		"unknown":           {errors.New("open /home/secret"), community.ErrAgentFailed, "the agent failed"},
		"wrapped":           {fmt.Errorf("secret: %w", community.ErrBusy), community.ErrBusy, "busy"},
		"an Error":          {&community.Error{Op: "send", Member: "secret", Err: community.ErrNotFound}, community.ErrNotFound, "not found"},
		"deadline":          {fmt.Errorf("secret: %w", context.DeadlineExceeded), context.DeadlineExceeded, "context deadline exceeded"},
		"explained":         {fmt.Errorf("secret: %w", community.Explain(community.ErrDenied, "only on\nSundays\x1b")), community.ErrDenied, "denied: only on Sundays"},
		"explained unknown": {community.Explain(errors.New("secret"), "no field text"), community.ErrAgentFailed, "the agent failed: no field text"},
		"explained at length": {community.Explain(community.ErrDenied, strings.Repeat("ü", 200)), community.ErrDenied,
			"denied: " + strings.Repeat("ü", 150) + "…"},
	} {
		answer = tt.answer
		r, err := c.Serve(t.Context(), stranger, community.Call{Capability: "fail"})
		if !errors.Is(err, tt.is) || err.Error() != tt.says || r.Data != nil {
			t.Errorf("%s: got %q, %q; want %q", name, r.Data, err, tt.says)
		}
	}
	m := spawn(t, c, "ann", &worker{receive: func(context.Context, community.Signal) (community.Reply, error) { panic("secret") }})
	if _, err := c.Serve(t.Context(), stranger,
		community.Call{Member: m.ID, Capability: "agent.perception.work"}); err != community.ErrAgentFailed {
		t.Errorf("an agent's panic: got %v, want ErrAgentFailed and no more", err)
	}
}

func TestOfferRefusesWhatPeersWouldRefuse(t *testing.T) {
	c := community.New(community.Config{})
	ok := (&worker{}).Receive
	for name, err := range map[string]error{
		"no provider":     c.Offer(community.Capability{Name: "a"}, nil),
		"no name":         c.Offer(community.Capability{}, ok),
		"a signal's name": c.Offer(community.Capability{Name: "agent.perception.work"}, ok),
		"an odd name":     c.Offer(community.Capability{Name: "a b"}, ok),
		"a broken schema": c.Offer(community.Capability{Name: "a", Input: []byte("{")}, ok),
		"a huge schema":   c.Offer(community.Capability{Name: "a", Output: []byte(`"` + strings.Repeat("x", 16<<10) + `"`)}, ok),
		"a long text":     c.Offer(community.Capability{Name: "a", Description: strings.Repeat("x", 4097)}, ok),
		"an escape in it": c.Offer(community.Capability{Name: "a", Description: "\x1b[2J"}, ok),
	} {
		if err == nil {
			t.Errorf("%s: it was offered", name)
		}
	}
	for i := range 256 {
		if err := c.Offer(community.Capability{Name: fmt.Sprint("a", i)}, ok); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Offer(community.Capability{Name: "one-more"}, ok); !errors.Is(err, community.ErrBusy) {
		t.Errorf("the 257th: got %v, want ErrBusy", err)
	}
	if err := c.Offer(community.Capability{Name: "a1"}, ok); err == nil {
		t.Error("a name was offered twice")
	}
}

func TestCatalogIsOfThisNodeOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := withPeer(t, &wire{}, func(cfg *community.Config) {
			cfg.Name, cfg.Metadata = "kitchen", map[string]string{"os": "plan9"}
		})
		sub := c.SubscribeLocal()
		ann := spawn(t, c, "ann", &worker{})
		upper := community.Capability{Name: "text.upper", Description: "Upper case"}
		if err := c.Offer(upper, (&worker{}).Receive); err != nil {
			t.Fatal(err)
		}
		upper.Places = 256 // the default of MaxNodeCalls
		self := community.Member{ID: community.MemberID(c.Node()), Name: "kitchen", Node: c.Node(), Provides: []string{"text.upper"},
			Available: true, Metadata: map[string]string{"os": "plan9"}}
		want := community.Catalog{Members: []community.Member{ann, self}, Capabilities: []community.Capability{upper}}
		if diff := cmp.Diff(want, c.Catalog()); diff != "" {
			t.Errorf("the catalog is another (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"snapshot of 1", "joined ann", "snapshot of 2"}, told(sub)); diff != "" {
			t.Errorf("other nodes were told (-want +got):\n%s", diff)
		}
		got, ok := c.Capability(c.Node(), "text.upper")
		if diff := cmp.Diff(upper, got); !ok || diff != "" {
			t.Errorf("the capability is another (-want +got):\n%s", diff)
		}
	})
}
