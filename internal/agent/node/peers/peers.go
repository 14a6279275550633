// Package peers connects a node to the other nodes: it has the identity of the node, its listener and the network over it,
// searches for the addresses of other nodes, and keeps the addresses of its cluster.
package peers

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"slices"
	"time"

	"errors"
	"strings"
	"symbio/agent/node/config"
	"symbio/community"
	"symbio/discovery"
	"symbio/discovery/dns"
	"symbio/discovery/mdns"
	"symbio/discovery/static"
	"symbio/internal/agent/node/state"
	symbiov1 "symbio/proto/symbio/v1"
	"symbio/security/identity"
	"symbio/transport/grpcpeer"
)

// Config sets up Peers. All fields are required.
type Config struct {
	Name     string
	Settings config.Config
	State    state.Dir
	Kept     state.Node
	// Report gets the events of the network. It must not block.
	Report func(grpcpeer.Event)
	Logger *slog.Logger
}

// Peers are the connections of a node under one identity.
type Peers struct {
	Identity *identity.Identity
	Network  *grpcpeer.Network
	Sources  []discovery.Source // of addresses of other nodes, the most trusted first

	cfg      Config
	listener net.Listener
	web      net.Listener // of WebSockets; nil = none
	packets  net.PacketConn
	roster   *discovery.Roster
}

// Open opens the listener for other nodes, the network over it, and the sources
// of addresses. Addresses
// of nodes that were met before are handed to the network, so that a restarted
// node finds its cluster without discovery. The
// addresses that other nodes introduce are the last source, because they are the least trusted. A
// node on loopback searches, and announces itself, on loopback only. With an error Open returns the parts that are open so far.
func Open(c Config) (_ *Peers, err error) {
	p := &Peers{cfg: c}
	if p.Identity, err = c.Kept.Identity(); err != nil {
		return p, fmt.Errorf("identity: %w", err)
	}
	if held := p.Identity.Cluster(); held != nil && held.Key().Locked() {
		c.Logger.Warn(identity.ErrLocked.Error(), "cluster", held.Name())
	}
	at := c.Settings.Node.Listen
	if at == "" {
		if at, err = c.Kept.ListenAddr(); err != nil {
			return p, err
		}
	}
	if p.listener, err = net.Listen("tcp", at); err != nil {
		return p, fmt.Errorf("listening for other nodes: %w; choose another address with --listen, or with the key node.listen", err)
	}
	if p.web, err = listenWebSocket(c.Settings.Node.WebSocket, c.Logger); err != nil {
		return p, err
	}
	dialer, err := newDialer(c.Settings.Discovery)
	if err != nil {
		return p, err
	}
	if p.packets, err = net.ListenPacket("udp", p.listener.Addr().String()); err != nil {
		c.Logger.Warn("no gossip: this node keeps a connection to each other one", "err", err)
	}
	known := map[community.NodeID]netip.AddrPort{}
	for id, a := range c.Kept.Addresses() {
		known[id] = a.Addr
	}
	own, err := netip.ParseAddrPort(p.Addr())
	if err != nil {
		return p, err
	}
	self, tag, log := string(p.Identity.ID()), p.Identity.Tag(), c.Logger
	p.Network, err = grpcpeer.New(grpcpeer.Config{
		Identity: p.Identity, Listener: p.listener, Packets: p.packets, WebSocket: p.web, DialURL: dialer.Dial,
		Name: c.Name, Authority: c.State.Cluster(), KnownAddrs: known,
		Limits: limits(c.Settings), Logger: log, Report: p.report,
	})
	if err != nil {
		return p, err
	}
	p.roster = discovery.NewRoster(discovery.Config{Self: self, IsOwnAddr: here(own.Port()), Tag: tag, Report: p.Network.AddHint, Logger: log})
	p.Sources, err = sources(c.Settings.Discovery, self, tag, own, log)
	p.Sources = append(p.Sources, p.Network.Introduced())
	return p, err
}

// Addr returns the address where the node listens, with its port.
func (p *Peers) Addr() string { return p.listener.Addr().String() }

