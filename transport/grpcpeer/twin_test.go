package grpcpeer_test

import (
	"context"
	"errors"
	"strings"
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
		s.network.Sight(o.hint())
	}
	sys := actor.NewSystem(actor.Config{})
	defer sys.Shutdown(context.Background())
	return community.New(community.Config{Node: s.id, Name: name, Network: s.network, System: sys}).Run(ctx)
}

func TestOfTwoNodesWithOneKeyTheLaterEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newCluster(t)
		var heardBob, heardSeed events
		holder, bob := l.add(seed, reporting(&heardSeed)), l.add("bob", reporting(&heardBob))
		h, b := holder.live(seed), bob.live("bob")
		holder.network.Sight(bob.hint())
		bob.network.Sight(holder.hint())
		h.finds(b.id)
		b.finds(h.id)
		time.Sleep(time.Minute)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if err := l.runTwin(ctx, "bob", holder); !errors.Is(err, grpcpeer.ErrTwin) {
			t.Errorf("the later one ended with %v, want %v", err, grpcpeer.ErrTwin)
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

func TestANodeThatCrashedAndStartsAgainIsNoTwin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newCluster(t)
		holder, bob := l.add(seed), l.add("bob")
		h, b := holder.live(seed), bob.live("bob")
		holder.network.Sight(bob.hint())
		bob.network.Sight(holder.hint())
		h.finds(b.id)
		time.Sleep(time.Minute)
		l.Kill(b.id)
		again := l.add("bob")
		again.network.Sight(holder.hint())
		began := time.Now()
		again.live("bob").finds(h.id)
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("it was let in after %v, want 5 s at most", took)
		}
	})
}

// Only a mark that this node's own key made, after this run began, says that there is a twin.
func TestAFalseAlarmEndsNoNode(t *testing.T) {
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
