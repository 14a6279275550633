package discoverytest_test

import (
	"net/netip"
	"testing"
	"time"

	"symbio/discovery"
	"symbio/discovery/discoverytest"
)

func TestHubKeepsThePromisesOfASource(t *testing.T) {
	discoverytest.TestSource(t, func(*testing.T) discoverytest.Rig {
		hub := new(discoverytest.Hub)
		return discoverytest.Rig{
			Source: hub.Source(discovery.Sighting{Node: "self", Addrs: []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:1")}}),
			Appear: func(a netip.AddrPort) {
				hub.Appear(discovery.Sighting{Node: a.String(), Addrs: []netip.AddrPort{a}})
			},
			Vanish: func(a netip.AddrPort) { hub.Vanish(a.String()) },
			Within: time.Millisecond,
		}
	})
}
