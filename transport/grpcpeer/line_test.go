package grpcpeer_test

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"symbio/discovery"
	"symbio/transport/grpcpeer"
)

// muffled makes a station's dials of one address find nobody and no refusal. count is told of each, with 1 and then -1.
func muffled(silent netip.Addr, count func(int)) func(*grpcpeer.Config) {
	return func(c *grpcpeer.Config) {
		dial := c.Dial
		c.Dial = func(ctx context.Context, addr netip.AddrPort) (net.Conn, error) {
			if addr.Addr() != silent {
				return dial(ctx, addr)
			}
			count(1)
			defer count(-1)
			<-ctx.Done()
			return nil, ctx.Err()
		}
	}
}

func TestNodeThatMovedIsNotLookedForWhereItWas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		silent := netip.MustParseAddr("10.0.0.66")
		l := newCluster(t)
		a, b := l.add(seed, muffled(silent, func(int) {})), l.add("b")
		home := a.live(seed)
		b.live("b")
		hint := b.Hint()
		hint.Addrs = nil
		for port := range 5 {
			hint.Addrs = append(hint.Addrs, netip.AddrPortFrom(silent, uint16(1+port)))
		}
		begun := time.Now()
		a.Network.AddHint(hint)
		time.Sleep(time.Second)
		a.Network.AddHint(b.Hint())
		home.finds(b.ID)
		if took := time.Since(begun); took > 2100*time.Millisecond {
			t.Errorf("it was found after %v, want when the dial under way has ended, after 2s", took)
		}
	})
}

func TestDeadAddressDoesNotDelayOtherDials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		silent := netip.MustParseAddr("10.0.0.66")
		var mu sync.Mutex
		now, most := 0, 0
		count := func(by int) {
			mu.Lock()
			defer mu.Unlock()
			now += by
			most = max(most, now)
		}
		l := newCluster(t)
		a := l.add(seed, muffled(silent, count))
		b := l.add("b")
		home := a.live(seed)
		b.live("b")
		for i := range 500 {
			id := fmt.Sprintf("%032x", i+1)
			a.Network.AddHint(discovery.Candidate{Key: id, Node: id, Addrs: []netip.AddrPort{netip.AddrPortFrom(silent, uint16(1000+i))}})
		}
		time.Sleep(time.Second)
		begun := time.Now()
		a.Network.AddHint(b.Hint())
		home.finds(b.ID)
		if took := time.Since(begun); took > 100*time.Millisecond {
			t.Errorf("b was found after %v, want at once", took)
		}
		time.Sleep(time.Minute)
		mu.Lock()
		defer mu.Unlock()
		if most != 2 {
			t.Errorf("%d were dialled at one address at a time, want 2", most)
		}
	})
}
