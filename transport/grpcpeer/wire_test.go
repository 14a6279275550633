package grpcpeer_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"symbio/community"
	"symbio/internal/community/waittest"
	pb "symbio/proto/symbio/v1"
	"symbio/transport/grpcpeer"
	"symbio/transport/websocket"
)

// onLoopback runs a home on a real socket.
func (l *lan) onLoopback(name string, tune ...func(*grpcpeer.Config)) *home {
	l.t.Helper()
	cfg := grpcpeer.Config{Identity: l.identity(name), Name: name}
	for _, f := range tune {
		f(&cfg)
	}
	n, err := grpcpeer.New(cfg)
	if err != nil {
		l.t.Fatal(err)
	}
	h := live(l.t, cfg.Identity.ID(), name, n)
	h.limit = func() (context.Context, context.CancelFunc) { return context.WithCancel(waittest.Context(l.t)) }
	return h
}

// listenWebSocket accepts WebSockets at a free port of loopback, which it prints.
func listenWebSocket() (net.Listener, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	fmt.Println(l.Addr())
	return websocket.NewListener(websocket.Config{Listener: l, Path: "/symbio"}), nil
}

func tcp(h *home) func(context.Context) (net.Conn, error) {
	return func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", h.network.Addr().String())
	}
}

// dialRaw connects to a real socket until the deadline of the test.
func dialRaw(t *testing.T, addr string) net.Conn {
	t.Helper()
	ctx := waittest.Context(t)
	c, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	at, _ := ctx.Deadline() // zero: none
	if err := c.SetDeadline(at); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// TestAttackersAreRefusedAndTheServerGoesOn throws what strangers and a hostile member can at a real
// socket. After each of them a friend must be served, on the connection it had before.
func TestAttackersAreRefusedAndTheServerGoesOn(t *testing.T) {
	if testing.Short() {
		t.Skip("-short leaves it out: it opens sockets on 127.0.0.1")
	}
	l, elsewhere := newLAN(t), newLAN(t)
	// All come from one address: the limit for that has tests of its own.
	victim := l.onLoopback("victim", func(c *grpcpeer.Config) { c.Limits.HandshakeBurst = 1000 })
	victim.offers("echo", echo)
	addr := victim.network.Addr().String()
	friend := client(t, l.identity("friend"), tcp(victim))
	works := func(t *testing.T) {
		t.Helper()
		if r, err := friend.Invoke(waittest.Context(t), &pb.InvokeRequest{Capability: "echo", Payload: []byte("hi")}); err != nil ||
			string(r.GetPayload()) != "hi" {
			t.Fatalf("a friend was not served: %v, %v", r, err)
		}
	}
	works(t)
	describe := func(p pb.PeerClient) error {
		_, err := p.Describe(waittest.Context(t), &pb.DescribeRequest{})
		return err
	}
	refused := func(t *testing.T, why string) {
		t.Helper()
		// The other side hears that it is refused a moment before it is noted here.
		waittest.Until(t, "a node refused because "+why, func() (any, bool) {
			s, ok := victim.status("", grpcpeer.StateRefused)
			return victim.network.Nodes(), ok && strings.Contains(s.Why, why) && s.Addr == "127.0.0.1"
		})
	}
	raw := func(t *testing.T, b []byte) {
		t.Helper()
		c := dialRaw(t, addr)
		_, _ = c.Write(b)
		if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error("the server kept the connection")
		}
	}
	t.Run("a certificate of another authority", func(t *testing.T) {
		eve := elsewhere.identity("eve").ClientTLS("")
		eve.InsecureSkipVerify, eve.VerifyConnection = true, nil
		c, err := tls.Dial("tcp", addr, eve)
		if err == nil {
			_, err = c.Read(make([]byte, 1))
			c.Close()
		}
		if err == nil || !strings.Contains(err.Error(), "unknown certificate authority") {
			t.Errorf("got %v, want the server to say that it does not know the authority", err)
		}
		refused(t, "another authority")
		works(t)
	})
	t.Run("no TLS", func(t *testing.T) {
		cc, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		defer cc.Close()
		if err := describe(pb.NewPeerClient(cc)); status.Code(err) != codes.Unavailable {
			t.Errorf("got %v, want no connection", err)
		}
		raw(t, []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"))
		refused(t, "does not speak TLS")
		works(t)
	})
	t.Run("a server of another id", func(t *testing.T) {
		c, err := tls.Dial("tcp", addr, l.identity("friend").ClientTLS(l.identity("bob").ID()))
		if err == nil {
			c.Close()
			t.Fatal("the victim was taken for bob")
		}
		if got := l.identity("friend").Explain(err); !strings.Contains(got.Error(), "another node answered") {
			t.Errorf("got %v", got)
		}
		works(t)
	})
	t.Run("random bytes", func(t *testing.T) {
		random := rand.New(rand.NewPCG(1, 2))
		for i := range 64 {
			b := make([]byte, random.IntN(4096))
			for j := range b {
				b[j] = byte(random.Uint32())
			}
			if i%2 == 0 && len(b) > 5 {
				copy(b, []byte{22, 3, 1, 2, 0}) // the header of a TLS handshake
			}
			c := dialRaw(t, addr)
			_, _ = c.Write(b)
			c.Close()
		}
		works(t)
	})
	t.Run("random bytes of a proven member", func(t *testing.T) {
		random := rand.New(rand.NewPCG(3, 4))
		for i := range 32 {
			c := tls.Client(dialRaw(t, addr), l.identity(fmt.Sprint("rogue", i%8)).ClientTLS(""))
			if err := c.HandshakeContext(waittest.Context(t)); err != nil {
				t.Fatal(err)
			}
			b := make([]byte, random.IntN(4096))
			for j := range b {
				b[j] = byte(random.Uint32())
			}
			if i%2 == 0 {
				b = append([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"), b...)
			}
			_, _ = c.Write(b)
			_ = c.CloseWrite()
			_, _ = io.Copy(io.Discard, c)
			c.Close()
		}
		works(t)
	})
	t.Run("a message of 100 MB", func(t *testing.T) {
		rogue := client(t, l.identity("rogue"), tcp(victim))
		if err := describe(rogue); err != nil {
			t.Fatal(err)
		}
		_, err := rogue.Invoke(waittest.Context(t), &pb.InvokeRequest{Capability: "echo", Payload: make([]byte, 100<<20)})
		if status.Code(err) != codes.ResourceExhausted {
			t.Errorf("got %v, want it refused as too large", err)
		}
		if err := describe(rogue); err != nil {
			t.Errorf("the connection did not live: %v", err)
		}
		works(t)
	})
	t.Run("headers without end", func(t *testing.T) {
		rogue := client(t, l.identity("rogue"), tcp(victim))
		ctx := metadata.AppendToOutgoingContext(waittest.Context(t), "x", strings.Repeat("x", 1<<20))
		if _, err := rogue.Describe(ctx, &pb.DescribeRequest{}); err == nil {
			t.Error("1 MiB of headers was taken")
		}
		works(t)
	})
	t.Run("a claim to be somebody else", func(t *testing.T) {
		var from community.Peer
		victim.offers("who", func(_ context.Context, s community.Signal) (community.Reply, error) {
			from.ID = community.NodeID(s.Requester[0])
			return community.Reply{}, nil
		})
		rogue := l.identity("rogue")
		ctx := metadata.AppendToOutgoingContext(waittest.Context(t), "node", string(victim.id), "authorization", "Bearer x")
		_, err := client(t, rogue, tcp(victim)).Invoke(ctx, &pb.InvokeRequest{Capability: "who", Requester: []string{string(victim.id)}})
		if err != nil || from.ID != rogue.ID() {
			t.Errorf("the call is from %q, %v; want %s, whose certificate it was", from.ID, err, rogue.ID())
		}
		works(t)
	})
}

func TestMessageThatIsTooLargeFailsAloneInBothDirections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLAN(t)
		a, b := meet(t, l)
		b.offers("echo", echo)
		b.offers("grow", func(context.Context, community.Signal) (community.Reply, error) {
			return community.Reply{Data: make([]byte, 2<<20)}, nil
		})
		b.offers("stuck", stuck)
		ctx, cancel := context.WithCancel(context.Background())
		other := make(chan error, 1)
		go func() {
			_, err := a.network.Invoke(ctx, b.id, community.Call{Capability: "stuck"})
			other <- err
		}()
		for _, c := range []struct {
			capability string
			size       int
			want       error
		}{
			{"echo", 1 << 20, nil},
			{"echo", 1<<20 + 1, community.ErrTooLarge},
			{"grow", 1, community.ErrTooLarge},
			{"echo", 1 << 20, nil},
		} {
			r, err := a.network.Invoke(ctx, b.id, community.Call{Capability: c.capability, Payload: bytes.Repeat([]byte("x"), c.size)})
			if !errors.Is(err, c.want) || err == nil && len(r.Data) != c.size {
				t.Errorf("%s of %d bytes: got %d bytes, %v; want %v", c.capability, c.size, len(r.Data), err, c.want)
			}
		}
		select {
		case err := <-other:
			t.Errorf("another call on the connection ended with %v", err)
		default:
		}
		cancel()
		<-other
	})
}

