package node

import (
	"strings"

	"symbio/security/identity"
)

// identity is the node's own, vouched for by the user's own authority on this machine.
func (n *Node) identity() (*identity.Identity, error) {
	key, err := identity.LoadOrCreateKey(n.opts.State.Key(n.name))
	if err != nil {
		return nil, err
	}
	authority, err := identity.OpenLocalAuthority(n.opts.State.Authority())
	if err != nil {
		return nil, err
	}
	return authority.Issue(key)
}

// nameOf makes a node's name of a machine's: its first label, in lower case.
func nameOf(host string) string {
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