// Self returns this node with the role and labels that count at others; zero if the certificate has ended.
func (p *Peers) Self() identity.Peer {
	der, err := p.Identity.Certificate()
	if err != nil {
		return identity.Peer{}
	}
	c, _ := p.Identity.VerifyCertificate(der)
	return p.Identity.Revocations().Assigned(c.Peer)
}

// Proven returns another node with the role and the labels that count now: those of its certificate, or those that the
// cluster's authority has assigned to it.
func (p *Peers) Proven(of community.Peer) community.Peer {
	now := p.Identity.Revocations().Assigned(identity.Peer{ID: of.ID, Role: of.Role, Labels: of.Labels})
	of.Role, of.Labels = now.Role, now.Labels
	return of
}

// Close closes the sockets. The network has closed them already if it ran.
func (p *Peers) Close() {
	for _, l := range []net.Listener{p.listener, p.web} {
		if l != nil {
			_ = l.Close()
		}
	}
	if p.packets != nil {
		_ = p.packets.Close()
	}
}

// SourceHealth returns the health of each source of addresses, in the order of
// trust. A source without a health check has no problems.
func (p *Peers) SourceHealth() []*symbiov1.SourceHealth {
	out := make([]*symbiov1.SourceHealth, len(p.Sources))
	for i, s := range p.Sources {
		out[i] = &symbiov1.SourceHealth{Name: s.Name()}
		h, ok := s.(discovery.Healther)
		if !ok {
			continue
		}
		// Health joins one error per problem, so each line is one problem.
		if err := h.Health(); err != nil {
			out[i].Problems = strings.Split(strings.TrimSpace(err.Error()), "\n")
		}
	}
	return out
}

// Reload reads which nodes were removed from the cluster, and the identity of the node. It reports whether that is another
// one now, with which the node must start again.
func (p *Peers) Reload() (changed bool, err error) {
	own := p.Identity
	if err := own.Revocations().Reload(); err != nil {
		return false, err
	}
	id, err := p.cfg.Kept.Identity()
	if err != nil {
		return false, err
	}
	same := id.Tag() == own.Tag()
	if same && id.Cluster() != nil && own.Cluster() == nil { // another node of this machine got the authority
		if c, err := p.cfg.State.OpenCluster(); err != nil || own.Hold(c) != nil {
			return false, errors.New("cannot use the authority that is now on this machine: restart this node")
		}
	}
	gaveUp := own.Cluster() != nil && id.Cluster() == nil
	return !same || gaveUp || id.Cluster() == nil && id.Authority() != identity.Local && id.NotAfter().After(own.NotAfter()), nil
}

// LockAuthority drops the key of the cluster's authority from memory, after `symbio cluster lock` has encrypted it on the disk and
// stored a certificate of this node, which another holder can renew from now on.
func (p *Peers) LockAuthority() error {
	if c := p.Identity.Cluster(); c != nil {
		return p.cfg.State.ForgetAuthority(c, p.cfg.Name)
	}
	return nil
}

// Discover searches for other nodes until ctx ends.
func (p *Peers) Discover(ctx context.Context) error { return p.roster.Run(ctx, p.Sources...) }

// report tells discovery about addresses that did not answer, and reports all other events.
func (p *Peers) report(e grpcpeer.Event) {
	if e.Kind == grpcpeer.Unreachable {
		p.roster.Failed(e.Key)
		return
	}
	p.cfg.Report(e)
}

// limits returns the limits of the transport. They are slightly wider than
// the limits of the community, so that the community refuses first: it counts
// refusals by node and says why.
func limits(c config.Config) grpcpeer.Limits {
	l := c.Limits
	return grpcpeer.Limits{
		Message:     cmp.Or(l.Message, 1<<20) + 64<<10,
		Streams:     uint32(max(128, l.NodeCalls)), // wider than NodeCalls: the community answers ErrBusy with a reason, gRPC would not
		MaxDeadline: max(30*time.Minute, l.CallTimeout, c.LongestLease()),
		Connections: l.Connections, Grace: l.CertificateGrace,
	}
}

