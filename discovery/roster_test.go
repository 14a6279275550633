package discovery_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"

	gocmp "github.com/google/go-cmp/cmp"

	"symbio/discovery"
)

// board is a running roster and what it reported.
type board struct {
	*discovery.Roster
	t    *testing.T
	all  []discovery.Candidate
	stop func()
}

func run(t *testing.T, cfg discovery.Config, sources ...discovery.Source) *board {
	b := &board{t: t}
	cfg.Report = func(c discovery.Candidate) { b.all = append(b.all, c) }
	b.Roster = discovery.NewRoster(cfg)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- b.Run(ctx, sources...) }()
	b.stop = func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run returned %v, want nil", err)
		}
	}
	return b
}

// expect compares what was reported since the last call.
func (b *board) expect(want ...discovery.Candidate) {
	b.t.Helper()
	synctest.Wait()
	got := b.all
	b.all = nil
	for i := range got {
		got[i].Sources = nil // TestRosterReportsSourcesOfCandidate
	}
	slices.SortStableFunc(got, func(x, y discovery.Candidate) int { return cmp.Compare(x.Key, y.Key) })
	if diff := gocmp.Diff(want, got, gocmp.Comparer(func(x, y netip.AddrPort) bool { return x == y })); diff != "" {
		b.t.Errorf("reported (-want +got):\n%s", diff)
	}
}

func at(addrs ...string) (out []netip.AddrPort) {
	for _, a := range addrs {
		out = append(out, netip.MustParseAddrPort(a))
	}
	return out
}

func found(node string, addrs ...string) discovery.Candidate {
	return discovery.Candidate{Key: node, Node: node, Addrs: at(addrs...)}
}

func gone(node string) discovery.Candidate {
	return discovery.Candidate{Key: node, Node: node, Gone: true}
}

func seen(node string, addrs ...string) discovery.Sighting {
	return discovery.Sighting{Node: node, Addrs: at(addrs...)}
}

func TestRosterLosesACandidateOnlyWhenEverySourceLostIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var near, far memoryHub
		b := run(t, discovery.Config{}, near.Source(discovery.Sighting{}), far.Source(discovery.Sighting{}))
		defer b.stop()

		near.Appear(seen("ann", "10.0.0.1:1", "10.0.0.1:2"))
		b.expect(found("ann", "10.0.0.1:1", "10.0.0.1:2"))
		far.Appear(seen("ann", "10.9.0.1:1", "10.0.0.1:1"))
		b.expect(found("ann", "10.0.0.1:1", "10.9.0.1:1", "10.0.0.1:2"))
		near.Vanish("ann")
		b.expect(found("ann", "10.9.0.1:1", "10.0.0.1:1"))
		far.Vanish("ann")
		b.expect(gone("ann"))
	})
}

// called is a source by another name.
type called struct {
	discovery.Source
	name string
}

func (c called) Name() string { return c.name }

// A peer that is reached by a URL has no addresses, and is not gone for that.
func TestRosterKeepsURLOfCandidate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var hub memoryHub
		b := run(t, discovery.Config{}, hub.Source(discovery.Sighting{}))
		defer b.stop()
		hub.Appear(discovery.Sighting{Key: "kitchen", URL: "wss://kitchen/"})
		b.expect(discovery.Candidate{Key: "kitchen", URL: "wss://kitchen/"})
		hub.Appear(discovery.Sighting{Key: "kitchen", URL: "wss://kitchen/"})
		b.expect()
		hub.Appear(discovery.Sighting{Key: "kitchen", URL: "wss://kitchen/new"})
		b.expect(discovery.Candidate{Key: "kitchen", URL: "wss://kitchen/new"})
		hub.Vanish("kitchen")
		b.expect(discovery.Candidate{Key: "kitchen", Gone: true})
	})
}

