package discovery

import (
	"fmt"
	"net"
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
