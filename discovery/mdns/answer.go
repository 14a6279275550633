package mdns

import (
	"slices"
	"time"

	"github.com/miekg/dns"
)

const (
	// manyPeers is how many peers make a LAN on which not all may answer a question at the same time. About 200 answers
	// at once fill the buffer that a socket usually has; answers of a thousand nodes that are spread by
	// answerJitter do not.
	manyPeers    = 50
	answerJitter = 500 * time.Millisecond
)

// answer is one by unicast that waits for its time.
type answer struct {
	at  time.Time
	msg *dns.Msg
	to  packet
}

// hasManyPeers says that answers by unicast have to be spread. The library's server cannot do that without being deaf
// meanwhile, so they are given from here then.
func (l *loop) hasManyPeers() bool { return len(l.browser.peers) >= manyPeers }

// answer answers a question by unicast if it asks for that, or comes from a port of the asker's own (RFC 6762 6.7); what
// else is asked is answered by multicast. How many answers wait is bounded by how many the zone gives.
func (l *loop) answer(now time.Time, in packet) {
	z := l.zones[in.iface.Index]
	if z == nil || l.link == nil {
		return
	}
	m := &dns.Msg{MsgHdr: dns.MsgHdr{Id: in.msg.Id, Response: true, Authoritative: true}, Compress: true}
	for _, q := range in.msg.Question {
		if in.from.Port() != port || q.Qclass&topBit != 0 {
			m.Answer = append(m.Answer, z.Records(q)...)
		}
	}
	if len(m.Answer) == 0 {
		return
	}
	at := now
	if l.hasManyPeers() {
		at = now.Add(l.src.random(answerJitter))
	}
	l.pendingAnswers = append(l.pendingAnswers, answer{at, m, in})
	slices.SortStableFunc(l.pendingAnswers, func(a, b answer) int { return a.at.Compare(b.at) })
	l.answerDue(now)
}

// answerDue gives the answers whose time has come.
func (l *loop) answerDue(now time.Time) {
	for len(l.pendingAnswers) > 0 && !l.pendingAnswers[0].at.After(now) {
		a := l.pendingAnswers[0]
		l.pendingAnswers = l.pendingAnswers[1:]
		l.debug("answering", l.link.reply(a.msg, a.to), a.to.iface)
	}
}

// answersNext is when answerDue must be called; zero for never.
func (l *loop) answersNext() time.Time {
	if len(l.pendingAnswers) == 0 {
		return time.Time{}
	}
	return l.pendingAnswers[0].at
}
