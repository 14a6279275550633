package mdns

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"

	"symbio/internal/discovery/discoverytest"
)

// twoOnALAN starts nodes 1 and 2 on one segment and waits until they know each other.
func twoOnALAN(t *testing.T) (n *lan, one, two *node) {
	n = new(lan)
	one = start(t, n.host(eth(2, "lan", "10.0.0.1/24")), 1)
	two = start(t, n.host(eth(2, "lan", "10.0.0.2/24")), 2)
	time.Sleep(150 * time.Millisecond)
	one.expect("2 [10.0.0.2:7002]")
	two.expect("1 [10.0.0.1:7001]")
	return n, one, two
}

func TestMDNSPassesSourceSuite(t *testing.T) {
	discoverytest.TestSource(t, func(t *testing.T) discoverytest.Rig {
		var n lan
		s := New(Config{Node: id(1), Port: 7000, Loopback: true})
		s.net = n.host(loopback())
		peers := map[netip.AddrPort]*node{}
		return discoverytest.Rig{
			Source: s,
			Appear: func(a netip.AddrPort) {
				i := loopback()
				i.prefixes = []netip.Prefix{netip.PrefixFrom(a.Addr(), 8)}
				peers[a] = start(t, n.host(i), int(a.Port()-7000), func(s *Source) { s.cfg.Node = id(int(a.Port())) })
			},
			Vanish: func(a netip.AddrPort) { peers[a].stop() },
			Within: 2 * time.Second,
		}
	})
}

func TestNodesFindEachOtherAndNoticeAGoodbye(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, one, two := twoOnALAN(t)
		begun := time.Now()
		two.stop()
		if took := time.Since(begun); took != 100*time.Millisecond {
			t.Errorf("saying goodbye took %v, want 100ms", took)
		}
		time.Sleep(goodbyeGrace - goodbyeGap - time.Millisecond)
		one.expect()
		time.Sleep(2 * time.Millisecond)
		one.expect("2 gone: goodbye")
	})
}

func TestFifteenMinutesWithoutTraffic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, one, two := twoOnALAN(t)
		time.Sleep(time.Minute)
		n.count(isQuery)
		time.Sleep(14 * time.Minute)
		one.expect()
		two.expect()
		// Each of two nodes backs off to one query in 5 minutes, and one of them refreshes both every 96 seconds.
		if got := n.count(isQuery); got < 8 || got > 24 {
			t.Errorf("%d queries in 14 minutes, want 8 to 24", got)
		}
	})
}

func TestRepeatedQueriesBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n lan
		begun := time.Now()
		var at []time.Duration
		n.lose = func(m *dns.Msg) bool {
			if !m.Response {
				at = append(at, time.Since(begun))
			}
			return false
		}
		start(t, n.host(eth(2, "lan", "10.0.0.1/24")), 1)
		time.Sleep(15 * time.Minute)
		synctest.Wait()
		want := []time.Duration{0, 1, 3, 7, 15, 31, 63, 127, 255, 511, 811}
		if len(at) != len(want) {
			t.Fatalf("queries at %v, want %d of them", at, len(want))
		}
		for i := range want {
			if got, want := at[i], want[i]*time.Second+firstSpread/2; got != want {
				t.Errorf("query %d after %v, want %v", i, got, want)
			}
		}
	})
}

func TestKilledNodeExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, one, two := twoOnALAN(t)
		two.kill()
		time.Sleep(recordTTL*time.Second - 2*time.Second)
		one.expect()
		time.Sleep(3 * time.Second)
		one.expect("2 gone: expired")
	})
}

func TestReconfirmFindsAKilledNodeAndSparesALivingOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, one, two := twoOnALAN(t)
		three := start(t, n.host(eth(2, "lan", "10.0.0.3/24")), 3)
		time.Sleep(20 * time.Second) // no query of its own is due soon
		one.expect("3 [10.0.0.3:7003]")
		three.kill()
		for _, id := range []string{two.id, three.id, "nobody"} {
			one.Reconfirm(id)
			one.Reconfirm(id)
		}
		time.Sleep(reconfirmFor - 10*time.Millisecond)
		one.expect()
		time.Sleep(20 * time.Millisecond)
		one.expect("3 gone: no answer")
	})
}

func TestForgedGoodbyeIsContradicted(t *testing.T) {
	for name, parts := range map[string]func([]dns.RR) []dns.RR{
		"all records":  func(rrs []dns.RR) []dns.RR { return rrs },
		"pointer only": func(rrs []dns.RR) []dns.RR { return rrs[:1] },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n, one, two := twoOnALAN(t)
				time.Sleep(time.Minute)
				rrs := parts(two.self().records(nil, 0, true))
				forger := netip.MustParseAddrPort("10.0.0.66:5353")
				n.count(isQuery)
				for range 40 {
					n.multicast("lan", forger, message(rrs))
					time.Sleep(250 * time.Millisecond)
				}
				time.Sleep(2 * time.Second)
				one.expect()
				if got := n.count(func(m *dns.Msg) bool { return true }); got > 40+2*40+20 {
					t.Errorf("40 forged packets led to %d multicasts, want fewer", got-40)
				}
			})
		})
	}
}