func TestRosterReportsSourcesOfCandidate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var near, far memoryHub
		b := run(t, discovery.Config{}, called{near.Source(discovery.Sighting{}), "near"}, called{far.Source(discovery.Sighting{}), "far"})
		defer b.stop()
		expect := func(want ...string) {
			t.Helper()
			synctest.Wait()
			if len(b.all) != 1 || !slices.Equal(b.all[0].Sources, want) {
				t.Errorf("reported %+v, want one candidate with sources %v", b.all, want)
			}
			b.all = nil
		}
		far.Appear(seen("ann", "10.0.0.1:1"))
		expect("far")
		near.Appear(seen("ann", "10.0.0.1:1"))
		expect("near", "far")
		far.Vanish("ann")
		expect("near")
	})
}

func TestRosterReportsOnlyChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var hub memoryHub
		b := run(t, discovery.Config{}, hub.Source(discovery.Sighting{}))
		defer b.stop()

		hub.Appear(seen("ann", "10.0.0.1:1"))
		b.expect(found("ann", "10.0.0.1:1"))
		hub.Appear(seen("ann", "10.0.0.1:1"))
		b.expect()
		hub.Appear(seen("ann", "10.0.0.1:2"))
		b.expect(found("ann", "10.0.0.1:2"))
	})
}

func TestRosterDropsItselfAndOtherClusters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var hub memoryHub
		b := run(t, discovery.Config{Self: "me", Tag: "ours"}, hub.Source(discovery.Sighting{}))
		defer b.stop()

		hub.Appear(seen("me", "10.0.0.1:1"))
		theirs := seen("bob", "10.0.0.2:1")
		theirs.Tag = "theirs"
		hub.Appear(theirs)
		b.expect()

		theirs.Tag = "ours"
		hub.Appear(theirs)
		hub.Appear(discovery.Sighting{Key: "seed:1", Addrs: at("10.0.0.3:1")}) // a static peer has no tag
		b.expect(found("bob", "10.0.0.2:1"), discovery.Candidate{Key: "seed:1", Addrs: at("10.0.0.3:1")})

		theirs.Tag = "theirs" // it has joined another cluster
		hub.Appear(theirs)
		b.expect(gone("bob"))
	})
}

func TestRosterReportsSelfAtForeignAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var hub memoryHub
		own := netip.MustParseAddrPort("10.0.0.1:1")
		b := run(t, discovery.Config{Self: "me", IsOwnAddr: func(a netip.AddrPort) bool { return a == own }},
			hub.Source(discovery.Sighting{}))
		defer b.stop()

		hub.Appear(seen("me", "10.0.0.1:1"))
		b.expect()
		hub.Appear(seen("me", "10.0.0.1:1", "10.0.0.2:1"))
		b.expect(found("me", "10.0.0.2:1"))
		hub.Appear(seen("me", "10.0.0.1:1"))
		b.expect(gone("me"))
		hub.Appear(seen("ann", "10.0.0.1:1")) // who claims another name at this node's address is dialled, and found out
		b.expect(found("ann", "10.0.0.1:1"))
	})
}

func TestRosterDropsWhatCannotBeDialed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var hub memoryHub
		b := run(t, discovery.Config{}, hub.Source(discovery.Sighting{}))
		defer b.stop()

		hub.Appear(seen("ann", "0.0.0.0:1", "[::]:1", "224.0.0.251:1", "10.0.0.1:0", "[::ffff:10.0.0.1]:1", "10.0.0.1:1"))
		b.expect(found("ann", "10.0.0.1:1"))
		hub.Appear(seen("ann", "0.0.0.0:1"))
		b.expect(gone("ann"))
		hub.Appear(discovery.Sighting{Addrs: at("10.0.0.1:1")}) // names nobody
		b.expect()
	})
}

func TestRosterMovesAPeerWhoseNodeBecameKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var hub memoryHub
		b := run(t, discovery.Config{}, hub.Source(discovery.Sighting{}))
		defer b.stop()

		hub.Appear(discovery.Sighting{Key: "seed:1", Addrs: at("10.0.0.3:1")})
		b.expect(discovery.Candidate{Key: "seed:1", Addrs: at("10.0.0.3:1")})
		hub.Appear(discovery.Sighting{Key: "seed:1", Node: "ann", Addrs: at("10.0.0.3:1")})
		b.expect(found("ann", "10.0.0.3:1"), discovery.Candidate{Key: "seed:1", Gone: true})
	})
}

