package grpcpeer_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"symbio/community"
	"symbio/discovery"
	"symbio/internal/actor/awake"
	pb "symbio/proto/symbio/v1"
	"symbio/security/identity"
	"symbio/transport/grpcpeer"
)

// events collects what a Network reports.
type events struct {
	mu  sync.Mutex
	all []grpcpeer.Event
}

func (e *events) add(ev grpcpeer.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, ev)
}

func (e *events) count(k grpcpeer.EventKind) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := 0
	for _, ev := range e.all {
		if ev.Kind == k {
			n++
		}
	}
	return n
}

// last returns the newest event, empty when there was none.
func (e *events) last() (ev grpcpeer.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.all) > 0 {
		ev = e.all[len(e.all)-1]
	}
	return ev
}

func reporting(e *events) func(*grpcpeer.Config) {
	return func(c *grpcpeer.Config) { c.Report = e.add }
}

// meet makes two homes that have found each other.
func meet(t *testing.T, l *lan, tune ...func(*grpcpeer.Config)) (a, b *home) {
	t.Helper()
	sa, sb := l.add("a", tune...), l.add("b", tune...)
	a, b = sa.live("a"), sb.live("b")
	sa.Network.AddHint(sb.Hint())
	sb.Network.AddHint(sa.Hint())
	a.finds(b.id)
	b.finds(a.id)
	return a, b
}

// Nodes that did not run for a while, as on a machine that slept or is starved, do not call each other lost. A call goes on.
func TestNodesThatDidNotRunAreNotSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLAN(t)
		var asleep atomic.Value // a time.Time until which no timer of a watch fires
		asleep.Store(time.Now())
		until := func() time.Duration { return time.Until(asleep.Load().(time.Time)) }
		late := awake.Clock{After: func(d time.Duration) <-chan time.Time { return time.After(max(d, until())) }}
		l.tune = func(cfg *grpcpeer.Config) { cfg.Clock = late }
		a, b := meet(t, l)
		b.offers("stuck", stuck)
		a.sees("stuck", func([]community.Member) bool { return len(a.WhoProvides("stuck")) == 1 })
		synctest.Wait()
		asleep.Store(time.Now().Add(10 * time.Second))
		time.Sleep(silence / 2) // the timers that run already are in time
		called := make(chan error, 1)
		go func() {
			_, err := a.network.Invoke(t.Context(), b.id, community.Call{Capability: "stuck"})
			called <- err
		}()
		l.Partition(b.id)
		time.Sleep(until())
		l.Heal()
		for range 10 {
			time.Sleep(time.Second)
			if !available(a.Members(), b.id) || !available(b.Members(), a.id) || len(called) > 0 {
				t.Fatal("a node that did not run called another one lost")
			}
		}
		cut := time.Now()
		l.Partition(b.id) // and nobody sleeps
		if err, took := <-called, time.Since(cut); !errors.Is(err, community.ErrUnavailable) || took > silence {
			t.Errorf("the call ended with %v after %v", err, took)
		}
	})
}

// silence is how long a node may be silent.
const silence = 3 * time.Second

func TestSilentNodeIsLostAfterThreeSecondsAndItsCallsFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLAN(t)
		a, b := meet(t, l)
		b.offers("stuck", stuck)
		a.sees("stuck", func([]community.Member) bool { return len(a.WhoProvides("stuck")) == 1 })
		time.Sleep(10 * time.Minute) // heartbeats keep it
		if !available(a.Members(), b.id) {
			t.Fatal("b was lost though nothing happened")
		}
		called := make(chan error, 1)
		go func() {
			_, err := a.network.Invoke(context.Background(), b.id, community.Call{Capability: "stuck"})
			called <- err
		}()
		synctest.Wait()
		cut := time.Now()
		l.Partition(b.id)
		err := <-called
		if took := time.Since(cut); took > 3*time.Second || took < 2*time.Second {
			t.Errorf("the call failed after %v, want between the two and three seconds that remain of three", took)
		}
		if !errors.Is(err, community.ErrUnavailable) {
			t.Errorf("the call failed with %v, want %v", err, community.ErrUnavailable)
		}
		if available(a.Members(), b.id) {
			t.Error("b is available after the call to it failed")
		}
		synctest.Wait()
		if s, ok := a.status(b.id, grpcpeer.StateUnavailable); !ok || s.Why == "" {
			t.Errorf("b's status is %+v, want unavailable with a reason", a.network.Nodes())
		}
		if _, err := a.network.Invoke(context.Background(), b.id, community.Call{Capability: "stuck"}); !errors.Is(err,
			community.ErrUnavailable) {
			t.Errorf("a call to a lost node: got %v, want %v", err, community.ErrUnavailable)
		}
		time.Sleep(time.Hour)
		healed := time.Now()
		l.Heal()
		a.finds(b.id)
		b.finds(a.id)
		if took := time.Since(healed); took > 5*time.Second {
			t.Errorf("the nodes met again %v after the heal, want 5s at the most", took)
		}
	})
}

