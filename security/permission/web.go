package permission

import (
	"fmt"
	"maps"
	"net/netip"

	"symbio/security/permission/endpoint"
)

// dial gathers the addresses that every link of a chain allows by name of the address.
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

func (l Link) addrs(f *facts) map[netip.AddrPort]bool {
	all := map[netip.AddrPort]bool{}
	for _, r := range l.Policy.Allow {
		if r.form == formAddr && r.namedBy(&f.names) {
			for _, a := range r.reach() {
				all[a] = true
			}
		}
	}
	return all
}

// reach is what an address rule allows: the one port it names, or the two usual ones.
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

// readAddr reads the spec of a rule such as WebFetch(ip:127.0.0.1:3000).
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

// meansAddr reports whether an address rule is about that target; without a port it is about all.
func (r Rule) meansAddr(e endpoint.Endpoint) bool {
	if !e.Addr.IsValid() {
		return false
	}
	if a, err := netip.ParseAddrPort(r.spec); err == nil {
		return a == netip.AddrPortFrom(e.Addr, e.Port)
	}
	return r.spec == e.Addr.String()
}

// unreachable decides about requests that go nowhere a request may go, whatever the other rules say.
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
			return refuse(fmt.Sprintf("%s is an address of this machine, of a local network or of nobody; a rule WebFetch(ip:%s) allows it.", e.Addr, at))
		case e.Port != 80 && e.Port != 443:
			return refuse(fmt.Sprintf("Only the ports 80 and 443 are fetched from, not %d; a rule WebFetch(ip:ADDRESS:%d) allows one address.", e.Port, e.Port))
		}
	}
	return Verdict{}, false
}
