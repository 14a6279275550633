package state

import "strings"

// NameOf derives the name of a node from the name of a machine: its first label
// in lower case, with dashes for other characters, and at most 50 bytes, so
// that a number fits behind it. Without any letter or digit it is "node".
func NameOf(host string) string {
	label, _, _ := strings.Cut(strings.ToLower(host), ".")
	parts := strings.FieldsFunc(label, func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') })
	if len(parts) == 0 {
		return "node"
	}
	name := strings.Join(parts, "-")
	return name[:min(len(name), 50)]
}
