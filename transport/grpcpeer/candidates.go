package grpcpeer

import (
	"cmp"
	"context"
	"errors"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"symbio/community"
	"symbio/discovery"
	"symbio/security/identity"
	"symbio/transport/grpcpeer/internal/introduced"
)

// candidates are the nodes that discovery hints at. One goroutine pursues each: it dials the candidate, keeps
// the link while it lasts, and tries again.
type candidates struct {
	*local
	dialer *dialer
	// offers opens connections for the node of a link, which cannot dial this one, until ctx ends.
	offers  func(ctx context.Context, l *link)
	removed atomic.Pointer[string] // why this node seems to be removed from its cluster; nil = it does not
	loops   sync.WaitGroup         // Add is guarded by mu

	mu    sync.Mutex
	host  community.Host        // set by begin; guarded by mu
	byKey map[string]*candidate // guarded by mu
}

func newCandidates(n *local, d *dialer) *candidates {
	return &candidates{local: n, dialer: d, byKey: map[string]*candidate{}}
}

// candidate is a node that may be there, as discovery says.
type candidate struct {
	key     string
	changed chan struct{} // capacity 1: something about it has changed
	dropped chan struct{} // closed when it is gone and was never reached

	// guarded by candidates.mu
	claimed      community.NodeID // "" = unknown
	addrs        []netip.AddrPort
	sources      []string
	gone         bool
	addrsChanged bool             // its addresses are others than at the last dial
	proven       community.NodeID // that answered last
	fails        int              // dials in a row without a link
	isSelf       bool             // this node itself answered
	status       NodeStatus
}

// add takes a hint (Network.AddHint).
func (n *candidates) add(hint discovery.Candidate) {
	if hint.Key == "" {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	k := n.byKey[hint.Key]
	if n.search.Err() != nil || k == nil && (hint.Gone || !n.hasRoom()) {
		return
	}
	if k == nil {
		k = &candidate{key: hint.Key, changed: make(chan struct{}, 1), dropped: make(chan struct{})}
		k.status = NodeStatus{State: StateUnavailable, Since: time.Now(), Why: "not dialled yet"}
		n.byKey[hint.Key] = k
		if n.host != nil {
			n.loops.Go(func() { n.maintain(k) })
		}
	}
	if hint.Gone && k.proven == "" {
		n.drop(k)
		return
	}
	if k.gone = hint.Gone; !hint.Gone {
		k.addrsChanged = k.addrsChanged || k.claimed != community.NodeID(hint.Node) || !slices.Equal(k.addrs, hint.Addrs)
		k.claimed, k.addrs, k.sources = community.NodeID(hint.Node), slices.Clone(hint.Addrs), hint.Sources
	}
	select {
	case k.changed <- struct{}{}:
	default:
	}
}

// start pursues the candidates that were sighted before Run.
func (n *candidates) start(host community.Host) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.host = host
	for _, k := range n.byKey {
		n.loops.Go(func() { n.maintain(k) })
	}
}

// stop ends the search. No pursuit begins after it.
func (n *candidates) stop(endSearch func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	endSearch()
}

// goLoop runs f as a pursuit. It is an error before begin and after stop.
func (n *candidates) goLoop(f func()) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.search.Err() != nil || n.host == nil {
		return errStopping
	}
	n.loops.Go(f)
	return nil
}

// hasRoom reports whether one more candidate may be kept. When all places are taken, a candidate that was dialled
// in vain and never proven makes room. The caller holds n.mu.
func (n *candidates) hasRoom() bool {
	if len(n.byKey) < n.cfg.Limits.Candidates {
		return true
	}
	for _, k := range n.byKey {
		if k.proven == "" && k.fails > 0 {
			n.drop(k)
			return true
		}
	}
	return false
}

// drop ends the pursuit of a candidate that was never reached, also while it waits for its turn to be dialled, so
// that false hints hold no more goroutines than discovery holds hints. A dial under way ends by itself. The caller
// holds n.mu.
func (n *candidates) drop(k *candidate) {
	k.gone = true
	close(k.dropped)
	delete(n.byKey, k.key)
	select {
	case k.changed <- struct{}{}:
	default:
	}
}