func TestCallsFailInTimeEvenWhenTheWireIsFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLAN(t)
		a, b := meet(t, l)
		b.offers("stuck", stuck)
		cut := time.Now()
		l.Partition(b.id)
		var wg sync.WaitGroup
		for range 16 { // more than the connection holds
			wg.Go(func() {
				call := community.Call{Capability: "stuck", Payload: make([]byte, 64<<10)}
				if _, err := a.network.Invoke(context.Background(), b.id, call); !errors.Is(err, community.ErrUnavailable) {
					t.Errorf("got %v, want %v", err, community.ErrUnavailable)
				}
			})
		}
		wg.Wait()
		if took := time.Since(cut); took > 3*time.Second {
			t.Errorf("the calls failed after %v, want 3s at the most", took)
		}
	})
}

func TestNodeWithoutWatchEventsIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLAN(t)
		var seen events
		sa := l.add("a", reporting(&seen))
		sa.live("a")
		sa.Network.AddHint(l.lies("eve", func(id *identity.Identity) *liar { return &liar{describe: honest(id)} }).Hint())
		time.Sleep(3100 * time.Millisecond)
		if c, g := seen.count(grpcpeer.Connected), seen.count(grpcpeer.Lost); c != 2 || g != 1 {
			t.Errorf("connected %d times and lost %d times in 3.1 s, want 2 and 1", c, g)
		}
	})
}

func TestCallFailsAtOnceWhenTheConnectionBreaks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLAN(t)
		a, b := meet(t, l)
		b.offers("stuck", stuck)
		called := make(chan error, 1)
		go func() {
			_, err := a.network.Invoke(context.Background(), b.id, community.Call{Capability: "stuck"})
			called <- err
		}()
		synctest.Wait()
		killed := time.Now()
		l.Kill(b.id)
		if err := <-called; !errors.Is(err, community.ErrUnavailable) {
			t.Errorf("got %v, want %v", err, community.ErrUnavailable)
		}
		if took := time.Since(killed); took > 100*time.Millisecond {
			t.Errorf("the call failed %v after the kill, want 100ms at the most", took)
		}
		synctest.Wait()
		if available(a.Members(), b.id) {
			t.Error("b is available after it was killed")
		}
	})
}

func TestGoodbyeTakesEffectAtOnceAndNodeMayReturn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLAN(t)
		a, b := meet(t, l)
		began := time.Now()
		b.stop()
		a.sees("b left", func(all []community.Member) bool { return len(all) == 0 })
		if took := time.Since(began); took > 200*time.Millisecond {
			t.Errorf("b's members left after %v, want 200ms at the most", took)
		}
		b.done.Wait()
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("b ended after %v", took)
		}
		time.Sleep(time.Minute)
		if s, ok := a.status(b.id, grpcpeer.StateLeft); !ok || s.Why != "the node stops" {
			t.Errorf("b's status is %+v, want left", a.network.Nodes())
		}
		sb := l.add("b")
		sb.live("b")
		a.network.AddHint(sb.Hint())
		a.finds(b.id)
	})
}

func TestEndedRunLeavesNothingBehindEvenWithAFrozenPeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLAN(t)
		a, b := meet(t, l)
		l.Partition(b.id)
		began := time.Now()
		a.leave()
		if took := time.Since(began); took > 1500*time.Millisecond {
			t.Errorf("the end took %v, want the second of draining and little more", took)
		}
		l.Heal()
	})
}

