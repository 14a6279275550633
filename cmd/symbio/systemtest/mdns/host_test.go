//go:build system && linux

package mdns_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime/pprof"
	"strings"
	"sync"
	"testing"
	"time"

	"symbio/cmd/symbio/symbiotest"
	"symbio/internal/community/waittest"

	"github.com/miekg/dns"

	"symbio/discovery"
	"symbio/discovery/mdns"
)

// The tests of this package run on a LAN of network namespaces: the test binary starts itself in a namespace of its own,
// the switch, and from there once per host, on which it has sources. Nothing outside the namespaces is touched, and they
// end with the processes.

func TestMain(m *testing.M) {
	symbiotest.Main(m, map[string]func(){"source": func() {
		if err := beHost(os.Stdin, os.NewFile(3, "events")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}})
}

func onASwitch(t *testing.T, test func(t *testing.T)) {
	t.Parallel() // they mostly wait
	symbiotest.OnASwitch(t, test)
}

func nodeID(n int) string { return fmt.Sprintf("%016x%016x", n, n) }

func here(node int) func(discovery.Sighting) bool {
	return func(s discovery.Sighting) bool { return s.Node == nodeID(node) && !s.Gone }
}

func gone(node int) func(discovery.Sighting) bool {
	return func(s discovery.Sighting) bool { return s.Node == nodeID(node) && s.Gone }
}

func TestSelfTestHearsItselfOnTheLAN(t *testing.T) {
	onASwitch(t, func(t *testing.T) {
		symbiotest.IP(t, "addr", "add", "10.7.0.1/24", "dev", "br0")
		took, err := mdns.SelfTest(waittest.Context(t), mdns.Config{Allow: []string{"br0"}})
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("heard after %v", took)
	})
}

// order is what a host is told to do, event what it says.
type (
	order struct {
		Run   []string     `json:",omitempty"` // a command
		Start *mdns.Config `json:",omitempty"` // a source
		Stop  string       `json:",omitempty"` // the source of that node
		Doubt [2]string    // the source of that node reconfirms that one
		Ask   []string     `json:",omitempty"` // multicast or unicast questions for a service: service, our address, theirs
		Take  bool         // hold port 5353 alone
		Free  bool
		Look  string // the health of the source of that node
		Count bool   // goroutines of the library
	}
	event struct {
		Of       string // the node whose source saw it
		Sighting *discovery.Sighting
		Done     bool // the order was carried out
		Text     string
		Err      string
	}
)

// beHost carries out orders until there are no more.
func beHost(in io.Reader, out io.Writer) error {
	h := &hostProcess{out: json.NewEncoder(out), stops: map[string]func(){}, sources: map[string]*mdns.Source{}}
	orders := json.NewDecoder(in)
	for {
		var o order
		if err := orders.Decode(&o); err != nil {
			return nil
		}
		text, err := h.obey(o)
		done := event{Done: true, Text: text}
		if err != nil {
			done.Err = err.Error()
		}
		h.say(done)
	}
}

type hostProcess struct {
	mu      sync.Mutex
	out     *json.Encoder // guarded by mu
	sources map[string]*mdns.Source
	stops   map[string]func()
	taken   net.PacketConn
}

func (h *hostProcess) say(e event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	_ = h.out.Encode(e) // the reader is gone: so is the test
}

func (h *hostProcess) obey(o order) (string, error) {
	var err error
	switch {
	case o.Run != nil:
		out, err := exec.Command(o.Run[0], o.Run[1:]...).CombinedOutput()
		if err != nil {
			return "", fmt.Errorf("%s: %w: %s", strings.Join(o.Run, " "), err, out)
		}
		return string(out), nil
	case o.Start != nil:
		h.start(*o.Start)
	case o.Stop != "":
		h.stops[o.Stop]()
	case o.Doubt[0] != "":
		h.sources[o.Doubt[0]].Reconfirm(o.Doubt[1])
	case o.Ask != nil:
		return ask(o.Ask[0], o.Ask[1], o.Ask[2])
	case o.Take:
		h.taken, err = net.ListenPacket("udp4", "0.0.0.0:5353")
	case o.Free:
		err = h.taken.Close()
	case o.Look != "":
		err = h.sources[o.Look].Health()
	case o.Count:
		return libraryGoroutines()
	}
	return "", err
}

// libraryGoroutines returns how many readers of the library there are; those of closed sockets have an instant to end.
func libraryGoroutines() (string, error) {
	var all bytes.Buffer
	err := pprof.Lookup("goroutine").WriteTo(&all, 2)
	return fmt.Sprint(strings.Count(all.String(), "hashicorp/mdns.(*Server).recv(")), err
}

func (h *hostProcess) start(cfg mdns.Config) {
	s := mdns.New(cfg)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		err := s.Run(ctx, func(sg discovery.Sighting) { h.say(event{Of: cfg.Node, Sighting: &sg}) })
		if err != nil {
			h.say(event{Of: cfg.Node, Err: err.Error()})
		}
	}()
	h.sources[cfg.Node] = s
	h.stops[cfg.Node] = func() { cancel(); <-done }
}

