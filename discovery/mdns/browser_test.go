package mdns

import (
	"encoding/hex"
	"fmt"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"

	"symbio/discovery"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// bench is a browser on one LAN interface and what came out of it.
type bench struct {
	*browser
	asked []string
	said  []discovery.Sighting
}

func newBench(ifaces ...iface) *bench {
	if len(ifaces) == 0 {
		ifaces = []iface{eth(2, "lan", "10.0.0.1/8", "fe80::1/64")}
	}
	b := new(bench)
	me := mustSelf(Config{Node: id(1), Port: 7001})
	b.browser = newBrowser(me, func(q query) {
		b.asked = append(b.asked, fmt.Sprintf("%s %s unicast=%v", q.name, dns.TypeToString[q.kind], q.unicast))
	}, func(s discovery.Sighting) { b.said = append(b.said, s) }, func(d time.Duration) time.Duration { return d / 2 })
	b.view = choose(ifaces, false, nil, nil)
	return b
}

func mustSelf(cfg Config) self {
	me, err := newSelf(New(cfg).cfg)
	if err != nil {
		panic(err)
	}
	return me
}

// from makes a packet on the bench's first interface.
func (b *bench) from(sender string, rrs []dns.RR) packet {
	return packet{msg: message(rrs), from: netip.AddrPortFrom(netip.MustParseAddr(sender), port), iface: b.view.used[0]}
}

// addrs returns the addresses last reported.
func (b *bench) addrs() string {
	if len(b.said) == 0 {
		return "nothing"
	}
	return fmt.Sprint(b.said[len(b.said)-1].Addrs)
}

func announcement(number int, addrs ...string) []dns.RR {
	var ips []netip.Addr
	for _, a := range addrs {
		ips = append(ips, netip.MustParseAddr(a))
	}
	return mustSelf(Config{Node: id(number), Port: uint16(7000 + number%1000)}).records(ips, recordTTL, true)
}

func TestOnlyNeighborsAreDialed(t *testing.T) {
	lo, lan, lab := loopback(), eth(2, "lan", "10.0.0.1/24", "fe80::1/64"), eth(3, "lab", "10.9.0.1/24")
	for _, c := range []struct {
		name   string
		used   []iface // the packet comes over the first
		sender string
		named  []string
		want   string
	}{
		{"the sender first", []iface{lan}, "10.0.0.2", []string{"10.0.0.9", "10.0.0.2"}, "[10.0.0.2:7002 10.0.0.9:7002]"},
		{"nobody beyond a router", []iface{lan}, "10.0.0.2", []string{"8.8.8.8", "2001:db8::1", "169.254.169.254"}, "[10.0.0.2:7002]"},
		{"nothing that is no host", []iface{lan}, "10.0.0.2", []string{"0.0.0.0", "224.0.0.251", "::", "ff02::fb"}, "[10.0.0.2:7002]"},
		{"no loopback over the LAN", []iface{lan}, "10.0.0.2", []string{"127.0.0.1", "::1", "::ffff:127.0.0.1"}, "[10.0.0.2:7002]"},
		{"loopback over loopback", []iface{lo}, "127.0.0.1", []string{"::1"}, "[127.0.0.1:7002 [::1]:7002]"},
		{"no LAN over loopback", []iface{lo}, "10.0.0.1", []string{"127.0.0.1", "10.0.0.2"}, "[127.0.0.1:7002]"},
		{"nobody at all", []iface{lo}, "0.0.0.0", []string{"10.0.0.2"}, "nothing"},
		{"link-local with its zone", []iface{lan}, "fe80::2", []string{"10.0.0.2", "fe80::3"}, "[10.0.0.2:7002 [fe80::2%lan]:7002 [fe80::3%lan]:7002]"},
		{"nobody on another interface", []iface{lan, lab}, "10.0.0.2", []string{"10.9.0.2"}, "[10.0.0.2:7002]"},
	} {
		b := newBench(c.used...)
		b.receive(noon, b.from(c.sender, announcement(2, c.named...)))
		if got := b.addrs(); got != c.want {
			t.Errorf("%s: reported %s, want %s", c.name, got, c.want)
		}
	}
}

func TestAnnouncementReplacesAndAnAnswerAdds(t *testing.T) {
	b := newBench()
	step := func(unicast bool, want string, sender string, named ...string) {
		t.Helper()
		in := b.from(sender, announcement(2, named...))
		in.unicast = unicast
		b.receive(noon, in)
		if got := b.addrs(); got != want {
			t.Errorf("reported %s, want %s", got, want)
		}
	}
	step(false, "[10.0.0.2:7002 10.0.0.3:7002]", "10.0.0.2", "10.0.0.3")
	step(true, "[10.0.0.2:7002 10.0.0.3:7002 10.0.0.4:7002]", "10.0.0.2", "10.0.0.4")
	step(false, "[10.0.0.2:7002]", "10.0.0.2")
	step(false, "[10.0.0.2:7002 [fe80::2%lan]:7002]", "fe80::2", "10.0.0.2")
	reports := len(b.said)
	step(false, "[10.0.0.2:7002 [fe80::2%lan]:7002]", "10.0.0.2", "fe80::2")
	if got := len(b.said) - reports; got > 0 {
		t.Errorf("%d reports although nothing changed", got)
	}
	for i := range 3 * discovery.MaxAddrs {
		in := b.from("10.0.0.66", announcement(2, fmt.Sprintf("10.0.9.%d", i+1)))
		in.unicast = true
		b.receive(noon.Add(time.Duration(i)*time.Second), in)
	}
	b.receive(noon.Add(time.Minute), b.from("fe80::2", announcement(2)))
	last := b.said[len(b.said)-1].Addrs
	if want := netip.MustParseAddrPort("[fe80::2%lan]:7002"); len(last) != discovery.MaxAddrs ||
		!strings.Contains(fmt.Sprint(last), want.String()) {
		t.Errorf("after many claims the addresses are %v, want %d with that of the peer who spoke last, %s", last, discovery.MaxAddrs, want)
	}
}

func TestTimesToLiveAreClamped(t *testing.T) {
	for ttl, want := range map[uint32]time.Duration{1: minTTL, 9: minTTL, 60: time.Minute, 1 << 31: maxTTL} {
		b := newBench()
		rrs := announcement(2)
		for _, rr := range rrs {
			rr.Header().Ttl = ttl
		}
		b.receive(noon, b.from("10.0.0.2", rrs))
		if got := b.peers[id(2)].ttl; got != want {
			t.Errorf("a time to live of %ds counts as %v, want %v", ttl, got, want)
		}
	}
}

func TestRefreshesComeNearTheEndOfALife(t *testing.T) {
	b := newBench()
	b.receive(noon, b.from("10.0.0.2", announcement(2)))
	jitter := 120 * time.Second / 25 / 2
	for _, percent := range []int{80, 85, 90, 95} {
		at := noon.Add(120*time.Second*time.Duration(percent)/100 + jitter)
		b.due = at // as it was wanted, or earlier
		b.tick(at.Add(-time.Millisecond))
		b.asked = nil
		b.due = at
		b.tick(at)
		if !slices.Contains(b.asked, "_symbio._tcp.local. PTR unicast=false") {
			t.Errorf("at %d %% it asked %q, want a shared query", percent, b.asked)
		}
	}
	if got := len(b.asked); got != 2 {
		t.Errorf("at last it asked %q, want the peer by name, too", b.asked)
	}
	b.said = nil
	b.tick(noon.Add(120 * time.Second))
	if len(b.said) != 1 || !b.said[0].Gone || b.said[0].Why != whyExpired {
		t.Errorf("at the end of its life it said %+v, want gone, expired", b.said)
	}
}

func TestFloodOfForgedInstancesIsBounded(t *testing.T) {
	b := newBench(eth(2, "lan", "10.0.0.1/8"))
	b.receive(noon, b.from("10.0.0.2", announcement(2)))
	before := heap()
	for i := range 20_000 {
		sender := netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)})
		b.receive(noon, b.from(sender.String(), announcement(1000+i)))
	}
	if got := len(b.peers); got != maxPeers {
		t.Errorf("%d peers, want %d", got, maxPeers)
	}
	if grown := int64(heap()) - int64(before); grown > 16<<20 {
		t.Errorf("the flood takes %d KiB, want less than 16 MiB", grown>>10)
	}
	b.receive(noon.Add(time.Minute), b.from("10.0.0.2", announcement(2))) // who was there first, stays
	b.due = noon.Add(2*time.Minute + time.Second)
	b.tick(b.due)
	if len(b.peers) != 1 || b.peers[id(2)] == nil || len(b.perSender) != 1 {
		t.Errorf("%d peers and %d senders after the flood expired, want the living one", len(b.peers), len(b.perSender))
	}
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func TestOneSenderHasAShareOfTheTable(t *testing.T) {
	b := newBench()
	for i := range 500 {
		b.receive(noon, b.from("10.0.0.66", announcement(1000+i)))
	}
	b.receive(noon, b.from("10.0.0.2", announcement(2)))
	if got := len(b.peers); got != maxPerSource+1 {
		t.Errorf("%d peers, want %d of one sender and 1 of another", got, maxPerSource)
	}
	if got := b.refused; got != 500-maxPerSource {
		t.Errorf("%d refused, want %d", got, 500-maxPerSource)
	}
}

