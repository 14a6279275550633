package grpcpeertest_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"symbio/community"
	"symbio/transport/grpcpeer/grpcpeertest"
)

// run runs a community on the LAN until the test ends.
func run(t *testing.T, l *grpcpeertest.LAN, name string) *community.Community {
	t.Helper()
	n := l.Join(name)
	if n.ID != grpcpeertest.ID(name) {
		t.Errorf("%s has the id %s, want %s", name, n.ID, grpcpeertest.ID(name))
	}
	c := community.New(community.Config{Node: n.ID, Name: name, Network: n.Network,
		Authorize: func(community.Peer, community.Call) error { return nil }})
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := c.Run(ctx); err != nil {
			t.Errorf("%s ended with %v", name, err)
		}
	})
	t.Cleanup(func() { stop(); running.Wait() })
	return c
}

func TestCallTakesTheDelayOfTheLAN(t *testing.T) {
	for name, tt := range map[string]struct {
		lan      grpcpeertest.Config
		min, max time.Duration
	}{
		"none":   {grpcpeertest.Config{}, 0, 0},
		"delay":  {grpcpeertest.Config{Delay: 70 * time.Millisecond}, 140 * time.Millisecond, 140 * time.Millisecond},
		"jitter": {grpcpeertest.Config{Delay: 70 * time.Millisecond, Jitter: 30 * time.Millisecond}, 141 * time.Millisecond, 200 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := grpcpeertest.NewLAN(t, tt.lan)
				a, b := run(t, l, "a"), run(t, l, "b")
				if err := b.Offer(community.Capability{Name: "echo"}, func(_ context.Context, s community.Signal) (community.Reply, error) {
					return community.Reply{Data: s.Data}, nil
				}); err != nil {
					t.Fatal(err)
				}
				time.Sleep(2500 * time.Millisecond) // in the middle between two heartbeats
				begun := time.Now()
				if _, err := a.Invoke(t.Context(), community.MemberID(b.Node()), "echo", community.Signal{}); err != nil {
					t.Fatal(err)
				}
				if took := time.Since(begun); took < tt.min || took > tt.max {
					t.Errorf("there and back took %v, want %v to %v", took, tt.min, tt.max)
				}
			})
		})
	}
}
