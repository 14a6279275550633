package grpcpeer_test

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"symbio/community"
	"symbio/discovery"
	pb "symbio/proto/symbio/v1"
	"symbio/security/identity"
	"symbio/transport/grpcpeer"
)

// addIntroduced adds a node with a roster of introductions, and configures the given nodes as its peers.
func (l *lan) addIntroduced(name string, knows ...*station) (*home, *station) {
	l.t.Helper()
	s := l.add(name)
	return s.startRoster(name, knows...), s
}

// startRoster starts the node with a roster of introductions; knows are its configured peers.
func (s *station) startRoster(name string, knows ...*station) *home {
	s.lan.t.Helper()
	h := s.live(name)
	ctx, stop := context.WithCancel(context.Background())
	roster := discovery.NewRoster(discovery.Config{Self: string(s.ID), Report: s.Network.AddHint})
	var running sync.WaitGroup
	running.Go(func() {
		if err := roster.Run(ctx, s.Network.Introduced()); err != nil {
			s.lan.t.Errorf("the roster of %s ended with %v", name, err)
		}
	})
	s.lan.t.Cleanup(func() { stop(); running.Wait() })
	for _, o := range knows { // a configured peer has no known node
		s.Network.AddHint(discovery.Candidate{Key: o.Addr.String(), Addrs: []netip.AddrPort{o.Addr}, Sources: []string{"static"}})
	}
	return h
}

func TestOneReachablePeerIsEnough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLAN(t)
		began := time.Now()
		a, sa := l.addIntroduced("a")
		b, _ := l.addIntroduced("b", sa)
		c, _ := l.addIntroduced("c", sa)
		for _, h := range []*home{a, b, c} {
			for _, o := range []*home{a, b, c} {
				if h != o {
					h.finds(o.id)
				}
			}
		}
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("all saw all after %v, want 2s at the most", took)
		}
		if s, ok := c.status(b.id, grpcpeer.StateConnected); !ok || s.Via != grpcpeer.ViaDialled ||
			!slices.Equal(s.Sources, []string{"introduced"}) {
			t.Errorf("c sees %+v, want b dialled because it was introduced", c.network.Nodes())
		}
		if s, ok := c.status(a.id, grpcpeer.StateConnected); !ok || !slices.Equal(s.Sources, []string{"introduced", "static"}) {
			t.Errorf("c sees %+v, want a configured, and introduced by itself and b", c.network.Nodes())
		}

		// The introducer goes, and those who met by it stay; and meet again after a partition without it.
		a.leave()
		time.Sleep(time.Minute)
		l.Partition(b.id)
		time.Sleep(time.Minute)
		if available(c.Members(), b.id) {
			t.Fatal("c sees b through a partition")
		}
		healed := time.Now()
		l.Heal()
		b.finds(c.id)
		c.finds(b.id)
		if took := time.Since(healed); took > 5*time.Second {
			t.Errorf("b and c met again %v after the heal, want 5s at the most", took)
		}
	})
}

// A chain becomes a full mesh.
func TestIntroductionsSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLAN(t)
		const n = 12
		var all []*home
		var last []*station
		for i := range n {
			h, s := l.addIntroduced(fmt.Sprint("n", i), last...)
			all, last = append(all, h), []*station{s}
		}
		for _, h := range all {
			h.sees("all others", func(m []community.Member) bool { return len(m) == n-1 })
		}
	})
}

func TestUndialableNodeIsNotIntroduced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLAN(t)
		var dials atomic.Int32
		a, sa := l.addIntroduced("a")
		sb := l.add("b")
		sb.SetDialOnly(true)
		b := sb.startRoster("b", sa)
		a.finds(b.id)
		sc := l.add("c", func(cfg *grpcpeer.Config) {
			dial := cfg.Dial
			cfg.Dial = func(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
				if to == sb.Addr {
					dials.Add(1)
				}
				return dial(ctx, to)
			}
		})
		c := sc.startRoster("c", sa)
		// b is told of c, and can dial it; c then calls b over what b opened.
		b.finds(c.id)
		c.finds(b.id)
		if s, ok := c.status(b.id, grpcpeer.StateConnected); !ok || s.Via != grpcpeer.ViaReversed {
			t.Errorf("c sees %+v, want b reversed", c.network.Nodes())
		}
		if got := dials.Load(); got > 30 {
			t.Errorf("c dialled b %d times", got)
		}
	})
}

