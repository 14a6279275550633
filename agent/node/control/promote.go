package control

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"symbio/agent/event"
	"symbio/agent/node/state"
	"symbio/community"
	symbiov1 "symbio/proto/symbio/v1"
	"symbio/security/identity"
)

// Promote sends the cluster's authority, a private key, to a connected node of
// the cluster. Only a node that holds the authority can do that.
// FailedPrecondition: this node does not hold it, or the other machine holds
// that of another cluster. Unavailable: the node is not connected.
func (c *server) Promote(ctx context.Context, r *symbiov1.PromoteRequest) (*symbiov1.PromoteReply, error) {
	to := community.NodeID(r.GetNode())
	// identity.ErrNoAuthority has no advice, so the message is that of package state, which has.
	err := c.cfg.Network.Promote(ctx, to)
	switch {
	case errors.Is(err, identity.ErrNoAuthority):
		return nil, status.Error(codes.FailedPrecondition, state.ErrNoAuthority.Error())
	case errors.Is(err, community.ErrUnavailable):
		return nil, status.Error(codes.Unavailable, fmt.Sprintf("node %s is not connected; start it and check `symbio nodes`", to))
	case errors.Is(err, identity.ErrClusterExists):
		return nil, status.Error(codes.FailedPrecondition, fmt.Sprintf("the machine of node %s holds the authority of another cluster", to))
	case err != nil:
		return nil, toStatus(err)
	}
	c.cfg.Events.Publish("promoted", "", event.Node{ID: string(to), Name: c.cfg.NodeName(to), Why: "it holds the cluster's authority too"})
	return &symbiov1.PromoteReply{}, nil
}
