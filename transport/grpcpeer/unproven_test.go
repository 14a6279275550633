package grpcpeer_test

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"symbio/discovery"
	"symbio/security/identity"
	"symbio/transport/grpcpeer"
	"symbio/transport/grpcpeer/grpcpeertest"
)

// Whoever only claims on the network to be somebody is dialed less and less; whom a person has configured,
// and who was reached before, is not given up (discovery: rules for the node, 4).
func TestUnprovenCandidateBacksOff(t *testing.T) {
	for source, want := range map[string]struct{ least, most int32 }{
		"mdns":   {120, 250},    // 12 times an hour in the long run
		"static": {8500, 11500}, // each 4 s
	} {
		t.Run(source, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLAN(t)
				var dials atomic.Int32
				sa := l.add("a", func(c *grpcpeer.Config) {
					c.Dial = func(context.Context, netip.AddrPort) (net.Conn, error) {
						dials.Add(1)
						return nil, syscall.ECONNREFUSED
					}
				})
				sa.live("a")
				sa.Network.AddHint(discovery.Candidate{Key: "x", Addrs: []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:9")},
					Sources: []string{source}})
				time.Sleep(10 * time.Hour)
				if got := dials.Load(); got < want.least || got > want.most {
					t.Errorf("dialled %d times in 10 hours, want %d to %d", got, want.least, want.most)
				}
			})
		})
	}
}

func TestUnprovenRefusedCandidateBacksOffLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLAN(t)
		var seen events
		sa := l.add("a", reporting(&seen))
		sa.live("a")
		hint := l.lies("eve", func(id *identity.Identity) *liar { return &liar{describe: honest(id)} }).Hint()
		hint.Node, hint.Sources = "00000000000000000000000000000001", []string{"mdns"} // not eve's id
		hint.Key = hint.Node
		sa.Network.AddHint(hint)
		time.Sleep(10 * time.Hour)
		if got := seen.count(grpcpeer.Refused); got < 10 || got > 20 {
			t.Errorf("dialled %d times in 10 hours, want 30 s, 1 min, 2 min ... and then each hour", got)
		}
	})
}

// Of 300 configured addresses where packets are lost, and one where a node answers, the one is found in 10 s.
func TestDeadAddressesDoNotDelayTheLivingOne(t *testing.T) {
	for name, gossip := range map[string]bool{"links to all": false, "gossip": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newSlowLAN(t, grpcpeertest.Config{Gossip: gossip})
				var sa *station
				sb := l.add("b")
				sa = l.add("a", func(c *grpcpeer.Config) {
					c.Dial = func(ctx context.Context, addr netip.AddrPort) (net.Conn, error) {
						if addr == sb.Addr {
							return sa.Dial(ctx, addr)
						}
						<-ctx.Done()
						return nil, ctx.Err()
					}
				})
				a, b := sa.live("a"), sb.live("b")
				for i := range 300 {
					addr := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.2"), uint16(i+1))
					sa.Network.AddHint(discovery.Candidate{Key: addr.String(), Addrs: []netip.AddrPort{addr}, Sources: []string{"dns"}})
				}
				sa.Network.AddHint(discovery.Candidate{Key: "living", Addrs: []netip.AddrPort{sb.Addr}, Sources: []string{"dns"}})
				time.Sleep(10 * time.Second)
				if all := a.Members(); !available(all, sb.ID) {
					t.Errorf("after 10 s the members are %+v, want the living one", all)
				}
				a.leave()
				b.leave()
				time.Sleep(time.Minute) // memberlist's last probes end by themselves
			})
		})
	}
}

// A connection that is taken and then silent is not a refusal: the reason names what may be in between.
func TestPathThatLosesLargePacketsIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLAN(t)
		sa := l.add("a", func(c *grpcpeer.Config) {
			c.Dial = func(context.Context, netip.AddrPort) (net.Conn, error) {
				near, far := grpcpeertest.Pipe(nil, nil)
				t.Cleanup(func() { far.Close() })
				return near, nil
			}
		})
		sa.live("a")
		sa.Network.AddHint(discovery.Candidate{Key: "x", Addrs: []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:9")},
			Sources: []string{"static"}})
		time.Sleep(6 * time.Second)
		if all := sa.Network.Nodes(); len(all) != 2 || !strings.Contains(all[1].Why, "MTU") {
			t.Errorf("it lists %+v, want that large packets may be lost", all)
		}
	})
}

// A stranger who was refused is listed while it knocks, and not when it is gone.
func TestGoneRefusedCandidateIsNotListed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLAN(t)
		sa := l.add("a")
		sa.live("a")
		for range 2 {
			conn, err := sa.Listener.Dial(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			_, _ = conn.Write([]byte("GET / HTTP/1.1\r\n\r\n"))
			time.Sleep(4 * time.Minute)
			conn.Close()
			if n := len(sa.Network.Nodes()); n != 2 {
				t.Errorf("%d nodes are listed 4 minutes after a stranger knocked, want this one and the stranger", n)
			}
		}
		time.Sleep(2 * time.Minute)
		if n := len(sa.Network.Nodes()); n != 1 {
			t.Errorf("%d nodes are listed 6 minutes after a stranger knocked last, want this one", n)
		}
	})
}
