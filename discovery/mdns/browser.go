package mdns

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"github.com/miekg/dns"

	"symbio/discovery"
)

const (
	// maxPeers bounds the cache: each peer is dialed, which takes some 30 KB, and one machine can
	// claim to be many nodes. maxPerSource bounds it per sender's address: more nodes than a
	// machine normally runs.
	maxPeers     = 512
	maxPerSource = 64

	// minTTL and maxTTL bound the lifetime that a claim gives itself. A shorter one would make this
	// node query all the time; a longer one would keep a peer that is gone.
	minTTL = 10 * time.Second
	maxTTL = 2 * time.Minute

	// Queries start every second, and the interval doubles (RFC 6762 5.2) up to longInterval. With
	// many peers that all answer, it grows further, by perPeer for each, up to maxInterval.
	// The first queries ask for unicast answers, which only this node needs.
	firstInterval = time.Second
	longInterval  = 5 * time.Minute
	perPeer       = 3 * time.Second
	maxInterval   = 60 * time.Minute
	unicastFirst  = 2

	// A goodbye takes effect after goodbyeGrace (RFC 6762 10.1). For goodbyeIgnore after it,
	// answers are ignored, because they may have been sent before it. Then the peer is queried to
	// verify the goodbye, at a random time within verifySpread, so that not all neighbors query at
	// once.
	goodbyeGrace  = time.Second
	goodbyeIgnore = 250 * time.Millisecond
	verifySpread  = 100 * time.Millisecond
	// A peer that could not be dialed gets two queries, reconfirmGap apart, and is gone when it has
	// answered neither within reconfirmFor of the first.
	reconfirmFor = 2500 * time.Millisecond
	reconfirmGap = time.Second
)

// The fixed phrases for Sighting.Why.
const (
	whyAnnounced = "announced"
	whyAnswered  = "answered"
	whyGoodbye   = "goodbye"
	whyExpired   = "expired"
	whySilent    = "no answer"
)

// packet is one received message with its sender and the interface on which it came.
type packet struct {
	msg     *dns.Msg
	from    netip.AddrPort
	iface   iface
	unicast bool // it came to the socket we ask from
}

// query is a question to send on every interface.
type query struct {
	name    string
	kind    uint16
	unicast bool // answers to us alone
}

// browser is the cache of peers; each lives as long as its records. It is a pure state
// machine: packets and the time go in, queries and sightings come out of send and report. It is not
// safe for concurrent use.
type browser struct {
	me self
	// view is the selection of interfaces; the loop sets it when it connects.
	view   view
	send   func(query)
	report func(discovery.Sighting)
	random func(time.Duration) time.Duration // below its argument

	peers map[string]*peer // by claimed node id
	// perSender counts the peers of each sender's address, for maxPerSource.
	perSender     map[netip.Addr]int
	due           time.Time // when tick must be called; never late, sometimes early
	queryAt       time.Time
	queries       int // queries since the last kick
	interval      time.Duration
	lastMulticast time.Time // the last query whose answers everybody hears
	refused       int       // peers not taken in because of a limit
}

// peer is one node that announcements claim to be reachable.
type peer struct {
	txtData
	sender      netip.Addr // whose share of the limit it takes
	places      []place
	ttl         time.Duration
	jitter      time.Duration
	expires     time.Time
	refreshes   int
	suspect     string      // why it may be gone; "" = it is not suspected
	ignoreUntil time.Time   // until then what is said of it is not believed
	queryTimes  []time.Time // when to ask for it while it is suspected
	reported    discovery.Sighting
	hasReported bool
}

// place is an address at which a peer may be reached.
type place struct {
	addr   netip.AddrPort
	iface  int
	direct bool // packets came from there
	seen   time.Time
}

// newBrowser returns a browser without peers. random returns a duration below its argument.
func newBrowser(me self, send func(query), report func(discovery.Sighting), random func(time.Duration) time.Duration) *browser {
	return &browser{me: me, send: send, report: report, random: random, peers: map[string]*peer{}, perSender: map[netip.Addr]int{}}
}

// restartQueries starts querying from the shortest interval, after a random part of spread.
func (b *browser) restartQueries(now time.Time, spread time.Duration) {
	b.queryAt = now.Add(b.random(spread))
	b.queries = 0
	b.interval = firstInterval
	b.scheduleTick(b.queryAt)
}

// scheduleTick makes due no later than t; the zero time is ignored.
func (b *browser) scheduleTick(t time.Time) { b.due = earlier(b.due, t) }

