package endpoint

import (
	"net/netip"
	"slices"
)

// special are the addresses of this machine, of private networks, and of groups of machines (RFC
// 6890), and those that have another address inside (6to4, Teredo, NAT64), by which a request
// would leave this check behind. IPv4-mapped addresses are unmapped before.
var special = func() []netip.Prefix {
	var all []netip.Prefix
	for _, p := range []string{
		"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24",
		"192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
		"::/96", "::ffff:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48", "100::/64", "2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20",
		"5f00::/16", "fc00::/7", "fe80::/10", "fec0::/10", "ff00::/8",
	} {
		all = append(all, netip.MustParsePrefix(p))
	}
	return all
}()

// IsPublic reports whether an address belongs to one machine on the Internet: not to this
// machine, a private or local network or a multicast group, and with no other address inside (RFC
// 6890). It is false for the invalid address.
func IsPublic(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	return a.IsValid() && !slices.ContainsFunc(special, func(p netip.Prefix) bool { return p.Contains(a) })
}

// AllowList is the addresses that a request may connect to besides the ports 80 and 443 of public
// addresses. They come from ip: rules. A nil AllowList adds none. It does not change once it is
// made, so many goroutines may use it.
type AllowList struct {
	// addrs has unmapped addresses without zones, as Allows looks them up.
	addrs map[netip.AddrPort]bool
}

// NewAllowList returns the list of those addresses; nil if there are none. It keeps the map: the
// caller must not change it afterwards.
func NewAllowList(addrs map[netip.AddrPort]bool) *AllowList {
	if len(addrs) == 0 {
		return nil
	}
	return &AllowList{addrs}
}

// Allows reports whether a connection to that address may be made. The client has to call it for each connection,
// with the address that the name resolved to: the name may resolve to another one each time.
func (l *AllowList) Allows(to netip.AddrPort) bool {
	to = netip.AddrPortFrom(to.Addr().Unmap().WithZone(""), to.Port())
	return l != nil && l.addrs[to] || IsPublic(to.Addr()) && (to.Port() == 80 || to.Port() == 443)
}
