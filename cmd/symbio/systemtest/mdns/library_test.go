//go:build system && linux

package mdns_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"symbio/internal/community/waittest"

	"symbio/cmd/symbio/symbiotest"

	responder "github.com/hashicorp/mdns"
	"github.com/miekg/dns"
)

// TestLibraryGaps shows why this package browses and announces by itself, and why its zone is behind a gate.
// A case that fails after an upgrade of the library says which of that may go.
func TestLibraryGaps(t *testing.T) {
	onASwitch(t, func(t *testing.T) {
		symbiotest.IP(t, "link", "set", "lo", "up")
		symbiotest.IP(t, "addr", "add", "10.7.0.1/24", "dev", "br0")
		br0, err := net.InterfaceByName("br0")
		if err != nil {
			t.Fatal(err)
		}
		quiet := log.New(io.Discard, "", 0)
		query := func(ctx context.Context, timeout time.Duration) (names []string, err error) {
			entries := make(chan *responder.ServiceEntry, 100)
			err = responder.QueryContext(ctx, &responder.QueryParam{
				Service: "_syt._tcp", Domain: "local", Timeout: timeout, Interface: br0, Entries: entries, DisableIPv6: true, Logger: quiet,
			})
			close(entries)
			for e := range entries {
				names = append(names, e.Name)
			}
			return names, err
		}

		if _, err := query(t.Context(), 100*time.Millisecond); err == nil {
			t.Error("its client asks over IPv4 without a route for multicasts: mdns.Query could browse on such a LAN")
		}
		symbiotest.IP(t, "route", "add", "224.0.0.0/4", "dev", "br0")

		other := listen(t, "224.0.0.251")
		go answerWith(other, [][]dns.RR{
			slices.Concat(service("a", "_syt._tcp"), service("b", "_syt._tcp"), service("c", "_syt._tcp")), service("d", "_ipp._tcp"),
		})
		// If it reports more of the three services in one packet, or not that of another type, it could browse.
		waittest.Until(t, "its client to report one service of each packet", func() (any, bool) {
			names, err := query(t.Context(), 300*time.Millisecond)
			all := strings.Join(names, " ")
			return fmt.Sprint(names, err), err == nil && strings.Count(all, "_syt") == 1 && strings.Count(all, "_ipp") == 1
		})
		_ = other.Close()

		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		begun := time.Now()
		if _, err := query(ctx, 200*time.Millisecond); err != nil || time.Since(begun) < 200*time.Millisecond {
			t.Errorf("its client ended after %v with %v although its context was over after 50 ms: it can be cancelled", time.Since(begun), err)
		}

		zone, err := responder.NewMDNSService("a", "_syt._tcp", "", "a.local.", 7001, []net.IP{{10, 7, 0, 1}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		server, err := responder.NewServer(&responder.Config{Zone: zone, Iface: br0, Logger: quiet})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = server.Shutdown() }()
		for _, c := range []struct {
			name      string
			service   string
			change    func(*dns.Msg)
			want      string
			otherwise string
		}{
			{"a question that everybody hears", "_syt._tcp", func(*dns.Msg) {}, "unicast", "it answers by multicast: the speaker need not"},
			{"in upper case", "_SYT._tcp", func(*dns.Msg) {}, "", "it compares names as DNS does"},
			{"from somebody who knows many", "_syt._tcp", func(m *dns.Msg) { m.Truncated = true }, "", "it answers truncated questions"},
			{"from somebody who knows it", "_syt._tcp", func(m *dns.Msg) { m.Answer = service("a", "_syt._tcp")[:1] }, "unicast", "it heeds known answers"},
		} {
			m := &dns.Msg{Question: []dns.Question{{Name: c.service + ".local.", Qtype: dns.TypePTR, Qclass: dns.ClassINET}}}
			c.change(m)
			waittest.Until(t, fmt.Sprintf("%s: its server to answer by %q; if not, %s", c.name, c.want, c.otherwise), func() (any, bool) {
				got := ways(t, m)
				return got, got == c.want
			})
		}
	})
}

// listen opens port 5353 of an address of br0, or for what is sent to the group.
func listen(t *testing.T, addr string) net.PacketConn {
	t.Helper()
	if ip := net.ParseIP(addr); ip.IsMulticast() {
		br0, err := net.InterfaceByName("br0")
		if err != nil {
			t.Fatal(err)
		}
		c, err := net.ListenMulticastUDP("udp4", br0, &net.UDPAddr{IP: ip, Port: 5353})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	shared := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) { _ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1) })
	}}
	c, err := shared.ListenPacket(t.Context(), "udp4", net.JoinHostPort(addr, "5353"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// service is what a responder says of a service on this host.
func service(name, kind string) []dns.RR {
	head := func(name string, kind uint16) dns.RR_Header {
		return dns.RR_Header{Name: name, Rrtype: kind, Class: dns.ClassINET, Ttl: 120}
	}
	instance := name + "." + kind + ".local."
	return []dns.RR{
		&dns.PTR{Hdr: head(kind+".local.", dns.TypePTR), Ptr: instance},
		&dns.SRV{Hdr: head(instance, dns.TypeSRV), Port: 7001, Target: name + ".local."},
		&dns.TXT{Hdr: head(instance, dns.TypeTXT), Txt: []string{"txtvers=1"}},
		&dns.A{Hdr: head(name+".local.", dns.TypeA), A: net.IPv4(10, 7, 0, 1)},
	}
}

// answerWith answers each question with these packets until the connection is closed.
func answerWith(c net.PacketConn, packets [][]dns.RR) {
	for buf := make([]byte, 9000); ; {
		_, from, err := c.ReadFrom(buf)
		for _, rrs := range packets {
			b, _ := (&dns.Msg{MsgHdr: dns.MsgHdr{Response: true}, Answer: rrs}).Pack()
			if err == nil {
				_, err = c.WriteTo(b, from)
			}
		}
		if err != nil {
			return
		}
	}
}

// ways asks from port 5353, as a responder does that wants everybody to hear the answer, and returns how it was answered.
func ways(t *testing.T, m *dns.Msg) string {
	t.Helper()
	all, mine := listen(t, "224.0.0.251"), listen(t, "10.7.0.1")
	b, err := m.Pack()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := mine.WriteTo(b, &net.UDPAddr{IP: net.IPv4(224, 0, 0, 251), Port: 5353}); err != nil {
		t.Fatal(err)
	}
	var got []string
	deadline := time.Now().Add(150 * time.Millisecond)
	for _, c := range []struct {
		way  string
		conn net.PacketConn
	}{{"multicast", all}, {"unicast", mine}} {
		_ = c.conn.SetReadDeadline(deadline)
		for buf := make([]byte, 9000); ; {
			n, _, err := c.conn.ReadFrom(buf)
			if err != nil {
				break
			}
			answer := new(dns.Msg)
			if answer.Unpack(buf[:n]) == nil && answer.Response && !slices.Contains(got, c.way) {
				got = append(got, c.way)
			}
		}
		_ = c.conn.Close()
		deadline = time.Now().Add(time.Millisecond)
	}
	return strings.Join(got, " and ")
}