// addressInterval is the time between two looks at the connected nodes. A node
// that crashes loses at most the addresses of that time.
const addressInterval = 2 * time.Second

// KeepAddresses records what is seen of connected nodes: which of them hold the authority, and the addresses of connected nodes of the cluster until
// ctx ends, so that a restarted node can dial them even if the configured peers
// are down. Addresses that are older than AddressLife, and the addresses of removed
// nodes, are deleted. A failure to write is logged, because the addresses are
// only hints.
func (p *Peers) KeepAddresses(ctx context.Context) error {
	if p.Identity.Authority() == identity.Local {
		return nil
	}
	all, without := p.cfg.Kept.Addresses(), map[community.NodeID]int{}
	look := time.NewTicker(addressInterval)
	defer look.Stop()
	for ctx.Err() == nil {
		changed, now := false, time.Now().UTC().Truncate(time.Second)
		for _, s := range p.Network.Nodes() {
			p.noteHolder(s, without)
			addr, err := netip.ParseAddrPort(s.Addr)
			if was := all[s.ID]; err == nil && s.Via == grpcpeer.ViaDialled && (was.Addr != addr || now.Sub(was.Seen) > state.AddressLife/30) {
				all[s.ID], changed = state.Address{Addr: addr, Seen: now}, true
			}
		}
		if changed {
			maps.DeleteFunc(all, func(id community.NodeID, a state.Address) bool {
				return now.Sub(a.Seen) > state.AddressLife || p.Identity.Revocations().Has(id)
			})
			if err := p.cfg.Kept.KeepAddresses(all); err != nil {
				p.cfg.Logger.Warn("addresses of other nodes not kept", "err", err)
			}
		}
		select {
		case <-look.C:
		case <-ctx.Done():
		}
	}
	return nil
}

// looksWithout is how many looks in a row a connected node has to be without the authority before that is recorded: one that
// is just being promoted, or has not described itself yet, is without it for a moment.
const looksWithout = 3

// noteHolder records, where the authority is held, whether a node to which it was given has given it up. without counts the
// looks in a row.
func (p *Peers) noteHolder(s grpcpeer.NodeStatus, without map[community.NodeID]int) {
	c := p.Identity.Cluster()
	if c == nil || s.State != grpcpeer.StateConnected {
		return
	}
	before, seen := without[s.ID]
	without[s.ID] = before + 1
	if s.Authority {
		without[s.ID] = 0
	}
	if n := without[s.ID]; n != looksWithout && (n != 0 || seen && before == 0) {
		return // nothing has changed
	}
	if err := c.Ledger().NoteGivenUp(s.ID, !s.Authority); err != nil {
		p.cfg.Logger.Warn("holder of the authority not recorded", "node", s.ID, "err", err)
	}
}

// sources returns the configured sources of addresses of other nodes, the most
// trusted first. On loopback, mDNS uses loopback only.
func sources(c config.Discovery, node, tag string, listen netip.AddrPort, log *slog.Logger) (all []discovery.Source, wrong error) {
	add := func(s discovery.Source, err error) { all, wrong = append(all, s), errors.Join(wrong, err) }
	if c.MDNS {
		add(mdns.New(mdns.Config{
			Node: node, Tag: tag, Port: listen.Port(), Loopback: listen.Addr().IsLoopback(),
			Allow: c.Interfaces.Allow, Deny: c.Interfaces.Deny, Logger: log,
		}), nil)
	}
	if len(c.Peers) > 0 {
		add(static.New(static.Config{Peers: c.Peers, Logger: log}))
	}
	if len(c.DNS) > 0 {
		add(dns.New(dns.Config{Names: c.DNS, Logger: log}))
	}
	return all, wrong
}

// here returns a function that reports whether an address is this node: one of
// this machine's addresses with the port where the node listens. It reads the
// interfaces on each call, because they change. If they cannot be read it
// returns true: not dialling is the safe mistake.
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
