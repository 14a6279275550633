//go:build system && linux

package lan_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"symbio/cmd/symbio/symbiotest"

	"github.com/miekg/dns"
	"golang.org/x/net/ipv4"
)

// A rogue is a process on a machine of the LAN that says by mDNS whatever it is told to, from port 5353 as an honest
// responder does, and counts who connects to the ports at which it waits.
type (
	lie struct {
		ID, Tag string
		Port    uint16
		Addrs   []string // that it names besides the one it sends from
		Goodbye bool
	}
	rogueOrder struct {
		From  []string      // addresses to send from, in turn
		Lie   lie           // what to send
		Times int           // how often; each time under another id if New
		New   bool          // makes up ids
		Every time.Duration // the time between two, or between two hundred if New
		Trap  string        // where to wait for connections, each of which is closed at once
		Count bool          // the connections to traps so far
	}
	rogueReply struct {
		Err    string
		Caught int64
	}
)

// rogue is such a process, as the test sees it.
type rogue struct {
	h   *symbiotest.Host
	in  *json.Encoder
	out *json.Decoder
}

func startRogue(h *symbiotest.Host) *rogue {
	h.T.Helper()
	cmd := h.Inside(os.Args[0])
	cmd.Env = append(cmd.Env, symbiotest.LanRole+"=rogue")
	in, err := cmd.StdinPipe()
	if err != nil {
		h.T.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		h.T.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		h.T.Fatal(err)
	}
	h.T.Cleanup(func() { in.Close(); cmd.Wait() })
	return &rogue{h: h, in: json.NewEncoder(in), out: json.NewDecoder(out)}
}

// do has the rogue carry out an order, and returns how many connections its traps caught so far.
func (r *rogue) do(t *testing.T, o rogueOrder) int64 {
	t.Helper()
	var reply rogueReply
	if err := r.in.Encode(o); err != nil {
		t.Fatal(err)
	}
	if err := r.out.Decode(&reply); err != nil || reply.Err != "" {
		t.Fatalf("rogue on host %d: %v %s", r.h.Number, err, reply.Err)
	}
	return reply.Caught
}

func (r *rogue) caught(t *testing.T) int64 { t.Helper(); return r.do(t, rogueOrder{Count: true}) }

func beRogue(in io.Reader, out io.Writer) {
	var caught atomic.Int64
	orders, replies := json.NewDecoder(in), json.NewEncoder(out)
	for {
		var o rogueOrder
		if orders.Decode(&o) != nil {
			return
		}
		var reply rogueReply
		if err := o.carryOut(&caught); err != nil {
			reply.Err = err.Error()
		}
		reply.Caught = caught.Load()
		_ = replies.Encode(reply) // whoever asked is gone
	}
}

func (o rogueOrder) carryOut(caught *atomic.Int64) error {
	if o.Trap != "" {
		return trap(o.Trap, caught)
	}
	if o.Times == 0 {
		return nil
	}
	senders := make([]*ipv4.PacketConn, len(o.From))
	for i, from := range o.From {
		c, err := mouth(from)
		if err != nil {
			return err
		}
		defer func() { _ = c.Close() }()
		senders[i] = c
	}
	pace := time.NewTicker(max(o.Every, time.Microsecond))
	defer pace.Stop()
	for i := range o.Times {
		l := o.Lie
		if o.New {
			l.ID = fmt.Sprintf("%016x%016x", 0xf00d0000+i, i)
		}
		b, err := l.packet(o.From[i%len(senders)])
		if err != nil {
			return err
		}
		if _, err := senders[i%len(senders)].WriteTo(b, nil, &net.UDPAddr{IP: net.IPv4(224, 0, 0, 251), Port: 5353}); err != nil {
			return err
		}
		if o.Every > 0 && (!o.New || i%100 == 0) {
			<-pace.C
		}
	}
	return nil
}

// trap counts connections to an address.
func trap(addr string, caught *atomic.Int64) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			caught.Add(1)
			_ = c.Close()
		}
	}()
	return nil
}

// mouth is a socket that multicasts from an address of eth0 and port 5353.
func mouth(from string) (*ipv4.PacketConn, error) {
	shared := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) { _ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1) })
	}}
	c, err := shared.ListenPacket(context.Background(), "udp4", net.JoinHostPort(from, "5353"))
	if err != nil {
		return nil, err
	}
	eth0, err := net.InterfaceByName("eth0")
	if err != nil {
		return nil, err
	}
	p := ipv4.NewPacketConn(c)
	return p, p.SetMulticastInterface(eth0)
}

// packet is the announcement or goodbye of a node, as an honest one would send it.
func (l lie) packet(from string) ([]byte, error) {
	const service, flush = "_symbio._tcp.local.", 1 << 15
	instance, host := l.ID[:16]+"."+service, l.ID[:16]+".local."
	ttl := uint32(120)
	if l.Goodbye {
		ttl = 0
	}
	head := func(name string, kind, class uint16) dns.RR_Header {
		return dns.RR_Header{Name: name, Rrtype: kind, Class: dns.ClassINET | class, Ttl: ttl}
	}
	txt := []string{"txtvers=1", "id=" + l.ID, "pv=1"}
	if l.Tag != "" {
		txt = append(txt, "cl="+l.Tag)
	}
	m := &dns.Msg{MsgHdr: dns.MsgHdr{Response: true, Authoritative: true}, Compress: true, Answer: []dns.RR{
		&dns.PTR{Hdr: head(service, dns.TypePTR, 0), Ptr: instance},
		&dns.SRV{Hdr: head(instance, dns.TypeSRV, flush), Port: l.Port, Target: host},
		&dns.TXT{Hdr: head(instance, dns.TypeTXT, flush), Txt: txt},
	}}
	for _, a := range append([]string{from}, l.Addrs...) {
		ip, err := netip.ParseAddr(a)
		if err != nil {
			return nil, err
		}
		m.Answer = append(m.Answer, &dns.A{Hdr: head(host, dns.TypeA, flush), A: ip.AsSlice()})
	}
	return m.Pack()
}
