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
	for round := range 30 {
		name := fmt.Sprint("capability", round)
		l := c.Attach(from)
		sub := c.Subscribe()
		var all sync.WaitGroup
		for _, use := range []func(){
			func() { // the local members
				m := spawn(t, c, "eve", &worker{})
				if err := c.Terminate(ctx, m.ID); err != nil {
					t.Error(err)
				}
			},
			func() { // what is offered
				if err := c.Offer(community.Capability{Name: name}, provide); err != nil {
					t.Error(err)
				}
				if err := c.Withdraw(name); err != nil {
					t.Error(err)
				}
			},
			func() { // what the peer has
				l.Snapshot(community.Catalog{Members: []community.Member{ben}, Capabilities: []community.Capability{{Name: name}}})
				l.Left(ben.ID)
				l.Updated(ben)
				if round%2 == 0 {
					l.Lost(errors.New("silence"))
				} else {
					l.Goodbye("done")
				}
			},
			// Those who look.
			func() { c.Members() },
			func() { c.Member(ben.ID) },
			func() { c.WhoCanReceive("work") },
			func() { c.WhoProvides(name) },
			func() { c.Capability(c.Node(), name) },
			func() { c.Capability(peer, name) },
			func() { c.Capabilities() },
			func() { c.Catalog() },
			func() { c.Peer(peer) },
			func() { c.LeftOut(peer) },
			func() { c.Refusals(peer) },
			func() { c.ReportUndelivered(community.DeliveryFailure{Node: peer, Member: ben.ID, Count: 1}) },
			// Those who follow the changes.
			func() {
				if _, err := sub.Next(ctx); err != nil && !errors.Is(err, community.ErrStopped) {
					t.Error(err)
				}
			},
			func() { c.Subscribe().Close() },
			// Calls in both directions; those that have to do with the peer may fail, as it comes and goes.
			func() {
				if _, err := c.Send(ctx, ann.ID, work("")); err != nil {
					t.Error(err)
				}
			},
			func() { _ = c.Tell(ctx, ann.ID, work("")) },
			func() { _, _ = c.Send(ctx, ben.ID, work("")) },
			func() { _ = c.Tell(ctx, ben.ID, work("")) },
			func() { _, _ = c.Invoke(ctx, community.MemberID(peer), name, community.Signal{}) },
			func() { _, _ = c.Serve(ctx, from, community.Call{Capability: name}) },
			func() {
				_ = c.ServeTell(from, community.Call{Capability: community.PerceptionPrefix + "work", Member: ann.ID}, func(error) {})
			},
		} {
			all.Go(use)
		}
		all.Wait()
		sub.Close()
	}
}
