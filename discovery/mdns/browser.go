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
	maxPeers     = 512 // in all: each is dialled, which takes some 30 KB, and anybody can claim to be many
	maxPerSource = 64  // per sender's address: more nodes than anybody runs on one machine

	minTTL = 10 * time.Second // less would have us ask all the time
	maxTTL = 2 * time.Minute  // what nodes say of themselves; who claims more is forgotten as soon

	firstInterval = time.Second      // between queries; doubles each time (RFC 6762 5.2)
	longInterval  = 5 * time.Minute  // the longest interval of a small LAN,
	perPeer       = 3 * time.Second  // longer with many peers, who all answer,
	maxInterval   = 60 * time.Minute // up to this
	unicastFirst  = 2                // so many first queries ask for unicast answers: nobody else needs those

	goodbyeGrace  = time.Second             // RFC 6762 10.1: a goodbye takes effect after one second
	goodbyeIgnore = 250 * time.Millisecond  // answers that were under way when the goodbye came are not believed
	verifySpread  = 100 * time.Millisecond  // not all neighbours ask back at the same instant
	reconfirmFor  = 2500 * time.Millisecond // a peer that answers neither of two questions in this time is gone
	reconfirmGap  = time.Second
)

// Fixed words for Sighting.Why.
const (
	whyAnnounced = "announced"
	whyAnswered  = "answered"
	whyGoodbye   = "goodbye"
	whyExpired   = "expired"
	whySilent    = "no answer"
)

// packet is one message received.
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

// browser is what is known of the peers: a cache whose entries live as long as their records. It is a pure state
// machine: packets and the time go in, queries and sightings come out of the two functions. Not safe for concurrent use.
type browser struct {
	me     self
	view   view
	send   func(query)
	report func(discovery.Sighting)
	random func(time.Duration) time.Duration // below its argument

	peers         map[string]*peer // by claimed node id
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

// place is an address a peer may be reached at.
type place struct {
	addr   netip.AddrPort
	iface  int
	direct bool // packets came from there
	seen   time.Time
}

func newBrowser(me self, send func(query), report func(discovery.Sighting), random func(time.Duration) time.Duration) *browser {
	return &browser{me: me, send: send, report: report, random: random, peers: map[string]*peer{}, perSender: map[netip.Addr]int{}}
}

// restartQueries asks again from the shortest interval on, after a random part of spread.
func (b *browser) restartQueries(now time.Time, spread time.Duration) {
	b.queryAt = now.Add(b.random(spread))
	b.queries = 0
	b.interval = firstInterval
	b.scheduleTick(b.queryAt)
}

// scheduleTick makes sure that tick is called at t.
func (b *browser) scheduleTick(t time.Time) {
	if !t.IsZero() && (b.due.IsZero() || t.Before(b.due)) {
		b.due = t
	}
}

// tick does what is due.
func (b *browser) tick(now time.Time) {
	if b.due.IsZero() || b.due.After(now) {
		return
	}
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

func (b *browser) queryAll(now time.Time, unicast bool) {
	if !unicast {
		b.lastMulticast = now
	}
	b.send(query{b.me.service, dns.TypePTR, unicast})
}

func (b *browser) queryPeer(p *peer) {
	b.send(query{p.id[:instanceLn] + "." + b.me.service, dns.TypeANY, true})
}

// refreshAt is when to ask again for a peer: at 80, 85, 90 and 95 % of its life, each a little later at random (RFC
// 6762 5.2); after that, when it expires.
func (p *peer) refreshAt() time.Time {
	if p.refreshes >= 4 {
		return p.expires
	}
	left := p.ttl * time.Duration(20-5*p.refreshes) / 100
	return p.expires.Add(p.jitter - left)
}

func (p *peer) due() time.Time {
	switch {
	case len(p.queryTimes) > 0:
		return p.queryTimes[0]
	case p.suspect != "":
		return p.expires
	}
	return p.refreshAt()
}

// receive takes in what a response says.
func (b *browser) receive(now time.Time, in packet) {
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

// isOwnName reports whether a claim is in this node's name. It is this node's own when it is about its own addresses;
// else somebody has a copy of its key, or says so.
func (b *browser) isOwnName(c *claim) bool {
	return b.me.port != 0 && c.instance == b.me.id[:instanceLn]
}

func (b *browser) addAlive(now time.Time, c *claim, in packet) {
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

// placesOf returns where a claim may be dialled: the address the packet came from, then what it names.
func (b *browser) placesOf(now time.Time, c *claim, in packet) []place {
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

// admit makes room for a new peer, or returns nil when a limit is reached: those that are there stay.
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

// updatePlaces takes in new places. An announcement replaces what was known of its interface and address families; an answer,
// which may be one of several, only adds. Beyond the limit the places that were not heard of for longest go, so that
// what somebody else claimed cannot crowd out a peer that still speaks.
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

// reportChange reports a peer if something about it changed.
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

// addrs returns the places, best first: where packets came from, then what was only named, but link-local addresses
// last, which are always IPv6 and may be where a node does not listen. IPv4 comes before IPv6 for the same reason; of
// two ports of one host the newer claim. Equal ones stand in a fixed order, so that the result changes only when a
// place does.
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

// goodbye suspects the peers a goodbye speaks of, which anybody can send: a peer that is still there is asked, and
// answers in time. Only the first goodbye makes deaf, so that a stream of them does not silence a living peer.
func (b *browser) goodbye(now time.Time, c *claim) {
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

// reconfirm asks for a peer that could not be dialled.
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

func (b *browser) drop(p *peer) {
	delete(b.peers, p.id)
	if b.perSender[p.sender]--; b.perSender[p.sender] <= 0 {
		delete(b.perSender, p.sender)
	}
	b.report(discovery.Sighting{
		Source: name, Key: p.id, Node: p.id, Tag: p.tag, Protocol: p.protocol, Gone: true, Why: cmp.Or(p.suspect, whyExpired),
	})
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
