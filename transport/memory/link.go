package memory

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"symbio/community"
)

// retransmit is how much later a lost message of a stream arrives: about TCP's minimal
// retransmission timeout on Linux.
const retransmit = 200 * time.Millisecond

// maxQueued is how many events of one link may be in transit. Beyond it the watched node waits, as
// with a full TCP window.
const maxQueued = 256

// link is the stream by which one node (to) watches another one (from). Sends and calls of node to
// use it as well.
type link struct {
	hub *Hub
	// from is the watched node, which sends the events.
	from *Node
	// to is the watcher, which reads the events.
	to *Node
	// broken is closed by disconnect.
	broken chan struct{}
	// notFull has the capacity 1: a value means that the queue has room again.
	notFull chan struct{}
	// arrival fires when the first event of the queue arrives. Only post and next reset it, under
	// mu.
	arrival *time.Timer
	// sends are the one-way sends from node to to node from, against the direction of the events.
	sends *sends

	mu sync.Mutex
	// queue has the events in transit, in the order of their arrival; guarded by mu.
	queue []event
	// last is when the latest event arrives, so that a later one does not arrive earlier; guarded
	// by mu.
	last time.Time
	// sub is the subscription to the catalog of the watched node; nil until publish runs; guarded
	// by mu.
	sub *community.Subscription
	// ended is set by disconnect; guarded by mu.
	ended bool
}

// event is one message of a watched node in transit.
type event struct {
	// arrives is when the watcher can read the event.
	arrives time.Time
	// apply passes the event to the watcher's lease; nil = a heartbeat.
	apply func(*community.Lease)
	// bye marks the last event of a node that ends in order.
	bye bool
}

// link returns a link that is not connected; dial does that. The caller must call disconnect.
func (h *Hub) link(from, to *Node) *link {
	l := &link{hub: h, from: from, to: to, broken: make(chan struct{}), notFull: make(chan struct{}, 1), arrival: time.NewTimer(0), sends: newSends()}
	l.arrival.Stop()
	return l
}

// disconnect breaks the link: events in transit are lost, and everything that waits on broken
// returns. It is called once.
func (l *link) disconnect() {
	l.mu.Lock()
	l.ended, l.queue = true, nil
	sub := l.sub
	l.mu.Unlock()
	l.arrival.Stop()
	close(l.broken)
	if sub != nil {
		sub.Close()
	}
}

// watch keeps a stream to p until ctx ends or p has left the LAN. A stream that breaks is dialed
// again. It runs in a goroutine of n.group, and waits for those that it starts.
func (n *Node) watch(ctx context.Context, host community.Host, p *Node) {
	for ctx.Err() == nil && !n.isKilled() && !p.isKilled() {
		if !n.awaitReachable(ctx, p) {
			return
		}
		l := n.hub.link(p, n)
		if !l.dial(ctx) {
			continue
		}
		// publish runs as a goroutine of p, not of n: p.Run waits for it.
		if !p.start(l.publish) {
			return
		}
		lease := host.Attach(p.peer())
		n.mu.Lock()
		// From here on Invoke and Tell find the link.
		n.links[p.id] = l
		n.mu.Unlock()
		n.hub.notifyReached()
		var carrying sync.WaitGroup
		carrying.Go(l.deliverSends)
		gone := l.readEvents(ctx, lease)
		n.mu.Lock()
		if n.links[p.id] == l {
			delete(n.links, p.id)
		}
		n.mu.Unlock()
		// Only after the link is out of n.links, so that no new call uses a broken link.
		l.disconnect()
		carrying.Wait()
		if gone {
			return
		}
	}
}

// awaitReachable waits until n can reach p. It returns false when p has left the LAN or n ends.
func (n *Node) awaitReachable(ctx context.Context, p *Node) bool {
	for {
		ok, gone, changed := n.hub.canReach(p, n)
		if ok || gone {
			return ok && !gone
		}
		select {
		case <-changed:
		case <-n.killed:
			return false
		case <-ctx.Done():
			return false
		}
	}
}

// hasLink reports whether the node reads a stream of node id.
func (n *Node) hasLink(id community.NodeID) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.links[id] != nil
}

// publish runs on the watched node. It sends the catalog and its changes over the link until the
// link breaks or the node ends, and a goodbye if the node ends in order.
func (l *link) publish(ctx context.Context, host community.Host) {
	sub := host.SubscribeLocal()
	defer sub.Close()
	l.mu.Lock()
	l.sub = sub
	// disconnect may have run before sub was set; it could not close sub then.
	ended := l.ended
	l.mu.Unlock()
	if ended {
		return
	}
	l.from.setWatcher(l, true)
	defer l.from.setWatcher(l, false)
	for {
		ch, err := sub.Next(ctx)
		if err != nil {
			break // the link is broken, or the node ends
		}
		l.send(event{apply: func(lease *community.Lease) { applyChange(lease, ch) }})
	}
	// ctx ends when the node stops in order; a broken link ends the subscription instead.
	if ctx.Err() != nil && !l.from.isKilled() {
		l.send(event{bye: true, apply: func(lease *community.Lease) { lease.Goodbye("the node stops") }})
	}
}

// setWatcher adds the link to, or removes it from, the links that get heartbeats.
func (n *Node) setWatcher(l *link, now bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if now {
		n.watchers[l] = struct{}{}
	} else {
		delete(n.watchers, l)
	}
}

// beat sends a heartbeat over every link that watches the node, every Config.Heartbeat, until ctx
// ends. One goroutine serves all links: a timer for each would be many in a large test.
func (n *Node) beat(ctx context.Context, _ community.Host) {
	pulse := time.NewTicker(n.hub.cfg.Heartbeat)
	defer pulse.Stop()
	var links []*link
	for {
		select {
		case <-pulse.C:
		case <-ctx.Done():
			return
		}
		n.mu.Lock()
		links = slices.AppendSeq(links[:0], maps.Keys(n.watchers))
		n.mu.Unlock()
		for _, l := range links {
			l.send(event{})
		}
	}
}

