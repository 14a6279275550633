package control

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"symbio/community"
	symbiov1 "symbio/proto/symbio/v1"
	"symbio/security/identity"
	"symbio/security/visible"
)

// directory finds members by name, id or capability, and converts them to messages. It has no state
// of its own and is safe for concurrent use.
type directory struct{ cfg Config }

// list returns the members of all that match a request, in the order of all.
func (d directory) list(all []community.Member, r *symbiov1.MembersRequest) (out []*symbiov1.LocatedMember) {
	for _, m := range all {
		if d.matches(m, r) {
			out = append(out, d.locate(m))
		}
	}
	return out
}

// matches reports whether a member has everything that the request asks for.
// Empty fields match all.
func (d directory) matches(m community.Member, r *symbiov1.MembersRequest) bool {
	return (r.GetAccepts() == "" || slices.Contains(m.Accepts, r.GetAccepts())) &&
		(r.GetProvides() == "" || slices.Contains(m.Provides, r.GetProvides())) &&
		(r.GetNode() == "" || visible.IsNamed(r.GetNode(), d.cfg.NodeName(m.Node), string(m.Node)))
}

// locate converts a member to its message, with the name of its node.
func (d directory) locate(m community.Member) *symbiov1.LocatedMember {
	return &symbiov1.LocatedMember{
		Id: string(m.ID), Name: m.Name, Node: string(m.Node), NodeName: d.cfg.NodeName(m.Node), Local: m.Node == d.cfg.Identity.ID(),
		Accepts: m.Accepts, Provides: m.Provides, Available: m.Available, Metadata: m.Metadata,
	}
}

// providers returns the members that can answer a capability, at least one: the
// member that on names by its id or name, else all available ones. The error
// tells "not offered" from "offered, but not reachable now".
func (d directory) providers(capability, on string) ([]community.Member, error) {
	if on != "" {
		m, err := d.find(on, func(m community.Member) bool { return len(m.Provides) > 0 })
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
	return nil, d.notOffered(capability)
}

// notOffered is the error for a capability that no node offers.
func (d directory) notOffered(capability string) error {
	var known []string
	for _, p := range d.cfg.Community.Capabilities() {
		known = append(known, p.Name)
	}
	return fmt.Errorf("capability %q: no other node provides it: %w%s; `symbio capabilities` shows all", capability, community.ErrNotFound, visible.Suggest(capability, known))
}

// find returns the member with this id, beginning of an id, or name. If several members have the name, fits selects
// among them; if more than one is left, the error is ErrInvalid and lists their ids. ErrNotFound:
// no member has that name. A single member is returned even if fits rejects it, so that the call
// itself reports the reason.
func (d directory) find(name string, fits func(community.Member) bool) (community.Member, error) {
	var named, begin []community.Member
	var known []string
	for _, m := range d.cfg.Community.Members() {
		known = append(known, m.Name)
		if visible.IsID(name, string(m.ID)) {
			begin = append(begin, m)
		}
		// An id is unique, so it wins over a member with this text as its name.
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
	if len(named) == 0 {
		named = begin
	}
	switch len(named) {
	case 1:
		return named[0], nil
	case 0:
		return community.Member{}, fmt.Errorf("member %q: %w%s; `symbio members` lists all", name, community.ErrNotFound, visible.Suggest(name, known))
	}
	ids := make([]string, len(named))
	for i, m := range named {
		ids[i] = string(m.ID)
	}
	return community.Member{}, fmt.Errorf("%w: %d members are called %q; name one by its id: %s", community.ErrInvalid, len(named), name, strings.Join(ids, ", "))
}

// withAdvice adds to the error of a call to m what the caller can do about it.
// verb and name are as in a rule of authorize: "invoke" and a capability, or
// "send" and a perception. A denial with an explanation of its own gets no
// advice, because another rule than authorize caused it.
func (d directory) withAdvice(err error, m community.Member, verb, name string) error {
	switch {
	case errors.Is(err, community.ErrInvalid) && verb == "invoke":
		return fmt.Errorf("%w; `symbio capabilities %s --json` shows its arguments", err, name)
	case errors.Is(err, community.ErrDenied) && m.Node != d.cfg.Identity.ID() && community.Explanation(err) == "": // by authorize
		from := "local"
		if cluster := d.cfg.Identity.Authority(); cluster != identity.Local {
			from = "cluster/" + cluster
		}
		return fmt.Errorf("%w; node %s must allow it in its configuration: authorize: [{from: %q, %s: [%q]}]; instead of %s, write role/NAME for the nodes of a role, or %s for this node only",
			err, d.cfg.NodeName(m.Node), from, verb, name, from, d.cfg.Identity.ID())
	}
	return err
}