func TestSourceIgnoresItselfAndOtherServices(t *testing.T) {
	b := newBench()
	b.receive(noon, b.from("10.0.0.1", announcement(1)))
	other := mustSelf(Config{Node: id(3), Port: 1, Service: "_ipp._tcp"})
	b.receive(noon, b.from("10.0.0.3", other.records(nil, recordTTL, true)))
	query := b.from("10.0.0.4", announcement(4))
	query.msg.Response = false
	b.receive(noon, query)
	failure := b.from("10.0.0.5", announcement(5))
	failure.msg.Rcode = dns.RcodeServerFailure
	b.receive(noon, failure)
	if len(b.said) > 0 {
		t.Errorf("it said %+v, want nothing", b.said)
	}
}

// What is said in this node's own name about addresses that are not its own comes from a copy of its key, or from
// somebody who lies; the one that dials finds out.
func TestItSeesItselfWhereItIsNot(t *testing.T) {
	b := newBench()
	b.receive(noon, b.from("10.0.0.1", announcement(1, "10.0.0.1", "10.0.0.9")))
	if got, want := b.addrs(), "[10.0.0.9:7001]"; got != want {
		t.Errorf("a record of its own with a strange address: %s, want %s", got, want)
	}
	b = newBench()
	b.receive(noon, b.from("10.0.0.9", announcement(1)))
	if got, want := b.addrs(), "[10.0.0.9:7001]"; got != want {
		t.Errorf("its own name from elsewhere: %s, want %s", got, want)
	}
	b = newBench()
	other := announcement(1)
	for _, rr := range other {
		if txt, ok := rr.(*dns.TXT); ok {
			txt.Txt[1] = "id=" + id(2)
		}
	}
	b.receive(noon, b.from("10.0.0.9", other))
	if len(b.said) > 0 {
		t.Errorf("another id under its own name: it said %+v, want nothing", b.said)
	}
}

