package node

import (
	"errors"
	"fmt"

	symbiov1 "symbio/proto/symbio/v1"
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
		if reply.Changed, reply.Restart, err = p.node.rules.Reload(); err != nil {
			return nil, err
		}
	}
	p.agents.servers.Refresh()
	if changed, err := p.peers.Reload(); !changed || err != nil {
		return reply, err
	}
	agents := 0
	for _, m := range p.calls.community.Members() {
		if m.Node == p.peers.Identity.ID() {
			agents++
		}
	}
	if agents > 0 {
		return nil, fmt.Errorf("node %s has %d agents that a new identity would end: restart it when they are done", p.node.name, agents)
	}
	select {
	case p.newIdentity <- struct{}{}:
	default: // a restart is pending already
	}
	return reply, nil
}
