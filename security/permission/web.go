package permission

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"symbio/internal/security/permission/endpoint"
)

// dial returns the addresses that every link of the chain allows by an ip: rule. The tool has to
// check each connection against them, because a host name may resolve to another address than
// when the call was judged (DNS rebinding). It returns nil for tools that make no requests, and
// if there are no such addresses.
func dial(c Chain, f *facts) *endpoint.AllowList {
	if f.subject.matter != matterURL {
		return nil
	}
	var all map[netip.AddrPort]bool
	for _, l := range c {
		if l.mute {
			continue
		}
		mine := l.addrs(f.names)
		if all == nil {
			all = mine
			continue
		}
		maps.DeleteFunc(all, func(a netip.AddrPort, _ bool) bool { return !mine[a] })
	}
	return endpoint.NewAllowList(all)
}

// addrs returns the addresses that the link's rules about the call's tool allow.
func (l Link) addrs(of names) map[netip.AddrPort]bool {
	all := map[netip.AddrPort]bool{}
	for _, r := range l.Policy.Allow {
		if r.form == formAddr && r.namedBy(of.own()) {
			for _, a := range r.address.endpoints() {
				all[a] = true
			}
		}
	}
	return all
}

// address is what an ip: rule names. Port 0 stands for none: an allow rule then means 80 and 443, a deny rule all.
type address struct {
	addr netip.Addr
	port uint16
}

// parseAddress reads the part of a spec behind ip:, as in WebFetch(ip:127.0.0.1:3000), and returns
// why it is unclear, "" if it is clear. Zones are refused: they name an interface of one machine.
func parseAddress(text string) (a address, reason string) {
	if p, err := netip.ParseAddrPort(text); err == nil && p.Addr().Zone() == "" && p.Port() > 0 {
		return address{p.Addr().Unmap(), p.Port()}, ""
	}
	if a, err := netip.ParseAddr(text); err == nil && a.Zone() == "" {
		return address{addr: a.Unmap()}, ""
	}
	return a, "write ip:ADDRESS or ip:ADDRESS:PORT, an IPv6 address with a port in brackets, as in ip:[::1]:3000"
}

// endpoints returns what the address allows.
func (a address) endpoints() []netip.AddrPort {
	if a.port != 0 {
		return []netip.AddrPort{netip.AddrPortFrom(a.addr, a.port)}
	}
	return []netip.AddrPort{netip.AddrPortFrom(a.addr, 80), netip.AddrPortFrom(a.addr, 443)}
}

func (a address) allows(e endpoint.Endpoint) bool {
	return slices.Contains(a.endpoints(), netip.AddrPortFrom(e.Addr, e.Port))
}

// denies does not hold for a target that is a name: its address is not known before the connection.
func (a address) denies(e endpoint.Endpoint) bool {
	return e.Addr.IsValid() && a.addr == e.Addr && (a.port == 0 || a.port == e.Port)
}

// unreachable denies requests to invalid URLs, to addresses that are not public, and to ports
// other than 80 and 443, unless an ip: rule names that address and port. It comes before all
// rules, so that a rule for a domain cannot open the local network. The result is true if it
// denies. A guardrail without a default (mute) is not asked, since it has no say in calls that
// its rules do not name.
func (l Link) unreachable(f *facts) (Verdict, bool) {
	if f.subject.matter != matterURL || l.mute {
		return Verdict{}, false
	}
	refuse := func(why string) (Verdict, bool) {
		return Verdict{Action: Deny, Stage: StageFinalDeny, Source: "built in", Why: why}, true
	}
	for _, e := range f.targets() {
		at := netip.AddrPortFrom(e.Addr, e.Port)
		allowed := l.addrs(f.names)[at]
		switch {
		case e.Invalid != "":
			return refuse(fmt.Sprintf("The URL is not fetched: %s.", e.Invalid))
		case allowed:
		case e.Addr.IsValid() && !endpoint.IsPublic(e.Addr):
			return refuse(fmt.Sprintf("%s is an address of this machine, of a local network or of no host; a rule WebFetch(ip:%s) allows it.", e.Addr, at))
		case e.Port != 80 && e.Port != 443:
			return refuse(fmt.Sprintf("Only the ports 80 and 443 are fetched from, not %d; a rule WebFetch(ip:ADDRESS:%d) allows one address.", e.Port, e.Port))
		}
	}
	return Verdict{}, false
}
