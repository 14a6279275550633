package grpcpeer

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"symbio/community"
	"symbio/security/identity"
)

// These constants implement community/design/failures.md: changing one changes a promise.
const (
	firstBackOff = 100 * time.Millisecond
	// maxBackOff leaves a second to connect within the 5 s in which a healed partition is whole.
	maxBackOff = 4 * time.Second
	// maxUnprovenBackOff is for a candidate that was never reached and that only mDNS names (security: any machine
	// of the LAN may claim anything there). A new announcement ends it.
	maxUnprovenBackOff = 5 * time.Minute
	// maxIntroducedBackOff is for a candidate that was never reached and that only other nodes name: its address
	// may be one that only they can reach.
	maxIntroducedBackOff = 10 * time.Minute
	// goodbyePause is how long a node that said goodbye is not dialed. It may be starting again: within the
	// second that a goodbye of mDNS takes, only a dial tells.
	goodbyePause = 500 * time.Millisecond
	// refusedPause is how long a node that answered wrongly is not dialed, unless its address changes. For an
	// unproven candidate the pauses double up to maxRefusedPause.
	refusedPause    = 30 * time.Second
	maxRefusedPause = time.Hour
	// goneDials is how many dials a node that was connected and is announced as gone still gets: a forged
	// goodbye must not part two nodes whose connection broke just then.
	goneDials = 10
)

// maintain is the goroutine of one candidate: dial, run the link until it ends, wait, and again,
// until the candidate is gone or the search ends. When another candidate holds the link to the same
// node, it waits for the end of that link instead.
func (n *candidates) maintain(k *candidate) {
	for {
		t, ok := n.next(k)
		if !ok {
			return
		}
		if l := n.linkOf(t); l != nil {
			n.waitForEnd(k, l)
			continue
		}
		if n.park(k, t) {
			return
		}
		if rest := n.members.first.holdBack(k); rest > 0 {
			n.wait(k, time.Now(), pause{length: rest})
			continue
		}
		dialled := time.Now()
		l, err := n.dialer.dial(t)
		if errors.Is(err, errNewHint) {
			continue
		}
		if err != nil {
			n.wait(k, dialled, n.recordFailure(k, t, err))
			continue
		}
		if other := n.adopt(k, l); other != nil { // it is connected by another of its addresses
			l.close()
			n.waitForEnd(k, other)
			continue
		}
		n.wait(k, time.Now(), n.runLink(k, l))
	}
}

// linkOf returns the link to the node that t claims to be, or was at the last connection; nil if
// there is none.
func (n *candidates) linkOf(t target) *link {
	for _, id := range []community.NodeID{t.claimed, t.proven} {
		if l, ok := n.links.get(id); ok && id != "" {
			return l
		}
	}
	return nil
}

// waitForEnd returns when the link, which another candidate holds, has ended, when k is gone, or
// when the search ends.
func (n *candidates) waitForEnd(k *candidate, l *link) {
	for {
		select {
		case <-l.ended:
			return
		case <-n.life.search.Done():
			return
		case <-k.changed:
			n.mu.Lock()
			gone := k.gone
			n.mu.Unlock()
			if gone {
				return
			}
		}
	}
}

// adopt makes l the link to its node and returns nil, or returns the link that the node has. Either
// way the candidate is known to be that node from now on.
func (n *candidates) adopt(k *candidate, l *link) *link {
	n.mu.Lock()
	defer n.mu.Unlock()
	k.proven, k.fails = l.peer.ID, 0
	k.answer(nil)
	n.records.removed.Store(nil)
	if other := n.links.add(l); other != nil {
		return other
	}
	k.status = NodeStatus{ID: l.peer.ID, Name: l.peer.Name, State: StateConnected, Addr: l.peer.Addr, Since: l.since}
	return nil
}

// runLink runs a link that adopt has added until it ends, records why, and returns how long to wait
// before the next dial. A node that broke the rules is left alone for refusedPause; a lost
// connection is retried at once, because a network that recovers should be whole within 5 s.
func (n *candidates) runLink(k *candidate, l *link) pause {
	l.closeIfRemoved(n.cfg.Identity.Revocations()) // guard may have looked just before it could see this link
	n.records.add(Event{Kind: Connected, Node: l.peer.ID, Name: l.peer.Name, Key: k.key, Addr: l.peer.Addr})
	err := n.watchLink(l)
	if l.reason.idle.Load() {
		n.links.remove(l.peer.ID)
		n.members.detach(l)
		close(l.ended)
		return pause{}
	}
	state, kind, p := StateUnavailable, Lost, pause{min: firstBackOff, length: jitter(firstBackOff)}
	switch {
	case isGoodbye(err):
		state, kind, p.length = StateLeft, Left, jitter(goodbyePause)
	case refusalOf(err) != "":
		state, kind, p.length, p.ignoreHints = refusalOf(err), Refused, refusedPause, true
	}
	n.mu.Lock()
	n.links.remove(l.peer.ID)
	k.status.State, k.status.Why, k.status.Since, k.status.Authority = state, err.Error(), time.Now(), l.about.authority.Load()
	status := k.status
	n.mu.Unlock()
	n.members.detach(l)
	close(l.ended)
	n.records.store(status)
	if n.life.search.Err() != nil {
		return p // this node ends, not that one
	}
	n.records.add(Event{Kind: kind, Node: l.peer.ID, Name: l.peer.Name, Key: k.key, Addr: l.peer.Addr, Why: err.Error()})
	return p
}

