package dns_test

import (
	"context"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	wire "github.com/miekg/dns"

	"symbio/discovery"
	"symbio/discovery/dns"
	"symbio/internal/community/waittest"
)

// nameServer is a real one, on loopback: a Kubernetes headless service as its name server shows it.
type nameServer struct {
	t    *testing.T
	mu   sync.Mutex
	rrs  []string // guarded by mu
	code int      // guarded by mu
}

func (s *nameServer) set(code int, rrs ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.code, s.rrs = code, rrs
}

func (s *nameServer) ServeDNS(w wire.ResponseWriter, q *wire.Msg) {
	m := new(wire.Msg).SetReply(q)
	m.Authoritative = true
	s.mu.Lock()
	m.Rcode = s.code
	known := false
	for _, text := range s.rrs {
		rr, err := wire.NewRR(text)
		if err != nil {
			s.t.Error(err)
			continue
		}
		if strings.EqualFold(rr.Header().Name, q.Question[0].Name) {
			known = true
			if rr.Header().Rrtype == q.Question[0].Qtype {
				m.Answer = append(m.Answer, rr)
			}
		}
	}
	s.mu.Unlock()
	if !known && m.Rcode == wire.RcodeSuccess {
		m.Rcode = wire.RcodeNameError
	}
	if err := w.WriteMsg(m); err != nil {
		s.t.Logf("answering: %v", err)
	}
}

// startServer starts a server and returns it with a resolver that asks only it.
func startServer(t *testing.T) (*nameServer, *net.Resolver) {
	if testing.Short() {
		t.Skip("-short leaves it out: it uses real sockets on loopback")
	}
	s := &nameServer{t: t}
	conn, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	up := make(chan struct{})
	server := &wire.Server{PacketConn: conn, Handler: s, NotifyStartedFunc: func() { close(up) }}
	done := make(chan error, 1)
	go func() { done <- server.ActivateAndServe() }()
	<-up
	t.Cleanup(func() {
		if err := server.Shutdown(); err != nil {
			t.Error(err)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return s, &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "udp4", conn.LocalAddr().String())
	}}
}

func TestHeadlessServiceIsFoundThroughARealNameServer(t *testing.T) {
	const (
		service = "_symbio._tcp.symbio.default.svc.cluster.local."
		srv0    = service + " 5 IN SRV 0 50 7946 symbio-0.symbio.default.svc.cluster.local."
		srv1    = service + " 5 IN SRV 0 50 7946 symbio-1.symbio.default.svc.cluster.local."
		a0      = "symbio-0.symbio.default.svc.cluster.local. 5 IN A 10.1.0.10"
		aaaa0   = "symbio-0.symbio.default.svc.cluster.local. 5 IN AAAA fd00::10"
		a1      = "symbio-1.symbio.default.svc.cluster.local. 5 IN A 10.1.0.11"
	)
	server, resolver := startServer(t)
	server.set(wire.RcodeSuccess, srv0, srv1, a0, aaaa0, a1)
	s := open(t, dns.Config{Names: []string{service}, Resolver: resolver, Every: 20 * time.Millisecond})
	heard := make(chan discovery.Sighting, 10)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx, func(sg discovery.Sighting) { heard <- sg }) }()
	defer func() { cancel(); <-done }()

	next := func() discovery.Sighting {
		t.Helper()
		return waittest.Receive(t, "a report", heard)
	}
	first, second := next(), next()
	if want := "symbio-0.symbio.default.svc.cluster.local:7946 of " + service; first.Key != want {
		t.Errorf("the first key is %q, want %q", first.Key, want)
	}
	if len(first.Addrs) != 2 || len(second.Addrs) != 1 || second.Addrs[0].String() != "10.1.0.11:7946" {
		t.Errorf("addresses %v and %v, want two and 10.1.0.11:7946", first.Addrs, second.Addrs)
	}

	server.set(wire.RcodeServerFailure)
	waittest.Until(t, "a refusal", func() (any, bool) { err := s.Health(); return err, err != nil })
	server.set(wire.RcodeSuccess, srv0, a0, aaaa0, a1)
	if sg := next(); !sg.Gone || sg.Key != second.Key {
		t.Errorf("reported %+v, want that %s is gone", sg, second.Key)
	}
	server.set(wire.RcodeSuccess)
	if sg := next(); !sg.Gone || sg.Key != first.Key {
		t.Errorf("reported %+v when no record is left, want that %s is gone", sg, first.Key)
	}
}

func TestAddressesAreFoundThroughARealNameServer(t *testing.T) {
	server, resolver := startServer(t)
	server.set(wire.RcodeSuccess, "nodes.example. 5 IN A 10.1.0.10", "nodes.example. 5 IN A 10.1.0.11", "nodes.example. 5 IN AAAA fd00::1")
	peers, wrong, err := dns.LookUp(t.Context(), dns.Config{Names: []string{"nodes.example.:7946"}, Resolver: resolver})
	if err != nil || len(wrong) > 0 {
		t.Fatal(wrong, err)
	}
	if got := peers["nodes.example.:7946"]; len(got) != 3 {
		t.Errorf("found %v, want a peer for each of 3 addresses", got)
	}
}