func TestNodeHasOneConnectionWhateverAddressesItHas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLAN(t)
		var seen events
		sa, sb := l.add("a", reporting(&seen)), l.add("b")
		a, b := sa.live("a"), sb.live("b")
		sa.Network.AddHint(sb.Hint())
		sa.Network.AddHint(discovery.Candidate{Key: "static", Addrs: []netip.AddrPort{sb.Addr}})
		sa.Network.AddHint(discovery.Candidate{Key: "static 2", Addrs: []netip.AddrPort{{}, sb.Addr}})
		a.finds(b.id)
		time.Sleep(time.Hour)
		if got := seen.count(grpcpeer.Connected); got != 1 {
			t.Errorf("a connected %d times, want once", got)
		}
		nodes := a.network.Nodes()
		if len(nodes) != 2 || nodes[1].State != grpcpeer.StateConnected || nodes[1].ID != b.id {
			t.Errorf("nodes are %+v, want self and b", nodes)
		}
		// When the candidate that holds the connection goes, another one takes over.
		sa.Network.AddHint(discovery.Candidate{Key: string(b.id), Node: string(b.id), Gone: true})
		time.Sleep(time.Minute)
		if got := seen.count(grpcpeer.Lost); got != 0 || !available(a.Members(), b.id) {
			t.Errorf("a forged goodbye of discovery ended the connection")
		}
	})
}

func TestGoneCandidateIsDialedNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLAN(t)
		var seen events
		sa := l.add("a", reporting(&seen))
		a := sa.live("a")
		nobody := discovery.Candidate{Key: "nobody", Addrs: []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:9")}}
		sa.Network.AddHint(nobody)
		time.Sleep(time.Minute)
		if got := seen.count(grpcpeer.Unreachable); got < 12 || got > 40 {
			t.Errorf("%d dials in a minute, want a back-off from 100 ms to 4 s", got)
		}
		nobody.Gone = true
		sa.Network.AddHint(nobody)
		synctest.Wait()
		before := seen.count(grpcpeer.Unreachable)
		time.Sleep(time.Hour)
		if got := seen.count(grpcpeer.Unreachable); got != before {
			t.Errorf("%d more dials of a candidate that is gone", got-before)
		}
		if got := len(a.network.Nodes()); got != 1 {
			t.Errorf("a lists %+v, want itself only", a.network.Nodes())
		}
	})
}

func TestNewSightingEndsTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLAN(t)
		sa := l.add("a")
		a := sa.live("a")
		later := l.add("b") // its address is known, but it is not there yet
		l.Kill(later.ID)
		sa.Network.AddHint(later.Hint())
		time.Sleep(time.Hour)
		sb := l.add("b")
		b := sb.live("b")
		began := time.Now()
		sa.Network.AddHint(sb.Hint())
		a.finds(b.id)
		if took := time.Since(began); took > 150*time.Millisecond {
			t.Errorf("it took %v after the new sighting", took)
		}
	})
}

func TestFloodOfHintsIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLAN(t)
		var now, most atomic.Int32
		slow := func(ctx context.Context, _ netip.AddrPort) (net.Conn, error) {
			most.Store(max(most.Load(), now.Add(1)))
			defer now.Add(-1)
			<-ctx.Done()
			return nil, ctx.Err()
		}
		sa := l.add("a", func(c *grpcpeer.Config) { c.Dial = slow })
		a := sa.live("a")
		for i := range 20000 {
			sa.Network.AddHint(discovery.Candidate{Key: fmt.Sprint(i), Sources: []string{"mdns"},
				Addrs: []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:9")}})
		}
		time.Sleep(10 * time.Second)
		if got := len(a.network.Nodes()); got > 4097 {
			t.Errorf("%d candidates are kept, want 4096 and self", got)
		}
		if got := most.Load(); got != 8 {
			t.Errorf("%d dials at once, want 8", got)
		}
		// Those that were dialed in vain make room.
		sa.Network.AddHint(discovery.Candidate{Key: "late", Node: "late", Addrs: []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:9")}})
		time.Sleep(time.Minute)
		if got := len(a.network.Nodes()); got > 4097 {
			t.Errorf("%d candidates are kept, want 4096 and self", got)
		}
	})
}

// Hints that come and go faster than they can be dialed do not add up.
func TestWithdrawnHintsLeaveTheDialQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLAN(t)
		slow := func(ctx context.Context, _ netip.AddrPort) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		sa := l.add("a", func(c *grpcpeer.Config) { c.Dial = slow })
		a := sa.live("a")
		for i := range 2000 {
			c := discovery.Candidate{Key: fmt.Sprint(i), Sources: []string{"mdns"},
				Addrs: []netip.AddrPort{netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, byte(i)}), 9)}}
			sa.Network.AddHint(c)
			c.Gone = true
			if i%2 == 0 { // some wait for their turn before they are withdrawn
				synctest.Wait()
			}
			sa.Network.AddHint(c)
		}
		synctest.Wait()
		if got := len(a.network.Nodes()); got != 1 {
			t.Errorf("%d nodes are listed, want itself only", got)
		}
		buf := make([]byte, 1<<20)
		if got := strings.Count(string(buf[:runtime.Stack(buf, true)]), "(*candidates).pursue("); got > 8 {
			t.Errorf("%d candidates are pursued, want the 8 that are being dialled", got)
		}
	})
}

