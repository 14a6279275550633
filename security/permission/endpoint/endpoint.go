// Package endpoint finds the host, address and port that a URL leads to, and decides which addresses a request
// may connect to. Rules about WebFetch and the web tools' own connections both use it.
//
// Programs read unusual URLs differently. Parse reads a URL as the most lenient program would, and reports in
// Endpoint.Ambiguous what another program could read differently (security.md 6). The package does no I/O and asks
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

// Endpoint is the host and port of a request.
type Endpoint struct {
	// Host is canonical: lower case, ASCII, without a trailing dot. An address is written as netip writes it.
	Host string
	// Addr is the address if the host is one, in any spelling; else it is invalid.
	Addr netip.Addr
	// Port is that of the URL, by default the port of its scheme.
	Port uint16
	// Invalid says why no request is made for the URL; "" if one can be.
	Invalid string
	// Ambiguous says why another program might read another host in the URL; "" if none does. No rule allows
	// an ambiguous URL.
	Ambiguous string
}

// Parse reads the URL of a request.
func Parse(text string) Endpoint {
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" {
		return Endpoint{Invalid: "it is no URL with a host, such as https://example.com/page"}
	}
	e := Endpoint{Host: strings.ToLower(u.Hostname())}
	switch {
	case strings.IndexFunc(text, func(c rune) bool { return c <= ' ' || c == '\\' || c == 0x7f }) >= 0:
		e.Ambiguous = "it holds a blank, a backslash or a control character"
	case u.User != nil:
		e.Ambiguous = "it holds a user name"
	case u.Opaque != "":
		e.Ambiguous = "it has no // before the host"
	case strings.ContainsAny(u.Hostname(), "\u3002\uff0e\uff61"):
		e.Ambiguous = "its host has dots that are no ASCII dots"
	case strings.Contains(u.Hostname(), "%"):
		e.Ambiguous = "its host holds a % sign"
	}
	e.readPort(u)
	e.readHost()
	return e
}

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
	if u.Port() == "" {
		return
	}
	n, err := strconv.ParseUint(u.Port(), 10, 16)
	if err != nil || n == 0 {
		e.Invalid = "its port is no number from 1 to 65535"
	}
	e.Port = uint16(n)
}

func (e *Endpoint) readHost() {
	host := strings.TrimSuffix(e.Host, ".")
	if a, err := netip.ParseAddr(host); err == nil {
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
	e.Host = host
	if a, ok := ParseLegacyAddr(host); ok {
		e.Addr = a
		if a.String() != host {
			e.Ambiguous = fmt.Sprintf("its host is another spelling of the address %s", a)
		}
	}
}

// ParseHost returns a host's name as the DNS has it: lower case and ASCII, without a trailing dot. ok is false for a
// name that neither the IDNA rules nor the DNS allow; then the name is returned as it is.
func ParseHost(name string) (host string, ok bool) {
	if ascii, err := hostNames.ToASCII(name); err == nil {
		return strings.TrimSuffix(ascii, "."), true
	}
	return name, isDNSName(name)
}

// hostNames maps names as browsers do before they look them up.
var hostNames = idna.New(idna.MapForLookup(), idna.BidiRule(), idna.VerifyDNSLength(true), idna.StrictDomainName(true))

// isDNSName accepts names that the IDNA rules refuse and the DNS allows, such as _srv.example.com.
func isDNSName(host string) bool {
	for label := range strings.SplitSeq(host, ".") {
		if label == "" || len(label) > 63 || strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			return false
		}
	}
	return len(host) <= 253
}

// ParseLegacyAddr reads an IPv4 address in every spelling that the C library's resolver accepts: one to four
// numbers, decimal, octal (0…) or hexadecimal (0x…). The last number fills the remaining bytes.
func ParseLegacyAddr(host string) (netip.Addr, bool) {
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
