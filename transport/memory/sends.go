package memory

import (
	"context"
	"fmt"
	"sync"

	"symbio/community"
)

// maxSends is how many one-way sends to one node may be unfinished; Tell returns ErrBusy beyond it.
const maxSends = 64

// send is a call without an answer.
type send struct {
	call community.Call
	// once makes the first result count: the host and the end of the link may both report one.
	once sync.Once
}

// sends is the one-way sends of one link.
type sends struct {
	// queue has the sends in their order. Its capacity is maxSends, so Tell never blocks.
	queue chan *send
	mu    sync.Mutex
	// pending are the unfinished sends, at most maxSends; nil = the link is broken; guarded by mu.
	pending map[*send]struct{}
}

func newSends() *sends {
	return &sends{queue: make(chan *send, maxSends), pending: map[*send]struct{}{}}
}

// Tell queues a one-way call to a node and returns at once. It returns ErrBusy when maxSends are
// unfinished, and ErrUnavailable when the node is not connected. Sends that are not handled are
// reported to the host.
func (n *Node) Tell(id community.NodeID, call community.Call) error {
	n.mu.Lock()
	l := n.links[id]
	n.mu.Unlock()
	if l == nil || n.isKilled() {
		return fmt.Errorf("%w: not connected", community.ErrUnavailable)
	}
	call.Payload = append([]byte(nil), call.Payload...)
	s := &send{call: call}
	l.sends.mu.Lock()
	defer l.sends.mu.Unlock()
	switch {
	case l.sends.pending == nil:
		return errReset
	case len(l.sends.pending) >= maxSends:
		return community.ErrBusy
	}
	l.sends.pending[s] = struct{}{}
	// Never blocks: every queued send is in pending.
	l.sends.queue <- s
	return nil
}

// deliverSends delivers the queued sends in order until the link breaks. Those that are unfinished
// then are reported as undelivered, since it is not known whether they were handled.
func (l *link) deliverSends() {
	ctx, end := context.WithCancel(context.Background())
	defer end()
	var carrying sync.WaitGroup
	carrying.Go(func() {
		for {
			select {
			case s := <-l.sends.queue:
				l.deliver(ctx, s)
			case <-ctx.Done():
				return
			}
		}
	})
	<-l.broken
	end()
	carrying.Wait()
	l.sends.mu.Lock()
	under := l.sends.pending
	l.sends.pending = nil
	l.sends.mu.Unlock()
	for s := range under {
		l.finish(s, errReset)
	}
}

// deliver passes one send to the other node's host and waits until the host has accepted or refused
// it, which keeps sends in order.
func (l *link) deliver(ctx context.Context, s *send) {
	delay, lost := l.hub.draw(l.to.id, l.from.id, streams)
	if lost {
		delay += retransmit
	}
	if l.awaitPath(ctx, l.to, l.from, delay) != nil {
		// The link is broken; deliverSends reports the send, because it is still pending.
		return
	}
	taken := make(chan struct{})
	if !l.from.start(func(_ context.Context, host community.Host) {
		defer close(taken)
		if err := host.ServeTell(l.to.peer(), s.call, func(err error) { l.finish(s, err) }); err != nil {
			l.finish(s, err)
		}
	}) {
		l.finish(s, errReset)
		return
	}
	<-taken
}

// finish frees the place of a send and reports it if it failed. Only the first call for a send
// counts.
func (l *link) finish(s *send, err error) {
	s.once.Do(func() {
		l.sends.mu.Lock()
		delete(l.sends.pending, s)
		l.sends.mu.Unlock()
		l.to.mu.Lock()
		host := l.to.host
		l.to.mu.Unlock()
		if err != nil && host != nil {
			host.ReportUndelivered(community.DeliveryFailure{Node: l.from.id, Member: s.call.Member, Perception: s.call.Capability, Count: 1, Err: err})
		}
	})
}
