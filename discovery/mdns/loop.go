package mdns

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"

	"symbio/discovery"
)

const (
	// checkEvery is how often to look at the interfaces: 0.13 ms of work. Of the five seconds in which neighbours are to
	// meet again, a dial of the old address may take two.
	checkEvery  = time.Second
	firstSpread = 120 * time.Millisecond // before the first query on a LAN: many nodes may start at once
	goodbyeGap  = 100 * time.Millisecond // between two goodbyes: one may be lost

	// queueLength bounds the packets that wait for the loop: a LAN of several hundred answering at once. Beyond it they
	// are lost like those that the system's buffer cannot hold, and the next query repairs it.
	queueLength = 1024
)

// loop drives the state machines: it is the only one to touch them, from run.
type loop struct {
	src       *Source
	me        self
	browser   *browser
	announcer *announcer
	packets   chan packet
	lost      atomic.Uint64 // packets that found the queue full

	overloaded bool // it has been said

	view           view
	seen           string          // the fingerprint of view
	link           link            // nil while there is none
	filter         *questionFilter // of the servers
	zones          map[int]*zone
	stops          []func() // end the servers
	pendingAnswers []answer // sorted by time
}

func newLoop(s *Source, me self, report func(discovery.Sighting)) *loop {
	l := &loop{src: s, me: me, packets: make(chan packet, queueLength)}
	l.browser = newBrowser(me, l.sendQuery, report, s.random)
	l.announcer = newAnnouncer(me, s.random)
	return l
}

// run goes on until ctx ends. What is due is done at every turn, so a flood of packets does not delay it.
func (l *loop) run(ctx context.Context) {
	look := time.NewTicker(checkEvery)
	defer look.Stop()
	due := time.NewTimer(0)
	defer due.Stop()
	defer l.disconnect()
	l.checkInterfaces()
	for ctx.Err() == nil {
		l.tick(time.Now())
		if next := l.next(); !next.IsZero() {
			due.Reset(time.Until(next))
		} else {
			due.Stop()
		}
		select {
		case <-ctx.Done():
		case in := <-l.packets:
			l.receive(time.Now(), in)
		case <-due.C:
		case <-look.C:
			l.checkInterfaces()
			l.logOverload()
		case <-l.src.wake:
			l.handleRequests(time.Now())
		}
	}
	l.goodbye()
}

func (l *loop) tick(now time.Time) {
	for _, index := range l.announcer.tick(now) {
		l.announce(index, recordTTL)
	}
	l.answerDue(now)
	l.browser.tick(now)
}

func (l *loop) next() time.Time {
	next := l.announcer.next()
	for _, t := range []time.Time{l.browser.due, l.answersNext()} {
		if next.IsZero() || !t.IsZero() && t.Before(next) {
			next = t
		}
	}
	return next
}

func (l *loop) handleRequests(now time.Time) {
	nodes, refresh := l.src.drainRequests()
	for _, n := range nodes {
		l.browser.reconfirm(now, n)
	}
	if refresh {
		l.browser.restartQueries(now, 0)
	}
}

func (l *loop) receive(now time.Time, in packet) {
	l.announcer.receive(now, in)
	if in.msg.Response {
		l.browser.receive(now, in)
		if l.filter != nil {
			l.filter.closed.Store(l.hasManyPeers())
		}
	} else if in.iface.loopback() || l.hasManyPeers() {
		l.answer(now, in)
	}
}

// checkInterfaces looks at the machine's interfaces, and begins anew if they changed, if the machine slept, or if nothing works.
func (l *loop) checkInterfaces() {
	slept := l.src.slept()
	all, err := l.src.net.interfaces()
	if err != nil {
		l.src.setHealth(errors.Join(errors.New("mdns: listing the network interfaces"), err))
		return
	}
	v := choose(all, l.src.cfg.Loopback, l.src.cfg.Allow, l.src.cfg.Deny)
	if l.link != nil && !l.link.isDead() && !l.link.canRecover() && !slept && v.fingerprint() == l.seen {
		return
	}
	l.disconnect()
	l.src.setHealth(l.connect(v))
}

