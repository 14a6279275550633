package grpcpeer_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/netip"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"symbio/community"
	"symbio/internal/community/waittest"
	pb "symbio/proto/symbio/v1"
	"symbio/security/identity"
	"symbio/transport/grpcpeer"
)

// behind makes two homes of which b only dials out, and a knows nothing of b.
func behind(t *testing.T, l *lan, tune ...func(*grpcpeer.Config)) (a, b *home, sb *station) {
	t.Helper()
	sa := l.add("a", tune...)
	sb = l.add("b", tune...)
	sb.SetDialOnly(true)
	a, b = sa.live("a"), sb.live("b")
	sb.Network.AddHint(sa.Hint())
	return a, b, sb
}

func TestNodeThatOnlyDialsOutIsCalled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLAN(t)
		var seen events
		began := time.Now()
		a, b, _ := behind(t, l, reporting(&seen))
		b.finds(a.id)
		a.finds(b.id)
		if took := time.Since(began); took > time.Second {
			t.Errorf("a saw b after %v, want 1s at the most", took)
		}
		for h, other := range map[*home]*home{a: b, b: a} {
			other.offers("echo", echo)
			r, err := h.network.Invoke(t.Context(), other.id, community.Call{Capability: "echo", Payload: []byte("hi")})
			if err != nil || string(r.Data) != "hi" {
				t.Errorf("got %q, %v; want hi", r.Data, err)
			}
		}
		if s, ok := a.status(b.id, grpcpeer.StateConnected); !ok || s.Via != grpcpeer.ViaReversed || s.Name != "b" || s.CertDaysLeft == 0 {
			t.Errorf("b's status is %+v, want connected, reversed", a.network.Nodes())
		}
		if s, ok := b.status(a.id, grpcpeer.StateConnected); !ok || s.Via != grpcpeer.ViaDialled {
			t.Errorf("a's status is %+v, want connected, dialled", b.network.Nodes())
		}
		time.Sleep(time.Hour) // one link in each direction, for good
		if c, lost := seen.count(grpcpeer.Connected), seen.count(grpcpeer.Lost); c != 2 || lost != 0 {
			t.Errorf("connected %d times and lost %d times in an hour, want 2 and 0", c, lost)
		}
	})
}

func TestNodeThatCanBeDialedOffersNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLAN(t)
		a, b := meet(t, l)
		time.Sleep(10 * time.Minute)
		for h, other := range map[*home]*home{a: b, b: a} {
			if s, ok := h.status(other.id, grpcpeer.StateConnected); !ok || s.Via != grpcpeer.ViaDialled {
				t.Errorf("nodes are %+v, want the other one dialled", h.network.Nodes())
			}
		}
	})
}

func TestReversedLinkEndsAsOthersDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLAN(t)
		a, b, sb := behind(t, l)
		a.finds(b.id)

		t.Log("silence, and what was asked meanwhile")
		b.offers("stuck", stuck)
		called := make(chan error, 1)
		go func() {
			_, err := a.network.Invoke(context.Background(), b.id, community.Call{Capability: "stuck"})
			called <- err
		}()
		synctest.Wait()
		cut := time.Now()
		l.Partition(b.id)
		if err := <-called; !errors.Is(err, community.ErrUnavailable) || time.Since(cut) > 3*time.Second {
			t.Errorf("the call ended after %v with %v, want %v within 3s", time.Since(cut), err, community.ErrUnavailable)
		}
		synctest.Wait()
		if available(a.Members(), b.id) {
			t.Error("b is available though it is silent")
		}
		time.Sleep(time.Hour)
		healed := time.Now()
		l.Heal()
		b.finds(a.id)
		a.finds(b.id)
		if took := time.Since(healed); took > 5*time.Second {
			t.Errorf("the nodes met again %v after the heal, want 5s at the most", took)
		}

		t.Log("goodbye")
		left := time.Now()
		b.stop()
		a.sees("b left", func(all []community.Member) bool { return len(all) == 0 })
		if took := time.Since(left); took > 200*time.Millisecond {
			t.Errorf("b left after %v, want 200ms at the most", took)
		}
		b.done.Wait()

		t.Log("a new run of it, which is killed")
		again := l.add("b")
		again.SetDialOnly(true)
		b = again.live("b")
		again.Network.AddHint(l.stationOf(a.id).Hint())
		a.finds(b.id)
		killed := time.Now()
		l.Kill(sb.ID)
		a.sees("b unavailable", func(all []community.Member) bool { return !available(all, b.id) })
		if took := time.Since(killed); took > 100*time.Millisecond {
			t.Errorf("b was lost after %v, want 100ms at the most", took)
		}
	})
}