func TestLargeMessageOfAForeignClientIsRefusedByTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLAN(t)
		s := l.add("a")
		s.live("a").offers("echo", echo)
		c := client(t, l.identity("rogue"), s.Listener.Dial)
		for _, size := range []int{1<<20 + 1, 2 << 20} { // just over the payload's limit, and over the message's
			if _, err := c.Invoke(t.Context(),
				&pb.InvokeRequest{Capability: "echo", Payload: make([]byte, size)}); status.Code(err) != codes.ResourceExhausted {
				t.Errorf("%d bytes: got %v, want them refused", size, err)
			}
		}
		if _, err := c.Invoke(t.Context(), &pb.InvokeRequest{Capability: "echo"}); err != nil {
			t.Errorf("the next call: %v", err)
		}
	})
}

func TestEnvelopesDeadlineCountsWithoutOneOfGRPC(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLAN(t)
		s := l.add("a")
		s.live("a").offers("stuck", stuck)
		c := client(t, l.identity("foreign"), s.Listener.Dial)
		began := time.Now()
		_, err := c.Invoke(context.Background(), &pb.InvokeRequest{Capability: "stuck", Deadline: durationpb.New(time.Second)})
		if took := time.Since(began); status.Code(err) != codes.DeadlineExceeded || took != time.Second {
			t.Errorf("got %v after %v, want the deadline after 1s", err, took)
		}
	})
}

