package mdns

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"

	"symbio/discovery"
)

// lan is a network in memory: segments that interfaces are on by their name, where a packet takes a millisecond.
type lan struct {
	mu    sync.Mutex
	links []*cable              // guarded by mu
	ports uint16                // guarded by mu
	lose  func(m *dns.Msg) bool // guarded by mu
	// random is set before the first node starts.
	random func(time.Duration) time.Duration
	sent   []*dns.Msg // guarded by mu; all multicasts
}

// host is a machine on a lan; it implements network.
type host struct {
	lan    *lan
	mu     sync.Mutex
	ifaces []iface          // guarded by mu
	taken  error            // guarded by mu; why open fails
	served map[*zone]string // guarded by mu; the segments that servers answer on
}

// cable is a host's open link.
type cable struct {
	host    *host
	view    view
	port    uint16
	deliver func(packet)
}

func (n *lan) host(ifaces ...iface) *host {
	return &host{lan: n, ifaces: ifaces, served: map[*zone]string{}}
}

// eth returns an interface on a segment.
func eth(index int, segment string, prefixes ...string) iface {
	i := iface{Interface: net.Interface{Index: index, Name: segment, Flags: net.FlagUp | net.FlagMulticast}}
	for _, p := range prefixes {
		i.prefixes = append(i.prefixes, netip.MustParsePrefix(p))
	}
	return i
}

func loopback() iface {
	i := eth(1, "lo", "127.0.0.1/8", "::1/128")
	i.Flags = net.FlagUp | net.FlagLoopback
	return i
}

func (h *host) set(ifaces ...iface) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ifaces = ifaces
}

func (h *host) refuse(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.taken = err
}

func (h *host) interfaces() ([]iface, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.ifaces), nil
}

func (h *host) open(v view, deliver func(packet)) (link, error) {
	h.mu.Lock()
	taken := h.taken
	h.mu.Unlock()
	if taken != nil {
		return nil, taken
	}
	if len(v.used) == 0 {
		return nil, errors.New("no interface")
	}
	h.lan.mu.Lock()
	defer h.lan.mu.Unlock()
	h.lan.ports++
	c := &cable{host: h, view: v, port: 40000 + h.lan.ports, deliver: deliver}
	h.lan.links = append(h.lan.links, c)
	return c, nil
}

func (h *host) serve(i iface, z *zone) (func(), error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.served[z] = i.Name
	return func() {
		z.retire()
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.served, z)
	}, nil
}

// servers is how many of the library's servers run.
func (h *host) servers() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.served)
}

func (c *cable) send(m *dns.Msg, i iface) error {
	if c.cut() {
		return nil
	}
	from := netip.AddrPortFrom(i.prefixes[0].Addr(), c.port)
	if m.Response {
		from = netip.AddrPortFrom(from.Addr(), port)
	}
	c.host.lan.multicast(i.Name, from, m)
	return nil
}

func (c *cable) reply(m *dns.Msg, to packet) error {
	c.host.lan.unicast(netip.AddrPortFrom(to.iface.prefixes[0].Addr(), port), to.from, m)
	return nil
}

// cut says that the host was killed: its last words are not heard.
func (c *cable) cut() bool {
	c.host.lan.mu.Lock()
	defer c.host.lan.mu.Unlock()
	return !slices.Contains(c.host.lan.links, c)
}

func (c *cable) degraded() error  { return nil }
func (c *cable) canRecover() bool { return false }
func (c *cable) isDead() bool     { return false }

func (c *cable) close() {
	n := c.host.lan
	n.mu.Lock()
	defer n.mu.Unlock()
	n.links = slices.DeleteFunc(n.links, func(x *cable) bool { return x == c })
}

// multicast gives every host on the segment the packet, and its servers what their library would give them.
func (n *lan) multicast(segment string, from netip.AddrPort, m *dns.Msg) {
	m = repacked(m)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.sent = append(n.sent, m)
	for _, c := range n.links {
		for _, i := range c.view.used {
			if i.Name != segment || n.lose != nil && n.lose(m) {
				continue
			}
			time.AfterFunc(time.Millisecond, func() {
				if arrived, near := c.view.arrived(i.Index, from.Addr()); near {
					c.deliver(packet{msg: repacked(m), from: from, iface: arrived})
				}
				c.host.question(from, m)
			})
		}
	}
}

