package mdns_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"symbio/internal/community/waittest"

	responder "github.com/hashicorp/mdns"

	"symbio/discovery"
	"symbio/discovery/mdns"
)

// ownService returns a service type that nothing else on this machine uses: port 5353 is shared.
func ownService() string { return fmt.Sprintf("_syt%08x._tcp", rand.Uint32()) }

func nodeID(n int) string { return fmt.Sprintf("%016x%016x", n, n) }

// running is a source on real sockets.
type running struct {
	*mdns.Source
	t     *testing.T
	heard chan discovery.Sighting
	begun time.Time
	stop  func()
}

func run(t *testing.T, cfg mdns.Config) *running {
	r := &running{Source: mdns.New(cfg), t: t, heard: make(chan discovery.Sighting, 100), begun: time.Now()}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx, func(s discovery.Sighting) { r.heard <- s }) }()
	r.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run returned %v, want nil", err)
		}
	})
	t.Cleanup(r.stop)
	return r
}

// wait returns the first sighting that passes f.
func (r *running) wait(what string, f func(discovery.Sighting) bool) discovery.Sighting {
	r.t.Helper()
	for {
		if s := waittest.Receive(r.t, what, r.heard); f(s) {
			return s
		}
	}
}

func here(node int) func(discovery.Sighting) bool {
	return func(s discovery.Sighting) bool { return s.Node == nodeID(node) && !s.Gone }
}

func gone(node int) func(discovery.Sighting) bool {
	return func(s discovery.Sighting) bool { return s.Node == nodeID(node) && s.Gone }
}

