// Package static is a discovery source for configured peers: "host:port" entries.
//
// A configured peer is never reported gone. An IP address is reported once, at the start; a host
// name is looked up every Config.Every, and reported when its addresses changed. A failed look-up
// removes nothing.
//
// Reports come serially from Run. Look-ups are concurrent, so that a slow name delays no other.
package static

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"

	"symbio/discovery"
)

// maxPeers bounds the entries. One reachable peer is enough to meet the others, and all names are
// looked up concurrently.
const maxPeers = 256

// Resolver looks names up; *net.Resolver implements it. It is called concurrently.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Config sets up a Source. The zero value is usable: it has no peers.
type Config struct {
	// Peers are "host:port" entries: names, IPv4 addresses, or IPv6 addresses in brackets.
	Peers []string
	// Every is how often names are looked up again. Default 30 s: what DNS changes, changes in
	// minutes.
	Every time.Duration
	// Timeout bounds one look-up. Default 5 s: the usual limit of a resolver for one server.
	Timeout time.Duration
	// Resolver looks the names up. Default: net.DefaultResolver.
	Resolver Resolver
	// Logger receives failed look-ups, once each time they begin to fail. Default: silent.
	Logger *slog.Logger
}

// Source reports the configured peers. Its sightings claim no node; the dial shows which node is
// there. All methods may be called concurrently, Run once at a time.
type Source struct {
	cfg     Config
	fixed   []discovery.Sighting
	names   []name
	refresh chan struct{}

	mu   sync.Mutex
	last map[string][]netip.AddrPort // guarded by mu; addresses last reported, by entry
	errs map[string]error            // guarded by mu; what fails now, by entry
}

// name is an entry that has a host name and must be looked up.
type name struct {
	entry string
	host  string
	port  uint16
}

var (
	_ discovery.Source      = (*Source)(nil)
	_ discovery.Reconfirmer = (*Source)(nil)
	_ discovery.Healther    = (*Source)(nil)
)

// New returns a Source for cfg.Peers, without duplicates. It returns an error that names the first
// entry that is not "host:port", or for more than maxPeers entries. Nothing is looked up before
// Run.
func New(cfg Config) (*Source, error) {
	if cfg.Every <= 0 {
		cfg.Every = 30 * time.Second
	}
	if cfg.Timeout <= 0 {
		cfg.Timeout = 5 * time.Second
	}
	if cfg.Resolver == nil {
		cfg.Resolver = net.DefaultResolver
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if len(cfg.Peers) > maxPeers {
		return nil, fmt.Errorf("static: %d peers are configured, at most %d make sense: one that can be reached is enough", len(cfg.Peers), maxPeers)
	}
	s := &Source{cfg: cfg, refresh: make(chan struct{}, 1), last: map[string][]netip.AddrPort{}, errs: map[string]error{}}
	for i, entry := range cfg.Peers {
		if slices.Contains(cfg.Peers[:i], entry) {
			continue
		}
		if err := s.add(entry); err != nil {
			return nil, fmt.Errorf("static: peer %q: %w", entry, err)
		}
	}
	return s, nil
}

// add parses one entry: an IP address becomes a sighting for Run to report, a host name an entry to
// look up.
func (s *Source) add(entry string) error {
	host, portText, err := net.SplitHostPort(entry)
	if err != nil {
		return fmt.Errorf("want host:port, as in 10.0.0.7:7946, [fd00::7]:7946 or kitchen.example:7946: %w", err)
	}
	port, err := strconv.ParseUint(portText, 10, 16)
	if err != nil || port == 0 {
		return fmt.Errorf("port %q is not a number from 1 to 65535", portText)
	}
	if ip, err := netip.ParseAddr(host); err == nil && (ip.Zone() == "" || discovery.IsHostName(ip.Zone())) {
		if ip = ip.Unmap(); ip.IsUnspecified() || ip.IsMulticast() {
			return fmt.Errorf("%s is not the address of a host", ip)
		}
		s.fixed = append(s.fixed, s.sighting(entry, []netip.AddrPort{netip.AddrPortFrom(ip, uint16(port))}, "configured"))
		return nil
	}
	if !discovery.IsHostName(host) {
		return fmt.Errorf("%q is neither an address nor a host name", host)
	}
	s.names = append(s.names, name{entry, host, uint16(port)})
	return nil
}

// Name returns "static".
func (*Source) Name() string { return "static" }

// lookUpSoon makes Run look all names up now, or right after the look-up that is in progress. It
// returns at once.
func (s *Source) lookUpSoon() {
	select {
	case s.refresh <- struct{}{}:
	default: // one is already due
	}
}

// Reconfirm looks the names up now if key is one of them, so that a host that moved is found
// sooner. Addresses need no look-up.
func (s *Source) Reconfirm(key string) {
	if slices.ContainsFunc(s.names, func(n name) bool { return n.entry == key }) {
		s.lookUpSoon()
	}
}

// Health returns the error of the first entry that cannot be looked up now, or nil.
func (s *Source) Health() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.names {
		if err := s.errs[n.entry]; err != nil {
			return fmt.Errorf("static: looking up peer %q: %w; check the name, or write its address", n.entry, err)
		}
	}
	return nil
}

