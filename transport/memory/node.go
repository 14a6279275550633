package memory

import (
	"bytes"
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

	// ctx ends when the node does, and host is the node's; both are set by Run before the node is on
	// the LAN.
	ctx  context.Context
	host community.Host

	mu sync.Mutex
	// ended is set when Run ends: nothing is started any more; guarded by mu.
	ended bool
	// links are the streams that this node reads, by the id of the watched node; guarded by mu.
	links map[community.NodeID]*link
	// group has all goroutines of this node. Go is called with mu held, before ended is set.
	group sync.WaitGroup
}

// Run puts the node on the LAN until ctx ends. It then says goodbye and returns when its goroutines
// have ended. It returns an error when a node with the same id is on the LAN. It is called once.
func (n *Node) Run(ctx context.Context, host community.Host) error {
	alive, stop := context.WithCancel(ctx)
	defer stop()
	n.ctx, n.host = alive, host
	if err := n.hub.attach(n); err != nil {
		return err
	}
	select {
	case <-n.killed:
		stop()
		<-ctx.Done() // the host takes an earlier return for a failure
	case <-ctx.Done():
	}
	n.mu.Lock()
	n.ended = true
	n.mu.Unlock()
	n.hub.detach(n)
	n.group.Wait()
	return nil
}

// start runs f in a goroutine that Run waits for. It returns false, without running f, when the
// node has ended.
func (n *Node) start(f func()) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ended || n.isKilled() {
		return false
	}
	n.group.Go(f)
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

// linkTo returns the link by which this node watches another one, and which carries calls to it.
// The error wraps ErrUnavailable.
func (n *Node) linkTo(id community.NodeID) (*link, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	l := n.links[id]
	if l == nil || n.isKilled() {
		return nil, fmt.Errorf("%w: not connected", community.ErrUnavailable)
	}
	return l, nil
}

// Invoke sends one call to a node and waits for the reply. Delay, jitter and loss apply to the
// call, to each update and to the reply. It returns ErrUnavailable when the node is not connected,
// when the link breaks, and when the call was lost and its deadline has passed.
func (n *Node) Invoke(ctx context.Context, id community.NodeID, call community.Call) (community.Reply, error) {
	l, err := n.linkTo(id)
	if err != nil {
		return community.Reply{}, err
	}
	if err := l.awaitCall(ctx, n, l.from); err != nil {
		return community.Reply{}, err
	}
	// The buffer lets the called node finish although the caller has given up.
	answered := make(chan answer, 1)
	calling, giveUp := context.WithCancel(context.Background())
	defer giveUp()
	listen, updates := call.Listen, make(chan community.Update)
	if listen != nil {
		call.Listen = func(u community.Update) {
			select {
			// updates has no buffer: a slow listener slows down the provider, as flow control does.
			case updates <- u:
			case <-calling.Done():
			}
		}
	}
	// A real network copies: the caller may change its buffer after Invoke.
	call.Payload = bytes.Clone(call.Payload)
	if !l.from.start(func() { answered <- l.serve(ctx, calling, call) }) {
		return community.Reply{}, errReset
	}
	for {
		select {
		case u := <-updates:
			if err := l.transit(ctx, l.from, n, n.hub.arrival(l.from, n)); err != nil {
				return community.Reply{}, err
			}
			listen(u)
		case a := <-answered:
			if err := l.awaitCall(ctx, l.from, n); err != nil {
				return community.Reply{}, err
			}
			a.reply.Data = bytes.Clone(a.reply.Data)
			return a.reply, a.err
		case <-ctx.Done():
			return community.Reply{}, ctx.Err()
		case <-l.ctx.Done():
			return community.Reply{}, errReset
		}
	}
}

// answer is the result of one call on its way back.
type answer struct {
	reply community.Reply
	err   error
}

// serve runs a call on the called node. Only the deadline and the end of the caller's context cross
// the LAN; its values do not, as on a real network. calling ends when the caller waits no more.
func (l *link) serve(caller, calling context.Context, call community.Call) answer {
	ctx, cancel := context.WithCancel(l.from.ctx)
	defer cancel()
	defer context.AfterFunc(calling, cancel)()
	if d, ok := caller.Deadline(); ok {
		ctx, cancel = context.WithDeadline(ctx, d)
		defer cancel()
	}
	reply, err := l.from.host.Serve(ctx, l.to.peer(), call)
	return answer{reply, err}
}

// Why a call or a stream ended without the other node's doing.
var (
	errReset  = fmt.Errorf("%w: the connection broke", community.ErrUnavailable)
	errLost   = fmt.Errorf("%w: no answer before the deadline", community.ErrUnavailable)
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