// A node that was frozen for longer than every timeout is called again, over one link.
func TestNodeThatOnlyDialsOutComesBackAfterASleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLAN(t)
		a, b, _ := behind(t, l)
		a.finds(b.id)
		for range 5 {
			l.Freeze(b.id)
			time.Sleep(20 * time.Second)
			l.Wake(b.id)
			woke := time.Now()
			a.finds(b.id)
			b.finds(a.id)
			if took := time.Since(woke); took > 5*time.Second {
				t.Errorf("a saw b again after %v, want 5s at the most", took)
			}
		}
	})
}

func TestReversedConnectionNeedsCertificate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, elsewhere := newLAN(t), newLAN(t)
		sa := l.add("a")
		a := sa.live("a")
		offer := func(as *identity.Identity) error {
			raw, err := sa.Listener.Dial(t.Context())
			if err != nil {
				return err
			}
			defer raw.Close()
			cfg := as.ProtocolClientTLS(identity.ReverseProtocol, a.id)
			cfg.InsecureSkipVerify, cfg.VerifyConnection = true, nil
			c := tls.Client(raw, cfg)
			if err := c.HandshakeContext(t.Context()); err != nil {
				return err
			}
			_, err = c.Read(make([]byte, 1))
			return err
		}
		if err := offer(elsewhere.identity("eve")); err == nil {
			t.Error("a node of another authority was taken")
		}
		synctest.Wait()
		if s, ok := a.status("", grpcpeer.StateRefused); !ok {
			t.Errorf("nodes are %+v, want one refused; got %+v", a.network.Nodes(), s)
		}
		if err := offer(l.identity("a")); err == nil { // a's own key
			t.Error("a took itself")
		}
		time.Sleep(time.Minute)
		if len(a.Members()) != 0 {
			t.Errorf("members are %+v, want none", a.Members())
		}
	})
}

// One that offers without end and never speaks costs one connection at a time, and no link.
func TestOffersWithoutEndAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLAN(t)
		sa := l.add("a")
		a := sa.live("a")
		eve := l.identity("eve")
		silent, taken := 0, 0
		for range 64 {
			raw, err := sa.Listener.Dial(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { raw.Close() })
			c := tls.Client(raw, eve.ProtocolClientTLS(identity.ReverseProtocol, a.id))
			if err := c.HandshakeContext(t.Context()); err != nil { // too many of one address
				silent++
				continue
			}
			_ = c.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
			var b [1]byte
			if _, err := c.Read(b[:]); err == nil {
				taken++ // the first bytes of HTTP/2
			} else {
				silent++
			}
		}
		if taken != 1 || silent != 63 {
			t.Errorf("%d of 64 offers were taken, want 1", taken)
		}
		// A real node is not in the way of that, nor it in the node's.
		sb := l.add("b")
		sb.SetDialOnly(true)
		b := sb.live("b")
		sb.Network.AddHint(sa.Hint())
		a.finds(b.id)
		time.Sleep(time.Minute)
		if _, ok := a.status(eve.ID(), grpcpeer.StateConnected); ok || len(a.Members()) != 1 {
			t.Errorf("nodes are %+v, want b connected only", a.network.Nodes())
		}
	})
}

