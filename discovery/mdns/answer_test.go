package mdns

import (
	"fmt"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"
)

func TestAnswersByUnicastAreSpreadAmongManyNeighbors(t *testing.T) {
	for _, c := range []struct {
		iface iface
		peers int
		want  time.Duration // after the question; a packet takes a millisecond
	}{
		{eth(2, "lan", "10.0.0.1/24"), manyPeers - 1, 2 * time.Millisecond},
		{eth(2, "lan", "10.0.0.1/24"), manyPeers, 2*time.Millisecond + answerJitter/2},
		{loopback(), manyPeers - 1, 2 * time.Millisecond},
		{loopback(), manyPeers, 2*time.Millisecond + answerJitter/2},
	} {
		t.Run(fmt.Sprint(c.iface.Name, " ", c.peers), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var n lan
				start(t, n.host(c.iface), 1)
				time.Sleep(20 * time.Second)
				neighbour := c.iface.prefixes[0].Addr().Next()
				for i := range c.peers {
					n.multicast(c.iface.Name, netip.AddrPortFrom(neighbour, port), message(announcement(1000+i)))
				}
				time.Sleep(time.Second)

				at := make(chan time.Duration, 10)
				h := c.iface
				h.prefixes = []netip.Prefix{netip.PrefixFrom(neighbour, 8)}
				var asked time.Time
				asker, err := n.host(h).open(choose([]iface{h}, h.loopback(), nil, nil), func(in packet) {
					if in.unicast && in.msg.Response {
						at <- time.Since(asked)
					}
				})
				if err != nil {
					t.Fatal(err)
				}
				q := question("_symbio._tcp.local.", dns.TypePTR)
				q.Qclass |= topBit
				asked = time.Now()
				for range 2 { // the second is not forgotten while the first waits
					if err := asker.send(&dns.Msg{Question: []dns.Question{q}}, h); err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(time.Second)
				synctest.Wait()
				var got []time.Duration
				for len(at) > 0 {
					got = append(got, <-at)
				}
				if diff := cmp.Diff([]time.Duration{c.want, c.want}, got); diff != "" {
					t.Errorf("answers after (-want +got):\n%s", diff)
				}
			})
		})
	}
}
