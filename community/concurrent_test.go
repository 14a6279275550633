package community_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"symbio/community"
)

// All methods may be called by many goroutines; the race detector sees what is used without its lock.
func TestCommunityMayBeUsedByManyGoroutines(t *testing.T) {
	ctx := t.Context()
	c, _ := run(t, community.Config{Node: id[community.NodeID]("aa"), Authorize: anybody, Network: &wire{
		invoke: func(context.Context, community.NodeID, community.Call) (community.Reply, error) {
			return community.Reply{}, nil
		},
		tell: func(community.NodeID, community.Call) error { return nil },
	}})
	from := community.Peer{ID: peer, Name: "bb"}
	ben := remote(peer, id[community.MemberID]("b1"), "ben")
	ann := spawn(t, c, "ann", &worker{})
	provide := func(context.Context, community.Signal) (community.Reply, error) { return community.Reply{}, nil }
	var all sync.WaitGroup
	repeat := func(f func(i int)) {
		all.Go(func() {
			for i := range 30 {
				f(i)
			}
		})
	}
	for k := range 2 {
		name := fmt.Sprint("capability", k)
		repeat(func(int) { // the local members
			m := spawn(t, c, "eve", &worker{})
			if err := c.Terminate(ctx, m.ID); err != nil {
				t.Error(err)
			}
		})
		repeat(func(int) { // what is offered
			if err := c.Offer(community.Capability{Name: name}, provide); err != nil {
				t.Error(err)
			}
			c.Capability(c.Node(), name)
			if _, err := c.Serve(ctx, from, community.Call{Capability: name}); err != nil {
				t.Error(err)
			}
			if err := c.Withdraw(name); err != nil {
				t.Error(err)
			}
		})
		repeat(func(i int) { // the peer, over one connection after another
			l := c.Attach(from)
			l.Snapshot(community.Catalog{Members: []community.Member{ben}, Capabilities: []community.Capability{{Name: name}}})
			l.Updated(ben)
			l.Left(ben.ID)
			if i%2 == 0 {
				l.Lost(errors.New("silence"))
			} else {
				l.Goodbye("done")
			}
		})
		repeat(func(int) { // those who look
			c.Members()
			c.Member(ben.ID)
			c.WhoCanReceive("work")
			c.WhoProvides(name)
			c.Capabilities()
			c.Catalog()
			c.Peer(peer)
			c.LeftOut(peer)
			c.Refusals(peer)
			c.Refused()
			c.Undelivered()
		})
		repeat(func(int) { // those who follow the changes
			s := c.Subscribe()
			if _, err := s.Next(ctx); err != nil {
				t.Error(err)
			}
			s.Close()
		})
		repeat(func(int) { // calls in both directions
			if _, err := c.Send(ctx, ann.ID, work("")); err != nil {
				t.Error(err)
			}
			if err := c.Tell(ctx, ann.ID, work("")); err != nil && !errors.Is(err, community.ErrBusy) {
				t.Error(err)
			}
			// These may fail, as the peer comes and goes.
			c.Send(ctx, ben.ID, work(""))
			c.Tell(ctx, ben.ID, work(""))
			c.Invoke(ctx, community.MemberID(peer), name, community.Signal{})
			c.Serve(ctx, from, community.Call{Capability: "no.such"})
			c.ReportUndelivered(community.DeliveryFailure{Node: peer, Member: ben.ID, Count: 1})
			call := community.Call{Capability: community.PerceptionPrefix + "work", Member: ann.ID}
			if err := c.ServeTell(from, call, func(error) {}); err != nil && !errors.Is(err, community.ErrBusy) {
				t.Error(err)
			}
		})
	}
	all.Wait()
}
