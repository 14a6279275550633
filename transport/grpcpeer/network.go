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

// Network connects a community to those of other nodes. Make it with New, give it to a community,
// whose Run runs it, and add hints with AddHint.
type Network struct {
	*local
	candidates *candidates
	renewal    *renewal
	reverser   *reverser
	server     *server
	grpc       *grpc.Server
	join       *joinServer // nil unless of a cluster
	fatal      chan error  // ends Run
	started    atomic.Bool

	endSearch, endLife context.CancelFunc
}

// New binds the listener and returns a Network that does nothing until Run. It is an error to listen
// where other machines reach without a cluster's identity. The listener stays bound until Run ends.
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
	n := &local{cfg: cfg, self: id, run: cfg.Identity.NewRun(), links: newLinks(id), introduced: introduced.New(id), refusals: newRefusals(),
		records: &records{report: cfg.Report, log: cfg.Logger, byKey: map[string]*record{}}}
	for id, addr := range cfg.KnownAddrs {
		n.introduced.AddSelf(id, addr, false)
	}
	w := &Network{local: n, fatal: make(chan error, 1)}
	n.search, w.endSearch = context.WithCancel(context.Background())
	n.life, w.endLife = context.WithCancel(context.Background())
	n.listener = newLimitListener(listener, cfg.Limits.Connections, n.refuseConnection)
	w.join = newJoinServer(cfg, listener.Addr(), n.refusals)
	admission := newAdmission(cfg.Identity, cfg.Limits, w.join, n.refuseConnection)

	duplicates := &duplicates{local: n, fatal: w.fatal}
	w.renewal = &renewal{local: n, conns: admission.conns}
	dial := newDialer(n, admission.conns, duplicates, w.renewal)
	w.candidates = newCandidates(n, dial)
	w.reverser = &reverser{local: n, dialer: dial, candidates: w.candidates, accepted: newConnListener(listener.Addr()), offered: map[community.NodeID]*offered{}}
	w.candidates.offers = w.reverser.offerLoop
	admission.onReversed = w.reverser.accept
	w.server = newServer(n, duplicates, w.renewal, w.candidates)
	dial.undelivered = func(u community.DeliveryFailure) { w.server.Host.ReportUndelivered(u) }
	duplicates.alarm = w.server.alarmDuplicates
	w.grpc = newGRPC(w.server, admission, &oversized{n.refusals, n.records.add, cfg.Limits.Message + calls.EnvelopeRoom})
	return w, nil
}

// Addr is where other nodes reach this one.
func (n *Network) Addr() net.Addr { return n.listener.Addr() }

// Run serves host and connects to the nodes of its hints (AddHint), until ctx ends. Then it says
// goodbye to the nodes that watch, lets calls finish for a second, and returns when all it started has ended.
// It is called once.
func (n *Network) Run(ctx context.Context, host community.Host) error {
	if !n.started.CompareAndSwap(false, true) {
		return errors.New("grpcpeer: this network has run already; make a new one")
	}
	n.server.Host = host
	served := make(chan error, 1)
	var serving sync.WaitGroup
	serving.Go(func() { served <- n.grpc.Serve(n.listener) })
	if n.join != nil {
		serving.Go(func() { _ = n.join.grpc.Serve(n.join) }) // ends when the gate is closed, with nothing to say
	}
	serving.Go(func() { _ = n.grpc.Serve(n.reverser.accepted) }) // ends with the server, with nothing to say
	serving.Go(func() { n.renewal.enforceRemovals(n.search) })
	serving.Go(func() { n.renewal.run(n.search) })
	n.candidates.start(host)

	var err error
	select {
	case <-ctx.Done():
	case err = <-n.fatal:
	case err = <-served:
		err = fmt.Errorf("serve other nodes on %s: %w", n.Addr(), err)
	}
	// Every Watch that serves another node says goodbye now, and no more candidates are taken.
	n.candidates.stop(n.endSearch)
	if n.join != nil {
		n.join.Close()
		n.join.grpc.Stop()
	}
	late := time.AfterFunc(drainTime, n.grpc.Stop)
	n.grpc.GracefulStop()
	late.Stop()
	serving.Wait()
	n.listener.rejections.Wait()
	n.endLife()
	n.candidates.loops.Wait()
	return err
}

// Invoke carries one call to a connected node and waits for its answer. Without a deadline in ctx it
// has the one of Limits. ErrBusy: too many calls to that node are open already. Nobody may change the
// payload afterwards: a long one is not copied.
func (n *Network) Invoke(ctx context.Context, node community.NodeID, call community.Call) (community.Reply, error) {
	l, ok := n.links.get(node)
	if !ok || l.closed.Load() {
		return community.Reply{}, community.ErrUnavailable
	}
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, n.cfg.Limits.Deadline)
		defer cancel()
	}
	return l.calls.Invoke(ctx, call)
}

// Tell puts one call on its way to a connected node. ErrBusy: as many as Limits.Calls, or half of the
// node's Limits.Streams, are not over yet, or 1 MiB of them is not sent. ErrTooLarge is also for what is
// too long besides the payload. The payload must not be changed afterwards.
func (n *Network) Tell(node community.NodeID, call community.Call) error {
	l, ok := n.links.get(node)
	if !ok || l.closed.Load() {
		return community.ErrUnavailable
	}
	return l.calls.Tell(call)
}

// AddHint takes a hint that a node may be at some addresses, or is there no more. It returns at once.
// A hint never closes or redirects a connection, and no more than Limits.Candidates are kept. A hint that this
// node itself is somewhere else is looked into, seldom: another machine may have a copy of its key.
func (n *Network) AddHint(hint discovery.Candidate) { n.candidates.add(hint) }

// Introduced returns the discovery source of the nodes that others have introduced, and of those that have
// called this one. A discovery.Roster runs it, whose candidates go to AddHint.
func (n *Network) Introduced() discovery.Source { return n.introduced }

// Refusals returns how many connections and messages of a node were refused here before they came to a
// community; of this node's own id, of all nodes together.
func (n *Network) Refusals(node community.NodeID) map[Reason]uint64 {
	if node == n.self {
		return n.refusals.totals()
	}
	return n.refusals.forNode(node)
}
