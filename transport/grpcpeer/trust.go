package grpcpeer

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"symbio/community"
	pb "symbio/proto/symbio/v1"
	"symbio/security/identity"
)

// trustService serves Trust to nodes that are proven.
type trustService struct {
	pb.UnimplementedTrustServer
	cfg    Config
	report func(Event)
}

// Promote gives the cluster's authority, which this node must hold, to a connected node. It crosses the wire
// over the connection to exactly that node, sealed to a key that the node has signed. From then on that node
// admits, renews and removes nodes as this one does. ErrUnavailable: it is not connected.
func (n *Network) Promote(ctx context.Context, node community.NodeID) error {
	c := n.cfg.Identity.Cluster()
	if c == nil {
		return identity.ErrNoAuthority
	}
	l, ok := n.links.get(node)
	if !ok {
		return community.ErrUnavailable
	}
	ctx, cancel := context.WithTimeout(ctx, renewTimeout)
	defer cancel()
	trust := pb.NewTrustClient(l.grpc)
	key, err := trust.Prepare(ctx, &pb.PrepareRequest{})
	if err != nil {
		return promoteError(l.peer.ID, err)
	}
	sealed, err := c.Entrust(n.self, l.peer.ID, key)
	if err != nil {
		return err
	}
	if _, err := trust.Entrust(ctx, sealed); err != nil {
		return promoteError(l.peer.ID, err)
	}
	l.authority.Store(true)
	n.cfg.Logger.Info("the cluster's authority was given to another node", "node", l.peer.ID)
	return nil
}

func promoteError(node community.NodeID, err error) error {
	switch status.Code(err) {
	case codes.Unavailable:
		return fmt.Errorf("node %s: %w", node, community.ErrUnavailable)
	}
	return fmt.Errorf("node %s: %w", node, joinError(err))
}

func (d *trustService) Prepare(ctx context.Context, _ *pb.PrepareRequest) (*pb.PrepareReply, error) {
	remote, ok := callerOf(ctx)
	if !ok || d.cfg.Authority == "" {
		return nil, joinStatus(errCannotHold)
	}
	r, reply, err := d.cfg.Identity.Prepare(remote.ID)
	if err != nil {
		return nil, joinStatus(err)
	}
	remote.recipient.Store(r)
	return reply, nil
}

func (d *trustService) Entrust(ctx context.Context, e *pb.EntrustRequest) (*pb.EntrustReply, error) {
	remote, ok := callerOf(ctx)
	if !ok {
		return nil, joinStatus(errCannotHold)
	}
	r := remote.recipient.Swap(nil) // good once
	if r == nil {
		return nil, joinStatus(identity.ErrNotEntrusted)
	}
	if err := r.Take(e, d.cfg.Authority); err != nil {
		d.cfg.Logger.Warn("the cluster's authority was offered and not taken", "node", remote.ID, "err", err)
		d.report(Event{Kind: Refused, Node: remote.ID, Name: remote.From().Name, Addr: remote.addr, Why: fmt.Sprintf("it offered the cluster's authority: %v", err)})
		return nil, joinStatus(err)
	}
	d.report(Event{Kind: Entrusted, Node: remote.ID, Name: remote.From().Name, Addr: remote.addr, Why: "it gave the cluster's authority to this node"})
	return &pb.EntrustReply{}, nil
}

var errCannotHold = errors.New("that node is not set up to hold an authority")
