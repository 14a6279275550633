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

// Config sets up a Roster. The zero value is usable: its reports go nowhere.
type Config struct {
	// Self is this node's id; sightings of it are dropped, as far as Here does not say otherwise.
	Self string
	// Here says whether an address is this node's own. Sightings of Self at other addresses are passed on: somebody
	// with a copy of this node's key may be there. It is called from Run. Default: every address is.
	IsOwnAddr func(netip.AddrPort) bool
	// Tag is this node's cluster tag; sightings that claim another one are dropped. A sighting without a tag passes:
	// not every source can know it. Default "": no filter.
	Tag string
	// Report receives each new, changed and gone candidate, serially, from Run. While it works the sources wait.
	Report func(Candidate)
	// Status is told, serially, from Run, when a source ended although it was not asked to; err is nil when it has
	// said all it had to say. Its candidates stay. Default: logged as a warning.
	Status func(source string, err error)
	// Max is how many candidates the roster holds; each source has an equal share of it, so that a flood in one
	// leaves the others their room. Default 4096: far above any LAN, a few megabytes at the most.
	Max int
	// Logger receives what a person would want to know. Default: silent.
	Logger *slog.Logger
}

// Candidate is a node that may be reachable: the merged view of all sources.
type Candidate struct {
	// Key names the candidate: its claimed node id, or else the key its source gave it.
	Key string
	// Node is the claimed node id; "" when no source knows it.
	Node string
	// Addrs are where it may be reached, best first, at most MaxAddrs. Empty when it is gone.
	Addrs []netip.AddrPort
	// Sources are the names of the sources that see it, in their order.
	Sources []string
	// Gone says that the last source that saw it has lost it.
	Gone bool
}

// Roster merges the sightings of several sources into one Candidate per claimed node (or per key, where no node is
// claimed). A candidate is gone only when every source that saw it has lost it.
type Roster struct {
	cfg Config

	mu         sync.Mutex
	sources    []Source           // guarded by mu
	known      map[string]*record // guarded by mu; by candidate key
	seen       map[origin]string  // guarded by mu; which candidate a sighting went to
	counts     []int              // guarded by mu; sightings per source
	fullLogged bool               // guarded by mu; a refusal has been logged
}

// origin is one sighting's place: which source, under which key.
type origin struct {
	source int
	key    string
}

// record is a candidate and what its sources last said.
type record struct {
	node      string
	sightings map[origin]Sighting
	addrs     []netip.AddrPort // as last reported
	names     []string         // of its sources, as last reported
}

// event is what a source's goroutine hands to Run: a sighting, or that the source ended.
type event struct {
	source   int
	sighting Sighting
	ended    bool
	err      error
}

// NewRoster returns a Roster that does nothing until Run.
func NewRoster(cfg Config) *Roster {
	if cfg.Report == nil {
		cfg.Report = func(Candidate) {}
	}
	if cfg.Max <= 0 {
		cfg.Max = 4096
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.IsOwnAddr == nil {
		cfg.IsOwnAddr = func(netip.AddrPort) bool { return true }
	}
	if cfg.Status == nil {
		log := cfg.Logger
		cfg.Status = func(source string, err error) { log.Warn("discovery source ended", "source", source, "err", err) }
	}
	return &Roster{cfg: cfg, known: map[string]*record{}, seen: map[origin]string{}}
}

// Run runs the sources and reports candidates until ctx ends, and returns nil when all of them have ended. The earlier
// of two sources is the better one: its addresses come first. A source that ends does not stop the others. Run is
// called once; a second call is an error.
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

// Failed tells the sources that a candidate could not be dialled: those that can, ask for it again, and report it gone
// when it does not answer. It returns at once, may be called concurrently and from Report, and ignores a key that is
// not known.
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

// Refresh asks the sources that can to look again now. It returns at once and may be called concurrently.
func (r *Roster) Refresh() {
	r.mu.Lock()
	sources := r.sources
	r.mu.Unlock()
	for _, s := range sources {
		if s, ok := s.(Refresher); ok {
			s.Refresh()
		}
	}
}

func (r *Roster) handle(e event) {
	if e.ended {
		r.cfg.Status(r.sources[e.source].Name(), e.err)
		return
	}
	for _, c := range r.merge(e.source, e.sighting) {
		r.cfg.Report(c)
	}
}

// merge takes in one sighting and returns what changed: at most the candidate it left and the one it went to.
func (r *Roster) merge(source int, s Sighting) []Candidate {
	r.mu.Lock()
	defer r.mu.Unlock()
	from := origin{source, s.Key}
	s.Addrs = usable(s.Addrs)
	if s.Node != "" && s.Node == r.cfg.Self {
		s.Addrs = slices.DeleteFunc(s.Addrs, r.cfg.IsOwnAddr)
	}
	key := s.Node
	if key == "" {
		key = s.Key
	}
	if r.isOtherCluster(s) || len(s.Addrs) == 0 {
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

// isOtherCluster reports whether a sighting is of a node that this node would not talk to.
func (r *Roster) isOtherCluster(s Sighting) bool {
	return s.Tag != "" && r.cfg.Tag != "" && s.Tag != r.cfg.Tag
}

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

func (r *Roster) logFull(source int) {
	if !r.fullLogged {
		r.fullLogged = true
		r.cfg.Logger.Warn("too many candidates, new ones are ignored", "source", r.sources[source].Name(), "max", r.cfg.Max)
	}
}

// changes returns the candidate if its addresses or sources are not what was last reported.
func (r *Roster) changes(key string, rec *record) []Candidate {
	from := rec.origins()
	addrs, names := rec.mergedAddrs(from), r.names(from)
	if slices.Equal(addrs, rec.addrs) && slices.Equal(names, rec.names) {
		return nil
	}
	rec.addrs, rec.names = addrs, names
	return []Candidate{{Key: key, Node: rec.node, Addrs: slices.Clone(addrs), Sources: slices.Clone(names)}}
}

// names returns the names of the sources of sightings, each once.
func (r *Roster) names(from []origin) (out []string) {
	for _, o := range from {
		if name := r.sources[o.source].Name(); !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

// origins returns where the record's sightings come from, the better source first.
func (rec *record) origins() []origin {
	from := make([]origin, 0, len(rec.sightings))
	for o := range rec.sightings {
		from = append(from, o)
	}
	slices.SortFunc(from, func(a, b origin) int {
		return cmp.Or(cmp.Compare(a.source, b.source), cmp.Compare(a.key, b.key))
	})
	return from
}

// mergedAddrs takes turns: the best address of each source in the order of the sources, then the second best, so that no
// source, however many addresses it was made to believe, pushes out those of another.
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

// usable returns at most MaxAddrs addresses that can be dialled at all.
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
