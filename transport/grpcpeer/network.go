package grpcpeer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	"symbio/community"
	"symbio/security/identity"
)

// Network connects a community to those of other nodes. Make it with New, give it to a community,
// whose Run runs it, and hint at nodes with Sight.
type Network struct {
	cfg      Config
	self     community.NodeID
	listener *door
	server   *server
	grpc     *grpc.Server
	doors    *doorkeeper
	run      *identity.Run
	fatal    chan error // ends Run
	gate     *gate      // nil unless of a cluster
	tally    *tally
	// callbacks are the connections that this node opened in order to be called over them.
	callbacks  *callbacks
	introduced *Introduced
	circle     circle
	started    atomic.Bool
	// search ends when Run is asked to: nobody is dialled any more. life ends when the goodbyes are
	// said, and with it every connection.
	search, life           context.Context
	endSearch, endLife     context.CancelFunc
	pursuits               sync.WaitGroup // Add is guarded by mu
	newcomers, knownFriend chan struct{}  // dials at once: to strangers, to nodes that were connected before
	hearsay                chan struct{}  // the same to strangers of whom others say that they are there
	lines                  lines
	records                *records
	links                  sync.Map // community.NodeID -> *link; written under mu

	mu         sync.Mutex
	host       community.Host        // set by Run; guarded by mu
	candidates map[string]*candidate // by key; guarded by mu
	// reversing are the nodes that have opened a connection which is not their link yet; guarded by mu.
	reversing map[community.NodeID]bool
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
	n := &Network{
		cfg:         cfg,
		self:        cfg.Identity.ID(),
		tally:       newTally(),
		newcomers:   make(chan struct{}, cfg.Limits.Dials),
		knownFriend: make(chan struct{}, cfg.Limits.Dials),
		hearsay:     make(chan struct{}, cfg.Limits.Dials),
		lines:       lines{at: map[netip.Addr]*line{}},
		candidates:  map[string]*candidate{},
		run:         cfg.Identity.NewRun(),
		fatal:       make(chan error, 1),
		callbacks:   newCallbacks(listener.Addr()),
		introduced:  newIntroduced(cfg.Identity.ID()),
		reversing:   map[community.NodeID]bool{},
	}
	n.records = &records{report: cfg.Report, log: cfg.Logger, of: map[string]*record{}}
	n.search, n.endSearch = context.WithCancel(context.Background())
	n.life, n.endLife = context.WithCancel(context.Background())
	n.server = &server{cfg: cfg, leaving: n.search}
	n.server.hear, n.server.twin, n.server.run, n.server.tell = n.hear, n.twin, n.run, n.records.tell
	n.server.news, n.server.called = n.newsFor, n.wasCalled
	n.listener = newDoor(listener, cfg.Limits.Connections, n.turnedAway)
	n.gate = newGate(cfg, listener.Addr(), n.tally)
	n.doors = newDoorkeeper(cfg.Identity, cfg.Limits, n.gate, n.turnedAway)
	n.doors.reversed = n.takeReversed
	n.grpc = newServer(cfg, n.server, n.doors, &scales{n.tally, n.records.tell, cfg.Limits.Message + envelopeRoom})
	return n, nil
}

// Addr is where other nodes reach this one.
func (n *Network) Addr() net.Addr { return n.listener.Addr() }

// Run serves host and connects to the nodes that Sight was told of, until ctx ends. Then it says
// goodbye to who watches, lets calls finish for a second, and returns when all it started has ended.
// It is called once.
func (n *Network) Run(ctx context.Context, host community.Host) error {
	if !n.started.CompareAndSwap(false, true) {
		return errors.New("grpcpeer: this network has run already; make a new one")
	}
	n.server.host = host
	served := make(chan error, 1)
	var serving sync.WaitGroup
	serving.Go(func() { served <- n.grpc.Serve(n.listener) })
	if n.gate != nil {
		serving.Go(func() { _ = n.gate.grpc.Serve(n.gate) }) // ends when the gate is closed, with nothing to say
	}
	serving.Go(func() { _ = n.grpc.Serve(n.callbacks) }) // ends with the server, with nothing to say
	serving.Go(func() { n.guard(n.search) })
	serving.Go(func() { n.renew(n.search) })
	n.begin(host)

	var err error
	select {
	case <-ctx.Done():
	case err = <-n.fatal:
	case err = <-served:
		err = fmt.Errorf("serve other nodes on %s: %w", n.Addr(), err)
	}
	n.stopSearching()
	if n.gate != nil {
		n.gate.close()
		n.gate.grpc.Stop()
	}
	late := time.AfterFunc(drainTime, n.grpc.Stop)
	n.grpc.GracefulStop()
	late.Stop()
	serving.Wait()
	n.listener.excuses.Wait()
	n.endLife()
	n.pursuits.Wait()
	return err
}

// begin starts to pursue the candidates that were sighted before.
func (n *Network) begin(host community.Host) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.host = host
	for _, k := range n.candidates {
		n.pursuits.Go(func() { n.pursue(k) })
	}
}

// stopSearching makes every Watch that serves another node say goodbye, and takes no more candidates.
func (n *Network) stopSearching() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.endSearch()
}

// Invoke carries one call to a connected node and waits for its answer. Without a deadline in ctx it
// has the one of Limits. ErrBusy: too many calls to that node are open already. Nobody may change the
// payload afterwards: a long one is not copied.
func (n *Network) Invoke(ctx context.Context, node community.NodeID, call community.Call) (community.Reply, error) {
	l, ok := n.links.Load(node)
	if !ok {
		return community.Reply{}, community.ErrUnavailable
	}
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, n.cfg.Limits.Deadline)
		defer cancel()
	}
	return l.(*link).invoke(ctx, call)
}

// Tell puts one call on its way to a connected node. ErrBusy: as many as Limits.Calls, or half of the
// node's Limits.Streams, are not over yet, or 1 MiB of them is not sent. ErrTooLarge is also for what is
// too long besides the payload. Nobody may change the payload afterwards. A node that knows no sends
// gets calls, one after the other.
func (n *Network) Tell(node community.NodeID, call community.Call) error {
	l, ok := n.links.Load(node)
	if !ok {
		return community.ErrUnavailable
	}
	return l.(*link).tell(call)
}
