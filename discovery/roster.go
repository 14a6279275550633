package discovery

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
)

// Config sets up a Roster. The zero value is usable; it reports nothing.
type Config struct {
	// Self is this node's id. Sightings of it at this node's own addresses (IsOwnAddr) are dropped.
	Self string
	// IsOwnAddr reports whether an address belongs to this node. Sightings of Self at other
	// addresses are passed on: another machine may run with a copy of this node's key. It is called
	// from Run. Default: every address is its own.
	IsOwnAddr func(netip.AddrPort) bool
	// Tag is this node's cluster tag. Sightings that claim another tag are dropped; those without a
	// tag pass, because not every source can know it. Default "": no filter.
	Tag string
	// Report receives each new, changed and gone candidate, serially, from Run. The sources wait
	// while it runs, so it should be quick.
	Report func(Candidate)
	// Status is called, serially, from Run, when a source ended before the context did; err is nil
	// when the source had nothing more to report. The source's candidates stay. Default: it is
	// logged as a warning.
	Status func(source string, err error)
	// Max is how many candidates the roster keeps. Each source has an equal share, so that a flood
	// in one source leaves the others their room. Default 4096: far more than a LAN has, and a few
	// megabytes at most.
	Max int
	// Logger receives what an operator wants to know. Default: silent.
	Logger *slog.Logger
}

// Candidate is a node that may be reachable, as all sources together see it.
type Candidate struct {
	// Key names the candidate: its claimed node id, or else the key its source gave it.
	Key string
	// Node is the claimed node id; "" when no source knows it.
	Node string
	// Addrs are where it may be reached, best first, at most MaxAddrs. Empty when it is gone.
	Addrs []netip.AddrPort
	// URL is the address of a WebSocket at which it may be reached, if it has no Addrs; else "".
	URL string
	// Sources are the names of the sources that see it, in their order.
	Sources []string
	// Gone says that the last source that saw it has lost it.
	Gone bool
}

// Roster merges the sightings of several sources into one Candidate per claimed node, or per key
// where no node is claimed. A candidate is gone only when every source that saw it has lost it. It
// keeps at most Config.Max sightings.
//
// Run owns the merging; mu is there for Failed, which other goroutines call.
type Roster struct {
	cfg Config

	mu      sync.Mutex
	sources []Source // guarded by mu
	// known has the candidates by their key; seen the candidate key of each sighting; counts the
	// number of sightings per source, for its share of Max.
	known      map[string]*record // guarded by mu
	seen       map[origin]string  // guarded by mu
	counts     []int              // guarded by mu
	fullLogged bool               // guarded by mu; a refusal has been logged
}

// origin identifies one sighting: its source (an index into sources) and its key there.
type origin struct {
	source int
	key    string
}

// record is a candidate with the last sighting of each of its origins.
type record struct {
	node      string
	sightings map[origin]Sighting
	addrs     []netip.AddrPort // as last reported
	url       string           // as last reported
	names     []string         // of its sources, as last reported
}

// event is what a source's goroutine sends to Run: a sighting, or the end of the source.
type event struct {
	source   int
	sighting Sighting
	ended    bool
	err      error
}

// NewRoster returns a Roster that does nothing until Run. Zero fields of cfg get their defaults.
func NewRoster(cfg Config) *Roster {
	if cfg.Report == nil {
		cfg.Report = func(Candidate) {}
	}
	if cfg.Max <= 0 {
		cfg.Max = 4096
	}
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	if cfg.IsOwnAddr == nil {
		cfg.IsOwnAddr = func(netip.AddrPort) bool { return true }
	}
	if cfg.Status == nil {
		log := cfg.Logger
		cfg.Status = func(source string, err error) { log.Warn("discovery source ended", "source", source, "err", err) }
	}
	return &Roster{cfg: cfg, known: map[string]*record{}, seen: map[origin]string{}}
}

// Run runs the sources and reports candidates until ctx ends. It returns nil after all sources have
// ended. Sources are given in order of trust: the addresses of an earlier one come first. A source
// that ends does not stop the others.
//
// Run may be called once; a second call returns an error.
func (r *Roster) Run(ctx context.Context, sources ...Source) error {
	r.mu.Lock()
	if r.sources != nil {
		r.mu.Unlock()
		return errors.New("discovery: this roster has already been run; make a new one")
	}
	r.sources = append([]Source{}, sources...)
	r.counts = make([]int, len(sources))
	r.mu.Unlock()

	events := make(chan event) // unbuffered: a source waits while Report works, and nothing piles up
	hand := func(e event) {
		select {
		case events <- e:
		case <-ctx.Done():
		}
	}
	var running sync.WaitGroup
	defer running.Wait()
	for i, s := range sources {
		running.Go(func() {
			err := s.Run(ctx, func(sg Sighting) { hand(event{source: i, sighting: sg}) })
			hand(event{source: i, ended: true, err: err})
		})
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case e := <-events:
			r.handle(e)
		}
	}
}

// Failed tells the sources that a candidate could not be dialed. Sources that are Reconfirmers then
// check the peer and report it gone if it does not answer. It returns at once, may be called
// concurrently and from Report, and ignores unknown keys.
func (r *Roster) Failed(key string) {
	r.mu.Lock()
	var ask []func()
	if rec := r.known[key]; rec != nil {
		for o := range rec.sightings {
			if s, ok := r.sources[o.source].(Reconfirmer); ok {
				ask = append(ask, func() { s.Reconfirm(o.key) })
			}
		}
	}
	r.mu.Unlock()
	for _, f := range ask {
		f()
	}
}

