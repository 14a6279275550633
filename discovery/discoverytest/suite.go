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

// Rig is one source under test and the world it looks at.
type Rig struct {
	Source discovery.Source
	// Appear lets somebody be there to be found at addr.
	Appear func(addr netip.AddrPort)
	// Vanish takes it away again. nil: this kind of source never loses anybody.
	Vanish func(addr netip.AddrPort)
	// Within is how long the source takes to notice either, at most.
	Within time.Duration
}

// TestSource holds a source to the promises of discovery.Source. open makes a new world with a new source in it that
// is not running; it is called inside a synctest bubble, once per promise, so the world must be in memory.
func TestSource(t *testing.T, open func(t *testing.T) Rig) {
	promises := []struct {
		name string
		test func(t *testing.T, rig Rig)
	}{
		{"FindsWhoIsThereAlready", findsWhoIsThere},
		{"FindsWhoComesLater", findsWhoComesLater},
		{"TellsWhoWent", tellsWhoWent},
		{"EndsWithItsContext", endsWithItsContext},
		{"EndsWhileItsReaderIsBusy", endsWhileBusy},
		{"IgnoresAskingForNobody", ignoresNobody},
	}
	for _, p := range promises {
		t.Run(p.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { p.test(t, open(t)) })
		})
	}
}

var someone, another = netip.MustParseAddrPort("127.0.0.2:7001"), netip.MustParseAddrPort("127.0.0.3:7002")

func findsWhoIsThere(t *testing.T, rig Rig) {
	rig.Appear(someone)
	w := start(t, rig)
	w.expect(someone)
}

func findsWhoComesLater(t *testing.T, rig Rig) {
	w := start(t, rig)
	time.Sleep(rig.Within)
	rig.Appear(someone)
	w.expect(someone)
	rig.Appear(another)
	w.expect(someone, another)
}

func tellsWhoWent(t *testing.T, rig Rig) {
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

func ignoresNobody(t *testing.T, rig Rig) {
	r, ok := rig.Source.(discovery.Reconfirmer)
	if !ok {
		return
	}
	r.Reconfirm("nobody") // before Run
	rig.Appear(someone)
	w := start(t, rig)
	w.expect(someone)
	r.Reconfirm("nobody")
	w.expect(someone)
}

// watcher runs a source and keeps what it believes.
type watcher struct {
	t       *testing.T
	rig     Rig
	stop    func()
	reports atomic.Int64
	mu      sync.Mutex
	peers   map[string][]netip.AddrPort // guarded by mu; by key
}

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

// see checks what holds for every sighting.
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

// expect waits as long as the source may take and compares the best addresses with what should be there.
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
