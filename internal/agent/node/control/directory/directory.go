// Package directory serves the part of the control service that is about the members and nodes of the
// whole community: it finds and lists them, calls their capabilities, sends them signals, and steers
// and shows agents on any node. It converts between messages and the parts of the node; it makes no
// decisions of its own.
package directory

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"symbio/agent/event"
	"symbio/community"
	"symbio/internal/agent/node/artifacts"
	"symbio/internal/agent/node/fleet"
	"symbio/internal/agent/node/peers"
	"symbio/internal/agent/node/state"
	"symbio/internal/agent/node/steering"
	"symbio/internal/agent/placement"
	"symbio/internal/security/visible"
	symbiov1 "symbio/proto/symbio/v1"
	"symbio/security/identity"
	"symbio/transport/grpcpeer"
)

// Config has the parts of the node that a Directory shows. All fields are required for the methods
// that use them.
type Config struct {
	Community *community.Community
	Peers     *peers.Peers
	Events    *event.Stream
	Steering  *steering.Controller
	Fleet     *fleet.Fleet
	Artifacts *artifacts.Server
	// Loads asks the nodes that lend agents for their loads, for at most a second.
	Loads func(context.Context) map[community.MemberID]placement.Load
	// NodeName returns the name of a node, or its id if the name is not known.
	NodeName func(community.NodeID) string
}

// Directory finds members by name, id or capability, and implements the methods of the service for the
// view of the whole community, and for single members in it, on any node. It has no state of its own
// and is safe for concurrent use. The methods of the service that it does not have are unimplemented.
type Directory struct {
	symbiov1.UnimplementedControlServer
	cfg Config
}

// New returns a Directory of the parts.
func New(cfg Config) Directory { return Directory{cfg: cfg} }

