package mdns

import (
	"slices"
	"time"

	"github.com/miekg/dns"
)

const (
	announceAgain = time.Second            // RFC 6762 8.3: at least two announcements, one second apart
	answerGap     = 10 * time.Second       // between answers by multicast; the RFC asks for one second, many nodes for more
	answerDelay   = 20 * time.Millisecond  // RFC 6762 section 6: a shared record is answered after 20
	answerSpread  = 100 * time.Millisecond // to 120 ms
	// defendAfter is later than the time for which neighbors ignore answers after a goodbye;
	// defendGap limits how often this node can be provoked.
	defendAfter = goodbyeIgnore + 50*time.Millisecond
	defendGap   = time.Second
)

// announcer decides when this node multicasts its records on which interface: at the start, after a
// change of the interfaces, when a peer asks, and when another machine sent a goodbye in this
// node's name. It is a pure state machine like browser: time and packets go in, tick says what to
// do. It is not safe for concurrent use.
type announcer struct {
	me        self
	random    func(time.Duration) time.Duration
	schedules map[int]*schedule // by interface index
}

// schedule is the announcements of one interface.
type schedule struct {
	due []time.Time // sorted
	// last is when the interface last announced; it limits answers to one per answerGap.
	last     time.Time // when it last spoke
	defended time.Time
}

// newAnnouncer returns an announcer without interfaces.
func newAnnouncer(me self, random func(time.Duration) time.Duration) *announcer {
	return &announcer{me: me, random: random, schedules: map[int]*schedule{}}
}

// announce schedules two announcements on each of the interfaces and forgets all others. A node
// without a port has nothing to announce.
func (s *announcer) announce(now time.Time, ifaces []iface) {
	clear(s.schedules)
	if s.me.port == 0 {
		return
	}
	for _, i := range ifaces {
		s.schedules[i.Index] = &schedule{due: []time.Time{now, now.Add(announceAgain)}}
	}
}

// receive handles a packet: a question for multicast answers is answered after a random delay, a
// false goodbye contradicted.
func (s *announcer) receive(now time.Time, in packet) {
	v := s.schedules[in.iface.Index]
	if v == nil {
		return
	}
	if in.msg.Response {
		s.defend(now, v, in.msg)
		return
	}
	shared := func(q dns.Question) bool { return q.Qclass&topBit == 0 && s.me.matches(q) }
	if !slices.ContainsFunc(in.msg.Question, shared) || s.known(in.msg.Answer) {
		return
	}
	if len(v.due) == 0 && now.Sub(v.last) >= answerGap {
		v.add(now.Add(answerDelay + s.random(answerSpread)))
	}
}

// defend schedules an announcement after a goodbye in this node's name. It comes late enough that
// neighbors believe it again (goodbyeIgnore). They would also ask by themselves, but all of them at
// once. At most one per defendGap, so that an attacker cannot make this node flood the LAN.
func (s *announcer) defend(now time.Time, v *schedule, m *dns.Msg) {
	if now.Sub(v.defended) < defendGap {
		return
	}
	for _, c := range claims(m, s.me.service) {
		if c.instance == s.me.id[:instanceLn] && c.ttl == 0 {
			v.defended = now
			v.add(now.Add(defendAfter))
			return
		}
	}
}

// known reports whether the asker has this node's record already, for at least half of its lifetime
// (known-answer suppression, RFC 6762 7.1).
func (s *announcer) known(answers []dns.RR) bool {
	return slices.ContainsFunc(answers, func(rr dns.RR) bool {
		ptr, ok := rr.(*dns.PTR)
		return ok && dns.CanonicalName(ptr.Ptr) == s.me.instance && ptr.Hdr.Ttl >= recordTTL/2
	})
}

// add schedules an announcement at t.
func (v *schedule) add(t time.Time) {
	v.due = append(v.due, t)
	slices.SortFunc(v.due, time.Time.Compare)
}

// tick returns the indexes of the interfaces to announce on now. Several that are due become one.
func (s *announcer) tick(now time.Time) []int {
	var out []int
	for index, v := range s.schedules {
		if len(v.due) == 0 || v.due[0].After(now) {
			continue
		}
		for len(v.due) > 0 && !v.due[0].After(now) {
			v.due = v.due[1:]
		}
		v.last = now
		out = append(out, index)
	}
	return out
}

// next returns when tick must be called; the zero time means never.
func (s *announcer) next() (t time.Time) {
	for _, v := range s.schedules {
		if len(v.due) > 0 {
			t = earlier(t, v.due[0])
		}
	}
	return t
}
