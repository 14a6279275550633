// Package mdns is a discovery source for one LAN, or for one machine: nodes announce themselves by multicast DNS
// (RFC 6762) as a service (RFC 6763), and see each other within milliseconds.
//
// The one idea: two state machines without sockets or clocks, browser (what is known of others) and speaker (when this
// node speaks), driven by one loop that owns them. Packets come in over a link, which is replaced when the machine's
// interfaces change. On a LAN the server of hashicorp/mdns answers questions by unicast; everything it lacks is here:
// announcing, goodbye, browsing, all interfaces, no need of a default route. On loopback this package answers by
// itself: that server would answer strangers on the LAN as well, whatever interface it was given.
//
// A peer that comes or goes orderly is noticed at once, one that was killed when its records expire after two minutes,
// or within 2.5 seconds when somebody could not dial it and calls Reconfirm. All of it is a hint: anybody on the link
// can claim, change or end any record. So addresses are only those of the sender and its neighbours, memory is bounded
// per sender and in all, and a goodbye counts only if the peer does not contradict it.
//
// What runs: the loop, in Run; four readers of sockets, which Run waits for; and the server's two readers per
// interface, which have nothing of ours left when Run returns (see system.serve).
package mdns

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path"
	"sync"
	"time"

	"symbio/discovery"
)

const name = "mdns"

// Config sets up a Source. The zero value is usable: it looks on the LAN and announces nothing.
type Config struct {
	// Node is this node's id, 32 to 64 lower-case hex digits. Its first 16 name the instance and the host: never the
	// machine's own name, which would clash with the system's responder and tell strangers more than they need.
	Node string
	// Tag is announced for peers to recognise their own cluster by; no secret. Letters, digits and "._:-".
	Tag string
	// Port is where the node listens, on TCP. 0: nothing is announced, the source only looks.
	Port uint16
	// Protocol is the range of protocol versions the node speaks. Default "1": the first.
	Protocol string
	// Loopback confines everything to the loopback interface: for a node that listens on loopback only. Nothing is
	// sent to the LAN then, and nothing from there is answered or believed.
	Loopback bool
	// Allow and Deny choose among the LAN's interfaces by name, with patterns as in path.Match ("eth*"). An empty Allow
	// allows all; Deny wins. Without any interface left, loopback is used.
	Allow, Deny []string
	// Service is the service type. Default "_symbio._tcp". Tests use others, because port 5353 is shared.
	Service string
	// Logger receives what a person would want to know: trouble, and its end. Default: silent.
	Logger *slog.Logger
}

// Source announces this node and looks for others.
type Source struct {
	cfg    Config
	net    network
	random func(time.Duration) time.Duration
	slept  func() bool // whether the machine slept since the last call

	wake chan struct{} // capacity 1: a request waits (reconfirm, refresh)

	mu        sync.Mutex
	reconfirm map[string]bool // guarded by mu; ids to reconfirm
	refresh   bool            // guarded by mu
	health    error           // guarded by mu
}

var (
	_ discovery.Source      = (*Source)(nil)
	_ discovery.Reconfirmer = (*Source)(nil)
	_ discovery.Refresher   = (*Source)(nil)
	_ discovery.Healther    = (*Source)(nil)
)

// New returns a Source that does nothing until Run, which also checks the configuration.
func New(cfg Config) *Source {
	if cfg.Service == "" {
		cfg.Service = "_symbio._tcp"
	}
	if cfg.Protocol == "" {
		cfg.Protocol = "1"
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Source{
		cfg: cfg, net: system{}, random: randomBelow, slept: sleepWatch(clocks()),
		wake: make(chan struct{}, 1), reconfirm: map[string]bool{},
	}
}

// randomBelow returns a random duration below d, and 0 if there is none.
func randomBelow(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return rand.N(d)
}

// clocks reads both of a machine's clocks: the wall's, which goes on while the machine sleeps, and for how long it has
// been awake.
func clocks() func() (wall time.Time, awake time.Duration) {
	start := time.Now()
	return func() (time.Time, time.Duration) { return time.Now().Round(0), time.Since(start) }
}

// minStopped is the time between two looks at the clocks in which this process was stopped, by a debugger or with its
// container: no machine is so busy that every second look is late by that much.
const minStopped = 5 * checkEvery

// sleepWatch returns a function that says whether the machine slept, or this process was stopped, since its last call:
// the neighbours have given it up meanwhile, and what it knows of them is old.
func sleepWatch(clock func() (time.Time, time.Duration)) func() bool {
	lastWall, lastAwake := clock()
	return func() bool {
		wall, awake := clock()
		before := lastAwake
		missed := wall.Sub(lastWall) - (awake - before)
		lastWall, lastAwake = wall, awake
		return missed > 2*time.Second || awake-before > minStopped
	}
}

// Name returns "mdns".
func (*Source) Name() string { return name }

// Health returns nil while the source works, else what was tried, why it failed, and what to do.
func (s *Source) Health() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.health
}

// Reconfirm asks for a node again. It is reported gone after 2.5 seconds without an answer.
func (s *Source) Reconfirm(node string) {
	s.mu.Lock()
	if len(s.reconfirm) < maxPeers {
		s.reconfirm[node] = true
	}
	s.mu.Unlock()
	s.notifyLoop()
}

// Refresh asks who is there now, and again and again at growing intervals.
func (s *Source) Refresh() {
	s.mu.Lock()
	s.refresh = true
	s.mu.Unlock()
	s.notifyLoop()
}

func (s *Source) notifyLoop() {
	select {
	case s.wake <- struct{}{}:
	default: // it will look anyway
	}
}

// drainRequests returns what was asked of the source since the last call.
func (s *Source) drainRequests() (nodes []string, refresh bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for n := range s.reconfirm {
		nodes = append(nodes, n)
	}
	clear(s.reconfirm)
	refresh, s.refresh = s.refresh, false
	return nodes, refresh
}

// Run announces this node and reports others until ctx ends; then it says goodbye, which takes 0.1 seconds. Without a
// usable interface, or with port 5353 taken, it says so in Health and the log, and tries again every second. Only
// a configuration that makes no sense is an error.
func (s *Source) Run(ctx context.Context, report func(discovery.Sighting)) error {
	me, err := newSelf(s.cfg)
	if err != nil {
		return err
	}
	for _, pattern := range append(append([]string{}, s.cfg.Allow...), s.cfg.Deny...) {
		if _, err := path.Match(pattern, ""); err != nil {
			return fmt.Errorf("mdns: interface pattern %q: %w", pattern, err)
		}
	}
	newLoop(s, me, report).run(ctx)
	return nil
}

// setHealth notes how the source is doing, and logs it when it changes.
func (s *Source) setHealth(err error) {
	s.mu.Lock()
	was := s.health
	s.health = err
	s.mu.Unlock()
	switch {
	case err != nil && (was == nil || was.Error() != err.Error()):
		s.cfg.Logger.Warn("discovery on this network does not work", "source", name, "err", err)
	case err == nil && was != nil:
		s.cfg.Logger.Info("discovery on this network works again", "source", name)
	}
}
