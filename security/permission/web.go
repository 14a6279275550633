package permission

import (
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/idna"
)

// target is where a request goes.
type target struct {
	// host is canonical: lower case, ASCII, without a trailing dot; an address is written as netip does.
	host string
	addr netip.Addr // when the host is an address, in whatever spelling
	port uint16
	// fatal says why such a request is never made.
	fatal string
	// odd says why another reader of the URL might see another target; such a URL is never allowed
	// by a rule.
	odd string
}

// targetOf reads a URL as the most lenient client would, and notes where clients differ (security.md 6).
func targetOf(text string) target {
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" {
		return target{fatal: "it is no URL with a host, such as https://example.com/page"}
	}
	t := target{host: strings.ToLower(u.Hostname())}
	switch {
	case strings.IndexFunc(text, func(c rune) bool { return c <= ' ' || c == '\\' || c == 0x7f }) >= 0:
		t.odd = "it holds a blank, a backslash or a control character"
	case u.User != nil:
		t.odd = "it holds a user name"
	case u.Opaque != "":
		t.odd = "it has no // before the host"
	case strings.ContainsAny(u.Hostname(), "\u3002\uff0e\uff61"):
		t.odd = "its host has dots that are no ASCII dots"
	case strings.Contains(u.Hostname(), "%"):
		t.odd = "its host holds a % sign"
	}
	t.readPort(u)
	t.readHost()
	return t
}

func (t *target) readPort(u *url.URL) {
	switch strings.ToLower(u.Scheme) {
	case "https":
		t.port = 443
	case "http":
		t.port = 80
	default:
		t.fatal = fmt.Sprintf("only http and https are fetched, not %q", u.Scheme)
		return
	}
	if u.Port() == "" {
		return
	}
	n, err := strconv.ParseUint(u.Port(), 10, 16)
	if err != nil || n == 0 {
		t.fatal = "its port is no number from 1 to 65535"
	}
	t.port = uint16(n)
}

func (t *target) readHost() {
	host := strings.TrimSuffix(t.host, ".")
	if a, err := netip.ParseAddr(host); err == nil {
		t.addr, t.host = a.Unmap().WithZone(""), a.Unmap().WithZone("").String()
		if a.Zone() != "" {
			t.odd = "its address names a network interface"
		}
		return
	}
	if ascii, err := hostNames.ToASCII(host); err == nil {
		host = strings.TrimSuffix(ascii, ".")
	} else if !plainHost(host) {
		t.odd = "its host is no valid name"
	}
	t.host = host
	if a, ok := legacyAddr(host); ok {
		t.addr = a
		if a.String() != host {
			t.odd = fmt.Sprintf("its host is another spelling of the address %s", a)
		}
	}
}

// hostNames maps what people write to what is looked up, as browsers do.
var hostNames = idna.New(idna.MapForLookup(), idna.BidiRule(), idna.VerifyDNSLength(true), idna.StrictDomainName(true))

// plainHost is for names that the IDNA rules refuse and the DNS does not mind, such as _srv.example.com.
func plainHost(host string) bool {
	for label := range strings.SplitSeq(host, ".") {
		if label == "" || len(label) > 63 || strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			return false
		}
	}
	return len(host) <= 253
}

// legacyAddr reads the spellings of an IPv4 address that the C library's resolver takes: one to four
// numbers, decimal, octal (0…) or hexadecimal (0x…), the last one filling what is left.
func legacyAddr(host string) (netip.Addr, bool) {
	parts := strings.Split(host, ".")
	if len(parts) > 4 {
		return netip.Addr{}, false
	}
	var whole uint64
	for i, p := range parts {
		n, ok := legacyNumber(p)
		last := i == len(parts)-1
		room := uint64(1) << 8
		if last {
			room = 1 << (8 * (5 - len(parts)))
		}
		if !ok || n >= room {
			return netip.Addr{}, false
		}
		if last {
			whole |= n
		} else {
			whole |= n << (8 * (3 - i))
		}
	}
	return netip.AddrFrom4([4]byte{byte(whole >> 24), byte(whole >> 16), byte(whole >> 8), byte(whole)}), true
}

