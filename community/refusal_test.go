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
	"golang.org/x/time/rate"
)

func TestRefusedCallsOfAPeerAreLimitedInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := run(t, community.Config{Authorize: func(community.Peer, community.Call) error { return errors.New("no") }})
		call := func(p community.Peer) error {
			_, err := c.Serve(t.Context(), p, community.Call{Capability: "x"})
			return err
		}
		// many returns how many of n calls were denied; the others are ErrBusy.
		many := func(n int) (denied int) {
			for range n {
				if err := call(stranger); errors.Is(err, community.ErrDenied) {
					denied++
				} else if !errors.Is(err, community.ErrBusy) {
					t.Errorf("got %v", err)
				}
			}
			return denied
		}
		if n := many(150); n != 100 {
			t.Errorf("%d calls at once were denied, want 100", n)
		}
		if err := call(community.Peer{ID: id[community.NodeID]("dd")}); err != community.ErrDenied {
			t.Errorf("another peer: %v", err)
		}
		time.Sleep(time.Second)
		if n := many(150); n != 50 {
			t.Errorf("%d were denied a second later, want 50", n)
		}
		want := community.Refusals{community.RefusedRate: 150, community.RefusedDenied: 150}
		if diff := cmp.Diff(want, c.Refusals(stranger.ID)); diff != "" {
			t.Errorf("refused (-want +got):\n%s", diff)
		}
		want[community.RefusedDenied]++ // the other peer's
		if diff := cmp.Diff(want, c.Refusals(c.Node())); diff != "" || c.Refusals(c.Node()).Total() != 301 {
			t.Errorf("refused in all (-want +got):\n%s", diff)
		}
	})
}

func TestRefusalReasonsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := run(t, community.Config{Authorize: func(_ community.Peer, call community.Call) error {
			if call.Capability == "secret" {
				return errors.New("no")
			}
			return nil
		}, MaxMessage: 100, MaxNodeCalls: 8, MaxAgentCalls: 2, RefusalBurst: 1, System: withMailbox(t, 1)})
		release := make(chan bool)
		hold := func(context.Context, community.Signal) (community.Reply, error) {
			<-release
			return community.Reply{}, nil
		}
		shy := spawn(t, c, "shy", &worker{receive: hold})
		if err := c.Offer(community.Capability{Name: "hold"}, hold, community.WithConcurrency(1)); err != nil {
			t.Fatal(err)
		}
		if err := c.Offer(count, hold); err != nil {
			t.Fatal(err)
		}
		var calls sync.WaitGroup
		serve := func(call community.Call) {
			calls.Go(func() { c.Serve(context.Background(), stranger, call) })
			synctest.Wait()
		}
		signal := community.Call{Member: shy.ID, Capability: "agent.perception.work"}
		for _, call := range []community.Call{
			{Capability: "hold", Payload: make([]byte, 101)},
			{Capability: "hold", Requester: make([]string, 33)},
			{Capability: "text.count"},
			{Capability: "secret"},
			{Capability: "no such thing"}, // an error, and no refusal
			{Capability: "hold"},
			{Capability: "hold"},
			signal, signal, signal,
			{Capability: "text.count", Payload: []byte(`{"text":""}`)}, // the fourth
			{Capability: "text.count", Payload: []byte(`{"text":""}`)},
			{Capability: "secret"},
		} {
			serve(call)
		}
		close(release)
		calls.Wait()
		want := community.Refusals{
			community.RefusedDenied: 1, community.RefusedSize: 2, community.RefusedInvalid: 1, community.RefusedCapability: 1,
			community.RefusedAgent: 1, community.RefusedNode: 1, community.RefusedRate: 1,
		}
		if diff := cmp.Diff(want, c.Refusals(stranger.ID)); diff != "" {
			t.Errorf("refused (-want +got):\n%s", diff)
		}
	})
}

func TestFullMailboxIsARefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := run(t, community.Config{Authorize: anybody, System: withMailbox(t, 1)})
		release := make(chan bool)
		shy := spawn(t, c, "shy", &worker{receive: func(context.Context, community.Signal) (community.Reply, error) {
			<-release
			return community.Reply{}, community.ErrBusy // its own business
		}})
		var calls sync.WaitGroup
		for range 3 {
			calls.Go(func() {
				c.Serve(context.Background(), stranger, community.Call{Member: shy.ID, Capability: "agent.perception.work"})
			})
			synctest.Wait()
		}
		close(release)
		calls.Wait()
		if diff := cmp.Diff(community.Refusals{community.RefusedAgent: 1}, c.Refusals(stranger.ID)); diff != "" {
			t.Errorf("refused (-want +got):\n%s", diff)
		}
	})
}

func TestRefusalsAreToldButNotWithoutEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []community.Refusal
		c, _ := run(t, community.Config{RefusalRate: rate.Inf, OnRefused: func(r community.Refusal) { told = append(told, r) }})
		for range 1000 {
			c.Serve(t.Context(), stranger, community.Call{Capability: "x", Payload: []byte("secret")})
		}
		if len(told) != 20 || told[0].From != stranger || told[0].Reason != community.RefusedDenied || told[0].Err == nil ||
			told[0].Call.Payload != nil {
			t.Errorf("%d were told, the first is %+v; want 20", len(told), told[0])
		}
		time.Sleep(time.Second)
		c.Serve(t.Context(), stranger, community.Call{Capability: "y"})
		if last := told[len(told)-1]; len(told) != 21 || last.Omitted != 980 || last.Call.Capability != "y" {
			t.Errorf("a second later: %d were told, the last is %+v; want one more with 980 omitted", len(told), last)
		}
	})
}

func TestVisitorsWithoutEndAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := run(t, community.Config{})
		visitor := func(i int) community.NodeID { return community.NodeID(fmt.Sprintf("%032x", i)) }
		for i := range 5000 {
			p := community.Peer{ID: visitor(i)}
			time.Sleep(time.Millisecond)
			if _, err := c.Serve(t.Context(), p, community.Call{Capability: "x"}); err != community.ErrDenied {
				t.Fatal(err)
			}
		}
		if n := c.Refusals(c.Node())[community.RefusedDenied]; n != 5000 {
			t.Errorf("%d were counted, want 5000", n)
		}
		known := 0
		for i := range 5000 {
			known += int(c.Refusals(visitor(i)).Total())
		}
		if known != 2048 || c.Refusals(visitor(4999)).Total() != 1 {
			t.Errorf("%d of them are remembered, want the last 2048", known)
		}
	})
}
