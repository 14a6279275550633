package control

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"symbio/community"
	symbiov1 "symbio/proto/symbio/v1"
	"symbio/security/identity"
)

// directory finds members, and shows them as this node sees them.
type directory struct{ cfg Config }

// located is the members that a request asks for, as this node sees them.
func (d directory) located(all []community.Member, r *symbiov1.MembersRequest) (out []*symbiov1.LocatedMember) {
	for _, m := range all {
		if d.fits(m, r) {
			out = append(out, d.locate(m))
		}
	}
	return out
}

func (d directory) fits(m community.Member, r *symbiov1.MembersRequest) bool {
	return (r.GetAccepts() == "" || slices.Contains(m.Accepts, r.GetAccepts())) &&
		(r.GetProvides() == "" || slices.Contains(m.Provides, r.GetProvides())) &&
		(r.GetNode() == "" || r.GetNode() == string(m.Node) || r.GetNode() == d.cfg.NodeName(m.Node))
}

func (d directory) locate(m community.Member) *symbiov1.LocatedMember {
	return &symbiov1.LocatedMember{
		Id: string(m.ID), Name: m.Name, Node: string(m.Node), NodeName: d.cfg.NodeName(m.Node), Local: m.Node == d.cfg.Identity.ID(),
		Accepts: m.Accepts, Provides: m.Provides, Available: m.Available, Metadata: m.Metadata,
	}
}

// providers are who can do a capability, at least one: the member or node that on names, else all that can.
func (d directory) providers(capability, on string) ([]community.Member, error) {
	if on != "" {
		m, err := d.one(on, func(m community.Member) bool { return len(m.Provides) > 0 })
		return []community.Member{m}, err
	}
	if able := d.cfg.Community.WhoProvides(capability); len(able) > 0 {
		return able, nil
	}
	for _, m := range d.cfg.Community.Members() {
		if slices.Contains(m.Provides, capability) {
			return nil, fmt.Errorf("capability %q: its provider %s: %w", capability, m.Name, community.ErrUnavailable)
		}
	}
	return nil, fmt.Errorf("capability %q: no other node provides it: %w; `symbio members` shows who provides what", capability, community.ErrNotFound)
}

// one finds the member that a person means by an id or a name.
func (d directory) one(name string, fits func(community.Member) bool) (community.Member, error) {
	var named []community.Member
	for _, m := range d.cfg.Community.Members() {
		if string(m.ID) == name {
			return m, nil
		}
		if m.Name == name {
			named = append(named, m)
		}
	}
	if len(named) > 1 {
		named = slices.DeleteFunc(named, func(m community.Member) bool { return !fits(m) })
	}
	switch len(named) {
	case 1:
		return named[0], nil
	case 0:
		return community.Member{}, fmt.Errorf("member %q: %w; `symbio members` shows who is here", name, community.ErrNotFound)
	}
	ids := make([]string, len(named))
	for i, m := range named {
		ids[i] = string(m.ID)
	}
	return community.Member{}, fmt.Errorf("%w: %d members are called %q; name one by its id: %s", community.ErrInvalid, len(named), name, strings.Join(ids, ", "))
}

// advised adds to why a call of m failed what its caller can do about it. verb and name are as in an
// authorize rule: "invoke" and a capability, or "send" and a perception.
func (d directory) advised(err error, m community.Member, verb, name string) error {
	switch {
	case errors.Is(err, community.ErrInvalid) && verb == "invoke":
		return fmt.Errorf("%w; `symbio capabilities %s --json` shows what it takes", err, name)
	case errors.Is(err, community.ErrDenied) && m.Node != d.cfg.Identity.ID() && community.Explanation(err) == "": // by authorize
		from := "local"
		if cluster := d.cfg.Identity.Authority(); cluster != identity.Local {
			from = "cluster/" + cluster
		}
		return fmt.Errorf("%w; node %s must allow it in its configuration: authorize: [{from: %q, %s: [%q]}]; in place of %s, role/NAME is for nodes of a role, and %s for this one alone",
			err, d.cfg.NodeName(m.Node), from, verb, name, from, d.cfg.Identity.ID())
	}
	return err
}
