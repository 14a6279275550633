// Package endpoint finds the host, address and port that a URL leads to, and decides which addresses a request
// may connect to. Rules about WebFetch and the web tools' own connections both use it.
//
// Programs read unusual URLs differently. Parse reads a URL as the most lenient program would, and reports in
// Endpoint.Ambiguous what another program could read differently. The package does no I/O and asks
// no resolver.
package endpoint

import (
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"golang.org/x/net/idna"
)

// Endpoint is the host and port of a request. Parse makes it; it does not change.
type Endpoint struct {
	// Host is canonical: lower case, ASCII, without a trailing dot. An address is written as
	// netip writes it. It is "" if the URL has no host.
	Host string
	// Addr is the address if the host is one; else it is invalid.
	Addr netip.Addr
	// Port is the port of the URL, by default 443 for https and 80 for http; 0 if the URL is Invalid
	// for its scheme.
	Port uint16
	// Invalid says why no request is made for the URL, as a clause that begins with "it" or the
	// like; "" if one can be made.
	Invalid string
	// Ambiguous says why another program might read another host in the URL; "" if none does. No rule allows
	// an ambiguous URL.
	Ambiguous string
}

// Parse reads the URL of a request. It returns an Endpoint in any case: the caller has to look at
// Invalid, and before it allows something by a rule, at Ambiguous. Only the last ambiguity that
// is found is named.
func Parse(text string) Endpoint {
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" {
		return Endpoint{Invalid: "it is no URL with a host, such as https://example.com/page"}
	}
	e := Endpoint{Host: strings.ToLower(u.Hostname())}
	switch {
	// Browsers and curl drop or turn around such characters, so they may read another host:
	// https://a\@b leads to a or to b.
	case strings.IndexFunc(text, func(c rune) bool { return c <= ' ' || c == '\\' || c == 0x7f }) >= 0:
		e.Ambiguous = "it holds a blank, a backslash or a control character"
	// In https://example.com@other/ people take the user name for the host.
	case u.User != nil:
		e.Ambiguous = "it holds a user name"
	case u.Opaque != "":
		e.Ambiguous = "it has no // before the host"
	// IDNA maps these to dots; a client without IDNA does not.
	case strings.ContainsAny(u.Hostname(), "\u3002\uff0e\uff61"):
		e.Ambiguous = "its host has dots that are no ASCII dots"
	case strings.Contains(u.Hostname(), "%"):
		e.Ambiguous = "its host holds a % sign"
	}
	e.readPort(u)
	e.readHost()
	return e
}

// readPort sets Port, and Invalid for schemes other than http and https.
func (e *Endpoint) readPort(u *url.URL) {
	switch strings.ToLower(u.Scheme) {
	case "https":
		e.Port = 443
	case "http":
		e.Port = 80
	default:
		e.Invalid = fmt.Sprintf("only http and https are fetched, not %q", u.Scheme)
		return
	}
	// https://host:/ has an empty port, which means the default.
	if u.Port() == "" {
		return
	}
	n, err := strconv.ParseUint(u.Port(), 10, 16)
	if err != nil || n == 0 {
		e.Invalid = "its port is no number from 1 to 65535"
	}
	e.Port = uint16(n)
}

// readHost makes Host canonical and sets Addr if it is an address. An address in another spelling than netip's is Invalid,
// since programs disagree on whether 0x7f.1 is an address.
func (e *Endpoint) readHost() {
	host := strings.TrimSuffix(e.Host, ".")
	if a, err := netip.ParseAddr(host); err == nil {
		// An IPv4 address inside of IPv6 (::ffff:127.0.0.1) is the same place as the IPv4
		// address.
		e.Addr, e.Host = a.Unmap().WithZone(""), a.Unmap().WithZone("").String()
		if a.Zone() != "" {
			e.Ambiguous = "its address names a network interface"
		}
		return
	}
	host, valid := ParseHost(host)
	if !valid {
		e.Ambiguous = "its host is no valid name"
	}
	if e.Host = host; IsNumber(host) {
		e.Invalid = "its host is a number that some programs take for an address: write the address as four numbers from 0 to 255"
	}
}

// ParseHost returns a host's name as the DNS has it: lower case and ASCII, without a trailing
// dot. ok is false for a name that neither the IDNA rules nor the DNS allow; then the name is
// returned as it is. It asks no resolver.
func ParseHost(name string) (host string, ok bool) {
	if ascii, err := hostNames.ToASCII(name); err == nil {
		return strings.TrimSuffix(ascii, "."), true
	}
	return name, isDNSName(name)
}

// hostNames maps names as browsers do before they look them up: UTS 46, with the rules for
// lookup. An idna.Profile may be used from many goroutines.
var hostNames = idna.New(idna.MapForLookup(), idna.BidiRule(), idna.VerifyDNSLength(true), idna.StrictDomainName(true))

// isDNSName reports whether the DNS allows a name: labels of 1 to 63 and in all 253 bytes at most
// (RFC 1035). It accepts names that the IDNA rules refuse, such as _srv.example.com.
func isDNSName(host string) bool {
	for label := range strings.SplitSeq(host, ".") {
		if label == "" || len(label) > 63 || strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			return false
		}
	}
	return len(host) <= 253
}

// IsNumber reports whether the last part of a host is a number, decimal, octal or hexadecimal. The C library's resolver
// (inet_aton) and browsers take such a host for an IPv4 address: 127.1, 0x7f.1 and 2130706433 are all 127.0.0.1.
func IsNumber(host string) bool {
	last := host[strings.LastIndexByte(host, '.')+1:]
	return last != "" && strings.Trim(last, "0123456789") == "" || strings.HasPrefix(strings.ToLower(last), "0x")
}
