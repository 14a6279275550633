package node

import (
	"errors"
	"fmt"

	symbiov1 "symbio/proto/symbio/v1"
	"symbio/security/identity"
)

// errOtherIdentity ends the parts of a node that has joined or left a cluster,
// so that Run makes new ones.
var errOtherIdentity = errors.New("the node has another identity now")

// reload reads the files that the command line writes: the MCP servers, the
// nodes removed from the cluster, and the identity; with configuration, the
// rules of the configuration, too. If the node has a new identity, all parts
// start again. reload refuses that while agents live here, because they would
// end.
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
	if same && id.Cluster() != nil && p.self.Cluster() == nil { // another node of this machine got the authority
		if c, err := p.cfg.State.OpenCluster(); err != nil || p.self.Hold(c) != nil {
			return nil, errors.New("cannot use the authority that is now on this machine: restart this node")
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
		return nil, fmt.Errorf("node %s has %d agents that a new identity would end: restart it when they are done", p.name, agents)
	}
	select {
	case p.newIdentity <- struct{}{}:
	default: // a restart is pending already
	}
	return reply, nil
}
