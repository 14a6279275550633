package mdns

import (
	"slices"
	"time"

	"github.com/miekg/dns"
)

const (
	// manyPeers is how many peers a LAN has on which answers to one question must be spread over
	// time. About 200 answers at once fill a socket's usual receive buffer; a thousand that are
	// spread over answerJitter do not.
	manyPeers    = 50
	answerJitter = 500 * time.Millisecond
)

// answer is a unicast answer that waits for its time.
type answer struct {
	at  time.Time
	msg *dns.Msg
	to  packet
}

// hasManyPeers reports whether unicast answers must be spread. The loop gives them then, because
// the library's server would not receive while it waits.
func (l *loop) hasManyPeers() bool { return len(l.browser.peers) >= manyPeers }

// answer answers a question by unicast if the asker wants that, or asks from a port of its own (RFC
// 6762 6.7); other questions are answered by multicast. The rate limit of the zone bounds how many
// answers wait.
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

// answerDue sends the answers whose time has come.
func (l *loop) answerDue(now time.Time) {
	for len(l.pendingAnswers) > 0 && !l.pendingAnswers[0].at.After(now) {
		a := l.pendingAnswers[0]
		l.pendingAnswers = l.pendingAnswers[1:]
		l.debug("answering", l.link.reply(a.msg, a.to), a.to.iface)
	}
}

// answersNext returns when answerDue must be called; the zero time means never.
func (l *loop) answersNext() time.Time {
	if len(l.pendingAnswers) == 0 {
		return time.Time{}
	}
	return l.pendingAnswers[0].at
}
