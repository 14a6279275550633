package control

import (
	"context"
	"errors"
	"fmt"
	"runtime/metrics"
	"slices"
	"strings"

	"symbio/community"
	"symbio/internal/agent/content"
	"symbio/internal/agent/node/artifacts"
	"symbio/internal/agent/placement"
	"symbio/internal/security/visible"
	symbiov1 "symbio/proto/symbio/v1"
	"symbio/security/identity"
	"symbio/transport/grpcpeer"
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
		Id: string(m.ID), Name: m.Name, Node: string(m.Node), NodeName: d.cfg.NodeName(m.Node), Local: m.Node == d.cfg.Peers.Identity.ID(),
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
	return fmt.Errorf("capability %q: no other node provides it: %w%s; `symbio nodes capabilities` shows all", capability, community.ErrNotFound, visible.Suggest(capability, known))
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
		return fmt.Errorf("%w; `symbio nodes capabilities %s --json` shows its arguments", err, name)
	case errors.Is(err, community.ErrDenied) && m.Node != d.cfg.Peers.Identity.ID() && community.Explanation(err) == "": // by authorize
		from := "local"
		if cluster := d.cfg.Peers.Identity.Authority(); cluster != identity.Local {
			from = "cluster/" + cluster
		}
		return fmt.Errorf("%w; node %s must allow it in its configuration: authorize: [{from: %q, %s: [%q]}]; instead of %s, write role/NAME for the nodes of a role, or %s for this node only",
			err, d.cfg.NodeName(m.Node), from, verb, name, from, d.cfg.Peers.Identity.ID())
	}
	return err
}

// fetchArtifact gets an artifact of the node that on names.
func (d directory) fetchArtifact(ctx context.Context, on string, h content.Hash) error {
	m, err := d.find(on, func(m community.Member) bool { return slices.Contains(m.Provides, artifacts.Capability) })
	if err == nil {
		err = d.withAdvice(d.cfg.Artifacts.Fetch(ctx, m.Node, h), m, "invoke", artifacts.Capability)
	}
	return err
}

// Members returns the members that match the request.
func (c *server) Members(_ context.Context, r *symbiov1.MembersRequest) (*symbiov1.MembersReply, error) {
	return &symbiov1.MembersReply{Members: c.members.list(c.cfg.Community.Members(), r)}, nil
}

// WatchMembers sends a snapshot of the members and then every change. After a
// gap, which happens when the caller reads too slowly, it sends the whole list
// again.
func (c *server) WatchMembers(r *symbiov1.MembersRequest, stream symbiov1.Control_WatchMembersServer) error {
	sub := c.cfg.Community.Subscribe()
	defer sub.Close()
	for {
		change, err := sub.Next(stream.Context())
		if err != nil {
			return err
		}
		out := &symbiov1.MemberChange{Type: string(change.Kind), Missed: optional(uint32(change.Missed)), Why: optional(change.Why)}
		switch {
		case change.Kind == community.Snapshot || change.Kind == community.Gap:
			out.Members = c.members.list(change.Members, r)
		case c.members.matches(change.Member, r):
			out.Member = c.members.locate(change.Member)
		default:
			continue
		}
		if err := stream.Send(out); err != nil {
			return err
		}
	}
}

// Nodes returns the nodes that this node knows. The refusals of a node are the
// sum of those by calls and by connections. Labels are of the member that
// stands for a node.
func (c *server) Nodes(ctx context.Context, r *symbiov1.NodesRequest) (*symbiov1.NodesReply, error) {
	reply := &symbiov1.NodesReply{}
	var loads map[community.MemberID]placement.Load
	if r.GetLoad() {
		loads = c.cfg.Loads(ctx)
	}
	labels := map[community.MemberID]map[string]string{}
	for _, m := range slices.Concat(c.cfg.Community.Members(), c.cfg.Community.Catalog().Members) {
		labels[m.ID] = m.Metadata
	}
	for _, n := range c.cfg.Peers.Network.Nodes() {
		out := &symbiov1.Node{
			Id: string(n.ID), Name: n.Name, State: string(n.State), Addr: n.Addr, RttMs: float64(n.RTT.Microseconds()) / 1000,
			Members: uint32(n.Members), Protocol: n.Protocol, Why: optional(n.Why), CertDays: int32(n.CertDaysLeft),
			Refused: map[string]uint32{}, Via: optional(string(n.Via)), Sources: n.Sources, Authority: optional(n.Authority),
		}
		if n.ID != "" {
			out.Labels = labels[community.MemberID(n.ID)]
			if load, known := loads[community.MemberID(n.ID)]; known {
				out.Running, out.Free, out.Waiting = new(uint32(load.Running)), new(uint32(load.Free)), new(uint32(load.Waiting))
			}
			if over := c.cfg.Community.LeftOut(n.ID); over != "" && n.State == grpcpeer.StateConnected {
				out.Why = optional("left out: " + over)
			}
			for reason, count := range c.cfg.Community.Refusals(n.ID) {
				out.Refused[string(reason)] = uint32(count)
			}
			for reason, count := range c.cfg.Peers.Network.Refusals(n.ID) {
				out.Refused[string(reason)] += uint32(count)
			}
		}
		if n.State == grpcpeer.StateSelf {
			out.Process = Process()
		}
		reply.Nodes = append(reply.Nodes, out)
	}
	return reply, nil
}

// Capabilities returns the offered capabilities. A name that no node offers is
// an error.
func (c *server) Capabilities(_ context.Context, r *symbiov1.CapabilitiesRequest) (*symbiov1.CapabilitiesReply, error) {
	reply := &symbiov1.CapabilitiesReply{}
	for _, p := range c.cfg.Community.Capabilities() {
		if r.GetName() != "" && r.GetName() != p.Name {
			continue
		}
		reply.Capabilities = append(reply.Capabilities, &symbiov1.OfferedCapability{
			Capability: &symbiov1.Capability{
				Name: p.Name, Description: p.Description, InputSchema: p.Input, OutputSchema: p.Output, Idempotent: p.Idempotent,
			},
			Node: string(p.Node), NodeName: p.NodeName, Local: p.Node == c.cfg.Peers.Identity.ID(), Available: p.Available,
		})
	}
	if len(reply.Capabilities) == 0 && r.GetName() != "" {
		return nil, c.members.notOffered(r.GetName())
	}
	return reply, nil
}

// Process returns the memory and the number of goroutines of this process. It reads
// runtime/metrics, which does not stop the world, so that it may be called often.
func Process() *symbiov1.Process {
	all := []metrics.Sample{
		{Name: "/sched/goroutines:goroutines"},
		{Name: "/gc/heap/live:bytes"},
		{Name: "/memory/classes/total:bytes"},
		{Name: "/memory/classes/heap/released:bytes"},
	}
	metrics.Read(all)
	figure := func(i int) uint64 {
		if all[i].Value.Kind() != metrics.KindUint64 {
			return 0 // another version of Go may not have this metric
		}
		return all[i].Value.Uint64()
	}
	// The memory without the pages that the runtime has returned to the operating system.
	return &symbiov1.Process{Goroutines: uint32(figure(0)), Heap: float64(figure(1)), Memory: float64(figure(2) - figure(3))}
}
