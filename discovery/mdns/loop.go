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
	// checkEvery is how often to list the interfaces, which takes 0.13 ms. Nodes that get a new
	// address are to meet again within 5 s; a dial of the old address may take two of them.
	checkEvery = time.Second
	// firstSpread is the range of the random delay before the first query on a LAN. goodbyeGap is
	// the pause between two goodbyes.
	firstSpread = 120 * time.Millisecond
	goodbyeGap  = 100 * time.Millisecond

	// queueLength bounds the packets that wait for the loop: a LAN of several hundred answering at once. Beyond it they
	// are lost like those that the system's buffer cannot hold, and the next query repairs it.
	queueLength = 1024
)

// loop runs the two state machines of a source. Only the goroutine of run touches them, so they
// need no locks. The readers of the link hand it packets over a channel.
type loop struct {
	src       *Source
	me        self
	browser   *browser
	announcer *announcer
	// packets has room for queueLength; deliver drops what does not fit.
	packets chan packet
	lost    atomic.Uint64 // packets that found the queue full

	overloaded bool // it has been said

	view           view
	seen           string          // the fingerprint of view
	link           link            // nil while there is none
	filter         *questionFilter // of the servers
	zones          map[int]*zone
	stops          []func() // end the servers
	pendingAnswers []answer // sorted by time
}

// newLoop returns the loop of one Run. report is called from run.
func newLoop(s *Source, me self, report func(discovery.Sighting)) *loop {
	l := &loop{src: s, me: me, packets: make(chan packet, queueLength)}
	l.browser = newBrowser(me, l.sendQuery, report, s.random)
	l.announcer = newAnnouncer(me, s.random)
	return l
}

// run handles packets, timers and requests until ctx ends. tick runs at every turn, so that a flood
// of packets cannot delay what is due.
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

// tick sends the announcements, answers and queries that are due.
func (l *loop) tick(now time.Time) {
	for _, index := range l.announcer.tick(now) {
		l.announce(index, recordTTL)
	}
	l.answerDue(now)
	l.browser.tick(now)
}

// next returns when tick has something to do; the zero time means never.
func (l *loop) next() time.Time {
	return earlier(l.announcer.next(), earlier(l.browser.due, l.answersNext()))
}

// handleRequests passes the requests of Reconfirm to the browser.
func (l *loop) handleRequests(now time.Time) {
	for _, n := range l.src.drainRequests() {
		l.browser.reconfirm(now, n)
	}
}

// receive passes a packet to both state machines. On a LAN the library's server answers questions;
// the loop answers itself on loopback and when there are so many peers that answers must be spread.
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

// checkInterfaces starts anew if the machine's interfaces changed, if the machine slept, or if the
// link is broken or could be better than it is. Listing the interfaces is the only portable way to
// notice a change.
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

// connect opens the link on the interfaces of v, starts answering, and schedules announcements and
// the first queries. It returns what does not work, even if the rest does.
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

// spread returns the range of the random delay before the first query: many nodes of a LAN may
// start together. On loopback there is no delay.
func (l *loop) spread() time.Duration {
	for _, i := range l.view.used {
		if !i.loopback() {
			return firstSpread
		}
	}
	return 0
}

// serve starts answering questions on every interface. On loopback the loop answers, so that
// strangers on the LAN cannot be answered by accident. On a LAN the library's server does, which
// answers without delay.
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

// deliver takes a packet from a reader's goroutine. It tells the filter of a question before it
// queues the packet, because the library's server has the same packet already and asks the filter
// about it.
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

// logOverload logs once per Run that packets were lost or peers refused. A flood should be visible,
// but not fill the log.
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

// announce multicasts this node's records on one interface, with that interface's addresses. ttl 0
// makes it a goodbye.
func (l *loop) announce(index int, ttl uint32) {
	for _, i := range l.view.used {
		if i.Index == index && l.link != nil {
			l.debug("announcing", l.link.send(message(l.me.records(i.addrs(), ttl, true)), i), i)
		}
	}
}

// debug logs a message that could not be sent. That is common and harmless: an interface went down,
// and the next check notices.
func (l *loop) debug(doing string, err error, i iface) {
	if err != nil {
		l.src.cfg.Logger.Debug("message was not sent", "source", name, "doing", doing, "interface", i.Name, "err", err)
	}
}

// goodbye sends two goodbyes on every interface, since one may be lost. It stops answering first:
// an answer after the goodbye would make peers believe that this node is back.
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

// stopAnswering stops the library's servers and drops the answers that wait.
func (l *loop) stopAnswering() {
	for _, stop := range l.stops {
		stop()
	}
	l.stops, l.zones, l.pendingAnswers = nil, nil, nil
}

// disconnect stops answering and closes the link. connect may follow.
func (l *loop) disconnect() {
	l.stopAnswering()
	if l.link != nil {
		l.link.close()
		l.link = nil
	}
}