// tick sends the queries that are due and drops expired peers. A tick that is late makes the lives of peers longer.
// One shared query refreshes all peers; a peer that two of them did not reach is queried by itself.
func (b *browser) tick(now time.Time) {
	if b.due.IsZero() || b.due.After(now) {
		return
	}
	late := now.Sub(b.due) // this process did not run: it asked for nothing, and has not read what came
	b.due = time.Time{}
	if !b.queryAt.IsZero() && !b.queryAt.After(now) {
		b.queryAll(now, b.queries < unicastFirst)
		b.queries++
		b.queryAt = now.Add(b.interval)
		longest := min(maxInterval, max(longInterval, time.Duration(len(b.peers))*perPeer))
		b.interval = min(2*b.interval, longest)
	}
	b.scheduleTick(b.queryAt)
	refresh := false
	for _, p := range b.peers {
		p.expires = p.expires.Add(late)
		switch {
		case !p.expires.After(now):
			b.drop(p)
			continue
		case len(p.queryTimes) > 0 && !p.queryTimes[0].After(now):
			p.queryTimes = p.queryTimes[1:]
			b.queryPeer(p)
		case p.suspect == "" && !p.refreshAt().After(now):
			p.refreshes++
			refresh = true
			if p.refreshes > 2 { // the shared answers were lost twice
				b.queryPeer(p)
			}
		}
		b.scheduleTick(p.due())
	}
	// One query asks for all of them, and everybody hears the answers.
	if refresh && now.Sub(b.lastMulticast) >= time.Second {
		b.queryAll(now, false)
	}
}

// queryAll asks for all instances of the service. A multicast answer refreshes the caches of all
// neighbors.
func (b *browser) queryAll(now time.Time, unicast bool) {
	if !unicast {
		b.lastMulticast = now
	}
	b.send(query{b.me.service, dns.TypePTR, unicast})
}

// queryPeer asks for all records of one peer, by unicast.
func (b *browser) queryPeer(p *peer) {
	b.send(query{p.id[:instanceLn] + "." + b.me.service, dns.TypeANY, true})
}

// refreshAt returns when to query a peer again: at 80, 85, 90 and 95 % of its lifetime, each a
// little later at random (RFC 6762 5.2); after that, when it expires.
func (p *peer) refreshAt() time.Time {
	if p.refreshes >= 4 {
		return p.expires
	}
	left := p.ttl * time.Duration(20-5*p.refreshes) / 100
	return p.expires.Add(p.jitter - left)
}

// due returns when tick has something to do for the peer.
func (p *peer) due() time.Time {
	switch {
	case len(p.queryTimes) > 0:
		return p.queryTimes[0]
	case p.suspect != "":
		return p.expires
	}
	return p.refreshAt()
}

// receive applies the claims in a response. A claim in this node's own name with another id is
// ignored: the instance names clash, or it is forged. Due queries come first, so that a tick that is late does not make the
// lives of those longer that the response renews.
func (b *browser) receive(now time.Time, in packet) {
	b.tick(now)
	for _, c := range claims(in.msg, b.me.service) {
		switch {
		case b.isOwnName(c) && c.txt.id != b.me.id: // nor is this node another one
		case c.ttl == 0:
			b.goodbye(now, c)
		case c.isComplete():
			b.addAlive(now, c, in)
		}
	}
}

// isOwnName reports whether a claim uses this node's instance name. It is usually this node's own
// packet; otherwise another machine has a copy of its key, or pretends to.
func (b *browser) isOwnName(c *instanceRecord) bool {
	return b.me.port != 0 && c.instance == b.me.id[:instanceLn]
}

// addAlive adds or refreshes a peer that announced itself or answered. Right after a goodbye claims
// are ignored, because answers that were already under way would revive a peer that has gone.
func (b *browser) addAlive(now time.Time, c *instanceRecord, in packet) {
	p := b.peers[c.txt.id]
	if p != nil && now.Before(p.ignoreUntil) {
		return
	}
	places := b.placesOf(now, c, in)
	if len(places) == 0 {
		return
	}
	if p == nil {
		if p = b.admit(c.txt, in.from.Addr()); p == nil {
			return
		}
	}
	p.txtData = c.txt
	p.ttl = min(max(time.Duration(c.ttl)*time.Second, minTTL), maxTTL)
	p.jitter = b.random(p.ttl / 25)
	p.expires = now.Add(p.ttl)
	p.refreshes, p.suspect, p.queryTimes, p.ignoreUntil = 0, "", nil, time.Time{}
	p.updatePlaces(places, c.flush && !in.unicast)
	b.scheduleTick(p.due())
	why := whyAnnounced
	if in.unicast {
		why = whyAnswered
	}
	b.reportChange(p, why)
}

// placesOf returns where a claim may be dialed: the sender's address first, then the addresses that
// it names. This node's own address is left out.
func (b *browser) placesOf(now time.Time, c *instanceRecord, in packet) []place {
	var out []place
	add := func(a netip.Addr, direct bool) {
		a, ok := dialable(a, in.iface)
		at := netip.AddrPortFrom(a, c.port)
		if b.isOwnName(c) && c.port == b.me.port && slices.ContainsFunc(b.view.used, func(i iface) bool { return i.owns(a) }) {
			return
		}
		if ok && len(out) < discovery.MaxAddrs && !slices.ContainsFunc(out, func(p place) bool { return p.addr == at }) {
			out = append(out, place{at, in.iface.Index, direct, now})
		}
	}
	add(in.from.Addr(), true)
	for _, a := range c.addrs {
		add(a, false)
	}
	return out
}

