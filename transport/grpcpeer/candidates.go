package grpcpeer

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"time"

	"symbio/community"
	"symbio/discovery"
	"symbio/security/identity"
)

// candidate is somebody who may be a node, as discovery says. One goroutine pursues it.
type candidate struct {
	key  string
	kick chan struct{} // capacity 1: something about it has changed

	// guarded by Network.mu
	claimed community.NodeID // "" = unknown
	addrs   []netip.AddrPort
	sources []string
	gone    bool
	fresh   bool             // its addresses are others than at the last dial
	proven  community.NodeID // who answered last
	fails   int              // dials in a row that reached nobody
	own     bool             // this node itself answered
	status  NodeStatus
}

// Sight takes a hint that somebody may be at some addresses, or is there no more. It returns at once.
// A hint never closes or redirects a connection, and no more than Limits.Candidates are kept. A hint that this
// node itself is somewhere else is looked into, seldom: somebody may have a copy of its key.
func (n *Network) Sight(hint discovery.Candidate) {
	if hint.Key == "" {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	k := n.candidates[hint.Key]
	if n.search.Err() != nil || k == nil && (hint.Gone || !n.room()) {
		return
	}
	if k == nil {
		k = &candidate{key: hint.Key, kick: make(chan struct{}, 1)}
		k.status = NodeStatus{State: StateUnavailable, Since: time.Now(), Why: "not dialled yet"}
		n.candidates[hint.Key] = k
		if n.host != nil {
			n.pursuits.Go(func() { n.pursue(k) })
		}
	}
	k.gone = hint.Gone
	if !hint.Gone {
		k.fresh = k.fresh || k.claimed != community.NodeID(hint.Node) || !slices.Equal(k.addrs, hint.Addrs)
		k.claimed, k.addrs, k.sources = community.NodeID(hint.Node), slices.Clone(hint.Addrs), hint.Sources
	}
	select {
	case k.kick <- struct{}{}:
	default:
	}
}

// room reports whether one more candidate may be kept; when all places are taken, somebody who was
// dialled in vain and never proven makes room. The caller holds n.mu.
func (n *Network) room() bool {
	if len(n.candidates) < n.cfg.Limits.Candidates {
		return true
	}
	for _, k := range n.candidates {
		if k.proven == "" && k.fails > 0 && !k.gone {
			k.gone = true
			select {
			case k.kick <- struct{}{}:
			default:
			}
			delete(n.candidates, k.key)
			return true
		}
	}
	return false
}

// target is what to dial, as known at one moment.
type target struct {
	of              *candidate
	claimed, proven community.NodeID
	addrs           []netip.AddrPort
	hearsay         bool
	news            <-chan struct{} // for hearsay: there may be something better to go by; else nil
}

// hearsay reports whether nobody but other nodes says that the candidate is there, and it never was. The
// caller holds Network.mu.
func (k *candidate) hearsay() bool {
	return k.proven == "" && len(k.sources) == 1 && k.sources[0] == introducedName
}

// announcedName is the source that anybody on the network can feed (discovery/mdns).
const announcedName = "mdns"

// strange reports whether the candidate was never reached, and only what anybody on the network may say
// speaks of it. The caller holds Network.mu.
func (k *candidate) strange() bool {
	return k.proven == "" && len(k.sources) > 0 && !slices.ContainsFunc(k.sources, func(s string) bool { return s != introducedName && s != announcedName })
}

// next says what to dial, or that the candidate is not worth pursuing any more.
func (n *Network) next(k *candidate) (target, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.search.Err() != nil || k.gone && (k.proven == "" || k.fails >= farewells || k.status.State == StateLeft) {
		if n.candidates[k.key] == k {
			delete(n.candidates, k.key)
		}
		return target{}, false
	}
	k.fresh = false
	t := target{claimed: k.claimed, proven: k.proven, addrs: slices.Clone(k.addrs), hearsay: k.hearsay()}
	if t.hearsay {
		t.news = k.kick
	}
	return t, true
}

// moved reports whether the candidate is not said to be at that address any more.
func (n *Network) moved(k *candidate, a netip.AddrPort) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return !slices.Contains(k.addrs, a)
}