// needPort5353 skips a test where the port cannot be had.
func needPort5353(t *testing.T) {
	if testing.Short() {
		t.Skip("-short leaves it out: it uses real sockets on loopback")
	}
	lo := loopbackInterface(t)
	c, err := net.ListenMulticastUDP("udp4", lo, &net.UDPAddr{IP: net.IPv4(224, 0, 0, 251), Port: 5353})
	if err != nil {
		t.Skipf("UDP port 5353 cannot be shared on this machine: %v", err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	t.Parallel() // they mostly wait, and each has a service type of its own
}

func loopbackInterface(t *testing.T) *net.Interface {
	all, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range all {
		if i.Flags&net.FlagLoopback != 0 && i.Flags&net.FlagUp != 0 {
			return &i
		}
	}
	t.Skip("this machine has no loopback interface")
	return nil
}

func TestTwoNodesOfOneMachineFindAndLoseEachOther(t *testing.T) {
	needPort5353(t)
	service := ownService()
	one := run(t, mdns.Config{Node: nodeID(1), Tag: "tag", Port: 7001, Loopback: true, Service: service})
	two := run(t, mdns.Config{Node: nodeID(2), Tag: "tag", Port: 7002, Loopback: true, Service: service})
	seen := one.wait("node 2", here(2))
	t.Logf("node 2 was found %v after its start", time.Since(two.begun))
	if got := seen.Addrs[0].String(); got != "127.0.0.1:7002" {
		t.Errorf("the best address is %s, want 127.0.0.1:7002", got)
	}
	if seen.Tag != "tag" || seen.Protocol != "1" {
		t.Errorf("tag %q and protocol %q, want tag and 1", seen.Tag, seen.Protocol)
	}
	two.wait("node 1", here(1))
	t.Logf("node 2 found node 1 %v after its start", time.Since(two.begun))

	begun := time.Now()
	two.stop()
	one.wait("node 2's goodbye", gone(2))
	t.Logf("its goodbye was noticed after %v", time.Since(begun))

	again := run(t, mdns.Config{Node: nodeID(2), Tag: "tag", Port: 7003, Loopback: true, Service: service})
	one.wait("node 2's return", func(s discovery.Sighting) bool { return here(2)(s) && s.Addrs[0].Port() == 7003 })
	again.wait("node 1", here(1))
}

func TestKilledNodeIsReconfirmedAway(t *testing.T) {
	needPort5353(t)
	service := ownService()
	one := run(t, mdns.Config{Node: nodeID(1), Port: 7001, Loopback: true, Service: service})
	two := run(t, mdns.Config{Node: nodeID(2), Port: 7002, Loopback: true, Service: service})
	one.wait("node 2", here(2))
	// Nobody answers for node 3: it was announced by somebody who is no more.
	announceOnce(t, service, 3)
	one.wait("node 3", here(3))
	begun := time.Now()
	one.Reconfirm(nodeID(2))
	one.Reconfirm(nodeID(3))
	lost := one.wait("the end of node 3", func(s discovery.Sighting) bool { return s.Gone })
	if lost.Node != nodeID(3) || lost.Why != "no answer" {
		t.Errorf("lost %s (%s), want node 3 (no answer); node 2 lives", lost.Node, lost.Why)
	}
	t.Logf("it was noticed after %v", time.Since(begun))
	two.stop()
}

// announceOnce multicasts one announcement of a node on loopback, from port 5353.
func announceOnce(t *testing.T, service string, number int) {
	s := mdns.New(mdns.Config{Node: nodeID(number), Port: uint16(7000 + number), Loopback: true, Service: service})
	if err := mdns.AnnounceAndDie(s); err != nil {
		t.Fatal(err)
	}
}

// TestAnotherProgramSeesUs asks with the client of hashicorp/mdns, where that works: it needs a route for multicasts.
func TestAnotherProgramSeesUs(t *testing.T) {
	needPort5353(t)
	service := ownService()
	one := run(t, mdns.Config{Node: nodeID(1), Tag: "tag", Port: 7001, Loopback: true, Service: service})
	two := run(t, mdns.Config{Node: nodeID(2), Port: 7002, Loopback: true, Service: service})
	two.wait("node 1", here(1))
	one.wait("node 2", here(2))

	entries := make(chan *responder.ServiceEntry, 100)
	err := responder.Query(&responder.QueryParam{
		Service: service, Domain: "local", Timeout: time.Second, Interface: loopbackInterface(t), Entries: entries,
		WantUnicastResponse: true, DisableIPv6: true, Logger: log.New(io.Discard, "", 0),
	})
	if err != nil {
		t.Skipf("the witness cannot ask on loopback here: %v", err)
	}
	close(entries) // Query has returned; it writes to its entries until then
	var got []string
	for e := range entries {
		if !strings.Contains(e.Name, service) {
			continue // it does not tell the answers to others' questions apart
		}
		got = append(got, fmt.Sprint(e.Name, " ", e.Host, " ", e.AddrV4, " ", e.Port, " ", strings.Join(e.InfoFields, ",")))
	}
	slices.Sort(got)
	want := []string{
		fmt.Sprintf("0000000000000001.%s.local. 0000000000000001.local. 127.0.0.1 7001 txtvers=1,id=%s,cl=tag,pv=1", service, nodeID(1)),
		fmt.Sprintf("0000000000000002.%s.local. 0000000000000002.local. 127.0.0.1 7002 txtvers=1,id=%s,pv=1", service, nodeID(2)),
	}
	if got = slices.Compact(got); !slices.Equal(got, want) {
		t.Errorf("the witness sees\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// Left to itself, Linux writes the address of another interface into what goes over loopback.
func TestOnLoopbackTheSenderIsLoopback(t *testing.T) {
	needPort5353(t)
	senders := make(chan netip.Addr, 1000)
	stop, err := mdns.Overhear(func(a netip.Addr) { senders <- a })
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	run(t, mdns.Config{Node: nodeID(1), Port: 7001, Loopback: true, Service: ownService()})
	if a := waittest.Receive(t, "a packet", senders); !a.IsLoopback() {
		t.Errorf("something on loopback was sent by %s", a)
	}
}

func TestManyNodesOfOneMachineFindEachOther(t *testing.T) {
	needPort5353(t)
	service := ownService()
	const size = 12
	var nodes []*running
	begun := time.Now()
	for i := range size {
		nodes = append(nodes, run(t, mdns.Config{Node: nodeID(i + 1), Port: uint16(7001 + i), Loopback: true, Service: service}))
	}
	for _, n := range nodes {
		known := map[string]bool{}
		n.wait("everybody", func(s discovery.Sighting) bool {
			known[s.Node] = !s.Gone
			return len(known) == size-1
		})
	}
	t.Logf("%d nodes knew each other %v after the first one's start", size, time.Since(begun))
}