// ask sends a question and returns who answers within a third of a second.
func ask(service, from, to string) (string, error) {
	c, err := net.ListenPacket("udp4", net.JoinHostPort(from, "0"))
	if err != nil {
		return "", err
	}
	defer func() { _ = c.Close() }()
	b, err := (&dns.Msg{Question: []dns.Question{{Name: service + ".local.", Qtype: dns.TypePTR, Qclass: dns.ClassINET}}}).Pack()
	if err != nil {
		return "", err
	}
	if _, err := c.WriteTo(b, &net.UDPAddr{IP: net.ParseIP(to), Port: 5353}); err != nil {
		return "", err
	}
	if err := c.SetReadDeadline(time.Now().Add(time.Second / 3)); err != nil {
		return "", err
	}
	var answers []string
	for buf := make([]byte, 9000); ; {
		n, who, err := c.ReadFrom(buf)
		if err != nil {
			return strings.Join(answers, " "), nil
		}
		m := new(dns.Msg)
		if m.Unpack(buf[:n]) == nil && len(m.Answer) > 0 {
			answers = append(answers, fmt.Sprint(who.(*net.UDPAddr).IP, "=", m.Answer[0].(*dns.PTR).Ptr[:16]))
		}
	}
}

// member is a host on the LAN, as the switch sees it.
type member struct {
	t      *testing.T
	number int
	cmd    *exec.Cmd
	orders *json.Encoder
	done   chan event
	heard  chan event
	news   map[string][]discovery.Sighting // heard and not yet looked at, by the node that saw it
	kill   func()
}

// plugIn starts a host and gives it eth0 with 10.77.0.NUMBER/24 and IPv6, but no default route.
func plugIn(t *testing.T, number int) *member {
	m := boot(t, number)
	m.plug()
	return m
}

// boot starts a host that has only loopback.
func boot(t *testing.T, number int) *member {
	cmd := symbiotest.Namespace("source")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	events, theirs, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.ExtraFiles, cmd.Stderr = []*os.File{theirs}, os.Stderr
	if err := cmd.Start(); err != nil {
		t.Skipf("this user may not make a namespace in a namespace: %v", err)
	}
	_ = theirs.Close()
	m := &member{
		t: t, number: number, cmd: cmd, orders: json.NewEncoder(in),
		done: make(chan event), heard: make(chan event, 1000), news: map[string][]discovery.Sighting{},
	}
	var reading sync.WaitGroup
	reading.Go(func() { m.read(events) })
	m.kill = sync.OnceFunc(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it says that it was killed
		reading.Wait()
	})
	t.Cleanup(m.kill)
	m.do(order{Run: []string{"ip", "link", "set", "lo", "up"}})
	for _, conf := range []string{"all", "default"} { // an address is usable at once, not after a second
		m.do(order{Run: []string{"sh", "-c", "echo 0 > /proc/sys/net/ipv6/conf/" + conf + "/accept_dad"}})
	}
	return m
}

// plug connects the host to the switch.
func (m *member) plug() {
	m.t.Helper()
	ours := fmt.Sprint("port", m.number)
	symbiotest.IP(m.t, "link", "add", ours, "type", "veth", "peer", "name", "eth0", "netns", fmt.Sprint(m.cmd.Process.Pid))
	symbiotest.IP(m.t, "link", "set", ours, "master", "br0", "up")
	m.ip("addr", "add", fmt.Sprintf("10.77.0.%d/24", m.number), "dev", "eth0")
	m.ip("addr", "add", fmt.Sprintf("fd77::%d/64", m.number), "dev", "eth0", "nodad")
	m.ip("link", "set", "eth0", "up")
}

func (m *member) read(events io.Reader) {
	lines := bufio.NewScanner(events)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			m.t.Errorf("host %d said %q: %v", m.number, lines.Text(), err)
			return
		}
		if e.Done {
			m.done <- e
		} else {
			m.heard <- e
		}
	}
}

