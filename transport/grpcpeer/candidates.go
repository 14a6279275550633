package grpcpeer

import (
	"cmp"
	"context"
	"net/netip"
	"slices"
	"sync"
	"time"

	"symbio/community"
	"symbio/discovery"
	"symbio/transport/grpcpeer/internal/introduced"
)

// candidates is the set of nodes that discovery hints at. One goroutine per candidate (maintain)
// dials it, runs its link while it lasts, and dials again after a pause. Hints come from any
// goroutine; mu guards the set and the candidates' fields.
type candidates struct {
	*local
	dialer  *dialer
	members *membership
	// offers opens connections for the node of a link, which cannot dial this one, until ctx ends.
	offers func(ctx context.Context, l *link)
	// loops counts the goroutines of maintain and of reversed links. Add is guarded by mu, so that
	// none starts after stop.
	loops sync.WaitGroup // Add is guarded by mu

	mu    sync.Mutex
	host  community.Host        // set by begin; guarded by mu
	byKey map[string]*candidate // guarded by mu
}

// newCandidates returns an empty set, with the members by gossip. offers is set by New, because reverser and candidates need
// each other.
func newCandidates(n *local, d *dialer) *candidates {
	c := &candidates{local: n, dialer: d, byKey: map[string]*candidate{}}
	c.members = newMembership(n, c)
	return c
}

// candidate is one hinted node. Its key is the node id where discovery knows it, otherwise what was
// configured, such as "host:port".
type candidate struct {
	key     string
	changed chan struct{} // capacity 1: something about it has changed
	dropped chan struct{} // closed when it is gone and was never reached

	// guarded by candidates.mu
	claimed      community.NodeID // "" = unknown
	addrs        []netip.AddrPort
	url          string // of a WebSocket; "" = none
	sources      []string
	gone         bool
	addrsChanged bool             // its addresses are others than at the last dial
	proven       community.NodeID // that answered last
	fails        int              // dials in a row without a link
	isSelf       bool             // this node itself answered
	crowd        crowdTurn
	demand       demand
	status       NodeStatus
}

// crowdTurn is when a candidate is dialed of many that are hinted at the same time.
type crowdTurn struct {
	added time.Time // when it was hinted at first
	came  bool
}

// demand is what gossip and calls want of a candidate.
type demand struct {
	vouched bool         // it was a member by gossip: its record is proven
	parked  bool         // it has no goroutine: its node is a member without a link
	waiting []chan error // for the outcome of the next dial; capacity 1 each
}

// newCandidate returns a candidate that is named for the first time.
func newCandidate(key string) *candidate {
	now := time.Now()
	return &candidate{key: key, changed: make(chan struct{}, 1), dropped: make(chan struct{}), crowd: crowdTurn{added: now},
		status: NodeStatus{State: StateUnavailable, Since: now, Why: "not dialled yet"}}
}

