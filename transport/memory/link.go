package memory

import (
	"context"
	"sync"
	"time"

	"symbio/community"
)

const (
	// retransmit is how much later a lost message of a stream arrives: about TCP's minimal
	// retransmission timeout on Linux.
	retransmit = 200 * time.Millisecond
	// silence is how long nothing may get through before a node counts as lost. A real node has a
	// heartbeat a second and is lost when three are missing, so after two seconds to three.
	silence = 2500 * time.Millisecond
	// maxQueued is how many events of one link may be in transit. Beyond it the watched node waits,
	// as with a full TCP window.
	maxQueued = 256
)

// link is the stream by which one node (to) watches another one (from). Sends and calls of node to
// use it as well.
type link struct {
	hub *Hub
	// from is the watched node, which sends the events.
	from *Node
	// to is the watcher, which reads the events.
	to *Node
	// ctx ends when the link breaks.
	ctx context.Context
	// events are in transit, in the order of their arrival.
	events chan *event
	// sends are the one-way sends from node to to node from, in their order. Its capacity is
	// maxSends, so Tell never blocks.
	sends chan *send

	mu sync.Mutex
	// pending are the unfinished sends, at most maxSends; nil = the link is broken; guarded by mu.
	pending map[*send]struct{}
}

// event is one message of a watched node in transit.
type event struct {
	// arrives is when the watcher can read the event.
	arrives time.Time
	// change is nil for the goodbye of a node that ends in order.
	change *community.Change
}

// watch keeps a stream to p until the node ends or p has left the LAN. A stream that breaks is
// dialed again. It runs in a goroutine of n.group, and waits for those that it starts.
func (n *Node) watch(p *Node) {
	for gone := false; !gone && n.ctx.Err() == nil && p.ctx.Err() == nil; {
		gone = n.connect(p)
	}
}

// connect keeps one stream to p until it breaks. It returns true when p is gone for good.
func (n *Node) connect(p *Node) (gone bool) {
	ctx, disconnect := context.WithCancel(context.Background())
	defer disconnect()
	l := &link{hub: n.hub, from: p, to: n, ctx: ctx, events: make(chan *event, maxQueued), sends: make(chan *send, maxSends), pending: map[*send]struct{}{}}
	if !l.dial() {
		return false
	}
	// publish runs as a goroutine of p, not of n: p.Run waits for it.
	if !p.start(l.publish) {
		return true
	}
	lease := n.host.Attach(p.peer())
	n.mu.Lock()
	// From here on Invoke and Tell find the link.
	n.links[p.id] = l
	n.mu.Unlock()
	var carrying sync.WaitGroup
	carrying.Go(l.deliverSends)
	gone = l.readEvents(lease)
	n.mu.Lock()
	if n.links[p.id] == l {
		delete(n.links, p.id)
	}
	n.mu.Unlock()
	// Only after the link is out of n.links, so that no new call uses a broken link.
	disconnect()
	carrying.Wait()
	return gone
}

// dial simulates the set-up of a connection, which takes the delay of one message. It reports
// whether the watcher got through before the other node counts as lost.
func (l *link) dial() bool {
	ctx, cancel := context.WithTimeout(l.to.ctx, silence)
	defer cancel()
	return l.transit(ctx, l.to, l.from, l.hub.arrival(l.to, l.from)) == nil
}

// publish runs on the watched node. It sends the catalog and its changes over the link until the
// link breaks or the node ends, and a goodbye if the node ends in order.
func (l *link) publish() {
	sub := l.from.host.SubscribeLocal()
	defer sub.Close()
	defer context.AfterFunc(l.ctx, sub.Close)()
	var last time.Time
	send := func(change *community.Change) {
		e := &event{l.hub.arrival(l.from, l.to), change}
		// An earlier message with a longer delay holds up the later ones, as in a TCP stream.
		if e.arrives.Before(last) {
			e.arrives = last
		}
		last = e.arrives
		select {
		case l.events <- e:
		case <-l.ctx.Done():
		}
	}
	for {
		ch, err := sub.Next(l.from.ctx)
		if err != nil {
			break // the link is broken, or the node ends
		}
		send(&ch)
	}
	if l.ctx.Err() == nil && !l.from.isKilled() {
		send(nil)
	}
}

// apply passes an event to the lease. It returns true for the last one.
func (e *event) apply(lease *community.Lease) (bye bool) {
	if e.change == nil {
		lease.Goodbye("the node stops")
		return true
	}
	switch e.change.Kind {
	case community.Snapshot, community.Gap:
		lease.Snapshot(community.Catalog{Members: e.change.Members, Capabilities: e.change.Capabilities})
	case community.Joined:
		lease.Joined(e.change.Member)
	case community.Left:
		lease.Left(e.change.Member.ID)
	default:
		lease.Updated(e.change.Member)
	}
	return false
}

// readEvents applies arriving events to the lease until the stream breaks. It returns true when the
// peer is gone for good or the node ends, and false when the peer fell silent and should be dialed
// again.
func (l *link) readEvents(lease *community.Lease) (gone bool) {
	var next *event      // has not arrived yet
	var closed time.Time // since when nothing gets through
	for {
		open, changed := l.hub.open(l.from, l.to)
		var arrived, silent <-chan time.Time
		// Nil channels never fire: over a closed path the end of the peer cannot be noticed either.
		var killed <-chan struct{}
		var events <-chan *event
		if open {
			closed, killed = time.Time{}, l.from.killed
		} else if closed.IsZero() {
			closed = time.Now()
		}
		switch {
		case !open:
			silent = time.After(time.Until(closed.Add(silence)))
		case next == nil:
			events = l.events
		case time.Until(next.arrives) > 0:
			arrived = time.After(time.Until(next.arrives))
		default:
			if next.apply(lease) {
				return true
			}
			next = nil
			continue
		}
		select {
		case next = <-events:
		case <-arrived:
		case <-changed:
		case <-killed:
			lease.Lost(errReset)
			return true
		case <-silent:
			lease.Lost(errSilent)
			return false
		case <-l.to.ctx.Done():
			lease.Lost(errReset)
			return true
		}
	}
}

// awaitCall waits for the transit time of a call or of its reply, from a to b. A lost one is not
// repeated: it returns an error when ctx ends or the link breaks. nil means that it has arrived.
func (l *link) awaitCall(ctx context.Context, a, b *Node) error {
	arrives, lost := l.hub.draw(a, b, calls)
	if !lost {
		return l.transit(ctx, a, b, arrives)
	}
	select {
	case <-ctx.Done():
		return lossError(ctx)
	case <-l.ctx.Done():
		return errReset
	}
}

// transit waits until a message from a to b arrives: at the given time, or later when messages get
// through. It returns an error when ctx ends or the link breaks first, as it does soon after one of
// the nodes is killed: ctx's error for a message that is only late.
func (l *link) transit(ctx context.Context, a, b *Node, arrives time.Time) error {
	for {
		open, changed := l.hub.open(a, b)
		var arrived <-chan time.Time
		if wait := time.Until(arrives); wait > 0 {
			arrived = time.After(wait)
		} else if open && !a.isKilled() && !b.isKilled() {
			return nil
		}
		select {
		case <-arrived:
		case <-changed:
		case <-ctx.Done():
			if open { // it is late, not lost
				return ctx.Err()
			}
			return lossError(ctx)
		case <-l.ctx.Done():
			return errReset
		}
	}
}
