package node

import (
	"errors"
	"fmt"

	symbiov1 "symbio/proto/symbio/v1"
	"symbio/security/identity"
)

// errOtherIdentity ends the parts of a node that is to start again as a member of a cluster.
var errOtherIdentity = errors.New("the node has another identity now")

// reload reads the rules of the configuration, if it is asked to, and what the command line has written: the MCP servers, the
// nodes that were removed from the cluster, and whether this node is of one now. Then all its parts start again under the new
// identity, unless agents that a person spawned would end by that.
func (p *parts) reload(configuration bool) (*symbiov1.ReloadReply, error) {
	reply := &symbiov1.ReloadReply{}
	if configuration {
		var err error
		if reply.Changed, reply.Restart, err = p.rules.Reload(); err != nil {
			return nil, err
		}
	}
	p.servers.Refresh()
	if err := p.self.Revocations().Reload(); err != nil {
		return nil, err
	}
	id, err := p.kept.Identity()
	if err != nil {
		return nil, err
	}
	same := id.Tag() == p.self.Tag()
	if same && id.Cluster() != nil && p.self.Cluster() == nil { // another node of this machine was given the authority
		if c, err := p.cfg.State.OpenCluster(); err != nil || p.self.Hold(c) != nil {
			return nil, errors.New("start this node again: it could not take up the authority that is on this machine now")
		}
	}
	if same && (id.Cluster() != nil || id.Authority() == identity.Local || !id.NotAfter().After(p.self.NotAfter())) {
		return reply, nil
	}
	agents := 0
	for _, m := range p.community.Members() {
		if m.Node == p.id {
			agents++
		}
	}
	if agents > 0 {
		return nil, fmt.Errorf("node %s has %d agents that would end: stop it and start it again when they are done", p.name, agents)
	}
	select {
	case p.newIdentity <- struct{}{}:
	default: // it is about to
	}
	return reply, nil
}
