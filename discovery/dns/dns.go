// Package dns is a discovery source for DNS names that stand for a group of nodes: a Kubernetes
// headless service, or a zone that lists the nodes of a site.
//
// An SRV name ("_symbio._tcp.example") yields a peer for each target, with the port of the record;
// "name:port" yields a peer for each address. Each answer of the name server is taken as the whole
// group. Names are looked up every Config.Every; a peer that is missing from two complete answers
// in a row is gone.
//
// A failed look-up removes no peer; only an answer can, and "no records" is an answer. Reports come
// serially from Run. Look-ups are concurrent, so that a slow name delays no other. The answers are
// hints, like those of any source, and bounded: at most 512 peers.
//
// DNS-SD browsing (PTR records) and multicast are not done here; see discovery/mdns.
package dns

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"symbio/discovery"
)

const (
	// maxNames bounds the entries: each stands for a whole group.
	maxNames = 64
	// maxPeers bounds the peers of all entries together: one that can be reached is enough.
	maxPeers = 512
	// maxMisses is how many answers in a row a peer must be missing from to be gone: one answer may come from a name
	// server that is behind.
	maxMisses = 2
)

// Resolver looks names up; *net.Resolver implements it. LookupSRV is called with an empty service
// and proto, so that name is used as it is. The methods are called concurrently.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
	LookupSRV(ctx context.Context, service, proto, name string) (cname string, records []*net.SRV, err error)
}

// Config sets up a Source. The zero value is usable: it has no names.
type Config struct {
	// Names are "_symbio._tcp.example" entries for SRV records, and "name:port" entries for A and AAAA records.
	Names []string
	// Every is how often names are looked up again. Default 10 s: a cluster's name server changes
	// within seconds, and one query in ten seconds is no load for it.
	Every time.Duration
	// Timeout bounds one look-up, including the targets of an SRV name. Default 5 s: the usual
	// limit of a resolver for one server.
	Timeout time.Duration
	// Resolver looks the names up. Default: net.DefaultResolver.
	Resolver Resolver
	// Logger receives failed look-ups, once when they begin to fail. Default: silent.
	Logger *slog.Logger
}

// Source reports the peers that the configured names stand for. Its sightings claim no node; the
// dial shows which node is there. All methods may be called concurrently, Run once at a time.
type Source struct {
	cfg     Config
	entries []entry
	refresh chan struct{}

	mu         sync.Mutex
	known      map[string]*peer // guarded by mu; by key
	errs       map[string]error // guarded by mu; what is wrong now, by entry
	fullLogged bool             // guarded by mu; a refusal has been logged
}

// peer is a peer as last reported.
type peer struct {
	entry string
	addrs []netip.AddrPort // sorted
	// misses is how many complete answers in a row did not list it.
	misses int // answers in a row that it was missing from
}

var (
	_ discovery.Source      = (*Source)(nil)
	_ discovery.Reconfirmer = (*Source)(nil)
	_ discovery.Healther    = (*Source)(nil)
)

// New returns a Source for cfg.Names. It returns an error for a name of neither form and for more
// than maxNames names. Nothing is looked up before Run.
func New(cfg Config) (*Source, error) {
	if cfg.Every <= 0 {
		cfg.Every = 10 * time.Second
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
	if len(cfg.Names) > maxNames {
		return nil, fmt.Errorf("dns: %d names are configured, at most %d make sense: each stands for a whole group", len(cfg.Names), maxNames)
	}
	s := &Source{cfg: cfg, refresh: make(chan struct{}, 1), known: map[string]*peer{}, errs: map[string]error{}}
	for i, text := range cfg.Names {
		if slices.Contains(cfg.Names[:i], text) {
			continue
		}
		e, err := parse(text)
		if err != nil {
			return nil, fmt.Errorf("dns: name %q: %w", text, err)
		}
		s.entries = append(s.entries, e)
	}
	return s, nil
}

// Name returns "dns".
func (*Source) Name() string { return "dns" }

// lookUpSoon makes Run look all names up now, or right after the look-up that is in progress. It
// returns at once.
func (s *Source) lookUpSoon() {
	select {
	case s.refresh <- struct{}{}:
	default: // one is already due
	}
}

// Reconfirm looks the names up now if key is a peer that was found. Unknown keys cost nothing:
// anyone may be behind a failed dial.
func (s *Source) Reconfirm(key string) {
	s.mu.Lock()
	_, ours := s.known[key]
	s.mu.Unlock()
	if ours {
		s.lookUpSoon()
	}
}

// Health returns the error of the first configured name that cannot be looked up or has no peers
// now, or nil.
func (s *Source) Health() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.entries {
		if err := s.errs[e.text]; err != nil {
			return fmt.Errorf("dns: looking up %q: %w; check the name, and that this machine's name server knows it", e.text, err)
		}
	}
	return nil
}