// question lets each of the host's servers answer, whatever its interface, as on Linux.
func (h *host) question(from netip.AddrPort, m *dns.Msg) {
	if m.Response {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for z := range h.served {
		go func() {
			reply := &dns.Msg{MsgHdr: dns.MsgHdr{Response: true, Authoritative: true}}
			for _, q := range m.Question {
				reply.Answer = append(reply.Answer, z.Records(q)...)
			}
			if len(reply.Answer) > 0 {
				h.lan.unicast(netip.AddrPortFrom(z.addrs[0], port), from, reply)
			}
		}()
	}
}

func (n *lan) unicast(from, to netip.AddrPort, m *dns.Msg) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range n.links {
		for _, i := range c.view.used {
			if c.port != to.Port() || !i.owns(to.Addr()) || n.lose != nil && n.lose(m) {
				continue
			}
			time.AfterFunc(time.Millisecond, func() {
				if arrived, near := c.view.arrived(i.Index, from.Addr()); near {
					c.deliver(packet{msg: repacked(m), from: from, iface: arrived, unicast: true})
				}
			})
		}
	}
}

// losing begins to lose the packets that pass f.
func (n *lan) losing(f func(*dns.Msg) bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lose = f
}

// count returns how many multicasts were sent since the last call that pass f.
func (n *lan) count(f func(*dns.Msg) bool) (hits int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, m := range n.sent {
		if f(m) {
			hits++
		}
	}
	n.sent = nil
	return hits
}

func isQuery(m *dns.Msg) bool { return !m.Response }

// repacked is m as it comes off the wire.
func repacked(m *dns.Msg) *dns.Msg {
	b, err := m.Pack()
	if err != nil {
		panic(err)
	}
	out := new(dns.Msg)
	if err := out.Unpack(b); err != nil {
		panic(err)
	}
	return out
}

// node is a source that runs on a host, and what it said.
type node struct {
	*Source
	t    *testing.T
	id   string
	mu   sync.Mutex
	said []string // guarded by mu
	stop func()
	kill func()
}

// id returns a node id made of a number.
func id(n int) string { return fmt.Sprintf("%016x%016x", n, n) }

// start runs a node on a host. Its port is 7000 and its number.
func start(t *testing.T, h *host, number int, change ...func(*Source)) *node {
	cfg := Config{Node: id(number), Tag: "0123456789abcdef", Port: uint16(7000 + number)}
	n := &node{Source: New(cfg), t: t}
	n.net = h
	n.random = h.lan.random
	if n.random == nil {
		n.random = func(d time.Duration) time.Duration { return d / 2 }
	}
	for _, c := range change {
		c(n.Source)
	}
	n.id = n.cfg.Node
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- n.Run(ctx, n.hear) }()
	end := sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run returned %v, want nil", err)
		}
	})
	n.stop = end
	n.kill = func() {
		h.lan.mu.Lock()
		h.lan.links = slices.DeleteFunc(h.lan.links, func(c *cable) bool { return c.host == h })
		h.lan.mu.Unlock()
		end()
	}
	t.Cleanup(end)
	return n
}

func (n *node) hear(s discovery.Sighting) {
	n.mu.Lock()
	defer n.mu.Unlock()
	what := fmt.Sprint(s.Addrs)
	if s.Gone {
		what = "gone: " + s.Why
	}
	if s.Source != name || s.Key != s.Node || s.Gone == (len(s.Addrs) > 0) {
		n.t.Errorf("malformed sighting %+v", s)
	}
	n.said = append(n.said, short(s.Node)+" "+what)
}

// short names a node by its number.
func short(id string) string {
	var number int
	if _, err := fmt.Sscanf(id[:instanceLn], "%x", &number); err != nil {
		return id
	}
	return fmt.Sprint(number)
}

// expect compares what the node said since the last call, in any order.
func (n *node) expect(want ...string) {
	n.t.Helper()
	synctest.Wait()
	n.mu.Lock()
	got := n.said
	n.said = nil
	n.mu.Unlock()
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		n.t.Errorf("node %s said %q, want %q", short(n.id), got, want)
	}
}