// connect begins on the interfaces of v: with announcements and first queries.
func (l *loop) connect(v view) error {
	g := newQuestionFilter()
	link, err := l.src.net.open(v, func(in packet) { l.deliver(g, in) })
	if err != nil {
		return err
	}
	l.link, l.filter, l.view, l.seen, l.browser.view = link, g, v, v.fingerprint(), v
	g.closed.Store(l.hasManyPeers())
	err = errors.Join(link.degraded(), l.serve(g))
	now := time.Now()
	l.announcer.announce(now, v.used)
	l.browser.restartQueries(now, l.spread())
	return err
}

// spread is the random time before the first query. On loopback there are few nodes and no air to share.
func (l *loop) spread() time.Duration {
	for _, i := range l.view.used {
		if !i.loopback() {
			return firstSpread
		}
	}
	return 0
}

// serve answers questions: on loopback from here, so that nobody else can be answered by accident, else by the
// library's server, which answers at once, until there are so many neighbours that answers have to be spread.
func (l *loop) serve(g *questionFilter) error {
	l.zones = map[int]*zone{}
	if l.me.port == 0 {
		return nil
	}
	var errs []error
	for _, i := range l.view.used {
		if i.loopback() {
			l.zones[i.Index] = newZone(l.me, i, nil)
			continue
		}
		z := newZone(l.me, i, g)
		l.zones[i.Index] = z.open(i)
		stop, err := l.src.net.serve(i, z)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		l.stops = append(l.stops, stop)
	}
	return errors.Join(errs...)
}

// deliver takes a packet from a reader. It tells the gate at once of a question for us, because the server has the same
// packet already.
func (l *loop) deliver(g *questionFilter, in packet) {
	if !in.msg.Response {
		mine := 0
		for _, q := range in.msg.Question {
			if l.me.matches(q) {
				mine++
			}
		}
		if mine == 0 {
			return
		}
		g.addQuestions(in.iface.Index, mine)
		if in.iface.Index == 0 {
			return
		}
	}
	select {
	case l.packets <- in:
	default:
		l.lost.Add(1)
	}
}

// logOverload says once per run that more came than is taken in: a flood should be seen, not fill the log.
func (l *loop) logOverload() {
	if lost := l.lost.Load(); !l.overloaded && (lost > 0 || l.browser.refused > 0) {
		l.overloaded = true
		l.src.cfg.Logger.Warn("more came than discovery takes in", "source", name, "packets_lost", lost, "peers_refused", l.browser.refused)
	}
}

// sendQuery sends a query on every interface.
func (l *loop) sendQuery(q query) {
	m := &dns.Msg{Question: []dns.Question{{Name: q.name, Qtype: q.kind, Qclass: dns.ClassINET}}}
	if q.unicast {
		m.Question[0].Qclass |= topBit
	}
	if l.link == nil {
		return
	}
	for _, i := range l.view.used {
		l.debug("asking", l.link.send(m, i), i)
	}
}

// announce multicasts our records on one interface, with that interface's addresses.
func (l *loop) announce(index int, ttl uint32) {
	for _, i := range l.view.used {
		if i.Index == index && l.link != nil {
			l.debug("announcing", l.link.send(message(l.me.records(i.addrs(), ttl, true)), i), i)
		}
	}
}

// debug notes a message that could not be sent: the interface went down, and the next look will tell.
func (l *loop) debug(doing string, err error, i iface) {
	if err != nil {
		l.src.cfg.Logger.Debug("message was not sent", "source", name, "doing", doing, "interface", i.Name, "err", err)
	}
}

// goodbye takes leave on every interface, having ended all answers: one that came after it would revive us.
func (l *loop) goodbye() {
	if l.link == nil || l.me.port == 0 {
		return
	}
	l.stopAnswering()
	for n := range 2 {
		if n > 0 {
			pause := time.NewTimer(goodbyeGap)
			<-pause.C
		}
		for _, i := range l.view.used {
			l.announce(i.Index, 0)
		}
	}
}

func (l *loop) stopAnswering() {
	for _, stop := range l.stops {
		stop()
	}
	l.stops, l.zones, l.pendingAnswers = nil, nil, nil
}

func (l *loop) disconnect() {
	l.stopAnswering()
	if l.link != nil {
		l.link.close()
		l.link = nil
	}
}
