// Package discoverytest has the suite of tests that every discovery.Source passes.
package discoverytest

import (
	"context"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/errgroup"

	"symbio/discovery"
)

// Rig is one source under test and the network that it watches.
type Rig struct {
	Source discovery.Source
	// Appear adds a node at addr for the source to find.
	Appear func(addr netip.AddrPort)
	// Vanish removes the node at addr. nil: this kind of source never reports that a node is gone.
	Vanish func(addr netip.AddrPort)
	// Within is the longest time in which the source reports either.
	Within time.Duration
}

// TestSource tests that a source keeps the contract of discovery.Source. open returns a new network
// with a source that is not running yet. It is called once per test, inside a synctest bubble, so
// the network must be in memory and use package time.
func TestSource(t *testing.T, open func(t *testing.T) Rig) {
	tests := []struct {
		name string
		test func(t *testing.T, rig Rig)
	}{
		{"ReportsNodeThatIsPresent", reportsPresent},
		{"ReportsNodeThatAppears", reportsAppeared},
		{"ReportsNodeThatVanishes", reportsVanished},
		{"EndsWithItsContext", endsWithItsContext},
		{"EndsWhileReportBlocks", endsWhileBusy},
		{"IgnoresReconfirmOfUnknownKey", ignoresUnknown},
	}
	for _, p := range tests {
		t.Run(p.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { p.test(t, open(t)) })
		})
	}
}

// These are the addresses of two nodes that the tests add and remove.
var someone, another = netip.MustParseAddrPort("127.0.0.2:7001"), netip.MustParseAddrPort("127.0.0.3:7002")

// reportsPresent expects a sighting of a node that was there before Run.
func reportsPresent(t *testing.T, rig Rig) {
	rig.Appear(someone)
	w := start(t, rig)
	w.expect(someone)
}

// reportsAppeared expects sightings of nodes that come while the source runs.
func reportsAppeared(t *testing.T, rig Rig) {
	w := start(t, rig)
	time.Sleep(rig.Within)
	rig.Appear(someone)
	w.expect(someone)
	rig.Appear(another)
	w.expect(someone, another)
}

// reportsVanished expects that a node is reported gone when it leaves, that the others stay, and
// that it is reported again when it returns.
func reportsVanished(t *testing.T, rig Rig) {
	if rig.Vanish == nil {
		return
	}
	rig.Appear(someone)
	rig.Appear(another)
	w := start(t, rig)
	w.expect(someone, another)
	rig.Vanish(someone)
	w.expect(another)
	rig.Appear(someone)
	w.expect(someone, another)
}

// endsWithItsContext also checks that nothing is reported after Run has returned: the roster may be
// gone by then.
func endsWithItsContext(t *testing.T, rig Rig) {
	rig.Appear(someone)
	w := start(t, rig)
	w.expect(someone)
	w.stop()
	reports := w.reports.Load()
	rig.Appear(another)
	time.Sleep(rig.Within)
	synctest.Wait()
	if got := w.reports.Load(); got != reports {
		t.Errorf("%d reports after Run returned, want none", got-reports)
	}
}

// endsWhileBusy ends the context while report blocks, as a roster's does when its reader is slow.
func endsWhileBusy(t *testing.T, rig Rig) {
	rig.Appear(someone)
	ctx, cancel := context.WithCancel(t.Context())
	var run errgroup.Group
	run.Go(func() error { return rig.Source.Run(ctx, func(discovery.Sighting) { <-ctx.Done() }) })
	time.Sleep(rig.Within)
	cancel()
	if err := run.Wait(); err != nil {
		t.Errorf("Run returned %v after its context ended, want nil", err)
	}
}

// ignoresUnknown calls Reconfirm with keys that no sighting had, before and during Run.
func ignoresUnknown(t *testing.T, rig Rig) {
	r, ok := rig.Source.(discovery.Reconfirmer)
	if !ok {
		return
	}
	r.Reconfirm("unknown") // before Run
	rig.Appear(someone)
	w := start(t, rig)
	w.expect(someone)
	r.Reconfirm("unknown")
	w.expect(someone)
}

// watcher runs a source, checks each sighting against the contract, and keeps the peers that it
// reported.
type watcher struct {
	t       *testing.T
	rig     Rig
	stop    func()
	reports atomic.Int64
	mu      sync.Mutex
	peers   map[string][]netip.AddrPort // guarded by mu; by key
}

// start runs the source of rig until the test ends or stop is called, which fails the test if Run
// returns an error.
func start(t *testing.T, rig Rig) *watcher {
	ctx, cancel := context.WithCancel(t.Context())
	w := &watcher{t: t, rig: rig, peers: map[string][]netip.AddrPort{}}
	var run errgroup.Group
	run.Go(func() error { return rig.Source.Run(ctx, w.see) })
	w.stop = sync.OnceFunc(func() {
		cancel()
		if err := run.Wait(); err != nil {
			t.Errorf("Run returned %v after its context ended, want nil", err)
		}
	})
	t.Cleanup(w.stop)
	return w
}

// see checks and stores one sighting. TryLock detects concurrent calls: a source must report
// serially.
func (w *watcher) see(s discovery.Sighting) {
	w.reports.Add(1)
	if !w.mu.TryLock() {
		w.t.Error("report was called while an earlier call was under way")
		return
	}
	defer w.mu.Unlock()
	if want := w.rig.Source.Name(); s.Source != want || want == "" {
		w.t.Errorf("sighting of source %q, want %q, not empty", s.Source, want)
	}
	if s.Key == "" {
		w.t.Errorf("sighting without a key: %+v", s)
	}
	_, known := w.peers[s.Key]
	switch {
	case s.Gone && !known:
		w.t.Errorf("%q is gone, but was never seen", s.Key)
	case s.Gone && len(s.Addrs) > 0:
		w.t.Errorf("%q is gone, but has addresses: %v", s.Key, s.Addrs)
	case s.Gone:
		delete(w.peers, s.Key)
	case len(s.Addrs) == 0 || len(s.Addrs) > discovery.MaxAddrs:
		w.t.Errorf("%q has %d addresses, want 1 to %d", s.Key, len(s.Addrs), discovery.MaxAddrs)
	default:
		w.peers[s.Key] = slices.Clone(s.Addrs)
	}
}

// expect waits for Within and compares the best addresses of the reported peers with want.
func (w *watcher) expect(want ...netip.AddrPort) {
	w.t.Helper()
	time.Sleep(w.rig.Within)
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	var got []netip.AddrPort
	for _, addrs := range w.peers {
		got = append(got, addrs[0])
	}
	slices.SortFunc(got, netip.AddrPort.Compare)
	slices.SortFunc(want, netip.AddrPort.Compare)
	if !slices.Equal(got, want) {
		w.t.Errorf("the source sees %v, want %v", got, want)
	}
}
