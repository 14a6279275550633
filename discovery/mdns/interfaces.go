package mdns

import (
	"fmt"
	"net"
	"net/netip"
	"path"
	"slices"
	"strings"

	"symbio/discovery"
)

// iface is a network interface as one look at the machine found it.
type iface struct {
	net.Interface
	prefixes []netip.Prefix // its own addresses, each with the length of its network
}

func (i iface) loopback() bool { return i.Flags&net.FlagLoopback != 0 }

// owns says that a is an address of this interface.
func (i iface) owns(a netip.Addr) bool {
	return slices.ContainsFunc(i.prefixes, func(p netip.Prefix) bool { return p.Addr() == a.WithZone("") })
}

// contains says that a is an address of this interface or of a neighbour on it.
func (i iface) contains(a netip.Addr) bool {
	return slices.ContainsFunc(i.prefixes, func(p netip.Prefix) bool { return p.Contains(a.WithZone("")) })
}

// addrs are what this interface's neighbours can dial.
func (i iface) addrs() []netip.Addr {
	var out []netip.Addr
	for _, p := range i.prefixes {
		if len(out) < discovery.MaxAddrs {
			out = append(out, p.Addr())
		}
	}
	return out
}

// own returns an address of this interface of one family, or the zero Addr.
func (i iface) own(v6 bool) netip.Addr {
	for _, p := range i.prefixes {
		if p.Addr().Is6() == v6 {
			return p.Addr()
		}
	}
	return netip.Addr{}
}

// usableInterfaces lists the interfaces that are up and have an address.
func usableInterfaces() ([]iface, error) {
	all, err := allInterfaces()
	return slices.DeleteFunc(all, func(i iface) bool { return i.unusable() != "" }), err
}

// allInterfaces lists all interfaces.
func allInterfaces() ([]iface, error) {
	all, err := net.Interfaces()
	if err != nil {
		return nil, err
	}
	var out []iface
	for _, i := range all {
		addrs, err := i.Addrs()
		if err != nil {
			continue // it went away meanwhile; the next look will tell
		}
		n := iface{Interface: i}
		for _, a := range addrs {
			if p, ok := a.(*net.IPNet); ok {
				n.prefixes = appendPrefix(n.prefixes, p)
			}
		}
		out = append(out, n)
	}
	return out, nil
}

func appendPrefix(to []netip.Prefix, n *net.IPNet) []netip.Prefix {
	a, ok := netip.AddrFromSlice(n.IP)
	ones, bits := n.Mask.Size()
	if !ok || bits == 0 {
		return to
	}
	if a = a.Unmap(); a.Is4() && bits == 128 {
		ones -= 96
	}
	return append(to, netip.PrefixFrom(a, ones))
}

// view is what of the machine discovery uses.
type view struct {
	used  []iface
	loops []int // the indexes of all loopback interfaces, used or not
}

// choose picks the interfaces to use: only loopback if that is all the node listens on, else all that can carry
// multicast to neighbours, and loopback where there are none.
func choose(all []iface, loopback bool, allow, deny []string) view {
	var v view
	var loops, lan []iface
	for _, i := range all {
		if i.loopback() {
			loops = append(loops, i)
			v.loops = append(v.loops, i.Index)
		} else if i.excluded(allow, deny) == "" {
			lan = append(lan, i)
		}
	}
	v.used = lan
	if loopback || len(lan) == 0 {
		v.used = loops
	}
	return v
}

// unusable says why nothing at all can come over an interface; "" if something can.
func (i iface) unusable() string {
	switch {
	case i.Flags&net.FlagUp == 0:
		return "it is down"
	case len(i.prefixes) == 0:
		return "it has no address"
	}
	return ""
}

// excluded says why an interface that is not idle cannot carry multicast to neighbours, or must not; "" if it can.
func (i iface) excluded(allow, deny []string) string {
	switch {
	case i.Flags&net.FlagMulticast == 0:
		return "it does not carry multicast"
	case i.Flags&net.FlagPointToPoint != 0:
		return "it is a point-to-point link, such as a VPN"
	case matches(deny, i.Name):
		return "discovery.interfaces.deny names it"
	case len(allow) > 0 && !matches(allow, i.Name):
		return "discovery.interfaces.allow does not name it"
	case len(allow) == 0 && i.public():
		return "it has only public addresses, so its neighbours are strangers; name it in discovery.interfaces.allow to look there all the same"
	}
	return ""
}

// public says that an interface has IPv4 addresses and none that is private: it leads to the Internet, not
// to a LAN (security: whoever hears us there could have us answer to others). IPv6 tells nothing: hosts of
// a LAN have global addresses, too.
func (i iface) public() bool {
	global := false
	for _, p := range i.prefixes {
		a := p.Addr()
		switch {
		case a.IsPrivate() || carrierNAT.Contains(a) || a.Is4() && a.IsLinkLocalUnicast():
			return false
		case a.Is4():
			global = true
		}
	}
	return global
}

// carrierNAT are the addresses that providers give to customers behind a NAT (RFC 6598), and VPNs to machines.
var carrierNAT = netip.MustParsePrefix("100.64.0.0/10")

func matches(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		ok, _ := path.Match(p, name) // the patterns were checked at the start
		return ok
	})
}

// fingerprint differs for views that differ in what matters.
func (v view) fingerprint() string {
	var b strings.Builder
	for _, i := range v.used {
		fmt.Fprintln(&b, i.Index, i.Name, i.Flags, i.prefixes)
	}
	return b.String()
}

// arrived returns the interface a packet belongs to: the one it came over if its sender is a neighbour there (RFC 6762
// section 11 asks for this check), or the one that has the sender's address, when this machine sent it to itself.
// index is 0 where the system does not tell.
func (v view) arrived(index int, from netip.Addr) (iface, bool) {
	for _, i := range v.used {
		near := i.loopback() || i.contains(from) // whatever comes over loopback was sent by this machine
		if i.Index == index && near || index == 0 && i.contains(from) && (from.Zone() == "" || from.Zone() == i.Name) {
			return i, true
		}
	}
	if index != 0 && slices.Contains(v.loops, index) {
		for _, i := range v.used {
			if i.owns(from) {
				return i, true
			}
		}
	}
	return iface{}, false
}

// dialable returns the address under which a may be dialled, when a packet that came over i speaks of it. A packet must
// not make us try hosts that it could not reach itself, so a is an address of a neighbour on that interface or nothing; a
// loopback address makes sense only for a packet that came over loopback.
func dialable(a netip.Addr, i iface) (netip.Addr, bool) {
	a = a.Unmap()
	switch {
	case !a.IsValid() || a.IsUnspecified() || a.IsMulticast():
		return a, false
	case a.IsLoopback():
		return a, i.loopback()
	case a.IsLinkLocalUnicast() && a.Is6():
		return a.WithZone(i.Name), i.contains(a)
	}
	return a, i.contains(a)
}
