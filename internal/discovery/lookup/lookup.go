// Package lookup is what the discovery sources that ask a name server have in common: entries that
// are looked up again and again; each stands for peers.
//
// A failed look-up removes no peer; only an answer that lists a whole group can. Reports come
// serially from Run. Look-ups are concurrent, so that a slow entry delays no other. Answers are
// hints, like the addresses of any source, and bounded: at most MaxPeers peers.
package lookup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"symbio/discovery"
)

const (
	// MaxPeers bounds the peers of all entries together: one that can be reached is enough.
	MaxPeers = 512
	// maxMisses is how many answers in a row a peer must be missing from to be gone: one answer may
	// come from a name server that is behind.
	maxMisses = 2
	// pause is the least time between two look-ups. A failed dial asks for a look-up; many failed
	// dials a second must not ask the name server as often.
	pause = time.Second
)

// Config sets up a Source.
type Config struct {
	// Source is the name of the source.
	Source string
	// Every is how often entries are looked up again.
	Every time.Duration
	// Timeout bounds one look-up of an entry. Default 5 s: the usual limit of a resolver for one
	// server.
	Timeout time.Duration
	// Advice says what to do about an entry that cannot be looked up.
	Advice string
	// Logger receives failed look-ups, once when they begin to fail. Default: silent.
	Logger *slog.Logger
}

// Entry is one configured entry.
type Entry struct {
	// Text is the entry as configured. It is unique within a Source.
	Text string
	// LookUp adds what a name server knows to an empty answer, until ctx ends.
	LookUp func(ctx context.Context, a *Answer)
}

// Answer is the result of one look-up of an entry.
type Answer struct {
	// Complete means that the whole group was listed: a peer in neither map was missing from it.
	Complete bool
	// Found has the addresses of the peers, by their keys.
	Found map[string][]netip.AddrPort
	// Unsure has the keys that were listed, but whose addresses could not be looked up.
	Unsure map[string]bool
	// Err is why some or all peers are not in Found.
	Err error

	entry string
}

// Source reports the peers that its entries stand for. Its sightings claim no node; the dial shows
// which node is there. All methods may be called concurrently, Run once at a time.
type Source struct {
	cfg     Config
	entries []Entry
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
	misses int
}

var (
	_ discovery.Source      = (*Source)(nil)
	_ discovery.Reconfirmer = (*Source)(nil)
	_ discovery.Healther    = (*Source)(nil)
)

// New returns a Source for the entries. Nothing is looked up before Run.
func New(cfg Config, entries []Entry) *Source {
	if cfg.Timeout <= 0 {
		cfg.Timeout = 5 * time.Second
	}
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	return &Source{cfg: cfg, entries: entries, refresh: make(chan struct{}, 1), known: map[string]*peer{}, errs: map[string]error{}}
}

// Name returns Config.Source.
func (s *Source) Name() string { return s.cfg.Source }

// Reconfirm looks the entries up now, or right after the look-up that is in progress, if key is a
// peer that was found. Unknown keys cost nothing: anyone may be behind a failed dial. It returns at
// once.
func (s *Source) Reconfirm(key string) {
	s.mu.Lock()
	_, ours := s.known[key]
	s.mu.Unlock()
	if !ours {
		return
	}
	select {
	case s.refresh <- struct{}{}:
	default: // one is already due
	}
}

// Health returns the error of the first entry that cannot be looked up or has no peers now, or nil.
func (s *Source) Health() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.entries {
		if err := s.errs[e.Text]; err != nil {
			return fmt.Errorf("%s: looking up %q: %w; %s", s.cfg.Source, e.Text, err, s.cfg.Advice)
		}
	}
	return nil
}

// Run looks the entries up, at once and then every Config.Every or when asked, and reports changes
// until ctx ends. It always returns nil.
func (s *Source) Run(ctx context.Context, report func(discovery.Sighting)) error {
	s.mu.Lock()
	clear(s.known)
	s.mu.Unlock()
	turn := time.NewTicker(s.cfg.Every)
	defer turn.Stop()
	for {
		s.lookUpAll(ctx, report)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(min(pause, s.cfg.Every)):
		}
		select {
		case <-ctx.Done():
			return nil
		case <-turn.C:
		case <-s.refresh:
		}
	}
}