// Run looks the names up, at once and then every Config.Every or when asked, and reports changes
// until ctx ends. It always returns nil.
func (s *Source) Run(ctx context.Context, report func(discovery.Sighting)) error {
	s.mu.Lock()
	clear(s.known)
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

// lookUpAll looks all names up concurrently and reports what changed, name by name as the answers
// come.
func (s *Source) lookUpAll(ctx context.Context, report func(discovery.Sighting)) {
	answers := make(chan answer, len(s.entries))
	var looking sync.WaitGroup
	defer looking.Wait()
	for _, e := range s.entries {
		looking.Go(func() { answers <- s.lookUp(ctx, e) })
	}
	for range s.entries {
		a := <-answers
		if ctx.Err() != nil {
			return
		}
		for _, sg := range s.update(a) {
			if ctx.Err() != nil {
				return
			}
			report(sg)
		}
	}
}

// update applies an answer and returns the sightings to report. Peers that are gone are counted
// first, so that they make room.
func (s *Source) update(a answer) []discovery.Sighting {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.recordError(a)
	changes := s.countMisses(a) // first, so that who left makes room
	for _, key := range slices.Sorted(maps.Keys(a.found)) {
		if s.recordPeer(key, a.entry.text, a.found[key]) {
			changes = append(changes, discovery.Sighting{Source: s.Name(), Key: key, Addrs: a.found[key], Why: "looked up"})
		}
	}
	return changes
}

// countMisses counts the peers of an entry that a complete answer did not list, and returns those
// that are gone after maxMisses of them. The caller holds s.mu.
func (s *Source) countMisses(a answer) (gone []discovery.Sighting) {
	if !a.complete {
		return nil
	}
	for _, key := range slices.Sorted(maps.Keys(s.known)) {
		p := s.known[key]
		if _, there := a.found[key]; p.entry != a.entry.text || there || a.unsure[key] {
			continue
		}
		if p.misses++; p.misses >= maxMisses {
			delete(s.known, key)
			s.fullLogged = false
			gone = append(gone, discovery.Sighting{Source: s.Name(), Key: key, Gone: true, Why: "no longer listed"})
		}
	}
	return gone
}

// recordError stores the state of an entry for Health, and logs an error when it is new. The caller
// holds s.mu.
func (s *Source) recordError(a answer) {
	was := s.errs[a.entry.text]
	s.errs[a.entry.text] = a.err
	if a.err != nil && was == nil {
		s.cfg.Logger.Warn("name was not found", "name", a.entry.text, "err", a.err)
	}
}

// recordPeer stores a peer and reports whether its addresses changed. Their order does not count,
// because name servers rotate it. Over maxPeers a new peer is ignored and that is logged once. The
// caller holds s.mu.
func (s *Source) recordPeer(key, from string, addrs []netip.AddrPort) bool {
	now := slices.SortedFunc(slices.Values(addrs), netip.AddrPort.Compare)
	p := s.known[key]
	if p == nil {
		if len(s.known) >= maxPeers {
			if !s.fullLogged {
				s.fullLogged = true
				s.cfg.Logger.Warn("names list too many peers, the rest is ignored", "name", from, "max", maxPeers)
			}
			return false
		}
		p = &peer{entry: from}
		s.known[key] = p
	}
	p.misses = 0
	if slices.Equal(p.addrs, now) {
		return false
	}
	p.addrs = now
	return true
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
