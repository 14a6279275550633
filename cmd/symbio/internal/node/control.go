package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"symbio/agent"
	"symbio/agent/conversation"
	"symbio/community"
	symbiov1 "symbio/proto/symbio/v1"
	"symbio/transport/grpcpeer"
)

// control answers the command line. It only translates: every decision is made by a part of the node.
type control struct {
	symbiov1.UnimplementedControlServer
	node *Node
}

func (c *control) Status(context.Context, *symbiov1.StatusRequest) (*symbiov1.StatusReply, error) {
	n := c.node
	return &symbiov1.StatusReply{
		Id: string(n.id), Name: n.name, Listen: n.listen, Pid: int64(n.pid), Version: n.opts.Version, Started: timestamppb.New(n.started),
		Authority: n.self.Authority(), Sources: n.health(),
	}, nil
}

func (c *control) Members(_ context.Context, r *symbiov1.MembersRequest) (*symbiov1.MembersReply, error) {
	return &symbiov1.MembersReply{Members: c.located(c.node.community.Members(), r)}, nil
}

// located is the members that a request asks for, as this node sees them.
func (c *control) located(all []community.Member, r *symbiov1.MembersRequest) (out []*symbiov1.LocatedMember) {
	for _, m := range all {
		if c.fits(m, r) {
			out = append(out, c.locate(m))
		}
	}
	return out
}

func (c *control) fits(m community.Member, r *symbiov1.MembersRequest) bool {
	return (r.GetAccepts() == "" || slices.Contains(m.Accepts, r.GetAccepts())) &&
		(r.GetProvides() == "" || slices.Contains(m.Provides, r.GetProvides())) &&
		(r.GetNode() == "" || r.GetNode() == string(m.Node) || r.GetNode() == c.node.nodeName(m.Node))
}

func (c *control) locate(m community.Member) *symbiov1.LocatedMember {
	return &symbiov1.LocatedMember{
		Member: &symbiov1.Member{
			Id: string(m.ID), Name: m.Name, Node: string(m.Node), Accepts: m.Accepts, Provides: m.Provides, Available: m.Available, Metadata: m.Metadata,
		},
		Local:    m.Node == c.node.id,
		NodeName: c.node.nodeName(m.Node),
	}
}

func (c *control) WatchMembers(r *symbiov1.MembersRequest, stream symbiov1.Control_WatchMembersServer) error {
	sub := c.node.community.Subscribe()
	defer sub.Close()
	for {
		change, err := sub.Next(stream.Context())
		if err != nil {
			return toStatus(err)
		}
		out := &symbiov1.MemberChange{Kind: string(change.Kind), Missed: uint64(change.Missed), Why: change.Why}
		switch {
		case change.Kind == community.Snapshot || change.Kind == community.Gap:
			out.Members = c.located(change.Members, r)
		case c.fits(change.Member, r):
			out.Member = c.locate(change.Member)
		default:
			continue
		}
		if err := stream.Send(out); err != nil {
			return err
		}
	}
}

func (c *control) Nodes(context.Context, *symbiov1.NodesRequest) (*symbiov1.NodesReply, error) {
	reply := &symbiov1.NodesReply{}
	for _, n := range c.node.network.Nodes() {
		out := &symbiov1.Node{
			Id: string(n.ID), Name: n.Name, State: string(n.State), Addr: n.Addr, Rtt: durationpb.New(n.RTT),
			Members: uint32(n.Members), Protocol: n.Protocol, Why: n.Why,
			CertDays: int32(n.CertDaysLeft), Refused: map[string]uint64{}, Via: string(n.Via), Sources: n.Sources, HoldsAuthority: n.Authority,
		}
		if n.ID != "" {
			for reason, count := range c.node.community.Refusals(n.ID) {
				out.Refused[string(reason)] = count
			}
			for reason, count := range c.node.network.Refusals(n.ID) {
				out.Refused[string(reason)] += count
			}
		}
		if n.State == grpcpeer.StateSelf {
			out.Process = process()
		}
		reply.Nodes = append(reply.Nodes, out)
	}
	return reply, nil
}

func (c *control) Capabilities(_ context.Context, r *symbiov1.CapabilitiesRequest) (*symbiov1.CapabilitiesReply, error) {
	reply := &symbiov1.CapabilitiesReply{}
	for _, p := range c.node.community.Capabilities() {
		if r.GetName() != "" && r.GetName() != p.Name {
			continue
		}
		reply.Capabilities = append(reply.Capabilities, &symbiov1.OfferedCapability{
			Capability: &symbiov1.Capability{
				Name: p.Name, Description: p.Description, InputSchema: p.Input, OutputSchema: p.Output, Idempotent: p.Idempotent,
			},
			Node: string(p.Node), NodeName: p.NodeName, Local: p.Node == c.node.id, Available: p.Available,
		})
	}
	if len(reply.Capabilities) == 0 && r.GetName() != "" {
		return nil, toStatus(fmt.Errorf("capability %q: %w; `symbio capabilities` shows all", r.GetName(), community.ErrNotFound))
	}
	return reply, nil
}

