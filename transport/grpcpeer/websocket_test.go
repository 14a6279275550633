package grpcpeer_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"symbio/discovery"
	"symbio/security/identity"
	"symbio/transport/grpcpeer"
	"symbio/transport/grpcpeer/grpcpeertest"
	"symbio/transport/websocket"
)

// webLAN is a lan whose nodes reach each other by WebSockets only.
type webLAN struct {
	*lan
	nodes []*station
}

func newWebLAN(t testing.TB, cfg grpcpeertest.Config) *webLAN {
	l := &webLAN{lan: newSlowLAN(t, cfg)}
	l.tune = overWebSocket
	return l
}

// overWebSocket makes what came to the TCP listener of a node come by WebSocket, and its dials, too.
func overWebSocket(cfg *grpcpeer.Config) {
	dial := cfg.Dial
	cfg.WebSocket = websocket.NewListener(websocket.Config{Listener: cfg.Listener, Path: "/symbio"})
	cfg.Listener = grpcpeertest.NewListener(&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1})
	cfg.DialURL = websocket.Dialer{DialTCP: func(ctx context.Context, _, addr string) (net.Conn, error) {
		return dial(ctx, netip.MustParseAddrPort(addr))
	}}.Dial
}

// urlHint is what discovery/static says of a node whose URL is configured.
func (s *station) urlHint() discovery.Candidate {
	url := fmt.Sprintf("ws://%s/symbio", s.Addr)
	return discovery.Candidate{Key: url, URL: url, Sources: []string{"static"}}
}

// Join is part of Fixture. Each node has the URLs of all in its configuration, its own among them.
func (l *webLAN) Join(t *testing.T, name string) Node {
	t.Helper()
	s := l.add(name)
	s.SetDialOnly(l.shut[name])
	l.nodes = append(l.nodes, s)
	for _, other := range l.nodes {
		other.Network.AddHint(s.urlHint())
		s.Network.AddHint(other.urlHint())
	}
	return Node{ID: s.ID, Network: s.Network}
}

func TestTransportSuiteOverWebSocket(t *testing.T) {
	runSuite(t, Suite{New: func(t *testing.T) Fixture { return newWebLAN(t, grpcpeertest.Config{}) }})
}

func TestTransportSuiteOverSlowWebSocket(t *testing.T) {
	runSuite(t, Suite{
		Slack: 500 * time.Millisecond, // there and back once more than over TCP: the request
		New: func(t *testing.T) Fixture {
			return newWebLAN(t, grpcpeertest.Config{Delay: 20 * time.Millisecond, Jitter: 30 * time.Millisecond})
		},
	})
}

// webDialer dials the station by WebSocket, whatever the URL.
func (s *station) webDialer() websocket.Dialer {
	return websocket.Dialer{DialTCP: func(ctx context.Context, _, _ string) (net.Conn, error) { return s.Listener.Dial(ctx) }}
}

// A node whose own URL is in its configuration, as in that of all others, does not list itself twice.
func TestNodesOverWebSocketAreListedAtTheirURLs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newWebLAN(t, grpcpeertest.Config{})
		l.Join(t, "a")
		l.Join(t, "b")
		sa, sb := l.nodes[0], l.nodes[1]
		a, b := sa.live("a"), sb.live("b")
		a.finds(b.id)
		b.finds(a.id)
		time.Sleep(time.Minute) // a link that the other side opened is kept
		for _, x := range []struct {
			on, of *home
			url    string
		}{{a, b, sb.urlHint().URL}, {b, a, sa.urlHint().URL}} {
			got, ok := x.on.status(x.of.id, grpcpeer.StateConnected)
			if n := len(x.on.network.Nodes()); !ok || n != 2 || got.Via == grpcpeer.ViaDialled && got.Addr != x.url {
				t.Errorf("%s lists %+v, want itself and the other at %s", x.on.id, x.on.network.Nodes(), x.url)
			}
		}
	})
}

func TestMachineJoinsOverWebSocket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newCluster(t)
		s := l.add(seed, overWebSocket)
		s.live(seed)
		a, err := grpcpeer.Enrol(t.Context(), "wss://kitchen.example/symbio", l.token("worker"), l.Key("new"), "new", s.webDialer().Dial)
		if err == nil {
			t.Fatalf("a proxy without a certificate was taken: %+v", a)
		}
		a, err = grpcpeer.Enrol(t.Context(), "ws://kitchen.example/symbio", l.token("worker"), l.Key("new"), "new", s.webDialer().Dial)
		if err != nil || a.Role != "worker" {
			t.Errorf("admitted as %+v, %v", a, err)
		}
		if _, err := grpcpeer.Enrol(t.Context(), "ws://kitchen.example/other", l.token(""), l.Key("new"), "new", s.webDialer().Dial); err == nil ||
			!strings.Contains(err.Error(), "compare the path") || strings.Contains(err.Error(), "firewalls") {
			t.Errorf("a wrong path: %v", err)
		}
	})
}