// applyChange passes one change of the watched node's catalog to the lease.
func applyChange(lease *community.Lease, ch community.Change) {
	switch ch.Kind {
	case community.Snapshot, community.Gap:
		lease.Snapshot(community.Catalog{Members: ch.Members, Capabilities: ch.Capabilities})
	case community.Joined:
		lease.Joined(ch.Member)
	case community.Left:
		lease.Left(ch.Member.ID)
	default:
		lease.Updated(ch.Member)
	}
}

// send puts an event in transit. It waits while maxQueued are in transit, until the watcher reads
// or the link breaks. Heartbeats are dropped instead: the events in transit prove as well that the
// node is alive.
func (l *link) send(e event) {
	delay, lost := l.hub.draw(l.from.id, l.to.id, streams)
	if lost && e.apply == nil {
		return
	}
	if lost {
		delay += retransmit
	}
	// notFull may be stale, so the queue is tried again after each value.
	for !l.post(e, delay) && e.apply != nil {
		select {
		case <-l.notFull:
		case <-l.broken:
			return
		}
	}
}

// post queues an event that arrives after delay, but not before earlier ones: a stream keeps its
// order. It returns false when the queue is full.
func (l *link) post(e event, delay time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return true // it is not needed any more
	}
	if len(l.queue) >= maxQueued {
		return false
	}
	e.arrives = time.Now().Add(delay)
	// An earlier message with a longer delay holds up the later ones, as in a TCP stream.
	if e.arrives.Before(l.last) {
		e.arrives = l.last
	}
	l.last = e.arrives
	l.queue = append(l.queue, e)
	if len(l.queue) == 1 {
		l.arrival.Reset(time.Until(e.arrives))
	}
	return true
}

// next returns the first event if it has arrived; otherwise it sets the timer for it.
func (l *link) next() (e event, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.queue) == 0 {
		return event{}, false
	}
	if wait := time.Until(l.queue[0].arrives); wait > 0 {
		l.arrival.Reset(wait)
		return event{}, false
	}
	e = l.queue[0]
	// The array keeps no reference to the event.
	l.queue[0] = event{}
	if l.queue = l.queue[1:]; len(l.queue) == 0 {
		l.queue = nil
	}
	select {
	case l.notFull <- struct{}{}:
	default:
	}
	return e, true
}

// readEvents applies arriving events to the lease until the stream breaks. It returns true when the
// peer is gone for good or ctx ended, and false when it fell silent and should be dialed again.
func (l *link) readEvents(ctx context.Context, lease *community.Lease) (gone bool) {
	// Any event counts as a sign of life, not only heartbeats.
	silence := time.NewTimer(maxMissed * l.hub.cfg.Heartbeat)
	defer silence.Stop()
	for {
		open, changed := l.hub.open(l.from.id, l.to.id)
		arrival, killed := l.arrival.C, l.from.killed
		if !open {
			// A nil channel never fires: the end of the peer cannot be noticed over a closed path
			// either.
			arrival, killed = nil, nil
		}
		// All events that have arrived are applied before the loop waits again.
		for open {
			e, ok := l.next()
			if !ok {
				break
			}
			if e.apply != nil {
				e.apply(lease)
			}
			if e.bye {
				return true
			}
			silence.Reset(maxMissed * l.hub.cfg.Heartbeat)
		}
		select {
		case <-arrival:
		case <-changed:
		case <-killed:
			lease.Lost(errReset)
			return true
		case <-l.to.killed:
			lease.Lost(errReset)
			return true
		case <-silence.C:
			lease.Lost(errSilent)
			return false
		case <-ctx.Done():
			return true
		}
	}
}

// dial simulates the set-up of a connection, which takes the delay of one message. It reports
// whether the watcher got through within the time of three heartbeats.
func (l *link) dial(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, maxMissed*l.hub.cfg.Heartbeat)
	defer cancel()
	delay, lost := l.hub.draw(l.to.id, l.from.id, streams)
	if lost {
		delay += retransmit
	}
	return l.awaitPath(ctx, l.to, l.from, delay) == nil
}

// awaitUpdate waits for the transit time of an update of a call. A lost update arrives later, as on
// a stream.
func (l *link) awaitUpdate(ctx context.Context) error {
	delay, lost := l.hub.draw(l.from.id, l.to.id, streams)
	if lost {
		delay += retransmit
	}
	return l.awaitPath(ctx, l.from, l.to, delay)
}

// awaitCall waits for the transit time of a call or of its reply, from a to b. A lost one is not
// repeated: it returns an error when ctx ends or the link breaks. nil means that it has arrived.
func (l *link) awaitCall(ctx context.Context, a, b *Node) error {
	delay, lost := l.hub.draw(a.id, b.id, calls)
	if !lost {
		return l.awaitPath(ctx, a, b, delay)
	}
	select {
	case <-ctx.Done():
		return lossError(ctx)
	case <-l.broken:
		return errReset
	}
}

// awaitPath waits for delay and then until messages get from a to b. It returns an error when ctx
// ends or the link breaks first.
func (l *link) awaitPath(ctx context.Context, a, b *Node, delay time.Duration) error {
	if delay > 0 {
		select {
		case <-time.After(delay):
		case <-ctx.Done():
			return ctx.Err()
		case <-l.broken:
			return errReset
		}
	}
	for {
		open, changed := l.hub.open(a.id, b.id)
		if open && !a.isKilled() && !b.isKilled() {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return lossError(ctx)
		case <-l.broken:
			return errReset
		}
	}
}