// Run reports the addresses at once, then the names as they are looked up and when their addresses
// change, until ctx ends. It always returns nil.
func (s *Source) Run(ctx context.Context, report func(discovery.Sighting)) error {
	for _, sg := range s.fixed {
		if ctx.Err() != nil {
			return nil
		}
		report(sg)
	}
	s.mu.Lock()
	clear(s.last)
	s.mu.Unlock()
	turn := time.NewTicker(s.cfg.Every)
	defer turn.Stop()
	for {
		s.lookUpAll(ctx, report)
		// A failed dial asks for a look-up; many failed dials a second must not ask the name server as often.
		if !sleep(ctx, min(time.Second, s.cfg.Every)) {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-turn.C:
		case <-s.refresh:
		}
	}
}

// answer is the result of one look-up.
type answer struct {
	name
	addrs []netip.AddrPort
	err   error
}

// lookUpAll looks all names up concurrently and reports those that changed, as the answers come.
func (s *Source) lookUpAll(ctx context.Context, report func(discovery.Sighting)) {
	answers := make(chan answer, len(s.names))
	var looking sync.WaitGroup
	defer looking.Wait()
	for _, n := range s.names {
		looking.Go(func() { answers <- s.lookUp(ctx, n) })
	}
	for range s.names {
		a := <-answers
		if ctx.Err() != nil {
			return
		}
		if s.changed(a) {
			report(s.sighting(a.entry, a.addrs, "looked up"))
		}
	}
}

// lookUp looks one name up within Config.Timeout and keeps at most discovery.MaxAddrs addresses. No
// address is an error.
func (s *Source) lookUp(ctx context.Context, n name) answer {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	ips, err := s.cfg.Resolver.LookupNetIP(ctx, "ip", n.host)
	a := answer{name: n, err: err}
	for _, ip := range ips {
		addr := netip.AddrPortFrom(ip.Unmap(), n.port)
		if !slices.Contains(a.addrs, addr) && len(a.addrs) < discovery.MaxAddrs {
			a.addrs = append(a.addrs, addr)
		}
	}
	if err == nil && len(a.addrs) == 0 {
		a.err = fmt.Errorf("no addresses")
	}
	return a
}

// changed stores an answer and reports whether its addresses are new. Their order does not count,
// because name servers rotate it. A failed look-up changes nothing but Health: the peer may still
// be there.
func (s *Source) changed(a answer) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.errs[a.entry]
	s.errs[a.entry] = a.err
	if a.err != nil {
		if was == nil {
			s.cfg.Logger.Warn("peer's name was not found", "peer", a.entry, "err", a.err)
		}
		return false
	}
	now := slices.SortedFunc(slices.Values(a.addrs), netip.AddrPort.Compare)
	if slices.Equal(s.last[a.entry], now) {
		return false
	}
	s.last[a.entry] = now
	return true
}

func (s *Source) sighting(entry string, addrs []netip.AddrPort, why string) discovery.Sighting {
	return discovery.Sighting{Source: s.Name(), Key: entry, Addrs: addrs, Why: why}
}

// sleep waits for d. It returns false when ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
