package node

import (
	"cmp"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"time"

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

// here says whether an address is one of this machine, at the port where this node listens.
func here(port uint16) func(netip.AddrPort) bool {
	return func(a netip.AddrPort) bool {
		if a.Port() != port {
			return false
		}
		if a.Addr().IsLoopback() {
			return true
		}
		all, err := net.InterfaceAddrs()
		return err != nil || slices.ContainsFunc(all, func(one net.Addr) bool {
			p, err := netip.ParsePrefix(one.String())
			return err == nil && p.Addr().Unmap() == a.Addr().WithZone("").Unmap()
		})
	}
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

// authorize decides by the configured rules whether a call from another node is heard, and records it.
func (n *Node) authorize(from community.Peer, c community.Call) error {
	kind, name := permission.KindInvoke, c.Capability
	if perception, ok := strings.CutPrefix(name, community.PerceptionPrefix); ok {
		kind, name = permission.KindSend, perception
	}
	v := n.inbound.JudgeChain(n.principals(from, c.Requester), kind, name)
	if kind == permission.KindSend {
		v = n.ofBorrower(v, from, c)
	}
	if err := n.decided(from, c, kind, name, v); err != nil {
		return err
	}
	if v.Action == permission.Allow {
		return nil
	}
	return errors.New(v.Why)
}

// principals are the caller, as its certificate proves it, and the other nodes on whose behalf it says
// to call. Of those only an id is said; who vouches for them is known while they are connected here, and
// else nobody does. What is no node, such as a user, is nobody to hear or not; and this node hears itself.
func (n *Node) principals(from community.Peer, requester []string) []permission.Principal {
	chain := []permission.Principal{{Node: string(from.ID), Authority: from.Authority, Role: from.Role}}
	seen := map[string]bool{string(from.ID): true, string(n.id): true}
	for _, r := range requester {
		id, _, _ := strings.Cut(r, "/") // NODE or NODE/MEMBER
		if seen[id] || !nodeID.MatchString(id) {
			continue
		}
		seen[id] = true
		p := permission.Principal{Node: id}
		if known, ok := n.community.Peer(community.NodeID(id)); ok {
			p.Authority, p.Role = known.Authority, known.Role
		}
		chain = append(chain, p)
	}
	return chain
}

var nodeID = regexp.MustCompile(`^[0-9a-f]{32}$`)

// refused puts a call of another node that was refused into the event stream.
func (n *Node) refused(r community.Refusal) {
	n.events.Publish("refused", string(r.Call.Member), callEvent{
		From: string(r.From.ID), Name: r.From.Name, Capability: r.Call.Capability, Requester: r.Call.Requester,
		Reason: string(r.Reason), Why: r.Err.Error(), Omitted: r.Omitted, Trace: r.Call.Trace.String(),
	})
}

// undelivered puts into the event stream what became of signals that nobody waited for.
func (n *Node) undelivered(u community.Undelivered) {
	n.events.Publish("undelivered", string(u.Member), undeliveredEvent{
		To: string(u.Node), Name: n.nodeName(u.Node), Perception: u.Perception, Count: u.Count, Why: u.Err.Error(),
	})
}

type undeliveredEvent struct {
	To         string `json:"to"`
	Name       string `json:"name,omitempty"`
	Perception string `json:"perception,omitempty"`
	Count      uint64 `json:"count"`
	Why        string `json:"why"`
}

type callEvent struct {
	From       string   `json:"from"`
	Name       string   `json:"name,omitempty"`
	Capability string   `json:"capability"`
	Requester  []string `json:"requester,omitempty"`
	Reason     string   `json:"reason"`
	Why        string   `json:"why"`
	Trace      string   `json:"trace,omitempty"`   // the id
	Omitted    uint64   `json:"omitted,omitempty"` // refusals of that node since the last that was told
}

// peerLimits are the connections' part of the limits. The connections let a little more through than a
// message may have, so that it is the community that refuses it, and counts whose it was.
func peerLimits(c config.Config) grpcpeer.Limits {
	l := c.Limits
	return grpcpeer.Limits{
		Message:     cmp.Or(l.Message, 1<<20) + 64<<10,
		Streams:     uint32(max(128, 2*l.NodeCalls)), // so that the community says busy, not gRPC
		MaxDeadline: max(30*time.Minute, l.Call, lasting(c)),
		Connections: l.Connections, PerNode: l.PerNode, Handshakes: l.Handshakes,
		HandshakeRate: l.HandshakeRate, HandshakeBurst: l.HandshakeBurst, Joins: l.Joins,
	}
}
