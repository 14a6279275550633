package node

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	symbiov1 "symbio/proto/symbio/v1"
)

// errOtherIdentity ends the parts of a node that is to start again as a member of a cluster.
var errOtherIdentity = errors.New("the node has another identity now")

// Reload reads what the command line has written: the nodes that were removed from the cluster, and
// whether this node is of one now. Then all its parts start again under the new identity, unless agents
// that somebody spawned would end by that.
func (c *control) Reload(context.Context, *symbiov1.ReloadRequest) (*symbiov1.ReloadReply, error) {
	n := c.node
	n.lookMCP()
	if err := n.self.Revocations().Reload(); err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	id, err := n.opts.State.Identity(n.name)
	if err != nil {
		return nil, status.Error(codes.FailedPrecondition, err.Error())
	}
	same := id.Tag() == n.self.Tag()
	if same && id.Cluster() != nil && n.self.Cluster() == nil { // another node of this machine was given the authority
		if c, err := n.opts.State.OpenCluster(); err != nil || n.self.Hold(c) != nil {
			return nil, status.Error(codes.FailedPrecondition, "start this node again: it could not take up the authority that is on this machine now")
		}
	}
	if same && (id.Cluster() != nil || !id.NotAfter().After(n.self.NotAfter())) {
		return &symbiov1.ReloadReply{}, nil
	}
	agents := 0
	for _, m := range n.community.Members() {
		if m.Node == n.id {
			agents++
		}
	}
	if agents > 0 {
		return nil, status.Error(codes.FailedPrecondition, fmt.Sprintf("node %s has %d agents that would end: stop it and start it again when they are done", n.name, agents))
	}
	select {
	case n.reborn <- struct{}{}:
	default: // it is about to
	}
	return &symbiov1.ReloadReply{}, nil
}
