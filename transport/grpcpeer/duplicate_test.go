package grpcpeer_test

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"symbio/actor"
	"symbio/community"
	pb "symbio/proto/symbio/v1"
	"symbio/transport/grpcpeer"
)

// runTwin runs a second node with the key of the one called name, and returns what its Run ends with.
func (l *lan) runTwin(ctx context.Context, name string, knows ...*station) error {
	s := l.add(name)
	time.Sleep(time.Second) // a mark of the instant at which this run began would prove nothing
	for _, o := range knows {
		s.Network.AddHint(o.Hint())
	}
	sys := actor.NewSystem(actor.Config{})
	defer sys.Shutdown(context.Background())
	return community.New(community.Config{Node: s.ID, Name: name, Network: s.Network, System: sys}).Run(ctx)
}

func TestOfTwoNodesWithOneKeyTheLaterEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newCluster(t)
		var heardBob, heardSeed events
		holder, bob := l.add(seed, reporting(&heardSeed)), l.add("bob", reporting(&heardBob))
		h, b := holder.live(seed), bob.live("bob")
		holder.Network.AddHint(bob.Hint())
		bob.Network.AddHint(holder.Hint())
		h.finds(b.id)
		b.finds(h.id)
		time.Sleep(time.Minute)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if err := l.runTwin(ctx, "bob", holder); !errors.Is(err, grpcpeer.ErrDuplicate) {
			t.Errorf("the later one ended with %v, want %v", err, grpcpeer.ErrDuplicate)
		}
		time.Sleep(5 * time.Second)
		if !available(h.Members(), b.id) || !available(b.Members(), h.id) {
			t.Error("the earlier one lost its friend by that")
		}
		for name, heard := range map[string]*events{"who met both": &heardSeed, "the earlier one": &heardBob} {
			if heard.count(grpcpeer.Refused) != 1 || !strings.Contains(heard.last().Why, "copied") {
				t.Errorf("%s heard %+v, want once that the folder was copied", name, heard.all)
			}
		}
	})
}

func TestRestartAfterCrashIsNoDuplicate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newCluster(t)
		holder, bob := l.add(seed), l.add("bob")
		h, b := holder.live(seed), bob.live("bob")
		holder.Network.AddHint(bob.Hint())
		bob.Network.AddHint(holder.Hint())
		h.finds(b.id)
		time.Sleep(time.Minute)
		l.Kill(b.id)
		again := l.add("bob")
		again.Network.AddHint(holder.Hint())
		began := time.Now()
		again.live("bob").finds(h.id)
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("it was let in after %v, want 5 s at most", took)
		}
	})
}

// Only a mark that this node's own key made, after this run began, says that there is a twin.
func TestFalseAlarmEndsNoNode(t *testing.T) {
	l := newCluster(t)
	bob, eve := l.identity("bob"), l.identity("eve")
	old := bob.NewRun().Mark()
	run := bob.NewRun()
	late := bob.NewRun()
	forged := late.Mark()
	forged.Started = old.GetStarted()
	for name, c := range map[string]struct {
		mark        *pb.Run
		twin, later bool
	}{
		"none":                  {nil, false, false},
		"itself":                {run.Mark(), false, false},
		"a run before this one": {old, false, false},
		"another node's":        {eve.NewRun().Mark(), false, false},
		"one that was changed":  {forged, false, false},
		"one that began after":  {late.Mark(), true, false},
		"an empty one":          {&pb.Run{}, false, false},
	} {
		if twin, later := run.Twin(c.mark); twin != c.twin || later != c.later {
			t.Errorf("%s: twin %t, later %t; want %t, %t", name, twin, later, c.twin, c.later)
		}
	}
	if twin, later := late.Twin(run.Mark()); !twin || !later {
		t.Errorf("the later run: twin %t, later %t; want both", twin, later)
	}
}

// Two nodes with one key that know nobody else find each other by what is announced in their own name.
func TestTwoNodesWithOneKeyDetectEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newCluster(t)
		var heard events
		bob := l.add("bob", reporting(&heard))
		b := bob.live("bob")
		time.Sleep(time.Minute)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if err := l.runTwin(ctx, "bob", bob); !errors.Is(err, grpcpeer.ErrDuplicate) {
			t.Errorf("the later one, which saw the earlier, ended with %v, want %v", err, grpcpeer.ErrDuplicate)
		}
		if heard.count(grpcpeer.Refused) != 1 || !strings.Contains(heard.last().Why, "copied") {
			t.Errorf("the earlier one heard %+v, want once that its folder was copied", heard.all)
		}
		if _, ok := b.status(b.id, grpcpeer.StateSelf); !ok {
			t.Error("the earlier one does not go on")
		}
	})
	synctest.Test(t, func(t *testing.T) { // the earlier one is who sees the other
		l := newCluster(t)
		bob := l.add("bob")
		bob.live("bob")
		time.Sleep(time.Minute)
		done := make(chan error, 1)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		go func() { done <- l.runTwin(ctx, "bob") }()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		bob.Network.AddHint(l.stationOf(bob.ID).Hint())
		if err := <-done; !errors.Is(err, grpcpeer.ErrDuplicate) {
			t.Errorf("the later one, which was seen, ended with %v, want %v", err, grpcpeer.ErrDuplicate)
		}
	})
}

// Whoever announces this node's id at places where it is not makes it dial there now and then, and no more.
func TestForgedSightingsOfANodeItselfCostFewDials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newCluster(t)
		eve := l.add("eve")
		eve.live("eve")
		var dials atomic.Int64
		var heard events
		bob := l.add("bob", reporting(&heard), func(c *grpcpeer.Config) {
			dial := c.Dial
			c.Dial = func(ctx context.Context, a netip.AddrPort) (net.Conn, error) { dials.Add(1); return dial(ctx, a) }
		})
		b := bob.live("bob")
		hint := bob.Hint()
		for i := range 3600 {
			hint.Addrs = []netip.AddrPort{eve.Addr, netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), uint16(20000+i))}
			bob.Network.AddHint(hint)
			time.Sleep(time.Second)
		}
		if n := dials.Load(); n < 2 || n > 30 {
			t.Errorf("an hour of forged sightings made %d dials, want 2 to 30", n)
		}
		if len(b.network.Nodes()) != 1 {
			t.Errorf("nodes are %+v, want this one only", b.network.Nodes())
		}
		hint.Gone = true
		bob.Network.AddHint(hint)
		dials.Store(0)
		time.Sleep(time.Hour)
		if n := dials.Load(); n != 0 {
			t.Errorf("%d dials after the sighting was gone", n)
		}
	})
}
