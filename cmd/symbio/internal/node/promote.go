package node

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"symbio/community"
	symbiov1 "symbio/proto/symbio/v1"
	"symbio/security/identity"
)

// Promote gives the cluster's authority to a connected node.
func (c *control) Promote(ctx context.Context, r *symbiov1.PromoteRequest) (*symbiov1.PromoteReply, error) {
	n, to := c.node, community.NodeID(r.GetNode())
	err := n.network.Promote(ctx, to)
	switch {
	case errors.Is(err, identity.ErrNoAuthority):
		return nil, status.Error(codes.FailedPrecondition, ErrNoAuthority.Error())
	case errors.Is(err, community.ErrUnavailable):
		return nil, status.Error(codes.Unavailable, fmt.Sprintf("node %s is not connected here; start it, and look at `symbio nodes`", to))
	case errors.Is(err, identity.ErrClusterExists):
		return nil, status.Error(codes.FailedPrecondition, fmt.Sprintf("the machine of node %s holds the authority of another cluster", to))
	case err != nil:
		return nil, toStatus(err)
	}
	n.events.Publish("promoted", "", nodeEvent{ID: string(to), Name: n.nodeName(to), Why: "it holds the cluster's authority too"})
	return &symbiov1.PromoteReply{}, nil
}
