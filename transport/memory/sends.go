package memory

import (
	"bytes"
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

// Tell queues a one-way call to a node and returns at once. It returns ErrBusy when maxSends are
// unfinished, and ErrUnavailable when the node is not connected. Sends that are not handled are
// reported to the host.
func (n *Node) Tell(id community.NodeID, call community.Call) error {
	l, err := n.linkTo(id)
	if err != nil {
		return err
	}
	call.Payload = bytes.Clone(call.Payload)
	s := &send{call: call}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.pending == nil:
		return errReset
	case len(l.pending) >= maxSends:
		return community.ErrBusy
	}
	l.pending[s] = struct{}{}
	// Never blocks: every queued send is in pending.
	l.sends <- s
	return nil
}

// deliverSends delivers the queued sends in order until the link breaks. Those that are unfinished
// then are reported as undelivered, since it is not known whether they were handled.
func (l *link) deliverSends() {
	for l.ctx.Err() == nil {
		select {
		case s := <-l.sends:
			l.deliver(s)
		case <-l.ctx.Done():
		}
	}
	l.mu.Lock()
	unfinished := l.pending
	l.pending = nil
	l.mu.Unlock()
	for s := range unfinished {
		l.finish(s, errReset)
	}
}

// deliver passes one send to the other node's host and waits until the host has accepted or refused
// it, which keeps sends in order.
func (l *link) deliver(s *send) {
	if l.transit(l.ctx, l.to, l.from, l.hub.arrival(l.to, l.from)) != nil {
		// The link is broken; deliverSends reports the send, because it is still pending.
		return
	}
	taken := make(chan struct{})
	if !l.from.start(func() {
		defer close(taken)
		if err := l.from.host.ServeTell(l.to.peer(), s.call, func(err error) { l.finish(s, err) }); err != nil {
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
		l.mu.Lock()
		delete(l.pending, s)
		l.mu.Unlock()
		if err != nil {
			l.to.host.ReportUndelivered(community.DeliveryFailure{Node: l.from.id, Member: s.call.Member, Perception: s.call.Capability, Count: 1, Err: err})
		}
	})
}
