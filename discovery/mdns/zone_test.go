package mdns

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"
)

func question(name string, kind uint16) dns.Question {
	return dns.Question{Name: name, Qtype: kind, Qclass: dns.ClassINET}
}

func TestZoneAnswersWhatIsAskedOfItsNode(t *testing.T) {
	me := mustSelf(Config{Node: id(2), Port: 7002, Tag: "tag"})
	const instance, host = "0000000000000002._symbio._tcp.local.", "0000000000000002.local."
	for _, c := range []struct {
		question dns.Question
		want     string
	}{
		{question("_symbio._tcp.local.", dns.TypePTR), "PTR SRV TXT A AAAA"},
		{question("_SYMBIO._tcp.Local.", dns.TypeANY), "PTR SRV TXT A AAAA"},
		{question(instance, dns.TypeANY), "PTR SRV TXT A AAAA"},
		{question(instance, dns.TypeSRV), "SRV"},
		{question(instance, dns.TypeTXT), "TXT"},
		{question(host, dns.TypeA), "A"},
		{question(host, dns.TypeAAAA), "AAAA"},
		{question(host, dns.TypeANY), "A AAAA"},
		{question(enumeration, dns.TypePTR), "PTR"},
		{question("_symbio._tcp.local.", dns.TypeA), ""},
		{question("0000000000000003._symbio._tcp.local.", dns.TypeANY), ""},
		{question("_ipp._tcp.local.", dns.TypePTR), ""},
		{dns.Question{Name: "_symbio._tcp.local.", Qtype: dns.TypePTR, Qclass: dns.ClassCHAOS}, ""},
		{dns.Question{Name: "_symbio._tcp.local.", Qtype: dns.TypePTR, Qclass: dns.ClassINET | topBit}, "PTR SRV TXT A AAAA"},
	} {
		z := newZone(me, eth(2, "lan", "10.0.0.2/24", "fe80::2/64"), nil)
		var kinds []string
		for _, rr := range z.Records(c.question) {
			kinds = append(kinds, dns.TypeToString[rr.Header().Rrtype])
			if rr.Header().Class != dns.ClassINET {
				t.Errorf("%v: class %d in %v, want no cache-flush bit", c.question, rr.Header().Class, rr)
			}
		}
		if got := strings.Join(kinds, " "); got != c.want {
			t.Errorf("%s: answered with %q, want %q", c.question.String(), got, c.want)
		}
	}
}

func TestZoneAnswersOnlySoOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z := newZone(mustSelf(Config{Node: id(2), Port: 7002}), eth(2, "lan", "10.0.0.2/24"), nil)
		answered := func(asked int) (n int) {
			for range asked {
				if len(z.Records(question("_symbio._tcp.local.", dns.TypePTR))) > 0 {
					n++
				}
			}
			return n
		}
		time.Sleep(time.Minute)
		var got []int
		for range 3 {
			got = append(got, answered(1000))
			time.Sleep(time.Second)
		}
		if diff := cmp.Diff([]int{answersBurst, answersPerSecond, answersPerSecond}, got); diff != "" {
			t.Errorf("answers in three seconds (-want +got):\n%s", diff)
		}
	})
}

func TestRetiredZoneIsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z := newZone(mustSelf(Config{Node: id(2), Port: 7002}), eth(2, "lan", "10.0.0.2/24"), newQuestionFilter())
		answered := make(chan int)
		go func() { answered <- len(z.Records(question("_symbio._tcp.local.", dns.TypePTR))) }()
		synctest.Wait() // it waits for the listener
		begun := time.Now()
		go z.retire()
		if n := <-answered; n > 0 || time.Since(begun) > 0 {
			t.Errorf("a call under way gave %d records after %v, want none at once", n, time.Since(begun))
		}
		z.retire() // again, does no harm
		if n := len(z.Records(question("_symbio._tcp.local.", dns.TypePTR))); n > 0 {
			t.Errorf("%d records after retiring, want none", n)
		}
	})
}

func TestGateAnswersOnlyNeighbors(t *testing.T) {
	for _, c := range []struct {
		name  string
		hear  map[time.Duration]int // when the listener hears a question, and on which interface
		want  bool
		after time.Duration // when the zone of interface 2 knows; it asks at 100 ms
	}{
		{"the listener was first", map[time.Duration]int{99 * time.Millisecond: 2}, true, 0},
		{"the listener is late", map[time.Duration]int{120 * time.Millisecond: 2}, true, 20 * time.Millisecond},
		{"the listener heard nothing", nil, false, filterWait},
		{"a stranger asked", map[time.Duration]int{101 * time.Millisecond: 0}, false, time.Millisecond},
		{"somebody on another interface asked", map[time.Duration]int{99 * time.Millisecond: 3}, false, 0},
		{"both asked", map[time.Duration]int{98 * time.Millisecond: 2, 99 * time.Millisecond: 0}, true, 0},
		{"a neighbour asked long ago", map[time.Duration]int{-filterWindow: 2}, false, filterWait},
	} {
		synctest.Test(t, func(t *testing.T) {
			g := newQuestionFilter()
			start := time.Now().Add(time.Second)
			for at, index := range c.hear {
				time.AfterFunc(time.Until(start)+at, func() { g.addQuestions(index, 1) })
			}
			time.Sleep(time.Second + 100*time.Millisecond)
			got := g.allow(2, nil)
			took := time.Since(start) - 100*time.Millisecond
			if g.allow(2, nil) {
				t.Errorf("%s: one question heard let two pass", c.name)
			}
			if got != c.want || took != c.after {
				t.Errorf("%s: passes is %v after %v, want %v after %v", c.name, got, took, c.want, c.after)
			}
		})
	}
}