func TestRosterBoundsCandidatesAndAddresses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var flood, calm memoryHub
		b := run(t, discovery.Config{Max: 8}, flood.Source(discovery.Sighting{}), calm.Source(discovery.Sighting{}))
		defer b.stop()

		for i := range 100 {
			flood.Appear(seen(fmt.Sprintf("node%03d", i), "10.0.0.1:1"))
		}
		synctest.Wait()
		if got, want := len(b.all), 4; got != want {
			t.Errorf("a flood made %d candidates, want %d, the source's share", got, want)
		}
		b.all = nil
		calm.Appear(seen("ann", "10.0.0.1:1")) // the flood left room for the other source
		b.expect(found("ann", "10.0.0.1:1"))

		flood.Vanish("node000")
		flood.Appear(seen("bob", "10.0.0.2:1")) // and room that becomes free is used again
		b.expect(found("bob", "10.0.0.2:1"), gone("node000"))

		var many []string
		for i := range 3 * discovery.MaxAddrs {
			many = append(many, fmt.Sprintf("10.0.1.%d:1", i+1))
		}
		flood.Appear(seen("bob", many...))
		b.expect(found("bob", many[:discovery.MaxAddrs]...))
		calm.Appear(seen("bob", "10.7.7.7:1")) // an address of the calm source is not pushed out
		b.expect(found("bob", append([]string{many[0], "10.7.7.7:1"}, many[1:discovery.MaxAddrs-1]...)...))
	})
}

func TestRosterAsksAgainAfterAFailedDial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var hub memoryHub
		b := run(t, discovery.Config{}, hub.Source(discovery.Sighting{}))
		defer b.stop()

		hub.Appear(seen("ann", "10.0.0.1:1"))
		hub.Appear(seen("bob", "10.0.0.2:1"))
		b.expect(found("ann", "10.0.0.1:1"), found("bob", "10.0.0.2:1"))
		hub.Silence("ann")
		b.Failed("ann")
		b.Failed("bob")
		b.Failed("nobody")
		b.expect(gone("ann"))
		if diff := gocmp.Diff([]string{"ann", "bob"}, hub.Reconfirmed()); diff != "" {
			t.Errorf("asked for (-want +got):\n%s", diff)
		}
	})
}

// broken is a source that ends at once.
type broken struct{ err error }

func (broken) Name() string { return "broken" }

func (b broken) Run(_ context.Context, report func(discovery.Sighting)) error {
	report(discovery.Sighting{Source: "broken", Key: "last words", Addrs: at("10.0.0.9:1")})
	return b.err
}

func TestRosterGoesOnWhenASourceEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var status []string
		cfg := discovery.Config{Status: func(source string, err error) { status = append(status, fmt.Sprint(source, ": ", err)) }}
		var hub memoryHub
		b := run(t, cfg, broken{errors.New("no such thing")}, hub.Source(discovery.Sighting{}))
		defer b.stop()

		b.expect(discovery.Candidate{Key: "last words", Addrs: at("10.0.0.9:1")})
		hub.Appear(seen("ann", "10.0.0.1:1"))
		b.expect(found("ann", "10.0.0.1:1"))
		if diff := gocmp.Diff([]string{"broken: no such thing"}, status); diff != "" {
			t.Errorf("status (-want +got):\n%s", diff)
		}
	})
}

func TestRosterRunsOnce(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := discovery.NewRoster(discovery.Config{})
	if err := r.Run(ctx); err != nil {
		t.Errorf("first Run: %v, want nil", err)
	}
	if err := r.Run(ctx); err == nil {
		t.Error("second Run: no error, want one")
	}
}