func (c *control) Spawn(ctx context.Context, r *symbiov1.SpawnRequest) (*symbiov1.LocatedMember, error) {
	def, err := c.node.definition(r.GetAgent())
	if err != nil {
		return nil, toStatus(err)
	}
	m, err := c.node.factory.Spawn(ctx, agent.Order{Definition: def, Name: r.GetName(), Policy: c.node.policy, Limits: c.node.opts.Config.Budget, Ask: c.node.unattended()})
	if err != nil {
		return nil, toStatus(err)
	}
	return c.locate(m), nil
}

func (c *control) Terminate(ctx context.Context, r *symbiov1.TerminateRequest) (*symbiov1.LocatedMember, error) {
	m, err := c.one(r.GetMember(), func(community.Member) bool { return true })
	if err != nil {
		return nil, toStatus(err)
	}
	if err := c.node.community.Terminate(ctx, m.ID); err != nil {
		return nil, toStatus(err)
	}
	return c.locate(m), nil
}

func (c *control) Send(ctx context.Context, r *symbiov1.SendRequest) (*symbiov1.SendReply, error) {
	m, err := c.one(r.GetMember(), func(m community.Member) bool { return len(m.Accepts) > 0 })
	if err != nil {
		return nil, toStatus(err)
	}
	ctx, cancel := withTimeout(ctx, r.GetTimeout())
	defer cancel()
	signal := community.Signal{Perception: r.GetPerception(), Data: r.GetData(), ContentType: r.GetContentType()}
	var reply community.Reply
	if r.GetNoReply() {
		err = c.node.community.Tell(ctx, m.ID, signal)
	} else {
		reply, err = c.node.community.Send(ctx, m.ID, signal)
	}
	if err != nil {
		return nil, toStatus(c.advised(err, m, "send", r.GetPerception()))
	}
	return &symbiov1.SendReply{Data: reply.Data, ContentType: reply.ContentType}, nil
}

// provider is who is to do a capability: the member or node that on names, else any that can.
func (c *control) provider(capability, on string) (community.Member, error) {
	if on != "" {
		return c.one(on, func(m community.Member) bool { return len(m.Provides) > 0 })
	}
	if able := c.node.community.WhoProvides(capability); len(able) > 0 {
		return able[0], nil
	}
	for _, m := range c.node.community.Members() {
		if slices.Contains(m.Provides, capability) {
			return community.Member{}, fmt.Errorf("capability %q: its provider %s: %w", capability, m.Name, community.ErrUnavailable)
		}
	}
	return community.Member{}, fmt.Errorf("capability %q: no other node provides it: %w; `symbio members` shows who provides what", capability, community.ErrNotFound)
}

// one finds the member that a person means by an id or a name.
func (c *control) one(name string, fits func(community.Member) bool) (community.Member, error) {
	var named []community.Member
	for _, m := range c.node.community.Members() {
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
	return community.Member{}, fmt.Errorf("%w: %d members are called %q; name one by its id: %s", errAmbiguous, len(named), name, strings.Join(ids, ", "))
}

// errAmbiguous and errWrong are what a person has to say differently.
var (
	errAmbiguous = errors.New("ambiguous")
	errWrong     = errors.New("wrong value")
)

func (c *control) Skills(ctx context.Context, r *symbiov1.SkillsRequest) (*symbiov1.SkillsReply, error) {
	return c.node.listSkills(ctx, r.GetRescan())
}

// withTimeout bounds ctx by what the command line asked for, if it did.
func withTimeout(ctx context.Context, d *durationpb.Duration) (context.Context, context.CancelFunc) {
	if d.AsDuration() <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, min(d.AsDuration(), 24*time.Hour))
}

// statusOf is how the errors that callers tell apart cross the control socket.
var statusOf = []struct {
	err  error
	code codes.Code
}{
	{context.DeadlineExceeded, codes.DeadlineExceeded},
	{context.Canceled, codes.Canceled},
	{errAmbiguous, codes.InvalidArgument},
	{errWrong, codes.InvalidArgument},
	{community.ErrInvalid, codes.InvalidArgument},
	{community.ErrNotFound, codes.NotFound},
	{community.ErrRemoteMember, codes.FailedPrecondition},
	{community.ErrLocalMember, codes.FailedPrecondition},
	{community.ErrNotAccepted, codes.NotFound},
	{community.ErrNotProvided, codes.NotFound},
	{community.ErrBusy, codes.ResourceExhausted},
	{conversation.ErrBusy, codes.ResourceExhausted},
	{community.ErrUnavailable, codes.Unavailable},
	{community.ErrStopped, codes.Unavailable},
	{community.ErrDenied, codes.PermissionDenied},
}

func toStatus(err error) error {
	for _, s := range statusOf {
		if errors.Is(err, s.err) {
			return status.Error(s.code, err.Error())
		}
	}
	return status.Error(codes.Unknown, err.Error())
}
