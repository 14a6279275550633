package grpcpeer

import (
	"context"
	"sync"
	"sync/atomic"

	"symbio/community"
)

const (
	// maxPendingTells is how many sends may wait for a link to one node, and maxPendingBytes their payloads in bytes.
	maxPendingTells = 256
	maxPendingBytes = 1 << 20
)

// pendingTells are the sends that wait for a link to their node, which is a member by gossip. They are sent in their order,
// before any later one. It is safe for concurrent use.
type pendingTells struct {
	candidates *candidates
	waiting    atomic.Int64 // sends, of all nodes

	mu     sync.Mutex
	byNode map[community.NodeID][]community.Call // guarded by mu
}

// has reports whether sends to the node wait.
func (p *pendingTells) has(id community.NodeID) bool {
	if p.waiting.Load() == 0 {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.byNode[id]) > 0
}

// add queues a send. The first one of a node starts the dial.
func (p *pendingTells) add(id community.NodeID, call community.Call) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	waiting := p.byNode[id]
	if len(waiting) == 0 && !p.candidates.members.mayConnect(id) {
		return community.ErrUnavailable
	}
	size := len(call.Payload)
	for _, c := range waiting {
		size += len(c.Payload)
	}
	if len(waiting) >= maxPendingTells || size > maxPendingBytes {
		return community.ErrBusy
	}
	if len(waiting) == 0 {
		if err := p.candidates.goLoop(func() { p.run(id) }); err != nil {
			return community.ErrUnavailable
		}
	}
	p.byNode[id] = append(waiting, call)
	p.waiting.Add(1)
	return nil
}

// run makes the link and sends the waiting calls in their order. It reports the others as undelivered.
func (p *pendingTells) run(id community.NodeID) {
	ctx, cancel := context.WithTimeout(p.candidates.life.search, handshakeTimeout)
	defer cancel()
	l, err := p.candidates.members.link(ctx, id)
	for {
		p.mu.Lock()
		if len(p.byNode[id]) == 0 {
			delete(p.byNode, id)
			p.mu.Unlock()
			return
		}
		call, failed := p.byNode[id][0], error(community.ErrUnavailable)
		if err == nil {
			failed = l.calls.Tell(call)
		}
		p.byNode[id] = p.byNode[id][1:]
		p.waiting.Add(-1)
		p.mu.Unlock()
		if failed != nil {
			p.candidates.dialer.undelivered(community.DeliveryFailure{Node: id, Member: call.Member, Perception: call.Capability, Count: 1, Err: failed})
		}
	}
}
