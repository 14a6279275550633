package node

import (
	"errors"
	"log/slog"
	"net/netip"
	"strings"

	"symbio/cmd/symbio/internal/config"
	"symbio/community"
	"symbio/discovery"
	"symbio/discovery/dns"
	"symbio/discovery/mdns"
	"symbio/discovery/static"
	"symbio/security/permission"
	"symbio/transport/grpcpeer"
)

// sources are where hints about other nodes come from. A node that listens on loopback looks, and is
// seen, on loopback only.
func sources(c config.Discovery, node, tag string, listen netip.AddrPort, log *slog.Logger) ([]discovery.Source, error) {
	var out []discovery.Source
	if c.MDNS {
		out = append(out, mdns.New(mdns.Config{
			Node: node, Tag: tag, Port: listen.Port(), Loopback: listen.Addr().IsLoopback(),
			Allow: c.Interfaces.Allow, Deny: c.Interfaces.Deny, Logger: log,
		}))
	}
	if len(c.Peers) > 0 {
		s, err := static.New(static.Config{Peers: c.Peers, Logger: log})
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	if len(c.DNS) > 0 {
		s, err := dns.New(dns.Config{Names: c.DNS, Logger: log})
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}

// reportNode puts what happens to connections into the event stream, and tells discovery of
// addresses at which nobody answered.
func (n *Node) reportNode(e grpcpeer.Event) {
	switch e.Kind {
	case grpcpeer.Unreachable:
		n.roster.Failed(e.Key)
	case grpcpeer.Refused:
		n.events.Publish("refused", "", nodeEvent{ID: string(e.Node), Name: e.Name, Addr: e.Addr, Why: e.Why})
	default:
		n.events.Publish("node", "", nodeEvent{ID: string(e.Node), Name: e.Name, State: string(e.Kind), Addr: e.Addr, Why: e.Why})
	}
}

type nodeEvent struct {
	ID    string `json:"id,omitempty"`
	Name  string `json:"name,omitempty"`
	State string `json:"state,omitempty"`
	Addr  string `json:"addr,omitempty"`
	Why   string `json:"why,omitempty"`
}

// authorize decides by the configured rules whether a call from another node is heard.
func (n *Node) authorize(from community.Peer, c community.Call) error {
	kind, name := permission.KindInvoke, c.Capability
	if perception, ok := strings.CutPrefix(name, community.PerceptionPrefix); ok {
		kind, name = permission.KindSend, perception
	}
	v := n.inbound.Judge(permission.Principal{Node: string(from.ID), Authority: from.Authority, Role: from.Role}, kind, name)
	if v.Action == permission.Allow {
		return nil
	}
	n.events.Publish("refused", string(c.Member), callEvent{From: string(from.ID), Name: from.Name, Capability: c.Capability, Why: v.Why})
	return errors.New(v.Why)
}

type callEvent struct {
	From       string `json:"from"`
	Name       string `json:"name,omitempty"`
	Capability string `json:"capability"`
	Why        string `json:"why"`
}