func (m *member) try(o order) (string, error) {
	if err := m.orders.Encode(o); err != nil {
		return "", err
	}
	if e := waittest.Receive(m.t, "the answer of a host", m.done); e.Err != "" {
		return "", errors.New(e.Err)
	} else {
		return e.Text, nil
	}
}

func (m *member) do(o order) string {
	m.t.Helper()
	text, err := m.try(o)
	if err != nil {
		m.t.Fatalf("host %d: %v", m.number, err)
	}
	return text
}

func (m *member) ip(args ...string) { m.t.Helper(); m.do(order{Run: append([]string{"ip"}, args...)}) }

// up starts a node on the host. Its port is 7000 and its number.
func (m *member) up(node int, change ...func(*mdns.Config)) {
	m.t.Helper()
	cfg := mdns.Config{Node: nodeID(node), Tag: "tag", Port: uint16(7000 + node), Service: "_syt._tcp"}
	for _, c := range change {
		c(&cfg)
	}
	m.do(order{Start: &cfg})
}

// sees waits until the source of a node on this host says of another what f accepts.
func (m *member) sees(node int, what string, f func(discovery.Sighting) bool) discovery.Sighting {
	m.t.Helper()
	for {
		for len(m.news[nodeID(node)]) > 0 {
			s := m.news[nodeID(node)][0]
			m.news[nodeID(node)] = m.news[nodeID(node)][1:]
			if f(s) {
				return s
			}
		}
		e := waittest.Receive(m.t, fmt.Sprintf("host %d: node %d to see %s", m.number, node, what), m.heard)
		if e.Err != "" {
			m.t.Fatalf("host %d: node %s: %s", m.number, e.Of, e.Err)
		}
		m.news[e.Of] = append(m.news[e.Of], *e.Sighting)
	}
}

func TestThreeHostsOnALANWithoutADefaultRoute(t *testing.T) {
	onASwitch(t, func(t *testing.T) {
		a, b := plugIn(t, 1), plugIn(t, 2)
		a.up(1)
		b.up(2)
		a.sees(1, "node 2", here(2))
		b.sees(2, "node 1", here(1))
		c := plugIn(t, 3)
		begun := time.Now()
		c.up(3)
		seen := a.sees(1, "node 3", here(3))
		t.Logf("node 3 was found %v after its start", time.Since(begun))
		b.sees(2, "node 3", here(3))
		c.sees(3, "node 1 or 2", func(s discovery.Sighting) bool { return !s.Gone })
		t.Logf("node 3 found somebody %v after its start", time.Since(begun))
		// Its announcement goes out over both families; whichever came first names the sender.
		if got := seen.Addrs[0].String(); got != "10.77.0.3:7003" && got != "[fd77::3]:7003" {
			t.Errorf("the best address is %s, want one of node 3 that needs no zone; all: %v", got, seen.Addrs)
		}
		for _, x := range seen.Addrs {
			if x.Addr().IsLoopback() {
				t.Errorf("a loopback address of another host is offered: %v", seen.Addrs)
			}
		}
		if all := fmt.Sprint(seen.Addrs); !strings.Contains(all, "[fd77::3]:7003") {
			t.Errorf("the addresses are %s, want its IPv6 address among them", all)
		}

		begun = time.Now()
		b.do(order{Stop: nodeID(2)})
		a.sees(1, "node 2's goodbye", gone(2))
		t.Logf("a goodbye was noticed after %v", time.Since(begun))
		waittest.Until(t, "the end of the library's goroutines after Run", func() (any, bool) {
			n := b.do(order{Count: true})
			return n, n == "0"
		})

		c.kill()
		begun = time.Now()
		a.do(order{Doubt: [2]string{nodeID(1), nodeID(3)}})
		a.sees(1, "the end of node 3", gone(3))
		t.Logf("a killed node was reconfirmed away after %v", time.Since(begun))
	})
}

func TestTwoNodesOfOneHostAreSeenOnTheLAN(t *testing.T) {
	onASwitch(t, func(t *testing.T) {
		a, b := plugIn(t, 1), plugIn(t, 2)
		a.up(1)
		a.up(11)
		a.sees(1, "node 11 of the same host", here(11))
		b.up(2)
		known := map[string]bool{}
		b.sees(2, "nodes 1 and 11", func(s discovery.Sighting) bool {
			known[s.Node] = true
			return known[nodeID(1)] && known[nodeID(11)]
		})
	})
}