// Whoever answers at the URL has to prove that it is of the cluster, as over TCP: a proxy cannot.
func TestProxyThatAnswersItselfIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, elsewhere := newLAN(t), newLAN(t)
		eve := elsewhere.add("eve", overWebSocket)
		eve.live("eve")
		s := l.add("a", func(c *grpcpeer.Config) { c.DialURL = eve.webDialer().Dial })
		a := s.live("a")
		s.Network.AddHint(discovery.Candidate{Key: "x", URL: "ws://localhost/symbio", Sources: []string{"static"}})
		time.Sleep(time.Second)
		if got, ok := a.status("", grpcpeer.StateRefused); !ok || got.Addr != "ws://localhost/symbio" || !strings.Contains(got.Why, "authority") {
			t.Errorf("it lists %+v, want the URL, refused", a.network.Nodes())
		}
	})
}

// Handshakes inside of a WebSocket are bounded as those over TCP, with which they share the limit of connections.
func TestLimitsHoldOverWebSocket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLAN(t)
		var direct *grpcpeertest.Listener
		s := l.add("a", overWebSocket, func(c *grpcpeer.Config) {
			direct, _ = c.Listener.(*grpcpeertest.Listener)
			c.Limits.Connections = 3
		})
		a := s.live("a")
		var open []net.Conn
		for range 2 {
			c, err := s.webDialer().Dial(t.Context(), "ws://kitchen.example/symbio")
			if err != nil {
				t.Fatal(err)
			}
			open = append(open, c)
		}
		c, err := direct.Dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // it is counted
		begun := time.Now()
		over, err := s.webDialer().Dial(t.Context(), "ws://kitchen.example/symbio")
		if err != nil {
			t.Fatal(err)
		}
		alert, err := io.ReadAll(over)
		if err != nil || !bytes.Equal(alert, identity.NoRoom()) || time.Since(begun) > time.Second {
			t.Errorf("the fourth connection got %q, %v after %v, want the alert that there is no room", alert, err, time.Since(begun))
		}
		for _, c := range append(open, c) {
			_, _ = io.Copy(io.Discard, c)
			if took := time.Since(begun); took < 4*time.Second || took > 6*time.Second {
				t.Errorf("a connection that proved nothing was closed after %v, want 5s", took)
			}
			c.Close()
		}
		synctest.Wait()
		counted := a.network.Refusals(a.id)
		if counted[grpcpeer.RefusedProof] != 3 || counted[grpcpeer.RefusedConnections] != 1 {
			t.Errorf("counted %v, want 3 for the proof and 1 for the connections", counted)
		}
	})
}

// A node outside of a cluster meets nodes of this machine only, also by WebSocket, and accepts none from others.
func TestWebSocketOfAnotherMachineNeedsACluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLAN(t)
		dialled := make(chan string, 10)
		s := l.add("a", func(c *grpcpeer.Config) {
			c.DialURL = func(_ context.Context, url string) (net.Conn, error) {
				dialled <- url
				return nil, syscall.ECONNREFUSED
			}
		})
		s.live("a")
		for _, url := range []string{"wss://kitchen.example/", "wss://10.0.0.7/", "ws://[::1]:8080/", "https://localhost/", "wss://user:x@localhost/"} {
			s.Network.AddHint(discovery.Candidate{Key: url, URL: url, Sources: []string{"static"}})
		}
		synctest.Wait()
		if got := <-dialled; got != "ws://[::1]:8080/" || len(dialled) != 0 {
			t.Errorf("%s was dialed, and %d more; want the one on this machine", got, len(dialled))
		}
		web := grpcpeertest.NewListener(&net.TCPAddr{IP: net.IPv4(10, 0, 0, 7), Port: 80})
		_, err := grpcpeer.New(grpcpeer.Config{Identity: l.identity("b"), Listener: grpcpeertest.NewListener(&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1}), WebSocket: web})
		if err == nil || !strings.Contains(err.Error(), "cluster identity") {
			t.Errorf("a node without a cluster accepts WebSockets of other machines: %v", err)
		}
	})
}
