package tasks

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"

	"symbio/community"
)

// frozen is a network whose nodes accept nothing.
type frozen struct{ community.Network }

func (frozen) Run(ctx context.Context, _ community.Host) error { <-ctx.Done(); return nil }

func (frozen) Invoke(ctx context.Context, _ community.NodeID, _ community.Call) (community.Reply, error) {
	<-ctx.Done()
	return community.Reply{}, community.ErrUnavailable
}

// A frozen node holds up as many tasks as it says that it has places for; the others are free for other nodes.
func TestFrozenNodeHoldsUpAsManyTasksAsItHasPlaces(t *testing.T) {
	for places, want := range map[int]int{1: 1, 3: 3, 40: 40, 0: unknownPlaces} {
		synctest.Test(t, func(t *testing.T) {
			c := community.New(community.Config{Network: frozen{}})
			ctx, stop := context.WithCancel(t.Context())
			var ends sync.WaitGroup
			defer ends.Wait()
			defer stop()
			ends.Go(func() { _ = c.Run(ctx) })
			const id = community.NodeID("00000000000000000000000000000001")
			c.Attach(community.Peer{ID: id, Name: "b"}).Snapshot(community.Catalog{
				Members:      []community.Member{{ID: community.MemberID(id), Node: id, Name: "b", Available: true, Provides: []string{"work"}}},
				Capabilities: []community.Capability{{Name: "work", Places: places}},
			})
			all := &calls{Community: c, unaccepted: map[community.MemberID]int{}}
			var mu sync.Mutex
			busy := 0
			for range 50 {
				ends.Go(func() {
					_, err := all.Invoke(ctx, community.MemberID(id), "work", community.Signal{})
					if mu.Lock(); errors.Is(err, community.ErrBusy) && ctx.Err() == nil {
						busy++
					}
					mu.Unlock()
				})
			}
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if busy != 50-want {
				t.Errorf("%d places: %d of 50 tasks are sent, want %d", places, 50-busy, want)
			}
		})
	}
}
