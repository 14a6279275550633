package mdns

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"
)

// run does what is due from the time when something is next until a time, and returns what was asked, each with its
// seconds after noon: all for everybody, "all?" for unicast answers, "one" for one peer.
func (b *bench) run(until time.Duration) (asked []string) {
	for !b.due.IsZero() && b.due.Sub(noon) < until {
		now := b.due
		b.asked = nil
		b.tick(now)
		for _, a := range b.asked {
			what := map[string]string{
				"_symbio._tcp.local. PTR unicast=true":  "all?",
				"_symbio._tcp.local. PTR unicast=false": "all",
			}[a]
			if what == "" {
				what = "one"
			}
			asked = append(asked, fmt.Sprintf("%s %v", what, now.Sub(noon).Seconds()))
		}
	}
	return asked
}

// These are the times that the design sets (discovery, timings), as they are to be on the wire.
func TestTimetableOfQueries(t *testing.T) {
	const common = "all? 0.06, all? 1.06, all 3.06, all 7.06, all 15.06, all 31.06, all 63.06, all 127.06, all 255.06"
	for peers, want := range map[int]string{
		0:    common + ", all 511.06, all 811.06, all 1111.06",
		200:  common + ", all 511.06, all 1023.06, all 1623.06",
		4000: common + ", all 511.06, all 1023.06, all 2047.06, all 4095.06, all 7695.06",
	} {
		b := newBench()
		for i := range peers { // that need no refreshing
			b.peers[id(1000+i)] = &peer{txtData: txtData{id: id(1000 + i)}, ttl: maxTTL, expires: noon.Add(1000 * time.Hour)}
		}
		b.restartQueries(noon, firstSpread)
		until := map[int]time.Duration{0: 1200, 200: 1700, 4000: 8000}[peers] * time.Second
		if diff := cmp.Diff(want, join(b.run(until))); diff != "" {
			t.Errorf("with %d peers it asks at (-want +got):\n%s", peers, diff)
		}
		b.restartQueries(noon.Add(10_000*time.Second), 0) // it woke up, or somebody asked it to look again
		if diff := cmp.Diff("all? 10000, all? 10001, all 10003, all 10007", join(b.run(10_010*time.Second))); diff != "" {
			t.Errorf("asked to look again it asks at (-want +got):\n%s", diff)
		}
	}
}

func TestTimetableOfAPeer(t *testing.T) {
	const jitter = 2.4 // half of 4 % of 120 s
	lives := fmt.Sprintf("all %v, all %v, one %v, all %v, one %v, all %v", 96+jitter, 102+jitter, 108+jitter, 108+jitter, 114+jitter, 114+jitter)
	for name, test := range map[string]struct {
		happens func(b *bench)
		want    string
		gone    time.Duration
	}{
		"nothing more is heard": {func(*bench) {}, lives, 120 * time.Second},
		"a goodbye": {func(b *bench) {
			b.receive(noon, b.from("10.0.0.2", goodbyeOf(2)))
		}, "one 0.3", time.Second},
		"a dial in vain": {func(b *bench) { b.reconfirm(noon, id(2)) }, "one 0, one 1", 2500 * time.Millisecond},
	} {
		b := newBench()
		b.receive(noon, b.from("10.0.0.2", announcement(2)))
		b.said = nil
		test.happens(b)
		got := join(b.run(test.gone - time.Millisecond))
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s: it asks at (-want +got):\n%s", name, diff)
		}
		if len(b.said) > 0 {
			t.Errorf("%s: it said %+v before its time", name, b.said)
		}
		b.run(test.gone + time.Millisecond)
		if len(b.said) != 1 || !b.said[0].Gone {
			t.Errorf("%s: it said %+v at %v, want gone", name, b.said, test.gone)
		}
	}
}

// A process that did not run has asked for nothing and has not read what came: it asks before it says that a node is gone.
func TestTickThatIsLateAsksFirst(t *testing.T) {
	b := newBench()
	b.receive(noon, b.from("10.0.0.2", announcement(2)))
	b.said = nil
	b.run(time.Minute)
	const late = 10 * time.Minute
	b.tick(b.due.Add(late))
	if len(b.said) != 0 {
		t.Errorf("it said %+v at once", b.said)
	}
	b.run(maxTTL + late - time.Millisecond)
	if len(b.said) != 0 {
		t.Errorf("it said %+v before it had asked", b.said)
	}
	b.run(maxTTL + late + time.Millisecond)
	if len(b.said) != 1 || !b.said[0].Gone {
		t.Errorf("it said %+v, want gone", b.said)
	}
}

func join(all []string) string { return strings.Join(all, ", ") }

func goodbyeOf(number int) []dns.RR {
	return mustSelf(Config{Node: id(number), Port: uint16(7000 + number)}).records(nil, 0, true)
}

// A pause of this process lengthens no life that begins after it.
func TestPeerThatIsHeardAfterAPauseLivesItsTime(t *testing.T) {
	b := newBench()
	b.receive(noon, b.from("10.0.0.2", announcement(2)))
	b.run(time.Minute)
	woken := b.due.Add(10 * time.Minute)
	b.receive(woken, b.from("10.0.0.2", announcement(2)))
	b.tick(woken)
	if got := b.peers[id(2)].expires; got.Sub(woken) > maxTTL {
		t.Errorf("it lives for %v, want %v", got.Sub(woken), maxTTL)
	}
}
