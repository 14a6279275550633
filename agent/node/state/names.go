package state

import "strings"

// NameOf makes a node's name of a machine's: its first label, in lower case.
func NameOf(host string) string {
	label, _, _ := strings.Cut(strings.ToLower(host), ".")
	parts := strings.FieldsFunc(label, func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') })
	if len(parts) == 0 {
		return "node"
	}
	name := strings.Join(parts, "-")
	return name[:min(len(name), 50)]
}