// An offer of a node that is connected already changes nothing.
func TestOfferThatIsNotNeededIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLAN(t)
		var seen events
		sa := l.add("a", reporting(&seen))
		sb := l.add("b")
		a, b := sa.live("a"), sb.live("b")
		sa.Network.AddHint(sb.Hint())
		a.finds(b.id)
		for range 3 {
			raw, err := sa.Listener.Dial(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			c := tls.Client(raw, l.identity("b").ProtocolClientTLS(identity.ReverseProtocol, a.id))
			if err := c.HandshakeContext(t.Context()); err != nil {
				t.Fatal(err)
			}
			if _, err := c.Read(make([]byte, 1)); err == nil {
				t.Error("the offer was taken")
			}
			raw.Close()
		}
		time.Sleep(time.Minute)
		if seen.count(grpcpeer.Connected) != 1 || seen.count(grpcpeer.Lost) != 0 || seen.count(grpcpeer.Refused) != 0 {
			t.Errorf("events are %+v, want one connection and nothing else", seen.all)
		}
	})
}

// A server that says that it cannot call is offered a connection now and then, not all the time.
func TestUnusedOffersBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLAN(t)
		var dials atomic.Int32
		liar := l.lies("eve", func(id *identity.Identity) *liar {
			return &liar{describe: honest(id), each: func() *pb.CatalogEvent {
				return &pb.CatalogEvent{Event: &pb.CatalogEvent_Unlinked{Unlinked: &pb.Unlinked{}}}
			}}
		})
		sa := l.add("a", func(c *grpcpeer.Config) {
			dial := c.Dial
			c.Dial = func(ctx context.Context, to netip.AddrPort) (net.Conn, error) { dials.Add(1); return dial(ctx, to) }
		})
		a := sa.live("a")
		sa.Network.AddHint(liar.Hint())
		time.Sleep(5 * time.Minute)
		if got := dials.Load(); got < 10 || got > 30 {
			t.Errorf("%d connections in 5 minutes, want some, 15s apart in the end", got)
		}
		if s, ok := a.status(liar.ID, grpcpeer.StateConnected); !ok || time.Since(s.Since) < 4*time.Minute {
			t.Errorf("nodes are %+v, want the first connection still", a.network.Nodes())
		}
	})
}

func TestRemovedNodeIsCalledNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newCluster(t)
		sa, sb := l.add(seed), l.add("b")
		sb.SetDialOnly(true)
		a, b := sa.live(seed), sb.live("b")
		sb.Network.AddHint(sa.Hint())
		a.finds(b.id)
		if err := l.cluster.Remove(b.id); err != nil {
			t.Fatal(err)
		}
		a.sees("b gone", func(all []community.Member) bool { return len(all) == 0 })
		time.Sleep(time.Minute)
		if _, ok := a.status(b.id, grpcpeer.StateConnected); ok {
			t.Errorf("nodes are %+v, want b connected no more", a.network.Nodes())
		}
	})
}

// On real sockets, where the port that does not answer is one that nobody has.
func TestNodeThatOnlyDialsOutIsCalledOverSockets(t *testing.T) {
	if testing.Short() {
		t.Skip("-short leaves it out: it opens sockets on 127.0.0.1")
	}
	l := newLAN(t)
	a := l.onLoopback("a")
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := l.onLoopback("b", func(c *grpcpeer.Config) { c.Listener = listener }) // no gossip, which would tell its port
	b.network.AddHint(hintOf(a))                                               // and nobody runs a's source of introductions
	b.finds(a.id)
	a.finds(b.id)
	b.offers("echo", echo)
	payload := make([]byte, 300<<10)
	for range 20 {
		r, err := a.network.Invoke(waittest.Context(t), b.id, community.Call{Capability: "echo", Payload: payload})
		if err != nil || len(r.Data) != len(payload) {
			t.Fatalf("got %d bytes, %v; want %d", len(r.Data), err, len(payload))
		}
	}
	if s, ok := a.status(b.id, grpcpeer.StateConnected); !ok || s.Via != grpcpeer.ViaReversed {
		t.Errorf("nodes are %+v, want b connected, reversed", a.network.Nodes())
	}
}
