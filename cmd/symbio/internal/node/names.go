package node

import "strings"

// NodeName is what the node is called that these options describe, unless the name is taken.
func (o Options) NodeName() string {
	if o.Config.Node.Name != "" {
		return o.Config.Node.Name
	}
	return NameOf(o.Host)
}

// NameOf makes a node's name of a machine's: its first label, in lower case.
func NameOf(host string) string {
	label, _, _ := strings.Cut(strings.ToLower(host), ".")
	name := strings.Trim(strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, label), "-")
	for strings.Contains(name, "--") {
		name = strings.ReplaceAll(name, "--", "-")
	}
	if name == "" {
		return "node"
	}
	return name[:min(len(name), 50)]
}