func TestHintsThatPointElsewhereAreNotDialed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLAN(t)
		var dials atomic.Int32
		sa := l.add("a", func(c *grpcpeer.Config) {
			c.Dial = func(context.Context, netip.AddrPort) (net.Conn, error) { dials.Add(1); return nil, errors.New("no") }
		})
		a := sa.live("a")
		for i, addr := range []string{"192.0.2.7:443", "0.0.0.0:80", "127.0.0.1:0", "[ff02::1]:7946", "[2001:db8::1]:7946"} {
			sa.Network.AddHint(discovery.Candidate{Key: fmt.Sprint(i), Addrs: []netip.AddrPort{netip.MustParseAddrPort(addr)}})
		}
		sa.Network.AddHint(discovery.Candidate{Key: "bad", Node: "../../etc",
			Addrs: []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:9")}})
		time.Sleep(10 * time.Minute)
		if got := dials.Load(); got != 0 {
			t.Errorf("%d dials, want none", got)
		}
		if s, ok := a.status("", grpcpeer.StateRefused); !ok || !strings.Contains(s.Why, "cluster identity") {
			t.Errorf("no reason is given: %+v", a.network.Nodes())
		}
	})
}

func TestWrongNodesAreRefusedWithTheReason(t *testing.T) {
	plain := func(id *identity.Identity) *liar { return &liar{describe: honest(id)} }
	for _, c := range []struct {
		name  string
		put   func(l *lan, a *station) discovery.Candidate
		state grpcpeer.State
		why   string
	}{
		{"another authority", func(l *lan, _ *station) discovery.Candidate {
			other := newLAN(l.t)
			id := other.identity("eve")
			return l.serves(id, plain(id)).Hint()
		}, grpcpeer.StateRefused, "belongs to another authority"},
		{"another id than claimed", func(l *lan, _ *station) discovery.Candidate {
			hint := l.lies("eve", plain).Hint()
			hint.Node = string(l.identity("bob").ID())
			return hint
		}, grpcpeer.StateRefused, "another node answered"},
		{"another id than in its certificate", func(l *lan, _ *station) discovery.Candidate {
			return l.lies("eve", func(*identity.Identity) *liar { return &liar{describe: honest(l.identity("bob"))} }).Hint()
		}, grpcpeer.StateRefused, "another node than its certificate"},
		{"an empty description", func(l *lan, _ *station) discovery.Candidate {
			return l.lies("eve", func(*identity.Identity) *liar { return &liar{describe: &pb.NodeDescriptor{}} }).Hint()
		}, grpcpeer.StateRefused, "another node than its certificate"},
		{"another major version", func(l *lan, _ *station) discovery.Candidate {
			return l.lies("eve", func(id *identity.Identity) *liar {
				d := honest(id)
				d.Protocol.Major = 2
				return &liar{describe: d}
			}).Hint()
		}, grpcpeer.StateIncompatible, "version 2.0 of the protocol"},
		{"a copy of itself", func(l *lan, _ *station) discovery.Candidate {
			hint := l.lies("a", plain).Hint()
			return discovery.Candidate{Key: "twin", Addrs: hint.Addrs}
		}, grpcpeer.StateRefused, "was its folder copied"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLAN(t)
				var seen events
				sa := l.add("a", reporting(&seen))
				a := sa.live("a")
				sa.Network.AddHint(c.put(l, sa))
				time.Sleep(45 * time.Second)
				if s, ok := a.status("", c.state); !ok || !strings.Contains(s.Why, c.why) {
					t.Errorf("nodes are %+v, want one %s with %q", a.network.Nodes(), c.state, c.why)
				}
				if got := seen.count(grpcpeer.Refused); got != 2 {
					t.Errorf("dialled %d times in 45 s, want twice: a wrong node is left alone for 30 s", got)
				}
				if len(a.Members()) != 0 {
					t.Errorf("members are %+v, want none", a.Members())
				}
			})
		})
	}
}

