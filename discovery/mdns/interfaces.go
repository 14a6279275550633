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

// iface is a network interface with its addresses, at one point in time.
type iface struct {
	net.Interface
	prefixes []netip.Prefix // its own addresses, each with the length of its network
}

func (i iface) loopback() bool { return i.Flags&net.FlagLoopback != 0 }

// owns reports whether a is an address of this interface.
func (i iface) owns(a netip.Addr) bool {
	return slices.ContainsFunc(i.prefixes, func(p netip.Prefix) bool { return p.Addr() == a.WithZone("") })
}

// contains reports whether a is in a network of this interface: its own address or a neighbor's.
func (i iface) contains(a netip.Addr) bool {
	return slices.ContainsFunc(i.prefixes, func(p netip.Prefix) bool { return p.Contains(a.WithZone("")) })
}

// addrs returns the addresses that neighbors on this interface can dial, at most
// discovery.MaxAddrs.
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

// allInterfaces lists all interfaces with their addresses. One that disappears meanwhile is left
// out.
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

// appendPrefix adds n to the list; IPv4 networks in IPv6 form are converted.
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

// view is the selection of interfaces that discovery uses.
type view struct {
	used  []iface
	loops []int // the indexes of all loopback interfaces, used or not
}

// choose selects the interfaces to use: only loopback if the node listens on loopback only;
// otherwise all that can carry multicast to neighbors, and loopback if there is none of them.
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

// unusable says why nothing at all can arrive on an interface; "" if something can.
func (i iface) unusable() string {
	switch {
	case i.Flags&net.FlagUp == 0:
		return "it is down"
	case len(i.prefixes) == 0:
		return "it has no address"
	}
	return ""
}

// excluded says why a usable interface cannot carry multicast to neighbors, or must not by
// configuration; "" if it can.
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

// public reports whether an interface has IPv4 addresses and none that is private. Such an
// interface leads to the Internet, and machines there could abuse this node to send answers to
// others. IPv6 says nothing, because hosts of a LAN have global IPv6 addresses, too.
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

// carrierNAT is the range that providers give to customers behind their NAT (RFC 6598), and that
// some VPNs use.
var carrierNAT = netip.MustParsePrefix("100.64.0.0/10")

// matches reports whether name matches one of the patterns, which Run has checked.
func matches(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		ok, _ := path.Match(p, name) // the patterns were checked at the start
		return ok
	})
}

// fingerprint returns a string that differs between views if discovery has to start anew.
func (v view) fingerprint() string {
	var b strings.Builder
	for _, i := range v.used {
		fmt.Fprintln(&b, i.Index, i.Name, i.Flags, i.prefixes)
	}
	return b.String()
}

// arrived returns the interface that a packet belongs to: the one on which it came, if its sender
// is a neighbor there (RFC 6762 section 11), or the one with the sender's address, when this
// machine sent the packet to itself. index is 0 where the system does not say. It returns false for
// packets from elsewhere.
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

// dialable returns the address at which a may be dialed, given that a packet on interface i named
// it. A packet must not make this node connect to hosts that its sender could not reach itself, so
// a must be on a network of i, and a loopback address counts only on loopback.
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
