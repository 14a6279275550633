package memory

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"symbio/community"
)

// retransmit is how much later something arrives that was lost once.
const retransmit = 200 * time.Millisecond

// maxQueued is how many events may be on their way.
const maxQueued = 256

// link is the stream by which one node watches another.
type link struct {
	hub     *Hub
	from    *Node // is watched
	to      *Node // watches, and reads the events
	broken  chan struct{}
	notFull chan struct{} // capacity 1: an event has arrived while there were too many
	arrival *time.Timer   // of the first event that is on its way
	sends   *sends

	mu    sync.Mutex
	queue []event                 // on their way, in the order of their arrival; guarded by mu
	last  time.Time               // when the latest event arrives; guarded by mu
	sub   *community.Subscription // what the watched node tells by; guarded by mu
	ended bool                    // guarded by mu
}

// event is something that a node says of itself, on its way.
type event struct {
	arrives time.Time
	apply   func(*community.Lease) // nil: a heartbeat
	bye     bool
}

func (h *Hub) link(from, to *Node) *link {
	l := &link{hub: h, from: from, to: to, broken: make(chan struct{}), notFull: make(chan struct{}, 1), arrival: time.NewTimer(0), sends: newSends()}
	l.arrival.Stop()
	return l
}

// disconnect breaks the link.
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

// watch keeps a stream to p until ctx ends or p is gone.
func (n *Node) watch(ctx context.Context, host community.Host, p *Node) {
	for ctx.Err() == nil && !n.isKilled() && !p.isKilled() {
		if !n.awaitReachable(ctx, p) {
			return
		}
		l := n.hub.link(p, n)
		if !l.dial(ctx) {
			continue
		}
		if !p.start(l.publish) {
			return
		}
		lease := host.Attach(p.peer())
		n.mu.Lock()
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
		l.disconnect()
		carrying.Wait()
		if gone {
			return
		}
	}
}

// awaitReachable waits until n may reach p, and reports whether that came to be.
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

// hasLink reports whether the node reads a stream of another.
func (n *Node) hasLink(id community.NodeID) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.links[id] != nil
}

// publish runs on the watched node: it says all there is to know, until that node ends. The node's heart
// beats for all who watch it.
func (l *link) publish(ctx context.Context, host community.Host) {
	sub := host.SubscribeLocal()
	defer sub.Close()
	l.mu.Lock()
	l.sub = sub
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
	if ctx.Err() != nil && !l.from.isKilled() {
		l.send(event{bye: true, apply: func(lease *community.Lease) { lease.Goodbye("the node stops") }})
	}
}

// setWatcher begins or ends that the node's heart beats for a link.
func (n *Node) setWatcher(l *link, now bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if now {
		n.watchers[l] = struct{}{}
	} else {
		delete(n.watchers, l)
	}
}

// beat sends the node's heartbeat to all who watch it, until ctx ends.
func (n *Node) beat(ctx context.Context, _ community.Host) {
	pulse := time.NewTicker(n.hub.cfg.Heartbeat)
	defer pulse.Stop()
	var told []*link
	for {
		select {
		case <-pulse.C:
		case <-ctx.Done():
			return
		}
		n.mu.Lock()
		told = slices.AppendSeq(told[:0], maps.Keys(n.watchers))
		n.mu.Unlock()
		for _, l := range told {
			l.send(event{})
		}
	}
}

// applyChange repeats a change to the lease.
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

// send puts an event on its way. It waits when too many are; the watcher reads on or gives up. A
// heartbeat does not wait: what is on its way shows as well that the node lives.
func (l *link) send(e event) {
	delay, lost := l.hub.draw(l.from.id, l.to.id, streams)
	if lost && e.apply == nil {
		return
	}
	if lost {
		delay += retransmit
	}
	for !l.post(e, delay) && e.apply != nil {
		select {
		case <-l.notFull:
		case <-l.broken:
			return
		}
	}
}

// post queues an event, if there is room.
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

// next takes an event that has arrived.
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

// readEvents takes in the events, until the stream breaks, and reports whether the peer is gone for
// good.
func (l *link) readEvents(ctx context.Context, lease *community.Lease) (gone bool) {
	silence := time.NewTimer(maxMissed * l.hub.cfg.Heartbeat)
	defer silence.Stop()
	for {
		open, changed := l.hub.open(l.from.id, l.to.id)
		arrival, killed := l.arrival.C, l.from.killed
		if !open {
			arrival, killed = nil, nil // the reset does not get through either
		}
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

// dial waits until the watcher has got through to the watched one, and reports whether it has.
func (l *link) dial(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, maxMissed*l.hub.cfg.Heartbeat)
	defer cancel()
	delay, lost := l.hub.draw(l.to.id, l.from.id, streams)
	if lost {
		delay += retransmit
	}
	return l.awaitPath(ctx, l.to, l.from, delay) == nil
}

// awaitUpdate waits as long as an update of a call takes to the caller. A lost one is sent again.
func (l *link) awaitUpdate(ctx context.Context) error {
	delay, lost := l.hub.draw(l.from.id, l.to.id, streams)
	if lost {
		delay += retransmit
	}
	return l.awaitPath(ctx, l.from, l.to, delay)
}

// awaitCall waits as long as a call, or its answer, takes from a to b; nil says that it has arrived.
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

// awaitPath waits for the delay, and then until something can get from a to b.
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