func TestServerThatRefusesTheClientIsUnderstood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// TLS checks the server first; so only a server that hides its authority from the check sees the
		// client's. Here: bob trusts nobody of a's authority, a does trust bob's certificate.
		l, other := newLAN(t), newLAN(t)
		id := l.identity("bob")
		tls := id.ServerTLS()
		tls.ClientCAs = other.identity("eve").ServerTLS().ClientCAs
		s := l.servesTLS(id, tls, &liar{describe: honest(id)})
		sa := l.add("a")
		a := sa.live("a")
		sa.Network.AddHint(s.Hint())
		time.Sleep(time.Second)
		if st, ok := a.status("", grpcpeer.StateRefused); !ok || !strings.Contains(st.Why, "rejected this node's certificate") {
			t.Errorf("nodes are %+v, want one refused because it rejected the certificate", a.network.Nodes())
		}
	})
}

func TestNodeAnnouncesOnlyItsOwnMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLAN(t)
		sa := l.add("a")
		a := sa.live("a")
		good, forged := strings.Repeat("01", 16), strings.Repeat("02", 16)
		liar := l.lies("eve", func(id *identity.Identity) *liar {
			return &liar{describe: honest(id), events: []*pb.CatalogEvent{{Event: &pb.CatalogEvent_Snapshot{Snapshot: &pb.Catalog{
				Members: []*pb.Member{
					nil, {},
					{Id: forged, Name: "forged", Node: string(sa.ID), Accepts: []string{"work"}, Available: true},
					{Id: string(sa.ID), Name: "stolen", Node: string(id.ID()), Available: true},
					{Id: good, Name: "good", Node: string(id.ID()), Accepts: []string{"work"}, Available: true},
				},
				Capabilities: []*pb.Capability{nil, {}},
			}}}}}
		})
		sa.Network.AddHint(liar.Hint())
		time.Sleep(time.Second)
		all := a.Members()
		if len(all) != 1 || all[0].ID != community.MemberID(good) {
			t.Errorf("members are %+v, want only the good one", all)
		}
	})
}

func TestNodeThatAnnouncesWithoutEndIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLAN(t)
		sa := l.add("a")
		a := sa.live("a")
		liar := l.lies("eve", func(id *identity.Identity) *liar {
			lie := &liar{describe: honest(id)}
			for i := range 20000 {
				lie.events = append(lie.events, &pb.CatalogEvent{Event: &pb.CatalogEvent_Joined{Joined: &pb.Member{
					Id: fmt.Sprintf("%032x", i), Name: "x", Node: string(id.ID()), Accepts: []string{"x"}, Available: true}}})
			}
			return lie
		})
		sa.Network.AddHint(liar.Hint())
		time.Sleep(2 * time.Second)
		if s, ok := a.status("", grpcpeer.StateRefused); !ok || !strings.Contains(s.Why, "over 16384 members") {
			t.Errorf("nodes are %+v, want one refused", a.network.Nodes())
		}
	})
}

func TestLateWatcherGetsSnapshotAfterGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLAN(t)
		a, b := meet(t, l)
		l.Partition(b.id) // for less than the silence that ends a connection
		for i := range 600 {
			name := fmt.Sprintf("c%d", i%200)
			b.offers(name, echo)
			if i < 500 {
				if err := b.Withdraw(name); err != nil {
					t.Fatal(err)
				}
			}
		}
		time.Sleep(time.Second)
		l.Heal()
		a.sees("the last state of b", func([]community.Member) bool {
			return len(a.WhoProvides("c199")) == 1 && len(a.WhoProvides("c100")) == 1 && len(a.WhoProvides("c5")) == 0
		})
	})
}

func TestTooManyCallsToANodeWaitForTheirTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLAN(t)
		a, b := meet(t, l, func(c *grpcpeer.Config) { c.Limits.Calls = 4 })
		b.offers("stuck", stuck)
		ctx, cancel := context.WithCancel(context.Background())
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				if _, err := a.network.Invoke(ctx, b.id, community.Call{Capability: "stuck"}); !errors.Is(err, context.Canceled) {
					t.Errorf("a cancelled call: got %v", err)
				}
			})
		}
		synctest.Wait()
		b.offers("echo", echo)
		hurried, stop := context.WithTimeout(ctx, time.Second)
		defer stop()
		if _, err := a.network.Invoke(hurried, b.id, community.Call{Capability: "echo"}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the fifth call, until its deadline: got %v", err)
		}
		for range 1000 {
			wg.Go(func() {
				if _, err := a.network.Invoke(context.Background(), b.id, community.Call{Capability: "echo"}); err != nil {
					t.Errorf("a call after the others ended: %v", err)
				}
			})
		}
		synctest.Wait()
		cancel()
		wg.Wait()
	})
}

