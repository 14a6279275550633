package discovery

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// IsHostName reports whether s can be a DNS name: labels of letters, digits, hyphens and
// underscores, at most 253 characters in all (RFC 1035 section 2.3.4; underscores because service
// names and many LANs have them). An IPv4 address passes, too. A name that passes is safe to log
// and to show on a terminal.
func IsHostName(s string) bool {
	s = strings.TrimSuffix(s, ".")
	if s == "" || len(s) > 253 {
		return false
	}
	for label := range strings.SplitSeq(s, ".") {
		outside := strings.ContainsFunc(label, func(r rune) bool {
			return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_'
		})
		if label == "" || len(label) > 63 || outside {
			return false
		}
	}
	return true
}

// SplitPort splits "host:port" and checks the port. form says in an error what is wanted.
func SplitPort(text, form string) (host string, port uint16, err error) {
	host, portText, err := net.SplitHostPort(text)
	if err != nil {
		return "", 0, fmt.Errorf("want %s: %w", form, err)
	}
	n, err := strconv.ParseUint(portText, 10, 16)
	if err != nil || n == 0 {
		return "", 0, fmt.Errorf("port %q is not a number from 1 to 65535", portText)
	}
	return host, uint16(n), nil
}

// IsURL reports whether the address of a node is the URL of a WebSocket, rather than "host:port".
func IsURL(text string) bool { return strings.Contains(text, "://") }

// ParseURL reads the address of a WebSocket, ws://HOST:PORT/PATH or wss://HOST:PORT/PATH. Without a port it is that of
// HTTP or HTTPS, without a path "/". It returns an error for other schemes, and for passwords and fragments, which have
// no use there.
func ParseURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return nil, errors.New("this is not a URL; want one such as wss://kitchen.example/symbio")
	case u.Scheme != "ws" && u.Scheme != "wss":
		return nil, fmt.Errorf("%s is not a scheme of WebSockets; want wss, or ws without TLS", u.Scheme)
	case u.User != nil || u.Fragment != "" || u.Opaque != "":
		return nil, errors.New("want a host, a port and a path only, as in wss://kitchen.example:443/symbio")
	}
	if _, err := netip.ParseAddr(u.Hostname()); err != nil && !IsHostName(u.Hostname()) {
		return nil, fmt.Errorf("%q is neither an address nor a host name", u.Hostname())
	}
	if u.Port() != "" {
		if _, _, err := SplitPort(u.Host, "host:port"); err != nil {
			return nil, err
		}
	}
	u.Path = cmp.Or(u.Path, "/")
	return u, nil
}
