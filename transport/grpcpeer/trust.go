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

// trustService implements the gRPC service Trust, on connections with verified certificates only:
// showing newer certificates, and taking over the cluster's authority in two steps (Prepare,
// Entrust). The two steps exist so that the authority's key crosses the wire sealed to a fresh key
// of the receiver, and is useless to anyone who records the connection.
type trustService struct {
	pb.UnimplementedTrustServer
	cfg    Config
	report func(Event)
}

// Promote gives the cluster's authority to a connected node, so that it too can admit, renew and
// remove nodes. This node keeps the authority.
//
// The key is sealed for exactly that node before it is sent. Promote returns
// identity.ErrNoAuthority when this node does not hold the authority, community.ErrUnavailable when
// the node is not connected, and otherwise the reason the node gave for refusing. It takes at most
// renewTimeout.
func (n *Network) Promote(ctx context.Context, node community.NodeID) error {
	c := n.cfg.Identity.Cluster()
	if c == nil {
		return identity.ErrNoAuthority
	}
	l, ok := n.links.get(node)
	if !ok {
		return community.ErrUnavailable
	}
	return n.server.renewal.entrust(ctx, l, c)
}

// entrust seals what this node has of the authority, and of the one that replaces it, for the node of l.
func (n *renewal) entrust(ctx context.Context, l *link, c *identity.Cluster) error {
	ctx, cancel := context.WithTimeout(ctx, renewTimeout)
	defer cancel()
	trust := pb.NewTrustClient(l.wire.grpc)
	key, err := trust.Prepare(ctx, &pb.PrepareRequest{})
	if err != nil {
		return promoteError(l.peer.ID, err)
	}
	sealed, err := c.Entrust(n.self(), l.peer.ID, key)
	if err != nil {
		return err
	}
	if _, err := trust.Entrust(ctx, sealed); err != nil {
		return promoteError(l.peer.ID, err)
	}
	l.about.authority.Store(true)
	n.cfg.Logger.Info("the cluster's authority was given to another node", "node", l.peer.ID)
	return nil
}

// promoteError turns the status of Prepare or Entrust into an error that names the node.
func promoteError(node community.NodeID, err error) error {
	switch status.Code(err) {
	case codes.Unavailable:
		return fmt.Errorf("node %s: %w", node, community.ErrUnavailable)
	}
	return fmt.Errorf("node %s: %w", node, joinError(err))
}

// Prepare makes a one-time key to which the caller seals the authority. It refuses when
// Config.Authority is empty: then this node has no directory to keep an authority in.
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

// Entrust stores the sealed authority. The key of Prepare is used once, also when storing fails, so
// that a recorded message cannot be replayed. Failures are logged and reported as an Event, because
// an unexpected offer of an authority is a sign of an attack.
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
