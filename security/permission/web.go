package permission

import (
	"fmt"
	"maps"
	"net/netip"

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
	all := map[netip.AddrPort]bool{}
	first := true
	for _, l := range c {
		if l.mute {
			continue
		}
		mine := l.addrs(f)
		if first {
			all, first = mine, false
			continue
		}
		maps.DeleteFunc(all, func(a netip.AddrPort, _ bool) bool { return !mine[a] })
	}
	return endpoint.NewAllowList(all)
}

// addrs returns the addresses that the link's rules about the call's tool allow.
func (l Link) addrs(f *facts) map[netip.AddrPort]bool {
	all := map[netip.AddrPort]bool{}
	for _, r := range l.Policy.Allow {
		if r.form == formAddr && r.namedBy(f.names.own()) {
			for _, a := range r.reach() {
				all[a] = true
			}
		}
	}
	return all
}

// reach returns the addresses that an ip: rule allows: with the port that it names, or with 80
// and 443.
func (r Rule) reach() []netip.AddrPort {
	if a, err := netip.ParseAddrPort(r.spec); err == nil {
		return []netip.AddrPort{a}
	}
	a, err := netip.ParseAddr(r.spec)
	if err != nil {
		return nil
	}
	return []netip.AddrPort{netip.AddrPortFrom(a, 80), netip.AddrPortFrom(a, 443)}
}

// readAddr reads the part of a spec behind ip:, as in WebFetch(ip:127.0.0.1:3000), and returns
// why it is unclear, "" if it is clear. Zones are refused: they name an interface of one machine.
// The spec is kept in the canonical form of netip, so that equal addresses have equal specs.
func (r *Rule) readAddr(text string) (reason string) {
	r.form = formAddr
	if p, err := netip.ParseAddrPort(text); err == nil && p.Addr().Zone() == "" && p.Port() > 0 {
		r.spec = netip.AddrPortFrom(p.Addr().Unmap(), p.Port()).String()
		return ""
	}
	if a, err := netip.ParseAddr(text); err == nil && a.Zone() == "" {
		r.spec = a.Unmap().String()
		return ""
	}
	return "write ip:ADDRESS or ip:ADDRESS:PORT, an IPv6 address with a port in brackets, as in ip:[::1]:3000"
}

// meansAddr reports whether a deny rule for an address covers a target; without a port it covers
// all ports. A target that is a name does not match: its address is not known before the
// connection.
func (r Rule) meansAddr(e endpoint.Endpoint) bool {
	if !e.Addr.IsValid() {
		return false
	}
	if a, err := netip.ParseAddrPort(r.spec); err == nil {
		return a == netip.AddrPortFrom(e.Addr, e.Port)
	}
	return r.spec == e.Addr.String()
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
		allowed := l.addrs(f)[at]
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