// With another program of the machine listening on the LAN, Linux gives its packets to every socket of the port.
func TestLoopbackNodeIsInvisibleOnLAN(t *testing.T) {
	onASwitch(t, func(t *testing.T) {
		loopback := func(c *mdns.Config) { c.Loopback = true }
		a, b := plugIn(t, 1), plugIn(t, 2)
		a.up(1) // listens on the LAN
		a.up(21, loopback)
		a.up(22, loopback)
		a.sees(21, "node 22 on loopback", here(22))
		a.do(order{Stop: nodeID(22)})
		a.sees(21, "node 22's goodbye", gone(22))
		for _, to := range []string{"224.0.0.251", "10.77.0.1"} {
			got := b.do(order{Ask: []string{"_syt._tcp", "10.77.0.2", to}})
			if strings.Contains(got, nodeID(21)[:16]) {
				t.Errorf("asked from the LAN by way of %s, the node on loopback answers: %s", to, got)
			}
		}
		b.up(2)
		seen := b.sees(2, "somebody", func(discovery.Sighting) bool { return true })
		if seen.Node != nodeID(1) {
			t.Errorf("the LAN sees %+v, want node 1 only", seen)
		}
	})
}

func TestNonNeighborGetsNoAnswer(t *testing.T) {
	onASwitch(t, func(t *testing.T) {
		a, b := plugIn(t, 1), plugIn(t, 2)
		b.ip("addr", "add", "10.88.0.2/24", "dev", "eth0")
		a.ip("route", "add", "10.88.0.0/24", "dev", "eth0") // so that an answer could get there
		b.ip("route", "add", "224.0.0.0/4", "dev", "eth0")
		a.up(1)
		a.up(11)
		a.sees(1, "node 11", here(11))
		a.sees(11, "node 1", here(1))
		// The neighbor is answered, by unicast and by multicast.
		waittest.Until(t, "node 1 to answer a neighbour's question", func() (any, bool) {
			got := b.do(order{Ask: []string{"_syt._tcp", "10.77.0.2", "224.0.0.251"}})
			return got, strings.Contains(got, nodeID(1)[:16])
		})
		for _, to := range []string{"224.0.0.251", "10.77.0.1"} {
			if got := b.do(order{Ask: []string{"_syt._tcp", "10.88.0.2", to}}); got != "" {
				t.Errorf("a stranger's question by way of %s was answered by %q, want nobody", to, got)
			}
		}
	})
}

func TestWithoutALANLoopbackIsUsed(t *testing.T) {
	onASwitch(t, func(t *testing.T) {
		a := boot(t, 1)
		a.up(1)
		a.up(2)
		if got := a.sees(1, "node 2", here(2)).Addrs[0].String(); got != "127.0.0.1:7002" {
			t.Errorf("the best address is %s, want 127.0.0.1:7002", got)
		}
	})
}

func TestInterfaceThatComesBackIsUsedAgain(t *testing.T) {
	onASwitch(t, func(t *testing.T) {
		a, b := plugIn(t, 1), boot(t, 2)
		a.up(1)
		b.up(2) // on loopback, as yet
		begun := time.Now()
		b.plug()
		a.sees(1, "node 2", here(2))
		t.Logf("a new interface was used after %v", time.Since(begun))
		symbiotest.IP(t, "link", "del", "port2")
		b.plug()
		b.ip("addr", "add", "10.77.0.102/24", "dev", "eth0")
		a.sees(1, "node 2's new address", func(s discovery.Sighting) bool {
			return here(2)(s) && strings.Contains(fmt.Sprint(s.Addrs), "10.77.0.102:7002")
		})
	})
}

func TestPortThatIsTakenIsReportedAndTriedAgain(t *testing.T) {
	onASwitch(t, func(t *testing.T) {
		a, b := plugIn(t, 1), plugIn(t, 2)
		for _, conf := range []string{"all", "default", "eth0", "lo"} {
			a.do(order{Run: []string{"sh", "-c", "echo 1 > /proc/sys/net/ipv6/conf/" + conf + "/disable_ipv6"}})
		}
		a.do(order{Take: true})
		a.up(1)
		b.up(2)
		waittest.Until(t, "a health that names the port", func() (any, bool) {
			_, err := a.try(order{Look: nodeID(1)})
			return err, err != nil && strings.Contains(err.Error(), "5353")
		})
		a.do(order{Free: true})
		a.sees(1, "node 2", here(2))
		if _, err := a.try(order{Look: nodeID(1)}); err != nil {
			t.Errorf("health is %v although everything works", err)
		}
	})
}