func TestDefenseIsOneAnnouncement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, one, two := twoOnALAN(t)
		time.Sleep(time.Minute)
		n.count(isQuery)
		n.losing(func(m *dns.Msg) bool { return !m.Response }) // nobody's asking back arrives
		n.multicast("lan", netip.MustParseAddrPort("10.0.0.66:5353"), message(two.self().records(nil, 0, true)))
		time.Sleep(goodbyeGrace + time.Second)
		one.expect()
	})
}

func TestRestartWithTheSameIDKeepsOnlyTheNewAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, one, two := twoOnALAN(t)
		two.kill()
		time.Sleep(time.Second)
		again := start(t, n.host(eth(2, "lan", "10.0.0.2/24")), 2, func(s *Source) { s.cfg.Port = 9002 })
		time.Sleep(2 * time.Second)
		one.expect("2 [10.0.0.2:9002]")
		again.stop()
		start(t, n.host(eth(2, "lan", "10.0.0.2/24")), 2, func(s *Source) { s.cfg.Port = 9003 })
		time.Sleep(10 * time.Second)
		// Back before the goodbye took effect: never gone, and the newer port comes first.
		one.expect("2 [10.0.0.2:9003 10.0.0.2:9002]", "2 [10.0.0.2:9003]")
	})
}

func TestLossDelaysButRarelyLosesPeers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n lan
		chance := rand.New(rand.NewPCG(1, 2))
		n.lose = func(*dns.Msg) bool { return chance.IntN(10) < 3 }
		n.random = randomBelow
		const size = 10
		var nodes []*node
		for i := range size {
			nodes = append(nodes, start(t, n.host(eth(2, "lan", fmt.Sprintf("10.0.0.%d/24", i+1))), i+1))
		}
		time.Sleep(10 * time.Minute)
		n.losing(nil)
		time.Sleep(2 * time.Minute)
		lapses := 0
		for i, x := range nodes {
			for j := range nodes {
				if i != j {
					x.last(fmt.Sprint(j+1), fmt.Sprintf("[10.0.0.%d:%d]", j+1, 7001+j))
				}
			}
			x.mu.Lock()
			lapses += strings.Count(strings.Join(x.said, "\n"), "gone: expired")
			x.mu.Unlock()
		}
		if most := 5; lapses > most { // of 5 lives of 90 pairs
			t.Errorf("with 30 %% loss, %d peers were taken for gone in 10 minutes, want at most %d", lapses, most)
		}
	})
}

func TestTwoInterfacesGiveBothAddresses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n lan
		one := start(t, n.host(eth(2, "lan", "10.0.0.1/24"), eth(3, "lab", "10.9.0.1/24", "fe80::1/64")), 1)
		two := start(t, n.host(eth(2, "lan", "10.0.0.2/24"), eth(3, "lab", "10.9.0.2/24", "fe80::2/64")), 2)
		three := start(t, n.host(eth(7, "lab", "10.9.0.3/24")), 3)
		time.Sleep(5 * time.Second)
		one.last("2", "[10.0.0.2:7002 10.9.0.2:7002 [fe80::2%lab]:7002]")
		two.last("1", "[10.0.0.1:7001 10.9.0.1:7001 [fe80::1%lab]:7001]")
		three.last("1", "[10.9.0.1:7001]") // and no address of a network it is not on
		one.last("3", "[10.9.0.3:7003]")
	})
}

// last compares the last thing the node said of another.
func (n *node) last(who, want string) {
	n.t.Helper()
	synctest.Wait()
	n.mu.Lock()
	defer n.mu.Unlock()
	got := "nothing"
	for _, s := range n.said {
		if of, what, _ := strings.Cut(s, " "); of == who {
			got = what
		}
	}
	if got != want {
		n.t.Errorf("node %s last said %s of node %s, want %s", short(n.id), got, who, want)
	}
}

func TestLoopbackStaysOnLoopback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n lan
		only := func(s *Source) { s.cfg.Loopback = true }
		lanIface := eth(2, "lan", "10.0.0.1/24")
		h := n.host(loopback(), lanIface)
		one := start(t, h, 1, only)
		two := start(t, n.host(loopback(), lanIface), 2, only)
		far := start(t, n.host(eth(2, "lan", "10.0.0.9/24")), 9)
		time.Sleep(time.Minute)
		one.expect("2 [127.0.0.1:7002 [::1]:7002]")
		two.expect("1 [127.0.0.1:7001 [::1]:7001]")
		far.expect()
		if got := h.servers(); got != 0 {
			t.Errorf("%d servers of the library, which answer the LAN, too; want none", got)
		}
	})
}

func TestGoodbyeEndsAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n lan
		h := n.host(eth(2, "lan", "10.0.0.1/24"))
		one := start(t, h, 1)
		time.Sleep(time.Second)
		if got := h.servers(); got != 1 {
			t.Errorf("%d servers, want 1", got)
		}
		time.AfterFunc(goodbyeGap/2, func() {
			if got := h.servers(); got != 0 {
				t.Errorf("%d servers between the goodbyes, want none", got)
			}
		})
		one.stop()
	})
}

func TestSourceGoesOnWhenInterfacesComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n lan
		h := n.host()
		one := start(t, h, 1)
		start(t, n.host(eth(2, "lan", "10.0.0.2/24")), 2)
		time.Sleep(10 * time.Second)
		one.expect()
		if one.Health() == nil {
			t.Error("health is nil without any interface, want an error")
		}
		h.set(eth(4, "lan", "10.0.0.1/24"))
		time.Sleep(checkEvery + time.Second)
		one.expect("2 [10.0.0.2:7002]")
		if err := one.Health(); err != nil {
			t.Errorf("health is %v with an interface, want nil", err)
		}
		h.refuse(errors.New("the port is taken"))
		h.set(eth(5, "lan", "10.0.0.77/24"))
		time.Sleep(time.Minute)
		if one.Health() == nil {
			t.Error("health is nil without the port, want an error")
		}
		h.refuse(nil) // no interface changes, the port becomes free
		time.Sleep(checkEvery + time.Second)
		if err := one.Health(); err != nil {
			t.Errorf("health is %v with the port, want nil", err)
		}
		one.expect()
	})
}

func TestAfterSleepTheSourceBeginsAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n lan
		var slept atomic.Bool
		start(t, n.host(eth(2, "lan", "10.0.0.1/24")), 1, func(s *Source) {
			s.slept = func() bool { return slept.Swap(false) }
		})
		time.Sleep(10 * time.Minute)
		n.count(isQuery)
		slept.Store(true)
		time.Sleep(checkEvery + 2*time.Second)
		synctest.Wait()
		announcements := func(m *dns.Msg) bool { return m.Response }
		if got := n.count(announcements); got != 2 {
			t.Errorf("%d announcements after waking, want the two of a new start", got)
		}
	})
}

func TestSleepWatchComparesClocks(t *testing.T) {
	var wall time.Time
	var awake time.Duration
	slept := sleepWatch(func() (time.Time, time.Duration) { return wall, awake })
	for _, step := range []struct {
		wall, awake time.Duration
		want        bool
	}{
		{2 * time.Second, 2 * time.Second, false},
		{4 * time.Second, 4 * time.Second, false}, // the machine is busy
		{time.Hour, time.Hour, true},              // the process was stopped
		{time.Hour, time.Second, true},
		{3 * time.Second, 2 * time.Second, false}, // the clock was set
		{-time.Hour, 2 * time.Second, false},
	} {
		wall, awake = wall.Add(step.wall), awake+step.awake
		if got := slept(); got != step.want {
			t.Errorf("wall clock %+v, monotonic %+v: slept is %v, want %v", step.wall, step.awake, got, step.want)
		}
	}
}

func TestFloodIsSaidOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n lan
		var log strings.Builder
		start(t, n.host(eth(2, "lan", "10.0.0.1/24")), 1, func(s *Source) {
			s.cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
		})
		for range 5 {
			for i := range 2 * maxPerSource {
				n.multicast("lan", netip.MustParseAddrPort("10.0.0.66:5353"), message(announcement(1000+i)))
			}
			time.Sleep(checkEvery)
		}
		synctest.Wait()
		if got := strings.Count(log.String(), "more came than discovery takes in"); got != 1 || strings.Contains(log.String(), "txtvers") {
			t.Errorf("the log is\n%s\nwant one line of the flood, and nothing of what it said", log.String())
		}
	})
}

func TestConfigurationThatMakesNoSenseIsAnError(t *testing.T) {
	good := Config{Node: id(1), Port: 7000}
	for name, spoil := range map[string]func(*Config){
		"short id":        func(c *Config) { c.Node = "abc" },
		"upper-case id":   func(c *Config) { c.Node = strings.ToUpper(strings.Repeat("ab", 16)) },
		"tag with escape": func(c *Config) { c.Tag = "\x1b[2J" },
		"protocol":        func(c *Config) { c.Protocol = "1 2" },
		"service":         func(c *Config) { c.Service = "_symbio._udp" },
		"long service":    func(c *Config) { c.Service = "_sixteencharsname._tcp" },
		"pattern":         func(c *Config) { c.Deny = []string{"["} },
	} {
		cfg := good
		spoil(&cfg)
		if err := New(cfg).Run(t.Context(), nil); err == nil {
			t.Errorf("%s: Run returned nil, want an error", name)
		}
	}
}

func (n *node) self() self {
	me, err := newSelf(n.cfg)
	if err != nil {
		n.t.Fatal(err)
	}
	return me
}
