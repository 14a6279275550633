package mdns

import (
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"
)

// spoken runs a speaker on one interface from noon on, gives it packets at their times, and returns when it spoke, in
// milliseconds.
func spoken(t *testing.T, until time.Duration, packets map[time.Duration]*dns.Msg) []int64 {
	t.Helper()
	lan := eth(2, "lan", "10.0.0.1/24")
	s := newAnnouncer(mustSelf(Config{Node: id(1), Port: 7001}), func(d time.Duration) time.Duration { return d / 2 })
	s.announce(noon, []iface{lan})
	var at []int64
	for ms := range until.Milliseconds() {
		now := noon.Add(time.Duration(ms) * time.Millisecond)
		if m := packets[now.Sub(noon)]; m != nil {
			s.receive(now, packet{msg: m, from: netip.MustParseAddrPort("10.0.0.2:5353"), iface: lan})
		}
		if next := s.next(); !next.IsZero() && next.Before(now) {
			t.Errorf("next is %v, which is over", next.Sub(noon))
		}
		for range s.tick(now) {
			at = append(at, ms)
		}
	}
	return at
}

func asks(unicast bool, known ...dns.RR) *dns.Msg {
	q := question("_symbio._tcp.local.", dns.TypePTR)
	if unicast {
		q.Qclass |= topBit
	}
	return &dns.Msg{Question: []dns.Question{q}, Answer: known}
}

func TestAnnouncerSendsOnSchedule(t *testing.T) {
	mine := announcement(1)[0]
	old := dns.Copy(mine)
	old.Header().Ttl = recordTTL/2 - 1
	leave := message(mustSelf(Config{Node: id(1), Port: 7001}).records(nil, 0, true))
	foreign := &dns.Msg{Question: []dns.Question{question("_ipp._tcp.local.", dns.TypePTR)}}
	const s = time.Second
	for _, c := range []struct {
		name string
		in   map[time.Duration]*dns.Msg
		want []int64 // after the announcements at 0 and 1000
	}{
		{"left alone", nil, nil},
		{"asked", map[time.Duration]*dns.Msg{20 * s: asks(false)}, []int64{20070}},
		{"asked again and again", map[time.Duration]*dns.Msg{
			20 * s: asks(false), 20*s + 50*time.Millisecond: asks(false), 21 * s: asks(false), 29 * s: asks(false), 31 * s: asks(false),
		}, []int64{20070, 31070}},
		{"asked just after it spoke", map[time.Duration]*dns.Msg{5 * s: asks(false)}, nil},
		{"asked for an answer by unicast", map[time.Duration]*dns.Msg{20 * s: asks(true)}, nil},
		{"asked for something else", map[time.Duration]*dns.Msg{20 * s: foreign}, nil},
		{"asked by somebody who knows", map[time.Duration]*dns.Msg{20 * s: asks(false, mine)}, nil},
		{"asked by somebody who will forget", map[time.Duration]*dns.Msg{20 * s: asks(false, old)}, []int64{20070}},
		{"taken leave for", map[time.Duration]*dns.Msg{5 * s: leave, 5*s + 100*time.Millisecond: leave}, []int64{5300}},
		{"taken leave for again", map[time.Duration]*dns.Msg{5 * s: leave, 6 * s: leave}, []int64{5300, 6300}},
	} {
		want := append([]int64{0, 1000}, c.want...)
		if diff := cmp.Diff(want, spoken(t, 40*s, c.in)); diff != "" {
			t.Errorf("%s: spoke at (-want +got):\n%s", c.name, diff)
		}
	}
}

func TestSourceWithoutAPortIsSilent(t *testing.T) {
	s := newAnnouncer(mustSelf(Config{}), randomBelow)
	s.announce(noon, []iface{eth(2, "lan", "10.0.0.1/24")})
	if got := s.tick(noon); len(got) > 0 || !s.next().IsZero() {
		t.Errorf("it speaks on %v, and again at %v, want never", got, s.next())
	}
}
