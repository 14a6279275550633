package mdns

import (
	"net"
	"net/netip"
	"testing"
)

func TestOnlyInterfacesToNeighborsAreUsed(t *testing.T) {
	lan := net.FlagUp | net.FlagMulticast
	for _, c := range []struct {
		what        string
		flags       net.Flags
		addrs       []string
		allow, deny []string
		used        bool
	}{
		{"a home network", lan, []string{"192.168.1.2/24", "2001:db8::2/64", "fe80::1/64"}, nil, nil, true},
		{"a network of IPv6 only", lan, []string{"2001:db8::2/64", "fe80::1/64"}, nil, nil, true},
		{"a cable without a server", lan, []string{"169.254.3.4/16"}, nil, nil, true},
		{"behind a provider's NAT", lan, []string{"100.64.3.4/10"}, nil, nil, true},
		{"a rented machine", lan, []string{"8.8.8.8/24", "fe80::1/64"}, nil, nil, false},
		{"a rented machine that is told to", lan, []string{"8.8.8.8/24"}, []string{"eth*"}, nil, true},
		{"a public and a private address", lan, []string{"8.8.8.8/24", "10.0.0.2/8"}, nil, nil, true},
		{"a public and a unique local address", lan, []string{"8.8.8.8/24", "fd00::2/64"}, nil, nil, true},
		{"a VPN", lan | net.FlagPointToPoint, []string{"10.0.0.2/8"}, nil, nil, false},
		{"no multicast", net.FlagUp, []string{"10.0.0.2/8"}, nil, nil, false},
		{"denied", lan, []string{"10.0.0.2/8"}, nil, []string{"eth0"}, false},
		{"denied and allowed", lan, []string{"10.0.0.2/8"}, []string{"eth0"}, []string{"eth0"}, false},
		{"another one is allowed", lan, []string{"10.0.0.2/8"}, []string{"wlan*"}, nil, false},
	} {
		i := iface{Interface: net.Interface{Index: 2, Name: "eth0", Flags: c.flags}}
		for _, a := range c.addrs {
			i.prefixes = append(i.prefixes, netip.MustParsePrefix(a))
		}
		if used := len(choose([]iface{i}, false, c.allow, c.deny).used) == 1; used != c.used {
			t.Errorf("%s: used %v, want %v (%q)", c.what, used, c.used, i.excluded(c.allow, c.deny))
		}
	}
}