// admit adds a new peer, or returns nil at a limit: known peers are not displaced, so that a flood
// of claims cannot push out real nodes.
func (b *browser) admit(f txtData, sender netip.Addr) *peer {
	sender = sender.WithZone("")
	if len(b.peers) >= maxPeers || b.perSender[sender] >= maxPerSource {
		b.refused++
		return nil
	}
	p := &peer{txtData: f, sender: sender}
	b.peers[f.id] = p
	b.perSender[sender]++
	return p
}

// updatePlaces adds places. With replace, which an announcement has, they replace what was known of
// the same interface and address family; an answer may be one of several and only adds. Over the
// limit, the places that were seen least recently go.
func (p *peer) updatePlaces(places []place, replace bool) {
	p.places = slices.DeleteFunc(p.places, func(old place) bool {
		stale := false
		for i, n := range places {
			if n.addr == old.addr {
				places[i].direct = n.direct || old.direct // each family's packets name the other's address
			}
			sameKind := n.iface == old.iface && n.addr.Addr().Is4() == old.addr.Addr().Is4()
			stale = stale || n.addr == old.addr || replace && sameKind
		}
		return stale
	})
	p.places = append(places, p.places...)
	if len(p.places) > discovery.MaxAddrs {
		slices.SortStableFunc(p.places, func(a, b place) int { return b.seen.Compare(a.seen) })
		p.places = p.places[:discovery.MaxAddrs]
	}
}

// reportChange reports a peer if its tag, protocol or addresses changed.
func (b *browser) reportChange(p *peer, why string) {
	s := discovery.Sighting{Source: name, Key: p.id, Node: p.id, Tag: p.tag, Protocol: p.protocol, Addrs: p.addrs(), Why: why}
	same := s.Tag == p.reported.Tag && s.Protocol == p.reported.Protocol && slices.Equal(s.Addrs, p.reported.Addrs)
	if p.hasReported && same {
		return
	}
	p.reported, p.hasReported = s, true
	s.Addrs = slices.Clone(s.Addrs)
	b.report(s)
}

// addrs returns the peer's addresses, best first: those from which packets came before those that
// were only named, IPv4 before IPv6, link-local ones last, because a node may not listen there; of
// two ports of one host, the newer claim. The order is total, so that the result changes only when
// a place does.
func (p *peer) addrs() []netip.AddrPort {
	rank := func(x place) int {
		r := 0
		if x.addr.Addr().IsLinkLocalUnicast() {
			r += 4
		}
		if !x.direct {
			r += 2
		}
		if x.addr.Addr().Is6() {
			r++
		}
		return r
	}
	sorted := slices.SortedFunc(slices.Values(p.places), func(x, y place) int {
		return cmp.Or(cmp.Compare(rank(x), rank(y)), x.addr.Addr().Compare(y.addr.Addr()),
			y.seen.Compare(x.seen), x.addr.Compare(y.addr))
	})
	var out []netip.AddrPort
	for _, x := range sorted {
		out = append(out, x.addr)
	}
	return out
}

// goodbye handles a goodbye, which anyone can send: it makes the peers suspect and queries them,
// and a living one answers in time. Only the first goodbye makes the browser ignore answers for a
// moment, so that repeated ones cannot silence a living peer.
func (b *browser) goodbye(now time.Time, c *instanceRecord) {
	suspect := func(p *peer) {
		if p.suspect == whyGoodbye {
			return
		}
		p.suspect = whyGoodbye
		p.ignoreUntil = now.Add(goodbyeIgnore)
		p.queryTimes = []time.Time{p.ignoreUntil.Add(b.random(verifySpread))}
		p.expires = earlier(p.expires, now.Add(goodbyeGrace))
		b.scheduleTick(p.due())
	}
	if p := b.peers[c.txt.id]; p != nil {
		suspect(p)
		return
	}
	for id, p := range b.peers {
		if id[:instanceLn] == c.instance && c.txt.id == "" {
			suspect(p)
		}
	}
}

// reconfirm queries a peer that could not be dialed, twice; it expires after reconfirmFor without
// an answer.
func (b *browser) reconfirm(now time.Time, id string) {
	p := b.peers[id]
	if p == nil || p.suspect != "" {
		return
	}
	p.suspect = whySilent
	p.queryTimes = []time.Time{now, now.Add(reconfirmGap)}
	p.expires = earlier(p.expires, now.Add(reconfirmFor))
	b.scheduleTick(p.due())
}

// drop removes a peer and reports it gone.
func (b *browser) drop(p *peer) {
	delete(b.peers, p.id)
	if b.perSender[p.sender]--; b.perSender[p.sender] <= 0 {
		delete(b.perSender, p.sender)
	}
	b.report(discovery.Sighting{
		Source: name, Key: p.id, Node: p.id, Tag: p.tag, Protocol: p.protocol, Gone: true, Why: cmp.Or(p.suspect, whyExpired),
	})
}

// earlier returns the earlier one of two times; the zero time means never.
func earlier(a, b time.Time) time.Time {
	if b.IsZero() || !a.IsZero() && a.Before(b) {
		return a
	}
	return b
}
