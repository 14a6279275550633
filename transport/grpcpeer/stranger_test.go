package grpcpeer_test

import (
	"context"
	"net"
	"net/netip"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"symbio/discovery"
	"symbio/security/identity"
	"symbio/transport/grpcpeer"
)

// Whoever only claims on the network to be somebody is dialled less and less; whom a person has configured,
// and who was reached before, is not given up (discovery: rules for the node, 4).
func TestAStrangerIsDialledLessAndLess(t *testing.T) {
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
				sa.network.Sight(discovery.Candidate{Key: "x", Addrs: []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:9")}, Sources: []string{source}})
				time.Sleep(10 * time.Hour)
				if got := dials.Load(); got < want.least || got > want.most {
					t.Errorf("dialled %d times in 10 hours, want %d to %d", got, want.least, want.most)
				}
			})
		})
	}
}

func TestAStrangerWhoAnswersWronglyIsLeftAloneForLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLAN(t)
		var seen events
		sa := l.add("a", reporting(&seen))
		sa.live("a")
		hint := l.lies("eve", func(id *identity.Identity) *liar { return &liar{describe: honest(id)} }).hint()
		hint.Node, hint.Sources = "00000000000000000000000000000001", []string{"mdns"} // not eve's id
		hint.Key = hint.Node
		sa.network.Sight(hint)
		time.Sleep(10 * time.Hour)
		if got := seen.count(grpcpeer.Refused); got < 10 || got > 20 {
			t.Errorf("dialled %d times in 10 hours, want 30 s, 1 min, 2 min ... and then each hour", got)
		}
	})
}
