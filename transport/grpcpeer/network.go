package grpcpeer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	"symbio/community"
	"symbio/discovery"
	"symbio/transport/grpcpeer/internal/calls"
	"symbio/transport/grpcpeer/internal/introduced"
)

// Network connects a community to the communities of other nodes (community.Network). Make one with
// New, give it to a community, whose Run runs it, and add hints with AddHint. All methods may be
// called concurrently, also before and after Run.
type Network struct {
	*local
	candidates *candidates
	reverser   *reverser
	server     *server
	grpc       *grpc.Server
	join       *joinServer // nil unless of a cluster
	pending    *pendingTells
	started    atomic.Bool
}

// New binds the listener and returns a Network that does nothing until Run. It returns an error
// when cfg has no identity, when the address cannot be bound, or when other machines can reach the
// address and the identity is not of a cluster. The listener stays bound until Run ends, so a
// Network that is made must be run.
func New(cfg Config) (*Network, error) {
	if cfg.Identity == nil {
		return nil, errors.New("grpcpeer: no identity: a node must be able to prove who it is")
	}
	cfg.fill()
	listener, err := listen(cfg)
	if err != nil {
		return nil, err
	}
	id := cfg.Identity.ID()
	n := &local{cfg: cfg, run: cfg.Identity.NewRun(), life: newLifetime(), links: newLinks(id), introduced: introduced.New(id),
		refusals: newRefusals(), records: &records{report: cfg.Report, log: cfg.Logger, byKey: map[string]*record{}}}
	for id, addr := range cfg.KnownAddrs {
		n.introduced.AddSelf(id, addr, false)
	}
	w := &Network{local: n}
	n.listener = newLimitListener(listener, cfg.Limits.Connections, n.refuseConnection)
	w.join = newJoinServer(cfg, listener.Addr(), n.refusals)
	admission := newAdmission(cfg.Identity, cfg.Limits, w.join, n.refuseConnection)

	duplicates := &duplicates{local: n, fatal: make(chan error, 1)}
	renewal := &renewal{local: n, conns: admission.conns, woken: make(chan struct{}, 1)}
	dial := newDialer(n, admission.conns, duplicates, renewal)
	w.candidates = newCandidates(n, dial)
	renewal.members = w.candidates.members
	w.pending = &pendingTells{candidates: w.candidates, byNode: map[community.NodeID][]community.Call{}}
	w.reverser = &reverser{local: n, dialer: dial, candidates: w.candidates, accepted: newConnListener(listener.Addr()), offered: map[community.NodeID]*offeredConn{}}
	w.candidates.offers = w.reverser.offerLoop
	admission.onReversed, admission.onGossip = w.reverser.accept, w.candidates.members.accept
	w.server = newServer(n, duplicates, renewal, w.candidates)
	dial.undelivered = func(u community.DeliveryFailure) { w.server.Host.ReportUndelivered(u) }
	duplicates.alarm = w.server.alarmDuplicates
	w.grpc = newGRPC(w.server, admission, &sizeWatcher{n.refusals, n.records.add, cfg.Limits.Message + calls.EnvelopeRoom})
	return w, nil
}

// Addr returns the address that the listener is bound to, with the port that the system chose if
// Config.Listen had port 0.
func (n *Network) Addr() net.Addr { return n.listener.Addr() }

