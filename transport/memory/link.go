package memory

import (
	"context"
	"sync"
	"time"

	"symbio/community"
)

// retransmit is how much later something arrives that was lost once.
const retransmit = 200 * time.Millisecond

// link is the stream by which one node watches another.
type link struct {
	hub    *Hub
	from   *Node      // is watched
	to     *Node      // watches, and reads the events
	events chan event // sent by from
	broken chan struct{}
	sends  *sends

	mu   sync.Mutex
	last time.Time // when the latest event arrives; guarded by mu
}

// event is something that a node says of itself, on its way.
type event struct {
	arrives time.Time
	apply   func(*community.Lease) // nil: a heartbeat
	bye     bool
}

// watch keeps a stream to p until ctx ends or p is gone.
func (n *Node) watch(ctx context.Context, host community.Host, p *Node) {
	for ctx.Err() == nil && !n.dead() && !p.dead() {
		l := &link{hub: n.hub, from: p, to: n, events: make(chan event, 256), broken: make(chan struct{}), sends: newSends()}
		if !l.dial(ctx) {
			continue
		}
		if !p.start(func(alive context.Context, own community.Host) { l.tell(alive, own) }) {
			return
		}
		lease := host.Attach(p.peer())
		n.mu.Lock()
		n.links[p.id] = l
		n.mu.Unlock()
		var carrying sync.WaitGroup
		carrying.Go(l.carry)
		gone := l.follow(ctx, lease)
		n.mu.Lock()
		if n.links[p.id] == l {
			delete(n.links, p.id)
		}
		n.mu.Unlock()
		close(l.broken)
		carrying.Wait()
		if gone {
			return
		}
	}
}

// tell runs on the watched node: it says all there is to know, until that node ends.
func (l *link) tell(ctx context.Context, host community.Host) {
	sub := host.SubscribeLocal()
	var changes sync.WaitGroup
	telling, stop := context.WithCancel(ctx)
	changes.Go(func() {
		for {
			ch, err := sub.Next(telling)
			if err != nil {
				return
			}
			l.send(event{apply: func(lease *community.Lease) { say(lease, ch) }})
		}
	})
	beat := time.NewTicker(l.hub.cfg.Heartbeat)
	defer beat.Stop()
	for open := true; open; {
		select {
		case <-beat.C:
			l.send(event{})
		case <-l.broken:
			open = false
		case <-ctx.Done():
			open = false
		}
	}
	stop()
	sub.Close()
	changes.Wait()
	if ctx.Err() != nil && !l.from.dead() {
		l.send(event{bye: true, apply: func(lease *community.Lease) { lease.Goodbye("the node stops") }})
	}
}

// say repeats a change to the lease.
func say(lease *community.Lease, ch community.Change) {
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

// send puts an event on its way. It waits when 256 are on their way; the watcher reads on or gives up.
func (l *link) send(e event) {
	delay, lost := l.hub.draw(l.from.id, l.to.id, streams)
	if lost && e.apply == nil {
		return
	}
	if lost {
		delay += retransmit
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	e.arrives = time.Now().Add(delay)
	if e.arrives.Before(l.last) {
		e.arrives = l.last
	}
	l.last = e.arrives
	select {
	case l.events <- e:
	case <-l.broken:
	}
}

// follow takes in the events, until the stream breaks, and reports whether the peer is gone for
// good.
func (l *link) follow(ctx context.Context, lease *community.Lease) (gone bool) {
	silence := time.NewTimer(missed * l.hub.cfg.Heartbeat)
	defer silence.Stop()
	var next *event
	for {
		open, changed := l.hub.open(l.from.id, l.to.id)
		events, killed, arrival := l.events, l.from.killed, (<-chan time.Time)(nil)
		if !open {
			killed = nil // the reset does not get through either
		}
		if next != nil {
			events = nil
			wait := time.Until(next.arrives)
			if wait <= 0 && open {
				if next.apply != nil {
					next.apply(lease)
				}
				if next.bye {
					return true
				}
				next = nil
				silence.Reset(missed * l.hub.cfg.Heartbeat)
				continue
			}
			if wait > 0 {
				arrival = time.After(wait)
			}
		}
		select {
		case e := <-events:
			next = &e
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
	ctx, cancel := context.WithTimeout(ctx, missed*l.hub.cfg.Heartbeat)
	defer cancel()
	delay, lost := l.hub.draw(l.to.id, l.from.id, streams)
	if lost {
		delay += retransmit
	}
	return l.pass(ctx, l.to, l.from, delay) == nil
}

// transit waits as long as a call, or its answer, takes from a to b; nil says that it has arrived.
func (l *link) transit(ctx context.Context, a, b *Node) error {
	delay, lost := l.hub.draw(a.id, b.id, calls)
	if !lost {
		return l.pass(ctx, a, b, delay)
	}
	select {
	case <-ctx.Done():
		return lateOr(ctx)
	case <-l.broken:
		return errReset
	}
}

// pass waits for the delay, and then until something can get from a to b.
func (l *link) pass(ctx context.Context, a, b *Node, delay time.Duration) error {
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
		if open && !a.dead() && !b.dead() {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return lateOr(ctx)
		case <-l.broken:
			return errReset
		}
	}
}