// add takes a hint (Network.AddHint). The first hint of a key starts a goroutine, a later one
// updates the addresses and wakes it. A hint that the node is gone drops a candidate that was never
// reached; one that was reached is still dialed goneDials times, since hints are unproven.
func (n *candidates) add(hint discovery.Candidate) {
	if hint.Key == "" {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	k := n.byKey[hint.Key]
	if n.life.search.Err() != nil || k == nil && (hint.Gone || !n.hasRoom()) {
		return
	}
	if k == nil {
		k = newCandidate(hint.Key)
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
		k.addrsChanged = k.addrsChanged || k.claimed != community.NodeID(hint.Node) || k.url != hint.URL || !slices.Equal(k.addrs, hint.Addrs)
		k.claimed, k.addrs, k.url, k.sources = community.NodeID(hint.Node), slices.Clone(hint.Addrs), hint.URL, hint.Sources
	}
	n.wakeUp(k)
}

// wakeUp makes the goroutine of a candidate look at it again, and starts it if it was parked. The caller holds n.mu.
func (n *candidates) wakeUp(k *candidate) {
	if k.demand.parked && n.life.search.Err() == nil {
		k.demand.parked = false
		n.loops.Go(func() { n.maintain(k) })
	}
	select {
	case k.changed <- struct{}{}:
	default:
	}
}

// answer tells those who wait for a dial how it ended. The caller holds candidates.mu.
func (k *candidate) answer(err error) {
	for _, w := range k.demand.waiting {
		w <- err
	}
	k.demand.waiting = nil
}

// gossipDials is how many dials in a row, at least 4 s apart, a node gets that only gossip knew.
const gossipDials = 100

// gossipName is the source of the candidates that are members by gossip.
const gossipName = "gossip"

// wanted wakes the candidate of a node up, a new one if there is none. It returns nil if there is no room, or no address. The
// caller holds n.mu.
func (n *candidates) wanted(id community.NodeID, addrs []netip.AddrPort) *candidate {
	for _, k := range n.byKey {
		if (k.proven == id || k.claimed == id) && !k.gone {
			k.demand.vouched = true
			if len(addrs) > 0 && !slices.Contains(k.addrs, addrs[0]) {
				k.addrs = slices.Concat(addrs[:1], k.addrs[:min(len(k.addrs), discovery.MaxAddrs-1)])
			}
			n.wakeUp(k)
			return k
		}
	}
	if len(addrs) == 0 || n.host == nil || n.life.search.Err() != nil || !n.hasRoom() {
		return nil
	}
	k := newCandidate(string(id))
	k.claimed, k.addrs, k.sources, k.demand.vouched = id, slices.Clone(addrs), []string{gossipName}, true
	n.byKey[k.key] = k
	n.loops.Go(func() { n.maintain(k) })
	return k
}

// park ends the goroutine of a candidate whose node is a member without a link, in a large cluster, until a call or gossip wants
// a link. It reports whether the goroutine ends.
func (n *candidates) park(k *candidate, t target) bool {
	id := cmp.Or(t.claimed, t.proven)
	if id == "" || !n.members.isLarge() || !n.members.covers(id) {
		return false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(k.demand.waiting) > 0 || k.gone {
		return false
	}
	k.demand.parked = true
	return true
}

// start starts the goroutines of the candidates that were added before Run.
func (n *candidates) start(host community.Host) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.host = host
	for _, k := range n.byKey {
		n.loops.Go(func() { n.maintain(k) })
	}
}

// stop ends the search under the lock, so that no goroutine starts afterwards and loops.Wait is
// safe.
func (n *candidates) stop(endSearch func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	endSearch()
}

// goLoop runs f in a goroutine that Run waits for. It returns errStopping before start and after
// stop.
func (n *candidates) goLoop(f func()) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.life.search.Err() != nil || n.host == nil {
		return errStopping
	}
	n.loops.Go(f)
	return nil
}

// hasRoom reports whether one more candidate may be added. At the limit it drops one that was
// dialed without success and never reached, so that false hints cannot keep out a real node for
// ever. The caller holds n.mu.
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

// drop ends the pursuit of a candidate that was never reached, also while it waits for its turn to be dialed, so
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

// target is a copy of the data for dialing a candidate, so that dialing holds no lock.
type target struct {
	claimed, proven community.NodeID
	addrs           []netip.AddrPort
	url             string
	introduced      bool            // only other nodes name it
	unproven        bool            // only other nodes or mDNS name it
	better          <-chan struct{} // of an introduced one: there may be a better hint; else nil
	dropped         <-chan struct{}
	isStale         func(endpoint) bool
	begin           func() (done func(), ok bool)
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
	byOthers := func(s string) bool { return s == introduced.Name || s == mdnsName }
	return k.proven == "" && !k.demand.vouched && len(k.sources) > 0 && !slices.ContainsFunc(k.sources, func(s string) bool { return !byOthers(s) })
}

// next returns what to dial, or false when the candidate is not worth dialing any more: it is gone
// and was never reached, or did not answer goneDials times, or said goodbye; or the network is
// stopping.
func (n *candidates) next(k *candidate) (target, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.life.search.Err() != nil || k.forgotten() || k.gone && (k.proven == "" || k.fails >= goneDials || k.status.State == StateLeft) {
		if n.byKey[k.key] == k {
			delete(n.byKey, k.key)
		}
		return target{}, false
	}
	k.addrsChanged = false
	t := target{claimed: k.claimed, proven: k.proven, addrs: slices.Clone(k.addrs), url: k.url, introduced: k.introduced(), unproven: k.unproven(),
		dropped: k.dropped, isStale: func(e endpoint) bool { return n.isStale(k, e) },
		begin: func() (func(), bool) { return n.members.first.begin(k) }}
	if t.introduced {
		t.better = k.changed
	}
	return t, true
}

// forgotten reports whether only gossip named the candidate, which did not answer for long. The caller holds candidates.mu.
func (k *candidate) forgotten() bool {
	return len(k.sources) == 1 && k.sources[0] == gossipName && k.fails >= gossipDials
}

// isStale reports whether no source names e any more. A dial of several addresses asks before each one.
func (n *candidates) isStale(k *candidate, e endpoint) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return e.url != k.url || e.url == "" && !slices.Contains(k.addrs, e.addr)
}

// isDiscovered reports whether some source names the node by its id.
func (n *candidates) isDiscovered(id community.NodeID) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.byKey[string(id)] != nil
}

// list returns the status of the candidates that are not in listed, and adds their nodes to listed.
// A candidate whose node is listed is the same node at another address.
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