func TestDeadlinesReachTheOtherNodeAndAreCapped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLAN(t)
		a, b := meet(t, l, func(c *grpcpeer.Config) { c.Limits.MaxDeadline = 10 * time.Second })
		left := make(chan time.Duration, 1)
		b.offers("left", func(ctx context.Context, _ community.Signal) (community.Reply, error) {
			at, ok := ctx.Deadline()
			if !ok {
				at = time.Time{}
			}
			left <- time.Until(at)
			return community.Reply{}, nil
		})
		for _, c := range []struct{ give, least, most time.Duration }{
			{time.Second, 990 * time.Millisecond, 1001 * time.Millisecond},
			{time.Minute, 9 * time.Second, 10 * time.Second},
		} {
			ctx, cancel := context.WithTimeout(context.Background(), c.give)
			if _, err := a.network.Invoke(ctx, b.id, community.Call{Capability: "left"}); err != nil {
				t.Fatal(err)
			}
			cancel()
			if got := <-left; got < c.least || got > c.most {
				t.Errorf("with %v the other node has %v, want %v to %v", c.give, got, c.least, c.most)
			}
		}
		b.offers("stuck", stuck)
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if _, err := a.network.Invoke(ctx, b.id, community.Call{Capability: "stuck"}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a call over the other node's cap: got %v, want %v", err, context.DeadlineExceeded)
		}
	})
}

func TestNodesSaysWhatIsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLAN(t)
		a, b := meet(t, l)
		time.Sleep(time.Second)
		all := a.network.Nodes()
		if len(all) != 2 {
			t.Fatalf("got %+v, want two", all)
		}
		self, other := all[0], all[1]
		if self.State != grpcpeer.StateSelf || self.ID != a.id || self.Name != "a" || self.Protocol != "1.3" || self.CertDaysLeft < 6 {
			t.Errorf("self is %+v", self)
		}
		if other.State != grpcpeer.StateConnected || other.ID != b.id || other.Name != "b" || other.Members != 1 ||
			other.CertDaysLeft < 6 || other.Since.IsZero() {
			t.Errorf("b is %+v", other)
		}
	})
}

func TestNodesMeetAfterTheirFirstCertificatesEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLAN(t)
		sa, sb := l.add("a"), l.add("b")
		a, b := sa.live("a"), sb.live("b")
		time.Sleep(20 * 24 * time.Hour)
		sa.Network.AddHint(sb.Hint())
		sb.Network.AddHint(sa.Hint())
		a.finds(b.id)
		b.finds(a.id)
	})
}

func TestNetworkThatOthersReachNeedsACluster(t *testing.T) {
	l := newLAN(t)
	for _, addr := range []string{"0.0.0.0:0", ":0"} {
		n, err := grpcpeer.New(grpcpeer.Config{Identity: l.identity("a"), Listen: addr})
		if err == nil || !strings.Contains(err.Error(), "cluster") {
			t.Errorf("listening on %q: got %v, %v; want an error that says what to do", addr, n, err)
		}
	}
	for _, addr := range []string{"", "127.0.0.1:0", "127.0.0.2:0", "localhost:0"} {
		n, err := grpcpeer.New(grpcpeer.Config{Identity: l.identity("a"), Listen: addr})
		if err != nil {
			t.Errorf("listening on %q: %v", addr, err)
			continue
		}
		ctx, stop := context.WithCancel(context.Background())
		stop()
		if err := n.Run(ctx, community.New(community.Config{})); err != nil {
			t.Errorf("running on %q: %v", addr, err)
		}
		if err := n.Run(ctx, community.New(community.Config{})); err == nil {
			t.Error("it ran twice")
		}
	}
	if _, err := grpcpeer.New(grpcpeer.Config{}); err == nil {
		t.Error("a network without an identity was made")
	}
}

func TestSightNeverBlocks(t *testing.T) {
	l := newLAN(t)
	s := l.add("a")
	s.Network.AddHint(discovery.Candidate{})
	s.Network.AddHint(discovery.Candidate{Key: "x", Gone: true})
	s.Network.AddHint(s.Hint())
	if got := len(s.Network.Nodes()); got != 1 {
		t.Errorf("%d nodes, want self only", got)
	}
	if slices.ContainsFunc(s.Network.Nodes(), func(n grpcpeer.NodeStatus) bool { return n.State != grpcpeer.StateSelf }) {
		t.Error("somebody else is listed")
	}
}
