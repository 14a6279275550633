package memory

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"symbio/community"
)

// Node is one node's connection to the Hub, a community.Network. Its methods may be called
// concurrently.
type Node struct {
	hub  *Hub
	id   community.NodeID
	name string
	// killed is closed by Hub.Kill, under the hub's lock.
	killed chan struct{}

	mu sync.Mutex
	// host is set while Run runs; nil = the node is not on the LAN; guarded by mu.
	host community.Host
	// ctx is the context of the node's goroutines and of the calls that it serves; guarded by mu.
	ctx context.Context
	// links are the streams that this node reads, by the id of the watched node; guarded by mu.
	links map[community.NodeID]*link
	// watchers are the streams by which other nodes watch this one; guarded by mu.
	watchers map[*link]struct{}
	// group has all goroutines of this node. Go is called with mu held and host set.
	group sync.WaitGroup
}

// Run puts the node on the LAN until ctx ends. It then says goodbye and returns when its goroutines
// have ended. It returns an error when a node with the same id is on the LAN. It is called once.
func (n *Node) Run(ctx context.Context, host community.Host) error {
	serving, stop := context.WithCancel(ctx)
	defer stop()
	if err := n.attach(serving, host); err != nil {
		return err
	}
	n.start(n.beat)
	n.watchAll(ctx, stop)
	n.detach()
	n.group.Wait()
	return nil
}

// attach registers the node with the hub. It replaces a killed node of the same id. The error says
// that a living node has the id.
func (n *Node) attach(ctx context.Context, host community.Host) (err error) {
	n.mu.Lock()
	n.host, n.ctx = host, ctx
	n.mu.Unlock()
	n.hub.updateNodes(func() {
		if old := n.hub.nodes[n.id]; old != nil && !old.isKilled() {
			err = fmt.Errorf("node %s is on the network already: two nodes cannot have one identity", n.id)
			return
		}
		n.hub.nodes[n.id] = n
	})
	return err
}

// detach takes the node off the LAN. start starts nothing for it afterwards, so that group.Wait is
// safe.
func (n *Node) detach() {
	n.mu.Lock()
	n.host = nil
	n.mu.Unlock()
	n.hub.updateNodes(func() {
		if n.hub.nodes[n.id] == n {
			delete(n.hub.nodes, n.id)
		}
	})
}

// watchAll keeps a stream to every other node on the LAN until ctx ends. When the node is killed,
// stop ends what it still does for others.
func (n *Node) watchAll(ctx context.Context, stop func()) {
	// The keys are pointers: a restarted node with the same id is another one.
	watched := map[*Node]bool{}
	killed := n.killed
	for {
		all, changed := n.hub.all()
		now := make(map[*Node]bool, len(all))
		for _, p := range all {
			now[p] = true
			if p != n && !watched[p] && !n.isKilled() {
				n.start(func(_ context.Context, host community.Host) { n.watch(ctx, host, p) })
			}
		}
		watched = now
		select {
		case <-ctx.Done():
			return
		case <-killed:
			stop()
			// A closed channel would fire in every round. The loop goes on until ctx ends, as Run
			// must.
			killed = nil
		case <-changed:
		}
	}
}

// start runs f in a goroutine that Run waits for, with the context and host of this node. It
// returns false, without running f, when the node is not on the LAN.
func (n *Node) start(f func(context.Context, community.Host)) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.host == nil || n.isKilled() {
		return false
	}
	ctx, host := n.ctx, n.host
	n.group.Go(func() { f(ctx, host) })
	return true
}

// isKilled reports whether Hub.Kill was called for the node.
func (n *Node) isKilled() bool {
	select {
	case <-n.killed:
		return true
	default:
		return false
	}
}

// peer returns this node as others see it. Its authority is constant, since nothing authenticates
// it.
func (n *Node) peer() community.Peer {
	return community.Peer{ID: n.id, Name: n.name, Authority: "local", Role: "node", Addr: "memory/" + n.name}
}

// Invoke sends one call to a node and waits for the reply. Delay, jitter and loss apply to the
// call, to each update and to the reply. It returns ErrUnavailable when the node is not connected,
// when the link breaks, and when the call was lost and its deadline has passed.
func (n *Node) Invoke(ctx context.Context, id community.NodeID, call community.Call) (community.Reply, error) {
	n.mu.Lock()
	l := n.links[id]
	n.mu.Unlock()
	if l == nil || n.isKilled() {
		return community.Reply{}, fmt.Errorf("%w: not connected", community.ErrUnavailable)
	}
	if err := l.awaitCall(ctx, n, l.from); err != nil {
		return community.Reply{}, err
	}
	// The buffer lets the called node finish although the caller has given up.
	answered := make(chan answer, 1)
	callerDone := make(chan struct{})
	defer close(callerDone)
	listen, updates := call.Listen, make(chan community.Update)
	if listen != nil {
		call.Listen = func(u community.Update) {
			select {
			// updates has no buffer: a slow listener slows down the provider, as flow control does.
			case updates <- u:
			case <-callerDone:
			}
		}
	}
	// A real network copies: the caller may change its buffer after Invoke.
	call.Payload = append([]byte(nil), call.Payload...)
	if !l.from.start(func(alive context.Context, host community.Host) {
		answered <- serve(ctx, alive, callerDone, host, n.peer(), call)
	}) {
		return community.Reply{}, errReset
	}
	for {
		select {
		case u := <-updates:
			if err := l.awaitUpdate(ctx); err != nil {
				return community.Reply{}, err
			}
			listen(u)
		case a := <-answered:
			if err := l.awaitCall(ctx, l.from, n); err != nil {
				return community.Reply{}, err
			}
			a.reply.Data = append([]byte(nil), a.reply.Data...)
			return a.reply, a.err
		case <-ctx.Done():
			return community.Reply{}, ctx.Err()
		case <-l.broken:
			return community.Reply{}, errReset
		}
	}
}

// answer is the result of one call on its way back.
type answer struct {
	reply community.Reply
	err   error
}

// serve runs a call on the called node. Only the deadline and the cancellation of the caller's
// context cross the LAN; its values do not, as on a real network.
func serve(caller, alive context.Context, callerDone <-chan struct{}, host community.Host, from community.Peer, call community.Call) answer {
	ctx, cancel := context.WithCancel(alive)
	defer cancel()
	if d, ok := caller.Deadline(); ok {
		ctx, cancel = context.WithDeadline(ctx, d)
		defer cancel()
	}
	done := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		select {
		case <-callerDone: // the caller gave up
			cancel()
		case <-done:
		}
	})
	reply, err := host.Serve(ctx, from, call)
	close(done)
	watching.Wait()
	return answer{reply, err}
}

var (
	errReset  = fmt.Errorf("%w: the connection is reset", community.ErrUnavailable)
	errLost   = fmt.Errorf("%w: the call was lost", community.ErrUnavailable)
	errSilent = fmt.Errorf("%w: three heartbeats were missed", community.ErrUnavailable)
)

// lossError returns the error of a lost call once ctx has ended: errLost at the deadline, else
// ctx's error.
func lossError(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return errLost
	}
	return ctx.Err()
}