func TestSlowHandshakeIsCutOffAfterFiveSeconds(t *testing.T) {
	for _, c := range []struct {
		name string
		talk func(t *testing.T, l *lan, c net.Conn) net.Conn
	}{
		{"silence", func(_ *testing.T, _ *lan, c net.Conn) net.Conn { return c }},
		{"a byte each second", func(_ *testing.T, _ *lan, c net.Conn) net.Conn {
			go func() {
				for _, b := range []byte{22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3} {
					if _, err := c.Write([]byte{b}); err != nil {
						return
					}
					time.Sleep(time.Second)
				}
			}()
			return c
		}},
		{"silence after the handshake", func(t *testing.T, l *lan, c net.Conn) net.Conn {
			s := tls.Client(c, l.identity("rogue").ClientTLS(""))
			if err := s.Handshake(); err != nil {
				t.Error(err)
			}
			return s
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLAN(t)
				s := l.add("a")
				s.live("a")
				conn, err := s.Listener.Dial(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				began := time.Now()
				_, _ = io.Copy(io.Discard, c.talk(t, l, conn))
				if took := time.Since(began); took < 4*time.Second || took > 6*time.Second {
					t.Errorf("cut off after %v, want 5s", took)
				}
				conn.Close()
				time.Sleep(time.Minute) // whoever still writes notices
			})
		})
	}
}

func TestConnectionsAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLAN(t)
		s := l.add("a", func(c *grpcpeer.Config) { c.Limits.Connections, c.Limits.Handshakes = 10, 4 })
		a := s.live("a")
		rogue, friend := l.identity("rogue"), l.identity("friend")
		ok := 0
		for range 6 {
			c := client(t, rogue, s.Listener.Dial)
			if _, err := c.Describe(t.Context(), &pb.DescribeRequest{}); err == nil {
				ok++
			}
		}
		if ok != 4 {
			t.Errorf("one identity has %d connections, want 4", ok)
		}
		if st, found := a.status("", grpcpeer.StateRefused); !found || !strings.Contains(st.Why, "too many connections") {
			t.Errorf("nodes are %+v, want the reason", a.network.Nodes())
		}
		if _, err := client(t, friend, s.Listener.Dial).Describe(t.Context(), &pb.DescribeRequest{}); err != nil {
			t.Errorf("a friend was not let in: %v", err)
		}
		synctest.Wait()
		// Silent connections take what is left until they are cut off; more are closed at once.
		var silent []net.Conn
		for range 12 {
			c, err := s.Listener.Dial(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			silent = append(silent, c)
			synctest.Wait()
		}
		began := time.Now()
		_, _ = silent[11].Read(make([]byte, 1))
		if took := time.Since(began); took != 0 {
			t.Errorf("a connection over the limit was kept for %v", took)
		}
		time.Sleep(6 * time.Second)
		if _, err := client(t, friend, s.Listener.Dial).Describe(t.Context(), &pb.DescribeRequest{}); err != nil {
			t.Errorf("a friend was not let in after the silent ones were cut off: %v", err)
		}
		for _, c := range silent {
			c.Close()
		}
	})
}

func TestWatchesOfOneConnectionAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLAN(t)
		s := l.add("a")
		s.live("a")
		c := client(t, l.identity("rogue"), s.Listener.Dial)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for i := range 3 {
			w, err := c.Watch(ctx, &pb.WatchRequest{})
			if err != nil {
				t.Fatal(err)
			}
			if _, err = w.Recv(); (err == nil) != (i < 2) {
				t.Errorf("watch %d: %v; want two let in", i+1, err)
			}
		}
	})
}

// breaking is a host whose calls panic.
type breaking struct{ *community.Community }

func (breaking) Serve(context.Context, community.Peer, community.Call) (community.Reply, error) {
	panic("secret")
}

func (breaking) SubscribeLocal() *community.Subscription { panic("secret") }

func TestPanicIsOneFailedCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLAN(t)
		s := l.add("a")
		ctx, stop := context.WithCancel(context.Background())
		var wg sync.WaitGroup
		wg.Go(func() {
			if err := s.Network.Run(ctx, breaking{community.New(community.Config{})}); err != nil {
				t.Error(err)
			}
		})
		c := client(t, l.identity("rogue"), s.Listener.Dial)
		for range 3 {
			if _, err := c.Invoke(t.Context(), &pb.InvokeRequest{}); status.Code(err) != codes.Internal ||
				strings.Contains(err.Error(), "secret") {
				t.Errorf("got %v, want an internal error that says nothing", err)
			}
		}
		w, err := c.Watch(t.Context(), &pb.WatchRequest{})
		if err == nil {
			_, err = w.Recv()
		}
		if status.Code(err) != codes.Internal || strings.Contains(err.Error(), "secret") {
			t.Errorf("watch: got %v, want an internal error that says nothing", err)
		}
		if _, err := c.Describe(t.Context(), &pb.DescribeRequest{}); err != nil {
			t.Errorf("describe: %v", err)
		}
		stop()
		wg.Wait()
	})
}