// handle processes one event of a source. Report and Status are called without r.mu, because they
// may call Failed.
func (r *Roster) handle(e event) {
	if e.ended {
		r.cfg.Status(r.sources[e.source].Name(), e.err)
		return
	}
	for _, c := range r.merge(e.source, e.sighting) {
		r.cfg.Report(c)
	}
}

// merge applies one sighting and returns the changed candidates: at most the one it belonged to
// before and the one it belongs to now, which differ when a source learns a peer's node id.
func (r *Roster) merge(source int, s Sighting) []Candidate {
	r.mu.Lock()
	defer r.mu.Unlock()
	from := origin{source, s.Key}
	s.Addrs = usable(s.Addrs)
	if s.Node != "" && s.Node == r.cfg.Self {
		s.Addrs = slices.DeleteFunc(s.Addrs, r.cfg.IsOwnAddr)
	}
	key := s.Node
	key = cmp.Or(key, s.Key)
	if r.isOtherCluster(s) || len(s.Addrs) == 0 && s.URL == "" {
		s.Gone = true
	}
	var changed []Candidate
	if was, ok := r.seen[from]; ok && (s.Gone || was != key) {
		changed = append(changed, r.remove(from, was)...)
	}
	if s.Gone || key == "" {
		return changed
	}
	return append(changed, r.add(from, key, s)...)
}

// isOtherCluster reports whether a sighting claims another cluster, whose nodes would refuse this
// one.
func (r *Roster) isOtherCluster(s Sighting) bool {
	return s.Tag != "" && r.cfg.Tag != "" && s.Tag != r.cfg.Tag
}

// remove deletes the sighting from of candidate key. The candidate is gone with its last sighting.
// The caller holds r.mu.
func (r *Roster) remove(from origin, key string) []Candidate {
	rec := r.known[key]
	delete(r.seen, from)
	delete(rec.sightings, from)
	r.counts[from.source]--
	r.fullLogged = false
	if len(rec.sightings) == 0 {
		delete(r.known, key)
		return []Candidate{{Key: key, Node: rec.node, Gone: true}}
	}
	return r.changes(key, rec)
}

// add stores a sighting under candidate key. A sighting over its source's share is ignored and
// logged. The caller holds r.mu.
func (r *Roster) add(from origin, key string, s Sighting) []Candidate {
	if _, ok := r.seen[from]; !ok {
		if r.counts[from.source] >= r.cfg.Max/max(1, len(r.sources)) {
			r.logFull(from.source)
			return nil
		}
		r.counts[from.source]++
		r.seen[from] = key
	}
	rec := r.known[key]
	if rec == nil {
		rec = &record{node: s.Node, sightings: map[origin]Sighting{}}
		r.known[key] = rec
	}
	rec.sightings[from] = s
	return r.changes(key, rec)
}

// logFull logs once that a source is over its share, until room appears again: a flood must not
// fill the log.
func (r *Roster) logFull(source int) {
	if !r.fullLogged {
		r.fullLogged = true
		r.cfg.Logger.Warn("too many candidates, new ones are ignored", "source", r.sources[source].Name(), "max", r.cfg.Max)
	}
}

// changes returns the candidate if its addresses or sources differ from what was last reported,
// else nothing. The caller holds r.mu.
func (r *Roster) changes(key string, rec *record) []Candidate {
	from := rec.origins()
	addrs, url, names := rec.mergedAddrs(from), "", r.names(from)
	for _, o := range from {
		url = cmp.Or(url, rec.sightings[o].URL)
	}
	if slices.Equal(addrs, rec.addrs) && url == rec.url && slices.Equal(names, rec.names) {
		return nil
	}
	rec.addrs, rec.url, rec.names = addrs, url, names
	return []Candidate{{Key: key, Node: rec.node, Addrs: slices.Clone(addrs), URL: url, Sources: slices.Clone(names)}}
}

// names returns the names of the sources of the given origins, each once, in order.
func (r *Roster) names(from []origin) (out []string) {
	for _, o := range from {
		if name := r.sources[o.source].Name(); !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

// origins returns the origins of the record's sightings, the more trusted source first. The order
// is total, so that equal sightings give equal candidates.
func (rec *record) origins() []origin {
	from := make([]origin, 0, len(rec.sightings))
	for o := range rec.sightings {
		from = append(from, o)
	}
	slices.SortStableFunc(from, func(a, b origin) int {
		return cmp.Or(cmp.Compare(a.source, b.source), cmp.Compare(a.key, b.key))
	})
	return from
}

// mergedAddrs takes one address of each source in turn: first the best of each, then the second
// best, up to MaxAddrs. So a source that was fed many false addresses cannot push out the addresses of
// another.
func (rec *record) mergedAddrs(from []origin) []netip.AddrPort {
	var out []netip.AddrPort
	for turn := range MaxAddrs {
		for _, o := range from {
			addrs := rec.sightings[o].Addrs
			if turn < len(addrs) && !slices.Contains(out, addrs[turn]) && len(out) < MaxAddrs {
				out = append(out, addrs[turn])
			}
		}
	}
	return out
}

// usable returns at most MaxAddrs addresses that can be dialed at all, without duplicates.
func usable(addrs []netip.AddrPort) []netip.AddrPort {
	var out []netip.AddrPort
	for _, a := range addrs {
		ip := a.Addr().Unmap()
		if !ip.IsValid() || ip.IsUnspecified() || ip.IsMulticast() || a.Port() == 0 {
			continue
		}
		if a = netip.AddrPortFrom(ip, a.Port()); !slices.Contains(out, a) && len(out) < MaxAddrs {
			out = append(out, a)
		}
	}
	return out
}