// Run serves host and connects to hinted nodes (AddHint) until ctx ends. It then says goodbye to
// the nodes that watch this one, lets calls finish for a second (drainTime), and returns when all
// its goroutines have ended.
//
// It returns nil after ctx ended, ErrDuplicate when another machine runs as this node, and
// otherwise the error of the listener. It may be called once; a second call returns an error.
func (n *Network) Run(ctx context.Context, host community.Host) error {
	if !n.started.CompareAndSwap(false, true) {
		return errors.New("grpcpeer: this network has run already; make a new one")
	}
	n.server.Host = host
	if err := n.candidates.members.startGossip(host); err != nil { // before another node can be met
		n.cfg.Logger.Warn("no gossip: this node keeps a connection to each other one", "err", err)
	}
	served := make(chan error, 2)
	var serving sync.WaitGroup
	serving.Go(func() { served <- n.grpc.Serve(n.listener) })
	if n.cfg.WebSocket != nil {
		serving.Go(func() { served <- n.grpc.Serve(n.listener.sharing(n.cfg.WebSocket)) })
	}
	if n.join != nil {
		serving.Go(func() { _ = n.join.grpc.Serve(n.join) }) // ends when the gate is closed, with nothing to say
	}
	serving.Go(func() { _ = n.grpc.Serve(n.reverser.accepted) }) // ends with the server, with nothing to say
	serving.Go(func() { n.server.renewal.enforceRemovals(n.life.search) })
	serving.Go(func() { n.server.renewal.run(n.life.search) })
	n.candidates.start(host)

	var err error
	select {
	case <-ctx.Done():
	case err = <-n.server.duplicates.fatal:
	case err = <-served:
		err = fmt.Errorf("serve other nodes on %s: %w", n.Addr(), err)
	}
	// Every Watch that serves another node says goodbye now, and no more candidates are taken.
	n.candidates.stop(n.life.endSearch)
	if n.join != nil {
		n.join.Close()
		n.join.grpc.Stop()
	}
	late := time.AfterFunc(drainTime, n.grpc.Stop)
	n.grpc.GracefulStop()
	late.Stop()
	serving.Wait()
	n.server.Wait()
	n.listener.rejections.Wait()
	n.life.endConns()
	n.candidates.loops.Wait()
	n.candidates.members.checks.Wait()
	return err
}

// Invoke sends one call to a connected node and waits for the reply, until ctx ends; without a
// deadline in ctx, for Limits.Deadline. It returns community.ErrUnavailable when the node is not
// connected or is lost meanwhile, and community.ErrBusy when Limits.Calls calls to it are in
// flight. The payload must not be changed afterwards, even after Invoke has returned: long payloads
// are not copied.
func (n *Network) Invoke(ctx context.Context, node community.NodeID, call community.Call) (community.Reply, error) {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, n.cfg.Limits.Deadline)
		defer cancel()
	}
	if l, ok := n.links.get(node); ok && !l.closed.Load() {
		reply, err := l.calls.Invoke(ctx, call)
		if !errors.Is(err, community.ErrUnavailable) || !l.reason.idle.Load() {
			return reply, err
		}
		// The link was closed as idle, and nothing of the call was sent.
	}
	l, err := n.candidates.members.link(ctx, node)
	if err != nil {
		return community.Reply{}, err
	}
	return l.calls.Invoke(ctx, call)
}

// Tell queues a one-way call to a connected node and returns at once. It returns community.ErrBusy
// when too many one-way calls are in flight (Limits.Calls, or half of the node's Limits.Streams) or
// 1 MiB of them is waiting to be sent, and community.ErrTooLarge when the names in the call are too
// long. Calls that are not handled are reported to the host later. The payload must not be changed
// afterwards.
func (n *Network) Tell(node community.NodeID, call community.Call) error {
	if l, ok := n.links.get(node); ok && !l.closed.Load() && !n.pending.has(node) {
		if err := l.calls.Tell(call); !errors.Is(err, community.ErrUnavailable) || !l.reason.idle.Load() {
			return err
		}
	}
	return n.pending.add(node, call)
}

// AddHint records that discovery saw, or no longer sees, a node at some addresses, and returns at
// once. A hint leads to a dial at most: it never closes or redirects a connection, and at most
// Limits.Candidates are kept. A hint that this node itself is at another address is dialed too,
// rarely, because another machine may have a copy of its key.
func (n *Network) AddHint(hint discovery.Candidate) { n.candidates.add(hint) }

// Introduced returns a discovery source with the nodes that other nodes introduced and those that
// called this node. Run it in a discovery.Roster like the other sources; the roster's candidates
// come back through AddHint.
func (n *Network) Introduced() discovery.Source { return n.introduced }

// Refusals returns how many connections and messages of a node were refused before the community
// saw them, by reason. For this node's own id it returns the totals of all nodes. The map is a
// copy.
func (n *Network) Refusals(node community.NodeID) map[Reason]uint64 {
	if node == n.self() {
		return n.refusals.totals()
	}
	return n.refusals.forNode(node)
}