// optional returns a pointer to v, or nil for the zero value: nil fields are
// left out of --json.
func optional[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

// list returns the members of all that match a request, in the order of all.
func (d Directory) list(all []community.Member, r *symbiov1.MembersRequest) (out []*symbiov1.LocatedMember) {
	matches := d.matching(r)
	for _, m := range all {
		if matches(m) {
			out = append(out, d.Locate(m))
		}
	}
	return out
}

// matching returns whether a member has everything that the request asks for.
// Empty fields match all.
func (d Directory) matching(r *symbiov1.MembersRequest) func(community.Member) bool {
	where, _ := community.ParseLabels(r.GetLabels()) // Members and WatchMembers have checked them
	fitting := community.NodesWith(where, slices.Concat(d.cfg.Community.Members(), d.cfg.Community.Catalog().Members)...)
	return func(m community.Member) bool {
		return (len(where) == 0 || fitting[m.Node]) &&
			(r.GetAccepts() == "" || slices.Contains(m.Accepts, r.GetAccepts())) &&
			(r.GetProvides() == "" || slices.Contains(m.Provides, r.GetProvides())) &&
			(r.GetNode() == "" || visible.IsNamed(r.GetNode(), d.cfg.NodeName(m.Node), string(m.Node)))
	}
}

// Locate converts a member to its message, with the name of its node.
func (d Directory) Locate(m community.Member) *symbiov1.LocatedMember {
	return &symbiov1.LocatedMember{
		Id: string(m.ID), Name: m.Name, Node: string(m.Node), NodeName: d.cfg.NodeName(m.Node), Local: m.Node == d.cfg.Peers.Identity.ID(),
		Accepts: m.Accepts, Provides: m.Provides, Available: m.Available, Metadata: m.Metadata,
	}
}

// providers returns the members that can answer a capability, at least one: the
// member that on names by its id or name, else all available ones. The error
// tells "not offered" from "offered, but not reachable now".
func (d Directory) providers(capability, on string) ([]community.Member, error) {
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
func (d Directory) notOffered(capability string) error {
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
func (d Directory) find(name string, fits func(community.Member) bool) (community.Member, error) {
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
func (d Directory) withAdvice(err error, m community.Member, verb, name string) error {
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

// Members returns the members that match the request.
func (d Directory) Members(_ context.Context, r *symbiov1.MembersRequest) (*symbiov1.MembersReply, error) {
	if _, err := community.ParseLabels(r.GetLabels()); err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	return &symbiov1.MembersReply{Members: d.list(d.cfg.Community.Members(), r)}, nil
}

// WatchMembers sends a snapshot of the members and then every change. After a
// gap, which happens when the caller reads too slowly, it sends the whole list
// again.
func (d Directory) WatchMembers(r *symbiov1.MembersRequest, stream symbiov1.Control_WatchMembersServer) error {
	if _, err := community.ParseLabels(r.GetLabels()); err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	sub := d.cfg.Community.Subscribe()
	defer sub.Close()
	for {
		change, err := sub.Next(stream.Context())
		if err != nil {
			return err
		}
		out := &symbiov1.MemberChange{Type: string(change.Kind), Missed: optional(uint32(change.Missed)), Why: optional(change.Why)}
		switch {
		case change.Kind == community.Snapshot || change.Kind == community.Gap:
			out.Members = d.list(change.Members, r)
		case d.matching(r)(change.Member):
			out.Member = d.Locate(change.Member)
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
// stands for a node; the role and the certified labels are those that the authority gave it.
func (d Directory) Nodes(ctx context.Context, r *symbiov1.NodesRequest) (*symbiov1.NodesReply, error) {
	reply := &symbiov1.NodesReply{}
	var loads map[community.MemberID]placement.Load
	if r.GetLoad() {
		loads = d.cfg.Loads(ctx)
	}
	labels := map[community.MemberID]map[string]string{}
	for _, m := range slices.Concat(d.cfg.Community.Members(), d.cfg.Community.Catalog().Members) {
		labels[m.ID] = m.Metadata
	}
	for _, n := range d.cfg.Peers.Network.Nodes() {
		out := &symbiov1.Node{
			Id: string(n.ID), Name: n.Name, State: string(n.State), Addr: n.Addr, RttMs: float64(n.RTT.Microseconds()) / 1000,
			Members: uint32(n.Members), Protocol: n.Protocol, Why: optional(n.Why), CertDays: int32(n.CertDaysLeft),
			Refused: map[string]uint32{}, Via: optional(string(n.Via)), Sources: n.Sources, Authority: optional(n.Authority), Rotation: optional(n.Rotation),
		}
		if n.ClockAhead != nil {
			out.ClockAhead = new(n.ClockAhead.Seconds())
		}
		if n.ID != "" {
			out.Labels = labels[community.MemberID(n.ID)]
			if p, ok := d.cfg.Community.Peer(n.ID); ok {
				p = d.cfg.Peers.Proven(p)
				out.Role, out.Certified = p.Role, p.Labels.Map()
			}
			if load, known := loads[community.MemberID(n.ID)]; known {
				out.Running, out.Free, out.Waiting = new(uint32(load.Running)), new(uint32(load.Free)), new(uint32(load.Waiting))
			}
			if over := d.cfg.Community.LeftOut(n.ID); over != "" && n.State == grpcpeer.StateConnected {
				out.Why = optional("left out: " + over)
			}
			for reason, count := range d.cfg.Community.Refusals(n.ID) {
				out.Refused[string(reason)] = uint32(count)
			}
			for reason, count := range d.cfg.Peers.Network.Refusals(n.ID) {
				out.Refused[string(reason)] += uint32(count)
			}
		}
		if n.State == grpcpeer.StateSelf {
			out.Process = fleet.Process()
			own := d.cfg.Peers.Self()
			out.Role, out.Certified = own.Role, own.Labels.Map()
		}
		reply.Nodes = append(reply.Nodes, out)
	}
	return reply, nil
}

// Capabilities returns the offered capabilities. A name that no node offers is
// an error.
func (d Directory) Capabilities(_ context.Context, r *symbiov1.CapabilitiesRequest) (*symbiov1.CapabilitiesReply, error) {
	reply := &symbiov1.CapabilitiesReply{}
	for _, p := range d.cfg.Community.Capabilities() {
		if r.GetName() != "" && r.GetName() != p.Name {
			continue
		}
		reply.Capabilities = append(reply.Capabilities, &symbiov1.OfferedCapability{
			Capability: &symbiov1.Capability{
				Name: p.Name, Description: p.Description, InputSchema: p.Input, OutputSchema: p.Output, Idempotent: p.Idempotent,
			},
			Node: string(p.Node), NodeName: p.NodeName, Local: p.Node == d.cfg.Peers.Identity.ID(), Available: p.Available,
		})
	}
	if len(reply.Capabilities) == 0 && r.GetName() != "" {
		return nil, d.notOffered(r.GetName())
	}
	return reply, nil
}

// Promote sends the cluster's authority, a private key, to a connected node of
// the cluster. Only a node that holds the authority can do that.
// FailedPrecondition: this node does not hold it, or the other machine holds
// the authority of another cluster. Unavailable: the node is not connected.
func (d Directory) Promote(ctx context.Context, r *symbiov1.PromoteRequest) (*symbiov1.PromoteReply, error) {
	to := community.NodeID(r.GetNode())
	// identity.ErrNoAuthority has no advice, so the message comes from package state, which has.
	err := d.cfg.Peers.Network.Promote(ctx, to)
	switch {
	case errors.Is(err, identity.ErrNoAuthority):
		return nil, status.Error(codes.FailedPrecondition, state.ErrNoAuthority.Error())
	case errors.Is(err, identity.ErrLocked):
		return nil, status.Error(codes.FailedPrecondition, err.Error())
	case errors.Is(err, community.ErrUnavailable):
		return nil, status.Error(codes.Unavailable, fmt.Sprintf("node %s is not connected; start it and check `symbio nodes`", to))
	case errors.Is(err, identity.ErrClusterExists):
		return nil, status.Error(codes.FailedPrecondition, fmt.Sprintf("the machine of node %s holds the authority of another cluster", to))
	case err != nil:
		return nil, err
	}
	d.cfg.Events.Publish(event.Event{Type: event.TypePromoted, Name: d.cfg.NodeName(to), Why: "it holds the cluster's authority too", Part: event.Node{ID: string(to)}})
	return &symbiov1.PromoteReply{}, nil
}

// Rotate begins to replace the authority of the cluster, or goes on with it. FailedPrecondition: this node does not hold the
// authority, it is locked, or it is being replaced already.
func (d Directory) Rotate(_ context.Context, r *symbiov1.RotateRequest) (*symbiov1.RotateReply, error) {
	stage, waiting, err := d.cfg.Peers.Network.Rotate(r.GetBegin(), r.GetNow())
	switch {
	case errors.Is(err, identity.ErrNoAuthority):
		return nil, status.Error(codes.FailedPrecondition, state.ErrNoAuthority.Error())
	case errors.Is(err, identity.ErrLocked), errors.Is(err, identity.ErrRotating):
		return nil, status.Error(codes.FailedPrecondition, err.Error())
	}
	return &symbiov1.RotateReply{Stage: uint32(stage), Waiting: waiting}, err
}

// Authority gives this node the key of its cluster's authority until it ends, or drops it after the
// one on the disk was locked. FailedPrecondition: it does not hold the authority, or the key is
// another one.
func (d Directory) Authority(_ context.Context, r *symbiov1.AuthorityRequest) (*symbiov1.AuthorityReply, error) {
	c, err := d.cfg.Peers.Identity.Cluster(), error(nil)
	switch change := r.GetChange().(type) {
	case *symbiov1.AuthorityRequest_Unlock:
		if err = identity.ErrNoAuthority; c != nil {
			err = c.Key().Use(change.Unlock)
		}
	case *symbiov1.AuthorityRequest_Lock:
		err = d.cfg.Peers.LockAuthority()
	}
	if err != nil {
		return nil, status.Error(codes.FailedPrecondition, err.Error())
	}
	return &symbiov1.AuthorityReply{Held: c != nil, Locked: c != nil && c.Key().Locked()}, nil
}