// watchLink attaches a lease, watches the node, and offers it reversed connections if this node
// dialed it. It returns why the link ended.
func (n *candidates) watchLink(l *link) error {
	n.introduced.Connected(l.peer.ID)
	defer func() { n.introduced.Disconnected(l.peer.ID, l.reason.removed.Load()) }()
	var offering sync.WaitGroup
	defer offering.Wait()
	ctx, stop := context.WithCancel(n.life.search)
	defer stop()
	if l.at != (endpoint{}) {
		offering.Go(func() { n.offers(ctx, l) })
	}
	return l.watch(n.life.conns, n.members.attach(l))
}

// recordFailure records a failed dial for the list of nodes and returns how long to wait. Wrong
// answers (another cluster, an ended certificate) wait longer than no answer, because they do not
// go away by themselves.
func (n *candidates) recordFailure(k *candidate, t target, err error) pause {
	state, kind := StateUnavailable, Unreachable
	p := pause{min: firstBackOff}
	refusal := refusalOf(err)
	if errors.Is(err, identity.ErrRejected) && errors.Is(err, identity.ErrRemoved) {
		why := err.Error()
		n.records.removed.Store(&why)
	}
	n.mu.Lock()
	k.fails++
	k.answer(err)
	k.isSelf = errors.Is(err, errSelf)
	switch {
	case refusal != "":
		state, kind = refusal, Refused
		p.length, p.ignoreHints = refusedPause, true
		if k.unproven() {
			p.length = backOff(refusedPause, maxRefusedPause, k.fails)
		}
	default:
		p.length = k.backOff()
		if k.status.State == StateLeft {
			state = StateLeft // a node that has left does not answer
		}
	}
	if k.claimed == n.self() {
		// Hints do not end this pause early, so that forging this node's name gains few dials.
		long := backOff(refusedPause, maxSelfPause, k.fails)
		p = pause{min: long, length: long, ignoreHints: true}
	}
	if k.status.State != state {
		k.status.Since = time.Now()
	}
	if k.status.State = state; state != StateLeft {
		k.status.Why = err.Error()
	}
	k.status.ID = cmp.Or(k.status.ID, k.claimed)
	if len(t.addrs) > 0 {
		k.status.Addr = t.addrs[0].String()
	} else if t.url != "" {
		k.status.Addr = t.url
	}
	e := Event{Kind: kind, Node: k.status.ID, Name: k.status.Name, Key: k.key, Addr: k.status.Addr, Why: err.Error()}
	n.mu.Unlock()
	if n.life.search.Err() == nil && !k.isSelf {
		n.records.add(e)
	}
	return p
}

// maxSelfPause is the longest pause between dials of a node that claims this node's own id. It is a
// check for a copied key, not urgent, and an attacker can cause it.
const maxSelfPause = 10 * time.Minute

// backOff returns the pause after a dial without an answer. The first goneDials failures are
// treated alike; after them, candidates that only untrusted sources name are dialed less and less.
// The caller holds candidates.mu.
func (k *candidate) backOff() time.Duration {
	switch late := k.fails - goneDials; {
	case late <= 0 || !k.unproven():
		return backOff(firstBackOff, maxBackOff, k.fails)
	case k.introduced():
		return backOff(2*maxBackOff, maxIntroducedBackOff, late)
	default:
		return backOff(2*maxBackOff, maxUnprovenBackOff, late)
	}
}

// pause is how long not to dial a candidate: length, or at least min when a hint ends it early.
type pause struct {
	min, length time.Duration
	ignoreHints bool // only a changed address ends it early, not a repeated hint
}

// wait waits for p. A new hint ends it early, but not before p.min has passed since from, so that a
// flood of hints does not become a flood of dials. It also returns when the candidate is dropped or
// the search ends.
func (n *candidates) wait(k *candidate, from time.Time, p pause) {
	over := time.NewTimer(p.length)
	defer over.Stop()
	for {
		select {
		case <-n.life.search.Done():
			return
		case <-over.C:
			return
		case <-k.changed:
			n.mu.Lock()
			gone, fresh, unproven := k.gone, k.addrsChanged || len(k.demand.waiting) > 0, k.proven == ""
			n.mu.Unlock()
			switch {
			case gone && unproven:
				return
			case fresh || !gone && !p.ignoreHints:
				left := p.min - time.Since(from)
				if left <= 0 {
					return
				}
				p.ignoreHints = true // one sighting is one dial
				over.Reset(left)
			}
		}
	}
}
