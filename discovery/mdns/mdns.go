// Package mdns is a discovery source for one LAN, or for one machine. Nodes announce themselves by
// multicast DNS (RFC 6762) as a DNS-SD service (RFC 6763) and see each other within milliseconds.
//
// Two state machines without sockets or clocks do the work: browser (the cache of peers) and
// announcer (when to announce). One loop owns them and feeds them packets and the time. Packets
// come from a link, which is replaced when the machine's interfaces change.
//
// On a LAN the server of hashicorp/mdns answers questions by unicast. This package adds:
// announcements, goodbyes, browsing, all interfaces instead of the default route's. On loopback
// this package answers by itself, because that server would also answer strangers on the LAN.
//
// A peer that starts or stops in order is noticed at once. One that was killed is gone when its
// records expire, after two minutes, or within 2.5 s when a dial failed and the transport calls
// Reconfirm. Everything is a hint, since any machine on the LAN can claim, change or end any
// record. Therefore only addresses of the sender's own network count, memory is bounded per sender
// and in total, and a goodbye counts only if the peer does not contradict it.
//
// Goroutines: the loop, in Run; four socket readers, for which Run waits; and the server's two
// readers per interface, which hold nothing of this package when Run returns (see system.serve).
package mdns

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"sync"
	"time"

	"symbio/discovery"
)

const name = "mdns"

// Config sets up a Source. The zero value is usable: the source then browses the LAN and announces
// nothing.
type Config struct {
	// Node is this node's id, 32 to 64 lower-case hex digits. Its first 16 digits name the instance
	// and the host. The machine's own name is not used: it would clash with the system's responder
	// and tell the network more than it needs.
	Node string
	// Tag is announced so that peers recognize their own cluster; it is not a secret. Letters,
	// digits and "._:-".
	Tag string
	// Port is the TCP port on which the node listens. 0: nothing is announced, the source only
	// browses.
	Port uint16
	// Protocol is the range of protocol versions that the node speaks. Default "1".
	Protocol string
	// Loopback restricts the source to the loopback interface, for a node that listens on loopback
	// only. Nothing is sent to the LAN then, and packets from there are ignored.
	Loopback bool
	// Allow and Deny choose among the LAN's interfaces by name, with patterns as in path.Match ("eth*"). An empty Allow
	// allows all; Deny wins. Without any interface left, loopback is used.
	Allow, Deny []string
	// Service is the service type. Default "_symbio._tcp". Tests use others, because port 5353 is shared.
	Service string
	// Logger receives what an operator wants to know: when the source stops working, and when it
	// works again. Default: silent.
	Logger *slog.Logger
}

// Source announces this node and browses for others. Its methods may be called concurrently, Run
// once at a time.
type Source struct {
	cfg    Config
	net    network
	random func(time.Duration) time.Duration
	// slept reports whether the machine slept since the last call.
	slept func() bool // whether the machine slept since the last call

	wake chan struct{} // capacity 1: a request waits (Reconfirm)

	mu        sync.Mutex
	reconfirm map[string]bool // guarded by mu; ids to reconfirm
	health    error           // guarded by mu
}

var (
	_ discovery.Source      = (*Source)(nil)
	_ discovery.Reconfirmer = (*Source)(nil)
	_ discovery.Healther    = (*Source)(nil)
)

// New returns a Source that does nothing until Run. Run also checks the configuration.
func New(cfg Config) *Source {
	cfg.Service = cmp.Or(cfg.Service, "_symbio._tcp")
	cfg.Protocol = cmp.Or(cfg.Protocol, "1")
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	return &Source{
		cfg: cfg, net: system{}, random: randomBelow, slept: sleepWatch(clocks()),
		wake: make(chan struct{}, 1), reconfirm: map[string]bool{},
	}
}

// randomBelow returns a random duration in [0, d), and 0 for d <= 0. Tests replace it.
func randomBelow(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return rand.N(d)
}

// clocks returns a function that reads the wall clock, which advances while the machine sleeps, and
// the time since the start on the monotonic clock, which on most systems does not.
func clocks() func() (wall time.Time, awake time.Duration) {
	start := time.Now()
	return func() (time.Time, time.Duration) { return time.Now().Round(0), time.Since(start) }
}

// minStopped is the gap between two checks from which this process must have been stopped, by a
// debugger or with its container: no machine is so busy that it is late by that much.
const minStopped = 5 * checkEvery

// sleepWatch returns a function that reports whether the machine slept, or this process was
// stopped, since its last call. Afterwards the neighbors have forgotten this node, and its own
// cache is out of date, so the source must start anew.
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

// Health returns nil while the source works, otherwise an error with what was tried, why it failed,
// and what to do.
func (s *Source) Health() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.health
}

// Reconfirm queries a node that could not be dialed. It is reported gone after 2.5 s (reconfirmFor)
// without an answer. At most maxPeers requests wait; further ones are dropped.
func (s *Source) Reconfirm(node string) {
	s.mu.Lock()
	if len(s.reconfirm) < maxPeers {
		s.reconfirm[node] = true
	}
	s.mu.Unlock()
	s.notifyLoop()
}

// notifyLoop wakes the loop. A token that is there already is enough.
func (s *Source) notifyLoop() {
	select {
	case s.wake <- struct{}{}:
	default: // it will look anyway
	}
}

// drainRequests returns the nodes that Reconfirm was called for since the last call.
func (s *Source) drainRequests() (nodes []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	nodes = slices.Collect(maps.Keys(s.reconfirm))
	clear(s.reconfirm)
	return nodes
}

// Run announces this node and reports others until ctx ends; it then sends goodbyes, which takes
// 0.1 s.
//
// Without a usable interface, or when port 5353 is taken, it says so in Health and the log and
// tries again every second. It returns an error only for a configuration that can never work.
func (s *Source) Run(ctx context.Context, report func(discovery.Sighting)) error {
	me, err := newSelf(s.cfg)
	if err != nil {
		return err
	}
	for _, pattern := range slices.Concat(s.cfg.Allow, s.cfg.Deny) {
		if _, err := path.Match(pattern, ""); err != nil {
			return fmt.Errorf("mdns: interface pattern %q: %w", pattern, err)
		}
	}
	newLoop(s, me, report).run(ctx)
	return nil
}

// setHealth stores the state for Health and logs it when it changes.
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