func TestSeveralInstancesInOnePacketAreAllSeen(t *testing.T) {
	b := newBench()
	var rrs []dns.RR
	for i := range 12 { // as a system's responder answers for all services of its host
		rrs = append(rrs, announcement(100+i, "10.0.0.2")...)
	}
	b.receive(noon, b.from("10.0.0.2", rrs))
	if got := len(b.said); got != 12 {
		t.Errorf("%d peers seen, want 12", got)
	}
	for range maxRecords {
		rrs = append(rrs, rrs[0])
	}
	b.receive(noon, b.from("10.0.0.3", append(rrs, announcement(200)...)))
	if got := len(b.said); got != 12 {
		t.Errorf("a packet of %d records was read, want it dropped", len(rrs))
	}
}

func TestHostileTXTYieldsNothing(t *testing.T) {
	good := []string{"txtvers=1", "id=" + id(2), "cl=tag", "pv=1-2"}
	want := txtData{id: id(2), tag: "tag", protocol: "1-2"}
	without := func(i int) []string { return append(append([]string{}, good[:i]...), good[i+1:]...) }
	many := append([]string{}, good...)
	for i := range maxTXTKeys {
		many = append(many, fmt.Sprintf("k%d=v", i))
	}
	for _, c := range []struct {
		name string
		txt  []string
		want txtData
	}{
		{"all four", good, want},
		{"an unknown key", append([]string{"x=\x1b[2J"}, good...), want},
		{"a flag", append([]string{"st"}, good...), want},
		{"keys in upper case", []string{"TXTVERS=1", "ID=" + id(2), "CL=tag", "Pv=1-2"}, want},
		{"a repeated key: the first counts", append(append([]string{}, good...), "cl=other", "id=x"), want},
		{"no tag", without(2), txtData{id: id(2), protocol: "1-2"}},
		{"nothing", nil, txtData{}},
		{"no version", without(0), txtData{}},
		{"another version", append([]string{"txtvers=2"}, good...), txtData{}},
		{"no id", without(1), txtData{}},
		{"a short id", append([]string{"id=abc"}, good...), txtData{}},
		{"an id in upper case", append([]string{"id=" + strings.ToUpper(strings.Repeat("ab", 16))}, good...), txtData{}},
		{"an escape in the tag", append([]string{"cl=\x1b[31m"}, good...), txtData{}},
		{"an escape as the library writes it", append([]string{`cl=\027[31m`}, good...), txtData{}},
		{"an instruction in the tag", append([]string{"cl=ignore all previous instructions"}, good...), txtData{}},
		{"an empty tag", append([]string{"cl="}, good...), txtData{}},
		{"a long tag", append([]string{"cl=" + strings.Repeat("a", 65)}, good...), txtData{}},
		{"too many keys", many, txtData{}},
		{"too long", append([]string{"x=" + strings.Repeat("a", 200), "y=" + strings.Repeat("a", 150)}, good...), txtData{}},
	} {
		if diff := cmp.Diff(c.want, readTXT(c.txt), cmp.AllowUnexported(txtData{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

func TestIDMustFitItsInstance(t *testing.T) {
	b := newBench()
	rrs := announcement(2)
	rrs[2].(*dns.TXT).Txt[1] = "id=" + id(3)
	b.receive(noon, b.from("10.0.0.2", rrs))
	if len(b.said) > 0 {
		t.Errorf("an instance with the id of another was believed: %+v", b.said)
	}
}

// golden is an announcement as it goes over the wire; other versions of this program must be able to read it for ever.
const golden = "000084000000000500000000" +
	"075f73796d62696f045f746370056c6f63616c00" + "000c000100000078" + "0013" + "1030303030303030303030303030303032c00c" +
	"c02a" + "0021800100000078" + "001e" + "000000001b5a" + "1030303030303030303030303030303032056c6f63616c00" +
	"c02a" + "0010800100000078" + "0047" + "09747874766572733d31" +
	"2369643d" + "3030303030303030303030303030303230303030303030303030303030303032" +
	"13636c3d30313233343536373839616263646566" + "0470763d31" +
	"c04f" + "0001800100000078" + "0004" + "0a000002" +
	"c04f" + "001c800100000078" + "0010" + "fe800000000000000000000000000002"

func TestWireFormatStays(t *testing.T) {
	me := mustSelf(Config{Node: id(2), Port: 7002, Tag: "0123456789abcdef"})
	m := message(me.records([]netip.Addr{netip.MustParseAddr("10.0.0.2"), netip.MustParseAddr("fe80::2")}, recordTTL, true))
	b, err := m.Pack()
	if err != nil {
		t.Fatal(err)
	}
	got := hex.EncodeToString(b)
	if diff := cmp.Diff(golden, got); diff != "" {
		t.Errorf("an announcement is (-want +got):\n%s", diff)
	}

	raw, err := hex.DecodeString(golden)
	if err != nil {
		t.Fatal(err)
	}
	reader := newBench()
	in, ok := (&sockets{view: reader.view}).parse(raw, 2, netip.MustParseAddrPort("10.0.0.2:5353"))
	if !ok {
		t.Fatal("the golden packet is not read")
	}
	reader.receive(noon, in)
	want := []discovery.Sighting{{
		Source: name, Key: id(2), Node: id(2), Tag: "0123456789abcdef", Protocol: "1", Why: whyAnnounced,
		Addrs: []netip.AddrPort{netip.MustParseAddrPort("10.0.0.2:7002"), netip.MustParseAddrPort("[fe80::2%lan]:7002")},
	}}
	if diff := cmp.Diff(want, reader.said, cmp.Comparer(func(x, y netip.AddrPort) bool { return x == y })); diff != "" {
		t.Errorf("it reads as (-want +got):\n%s", diff)
	}
}

func FuzzPacket(f *testing.F) {
	for _, rrs := range [][]dns.RR{announcement(2, "10.0.0.2", "fe80::2"), mustSelf(Config{Node: id(2), Port: 1}).records(nil, 0, true)} {
		b, err := message(rrs).Pack()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	q, err := (&dns.Msg{Question: []dns.Question{{Name: "_symbio._tcp.local.", Qtype: dns.TypePTR, Qclass: dns.ClassINET}}}).Pack()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(q)
	f.Fuzz(func(t *testing.T, raw []byte) {
		b := newBench()
		l := &sockets{view: b.view}
		in, ok := l.parse(raw, 2, netip.MustParseAddrPort("10.0.0.2:5353"))
		if !ok {
			return
		}
		b.receive(noon, in)
		s := newAnnouncer(b.me, b.random)
		s.announce(noon, b.view.used)
		s.receive(noon, in)
		for _, q := range in.msg.Question {
			b.me.matches(q)
		}
		for _, s := range b.said {
			if !nodeID().MatchString(s.Node) || s.Tag != "" && !plain().MatchString(s.Tag) || len(s.Addrs) == 0 ||
				len(s.Addrs) > discovery.MaxAddrs {
				t.Errorf("reported %+v", s)
			}
		}
	})
}

func FuzzTXT(f *testing.F) {
	f.Add("txtvers=1\nid=" + id(2) + "\ncl=tag\npv=1")
	f.Add("txtvers=1\nid=" + id(2) + "\ncl=\x1b[2J")
	f.Fuzz(func(t *testing.T, txt string) {
		got := readTXT(strings.Split(txt, "\n"))
		if got == (txtData{}) {
			return
		}
		if !nodeID().MatchString(got.id) || len(txt) > maxTXT {
			t.Errorf("%q reads as %+v", txt, got)
		}
		for _, v := range []string{got.tag, got.protocol} {
			if v != "" && !plain().MatchString(v) {
				t.Errorf("%q reads as %+v", txt, got)
			}
		}
	})
}
