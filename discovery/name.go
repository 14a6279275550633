package discovery

import "strings"

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