func legacyNumber(s string) (uint64, bool) {
	base := 10
	switch {
	case strings.HasPrefix(s, "0x"):
		s, base = s[2:], 16
		if s == "" {
			return 0, true // the C library reads 0x as 0
		}
	case len(s) > 1 && s[0] == '0':
		s, base = s[1:], 8
	}
	n, err := strconv.ParseUint(s, base, 32)
	return n, err == nil && s[0] != '+'
}

// special are the addresses that are of this machine, of its networks, or of no single machine: RFC 6890
// and what embeds other addresses.
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

// Public reports whether an address is one that anybody on the Internet may have: none of this machine,
// of a private or local network, of a group, or with another address inside (RFC 6890; security.md 6).
func Public(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	if !a.IsValid() {
		return false
	}
	return !slices.ContainsFunc(special, func(p netip.Prefix) bool { return p.Contains(a) })
}

// Dial is where the connections of a request may go besides the ports 80 and 443 of public addresses. A
// nil Dial is nothing more. It is fixed when the verdict is made and may be used from many goroutines.
type Dial struct {
	addrs map[netip.AddrPort]bool
}

// Allows reports whether a connection to that address may be made. Whoever makes a request asks it for
// each connection, with the address that the name has turned out to have.
func (d *Dial) Allows(to netip.AddrPort) bool {
	to = netip.AddrPortFrom(to.Addr().Unmap().WithZone(""), to.Port())
	if d != nil && d.addrs[to] {
		return true
	}
	return Public(to.Addr()) && (to.Port() == 80 || to.Port() == 443)
}

// dial gathers the addresses that every link of a chain allows by name of the address.
func dial(c Chain, f *facts) *Dial {
	if f.subject.matter != matterURL {
		return nil
	}
	d := &Dial{addrs: map[netip.AddrPort]bool{}}
	first := true
	for _, l := range c {
		if l.mute {
			continue
		}
		mine := l.addrs(f)
		if first {
			d.addrs, first = mine, false
			continue
		}
		maps.DeleteFunc(d.addrs, func(a netip.AddrPort, _ bool) bool { return !mine[a] })
	}
	if len(d.addrs) == 0 {
		return nil
	}
	return d
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
func (r Rule) meansAddr(t target) bool {
	if !t.addr.IsValid() {
		return false
	}
	if a, err := netip.ParseAddrPort(r.spec); err == nil {
		return a == netip.AddrPortFrom(t.addr, t.port)
	}
	return r.spec == t.addr.String()
}

// unreachable decides about requests that go nowhere a request may go, whatever the other rules say.
func (l Link) unreachable(f *facts) (Verdict, bool) {
	if f.subject.matter != matterURL || l.mute {
		return Verdict{}, false
	}
	refuse := func(why string) (Verdict, bool) {
		return Verdict{Action: Deny, Stage: StageFinalDeny, Source: "built in", Why: why}, true
	}
	for _, t := range f.targets() {
		at := netip.AddrPortFrom(t.addr, t.port)
		allowed := l.addrs(f)[at]
		switch {
		case t.fatal != "":
			return refuse(fmt.Sprintf("The URL is not fetched: %s.", t.fatal))
		case allowed:
		case t.addr.IsValid() && !Public(t.addr):
			return refuse(fmt.Sprintf("%s is an address of this machine, of a local network or of nobody; a rule WebFetch(ip:%s) allows it.", t.addr, at))
		case t.port != 80 && t.port != 443:
			return refuse(fmt.Sprintf("Only the ports 80 and 443 are fetched from, not %d; a rule WebFetch(ip:ADDRESS:%d) allows one address.", t.port, t.port))
		}
	}
	return Verdict{}, false
}