// Once looks the entries up once and returns what Run would report, and the errors, by entry. It
// returns when all entries have been answered or ctx ends.
func (s *Source) Once(ctx context.Context) (peers map[string][]discovery.Sighting, wrong map[string]error) {
	peers = map[string][]discovery.Sighting{}
	s.lookUpAll(ctx, func(sg discovery.Sighting) {
		s.mu.Lock()
		entry := s.known[sg.Key].entry
		s.mu.Unlock()
		peers[entry] = append(peers[entry], sg)
	})
	maps.DeleteFunc(s.errs, func(_ string, err error) bool { return err == nil })
	return peers, s.errs
}

// lookUpAll looks all entries up concurrently and reports what changed, entry by entry as the
// answers come.
func (s *Source) lookUpAll(ctx context.Context, report func(discovery.Sighting)) {
	answers := make(chan *Answer, len(s.entries))
	var looking sync.WaitGroup
	defer looking.Wait()
	for _, e := range s.entries {
		looking.Go(func() { answers <- s.lookUp(ctx, e) })
	}
	for range s.entries {
		a := <-answers
		for _, sg := range s.update(ctx, a) {
			if ctx.Err() != nil {
				return
			}
			report(sg)
		}
	}
}

// lookUp looks one entry up within Config.Timeout. An answer without any peer is an error for
// Health, though it is complete.
func (s *Source) lookUp(ctx context.Context, e Entry) *Answer {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	a := &Answer{entry: e.Text, Found: map[string][]netip.AddrPort{}, Unsure: map[string]bool{}}
	e.LookUp(ctx, a)
	if a.Err == nil && len(a.Found) == 0 {
		a.Err = errors.New("it has no records")
	}
	return a
}

// update applies an answer and returns the sightings to report. Once ctx has ended an answer says
// nothing.
func (s *Source) update(ctx context.Context, a *Answer) []discovery.Sighting {
	if ctx.Err() != nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if a.Err != nil && s.errs[a.entry] == nil {
		s.cfg.Logger.Warn("name was not found", "name", a.entry, "err", a.Err)
	}
	s.errs[a.entry] = a.Err
	changes := s.countMisses(a) // first, so that who left makes room
	for _, key := range slices.Sorted(maps.Keys(a.Found)) {
		if s.recordPeer(key, a.entry, a.Found[key]) {
			changes = append(changes, discovery.Sighting{Source: s.cfg.Source, Key: key, Addrs: a.Found[key], Why: "looked up"})
		}
	}
	return changes
}

// countMisses counts the peers of an entry that a complete answer did not list, and returns those
// that are gone after maxMisses of them. The caller holds s.mu.
func (s *Source) countMisses(a *Answer) (gone []discovery.Sighting) {
	if !a.Complete {
		return nil
	}
	for _, key := range slices.Sorted(maps.Keys(s.known)) {
		p := s.known[key]
		if _, there := a.Found[key]; p.entry != a.entry || there || a.Unsure[key] {
			continue
		}
		if p.misses++; p.misses >= maxMisses {
			delete(s.known, key)
			s.fullLogged = false
			gone = append(gone, discovery.Sighting{Source: s.cfg.Source, Key: key, Gone: true, Why: "no longer listed"})
		}
	}
	return gone
}

// recordPeer stores a peer and reports whether its addresses changed. Their order does not count,
// because name servers rotate it. Over MaxPeers a new peer is ignored and that is logged once. The
// caller holds s.mu.
func (s *Source) recordPeer(key, entry string, addrs []netip.AddrPort) bool {
	now := slices.SortedFunc(slices.Values(addrs), netip.AddrPort.Compare)
	p := s.known[key]
	if p == nil {
		if len(s.known) >= MaxPeers {
			if !s.fullLogged {
				s.fullLogged = true
				s.cfg.Logger.Warn("names list too many peers, the rest is ignored", "name", entry, "max", MaxPeers)
			}
			return false
		}
		p = &peer{entry: entry}
		s.known[key] = p
	}
	p.misses = 0
	if slices.Equal(p.addrs, now) {
		return false
	}
	p.addrs = now
	return true
}

// Dialable returns the addresses with the port, without duplicates and at most discovery.MaxAddrs.
func Dialable(ips []netip.Addr, port uint16) (out []netip.AddrPort) {
	for _, ip := range ips {
		addr := netip.AddrPortFrom(ip.Unmap(), port)
		if ip.IsValid() && !slices.Contains(out, addr) && len(out) < discovery.MaxAddrs {
			out = append(out, addr)
		}
	}
	return out
}