// target is what to dial, as known at one moment.
type target struct {
	claimed, proven community.NodeID
	addrs           []netip.AddrPort
	introduced      bool            // only other nodes name it
	unproven        bool            // only other nodes or mDNS name it
	better          <-chan struct{} // of an introduced one: there may be a better hint; else nil
	dropped         <-chan struct{}
	isStale         func(netip.AddrPort) bool
}

// introduced reports whether only other nodes name the candidate, and it never was reached. The caller holds
// candidates.mu.
func (k *candidate) introduced() bool {
	return k.proven == "" && len(k.sources) == 1 && k.sources[0] == introduced.Name
}

// mdnsName is the source that any machine of the network can feed (discovery/mdns).
const mdnsName = "mdns"

// unproven reports whether the candidate was never reached, and only sources name it that any machine of the
// network, or any node, can feed. The caller holds candidates.mu.
func (k *candidate) unproven() bool {
	return k.proven == "" && len(k.sources) > 0 && !slices.ContainsFunc(k.sources, func(s string) bool { return s != introduced.Name && s != mdnsName })
}

// next returns what to dial, or false when the candidate is not worth pursuing any more.
func (n *candidates) next(k *candidate) (target, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.search.Err() != nil || k.gone && (k.proven == "" || k.fails >= goneDials || k.status.State == StateLeft) {
		if n.byKey[k.key] == k {
			delete(n.byKey, k.key)
		}
		return target{}, false
	}
	k.addrsChanged = false
	t := target{claimed: k.claimed, proven: k.proven, addrs: slices.Clone(k.addrs), introduced: k.introduced(), unproven: k.unproven(), dropped: k.dropped,
		isStale: func(a netip.AddrPort) bool { return n.isStale(k, a) }}
	if t.introduced {
		t.better = k.changed
	}
	return t, true
}

// isStale reports whether no source names that address of the candidate any more.
func (n *candidates) isStale(k *candidate, a netip.AddrPort) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return !slices.Contains(k.addrs, a)
}

// maintain dials the candidate, keeps the link while it lasts, and tries again, until the candidate is
// gone or the network ends.
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

// linkOf returns the link to the node that the target is, as far as that is known.
func (n *candidates) linkOf(t target) *link {
	for _, id := range []community.NodeID{t.claimed, t.proven} {
		if l, ok := n.links.get(id); ok && id != "" {
			return l
		}
	}
	return nil
}