// pursue dials the candidate, keeps the link while it lasts, and tries again, until the candidate is
// gone or the network ends.
func (n *Network) pursue(k *candidate) {
	for {
		t, ok := n.next(k)
		if !ok {
			return
		}
		if l := n.linkOf(t); l != nil {
			n.await(k, l)
			continue
		}
		dialled := time.Now()
		t.of = k
		l, err := n.dial(t)
		if errors.Is(err, errNews) {
			continue
		}
		if err != nil {
			n.rest(k, dialled, n.missed(k, t, err))
			continue
		}
		if other := n.adopt(k, l); other != nil { // it is connected by another of its addresses
			l.close()
			n.await(k, other)
			continue
		}
		n.rest(k, time.Now(), n.hold(k, l))
	}
}

// linkOf returns the link to the node that the target is, as far as that is known.
func (n *Network) linkOf(t target) *link {
	for _, id := range []community.NodeID{t.claimed, t.proven} {
		if l, ok := n.links.Load(id); ok && id != "" {
			return l.(*link)
		}
	}
	return nil
}

// await waits until the link, which another candidate holds, has ended, or the candidate is gone.
func (n *Network) await(k *candidate, l *link) {
	for {
		select {
		case <-l.ended:
			return
		case <-n.search.Done():
			return
		case <-k.kick:
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
func (n *Network) adopt(k *candidate, l *link) *link {
	n.mu.Lock()
	defer n.mu.Unlock()
	k.proven, k.fails = l.peer.ID, 0
	if other, ok := n.links.Load(l.peer.ID); ok {
		return other.(*link)
	}
	n.links.Store(l.peer.ID, l)
	n.circle.turned()
	k.status = NodeStatus{ID: l.peer.ID, Name: l.peer.Name, State: StateConnected, Addr: l.peer.Addr, Since: l.since}
	return nil
}

// hold gives the node its lease and keeps it until the link ends. It returns how long to rest then.
func (n *Network) hold(k *candidate, l *link) pause {
	l.expelIf(n.cfg.Identity.Revocations()) // guard may have looked just before it could see this link
	n.records.tell(Event{Kind: Connected, Node: l.peer.ID, Name: l.peer.Name, Key: k.key, Addr: l.peer.Addr})
	err := n.stay(l)
	state, kind, p := StateUnavailable, Lost, pause{least: firstBackOff, length: jitter(firstBackOff)}
	switch {
	case isFarewell(err):
		state, kind, p.length = StateLeft, Left, jitter(farewellPause)
	case refusalOf(err) != "":
		state, kind, p.length, p.stubborn = refusalOf(err), Refused, refusedPause, true
	}
	n.mu.Lock()
	n.links.Delete(l.peer.ID)
	n.circle.turned()
	k.status.State, k.status.Why, k.status.Since, k.status.Authority = state, err.Error(), time.Now(), l.authority.Load()
	status := k.status
	n.mu.Unlock()
	close(l.ended)
	n.records.keep(status)
	if n.search.Err() != nil {
		return p // this node ends, not that one
	}
	n.records.tell(Event{Kind: kind, Node: l.peer.ID, Name: l.peer.Name, Key: k.key, Addr: l.peer.Addr, Why: err.Error()})
	return p
}

// stay keeps the link and what goes with it until it ends, and returns why it did.
func (n *Network) stay(l *link) error {
	n.introduced.stays(l.peer.ID)
	defer func() { n.introduced.leaves(l.peer.ID, l.removed.Load()) }()
	var offering sync.WaitGroup
	defer offering.Wait()
	ctx, stop := context.WithCancel(n.search)
	defer stop()
	if l.addr.IsValid() {
		offering.Go(func() { n.offers(ctx, l) })
	}
	return l.watch(n.life, n.host.Attach(l.peer))
}

// missed notes why a dial made no link, and returns how long to rest.
func (n *Network) missed(k *candidate, t target, err error) pause {
	state, kind := StateUnavailable, Unreachable
	p := pause{least: firstBackOff}
	refusal := refusalOf(err)
	n.mu.Lock()
	k.fails++
	k.own = errors.Is(err, errSelf)
	switch {
	case refusal != "":
		state, kind = refusal, Refused
		p.length, p.stubborn = refusedPause, true
		if k.strange() {
			p.length = min(refusedPause<<min(k.fails-1, 16), maxRefusedPause)
		}
	default:
		p.length = backOff(k.fails)
		if k.strange() && k.fails > farewells {
			most := strangerBackOff
			if k.hearsay() {
				most = hearsayBackOff
			}
			p.length = jitter(min(maxBackOff<<min(k.fails-farewells, 16), most))
		}
		if k.status.State == StateLeft {
			state = StateLeft // that nobody answers is as it should be
		}
	}
	if k.claimed == n.self {
		p = mirrorPause(k.fails)
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
	if n.search.Err() == nil && !k.own {
		n.records.tell(e)
	}
	return p
}

// pause is how long to leave a candidate alone.
type pause struct {
	least, length time.Duration
	stubborn      bool // only a changed address ends it early, not a repeated hint
}

// rest waits. A new sighting ends it early, but never before the least time has passed since from, so
// that a flood of hints is no flood of dials.
func (n *Network) rest(k *candidate, from time.Time, p pause) {
	over := time.NewTimer(p.length)
	defer over.Stop()
	for {
		select {
		case <-n.search.Done():
			return
		case <-over.C:
			return
		case <-k.kick:
			n.mu.Lock()
			gone, fresh, stranger := k.gone, k.fresh, k.proven == ""
			n.mu.Unlock()
			switch {
			case gone && stranger:
				return
			case fresh || !gone && !p.stubborn:
				left := p.least - time.Since(from)
				if left <= 0 {
					return
				}
				p.stubborn = true // one sighting is one dial
				over.Reset(left)
			}
		}
	}
}

// backOff is how long to wait after that many dials in vain: 100 ms, then 1.6 times longer each time,
// up to 4 s, and somewhat less by chance so that nodes do not dial in step.
func backOff(fails int) time.Duration {
	d := firstBackOff
	for i := 1; i < fails && d < maxBackOff; i++ {
		d = d * 8 / 5
	}
	return jitter(min(d, maxBackOff))
}

func jitter(d time.Duration) time.Duration { return d*4/5 + rand.N(d/5+1) }

// slot waits for leave to dial. Nodes that were connected before have places of their own, so that a
// flood of false hints does not keep them apart; and what others say has, so that it keeps nobody apart
// that discovery finds by itself.
func (n *Network) slot(ctx context.Context, t target) (release func(), err error) {
	places := n.newcomers
	switch {
	case t.proven != "":
		places = n.knownFriend
	case t.hearsay:
		places = n.hearsay
	}
	select {
	case places <- struct{}{}:
		return func() { <-places }, nil
	case <-t.news:
		return nil, errNews
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// reachable returns the addresses worth dialling. A local identity means something on this machine
// only, so that a forged hint cannot make this node knock at others.
func (n *Network) reachable(addrs []netip.AddrPort) []netip.AddrPort {
	var out []netip.AddrPort
	for _, a := range addrs {
		ip := a.Addr().Unmap()
		if !a.IsValid() || a.Port() == 0 || ip.IsUnspecified() || ip.IsMulticast() {
			continue
		}
		if n.cfg.Identity.Authority() == identity.Local && !ip.IsLoopback() {
			continue
		}
		out = append(out, a)
	}
	return out[:min(len(out), discovery.MaxAddrs)]
}