// introducing returns a faulty peer whose Watch sends these introductions each second.
func introducing(said func() *pb.Introductions) func(*identity.Identity) *liar {
	return func(id *identity.Identity) *liar {
		return &liar{describe: honest(id), each: func() *pb.CatalogEvent {
			return &pb.CatalogEvent{Event: &pb.CatalogEvent_Introductions{Introductions: said()}}
		}}
	}
}

func TestFalseIntroductionBreaksNoLink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLAN(t)
		var seen events
		sa := l.add("a", reporting(&seen))
		a := sa.startRoster("a")
		b, _ := l.addIntroduced("b", sa)
		a.finds(b.id)
		nobody := "127.0.0.1:9"
		eve := l.lies("eve", introducing(func() *pb.Introductions {
			return &pb.Introductions{All: true, Nodes: []*pb.Introduction{{Id: string(b.id), Addrs: []string{nobody, sa.Addr.String()}}},
				Gone: []string{string(b.id)}}
		}))
		sa.Network.AddHint(eve.Hint())
		a.finds(b.id)
		time.Sleep(10 * time.Minute)
		if got := seen.count(grpcpeer.Lost) + seen.count(grpcpeer.Left); got != 0 {
			t.Errorf("%d links ended, want none: %+v", got, seen.all)
		}
		// Nor is it in the way of b when b starts again.
		l.Kill(b.id)
		a.sees("b lost", func(all []community.Member) bool { return !available(all, b.id) })
		b.leave()
		began := time.Now()
		again, _ := l.addIntroduced("b", sa)
		a.finds(again.id)
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("b was seen again after %v, want 5s at the most", took)
		}
	})
}

func TestFloodOfIntroductionsIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLAN(t)
		var dials, now, most atomic.Int32
		sa := l.add("a", func(c *grpcpeer.Config) {
			dial := c.Dial
			c.Dial = func(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
				if to.Port() < 20000 {
					return dial(ctx, to)
				}
				dials.Add(1)
				most.Store(max(most.Load(), now.Add(1)))
				defer now.Add(-1)
				<-ctx.Done() // a hole, the slowest that there is
				return nil, ctx.Err()
			}
		})
		a := sa.startRoster("a")
		turn := 0
		eve := l.lies("eve", introducing(func() *pb.Introductions {
			said := &pb.Introductions{}
			for i := range 1000 { // the same nodes, each time elsewhere
				turn++
				said.Nodes = append(said.Nodes,
					&pb.Introduction{Id: fmt.Sprintf("%032x", i), Addrs: []string{fmt.Sprintf("127.0.0.1:%d", 20000+turn%40000)}})
			}
			return said
		}))
		sa.Network.AddHint(eve.Hint())
		time.Sleep(10 * time.Minute)
		if got := most.Load(); got > 8 {
			t.Errorf("%d dials at once, want 8 at the most", got)
		}
		if got := len(a.network.Nodes()); got != 256+2 {
			t.Errorf("%d nodes are known, want the 256 that one may introduce, itself and a", got)
		}
		t.Logf("%d dials in 10 minutes", dials.Load())
		// It is in nobody's way.
		b, sb := l.addIntroduced("b")
		began := time.Now()
		hint := sb.Hint()
		hint.Sources = []string{"mdns"}
		sa.Network.AddHint(hint)
		a.finds(b.id)
		if took := time.Since(began); took > time.Second {
			t.Errorf("b was seen after %v, want 1s at the most", took)
		}
	})
}