// waitForEnd waits until the link, which another candidate holds, has ended, or the candidate is gone.
func (n *candidates) waitForEnd(k *candidate, l *link) {
	for {
		select {
		case <-l.ended:
			return
		case <-n.search.Done():
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

// adopt makes l the link to its node, or returns the one there is.
func (n *candidates) adopt(k *candidate, l *link) *link {
	n.mu.Lock()
	defer n.mu.Unlock()
	k.proven, k.fails = l.peer.ID, 0
	n.removed.Store(nil)
	if other := n.links.add(l); other != nil {
		return other
	}
	k.status = NodeStatus{ID: l.peer.ID, Name: l.peer.Name, State: StateConnected, Addr: l.peer.Addr, Since: l.since}
	return nil
}

// runLink gives the node its lease and keeps it until the link ends. It returns how long to rest then.
func (n *candidates) runLink(k *candidate, l *link) pause {
	l.closeIfRemoved(n.cfg.Identity.Revocations()) // guard may have looked just before it could see this link
	n.records.add(Event{Kind: Connected, Node: l.peer.ID, Name: l.peer.Name, Key: k.key, Addr: l.peer.Addr})
	err := n.watchLink(l)
	state, kind, p := StateUnavailable, Lost, pause{min: firstBackOff, length: jitter(firstBackOff)}
	switch {
	case isGoodbye(err):
		state, kind, p.length = StateLeft, Left, jitter(goodbyePause)
	case refusalOf(err) != "":
		state, kind, p.length, p.ignoreHints = refusalOf(err), Refused, refusedPause, true
	}
	n.mu.Lock()
	n.links.remove(l.peer.ID)
	k.status.State, k.status.Why, k.status.Since, k.status.Authority = state, err.Error(), time.Now(), l.authority.Load()
	status := k.status
	n.mu.Unlock()
	close(l.ended)
	n.records.store(status)
	if n.search.Err() != nil {
		return p // this node ends, not that one
	}
	n.records.add(Event{Kind: kind, Node: l.peer.ID, Name: l.peer.Name, Key: k.key, Addr: l.peer.Addr, Why: err.Error()})
	return p
}

// watchLink keeps the link and what goes with it until it ends, and returns why it did.
func (n *candidates) watchLink(l *link) error {
	n.introduced.Connected(l.peer.ID)
	defer func() { n.introduced.Disconnected(l.peer.ID, l.removed.Load()) }()
	var offering sync.WaitGroup
	defer offering.Wait()
	ctx, stop := context.WithCancel(n.search)
	defer stop()
	if l.addr.IsValid() {
		offering.Go(func() { n.offers(ctx, l) })
	}
	return l.watch(n.life, n.host.Attach(l.peer))
}

// recordFailure records why a dial made no link, and returns how long to rest.
func (n *candidates) recordFailure(k *candidate, t target, err error) pause {
	state, kind := StateUnavailable, Unreachable
	p := pause{min: firstBackOff}
	refusal := refusalOf(err)
	if errors.Is(err, identity.ErrRejected) && errors.Is(err, identity.ErrRemoved) {
		why := err.Error()
		n.removed.Store(&why)
	}
	n.mu.Lock()
	k.fails++
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
	if k.claimed == n.self {
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
	if k.status.ID == "" {
		k.status.ID = k.claimed
	}
	if len(t.addrs) > 0 {
		k.status.Addr = t.addrs[0].String()
	}
	e := Event{Kind: kind, Node: k.status.ID, Name: k.status.Name, Key: k.key, Addr: k.status.Addr, Why: err.Error()}
	n.mu.Unlock()
	if n.search.Err() == nil && !k.isSelf {
		n.records.add(e)
	}
	return p
}

// maxSelfPause is the longest pause for an address at which this node itself is said to be.
const maxSelfPause = 10 * time.Minute

// backOff returns the pause after a dial that reached no node. The caller holds candidates.mu.
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

// pause is how long not to dial a candidate.
type pause struct {
	min, length time.Duration
	ignoreHints bool // only a changed address ends it early, not a repeated hint
}

// wait waits. A new sighting ends it early, but never before the least time has passed since from, so
// that a flood of hints is no flood of dials.
func (n *candidates) wait(k *candidate, from time.Time, p pause) {
	over := time.NewTimer(p.length)
	defer over.Stop()
	for {
		select {
		case <-n.search.Done():
			return
		case <-over.C:
			return
		case <-k.changed:
			n.mu.Lock()
			gone, fresh, unproven := k.gone, k.addrsChanged, k.proven == ""
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

// isDiscovered reports whether discovery names the node by itself.
func (n *candidates) isDiscovered(id community.NodeID) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.byKey[string(id)] != nil
}

// list returns the status of the candidates whose nodes are not listed yet, and adds them to listed. A candidate
// whose node is listed is that node at another address.
func (n *candidates) list(listed map[community.NodeID]bool) (out []NodeStatus) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, k := range n.byKey {
		if listed[k.proven] || listed[k.claimed] || k.isSelf {
			continue
		}
		if k.status.ID != "" {
			listed[k.status.ID] = true
		}
		status := k.status
		status.Sources = k.sources
		out = append(out, status)
	}
	return out
}

// sources returns the discovery sources that see each node, under whatever key.
func (n *candidates) sources() map[community.NodeID][]string {
	out := map[community.NodeID][]string{}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, k := range n.byKey {
		id := cmp.Or(k.proven, k.claimed)
		for _, s := range k.sources {
			if id != "" && !k.gone && !slices.Contains(out[id], s) {
				out[id] = append(out[id], s)
			}
		}
	}
	for _, all := range out {
		slices.Sort(all)
	}
	return out
}
