package retry

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"symbio/internal/actor/backoff"
)

// Book remembers how the models of a node did, for all requests to them: what one agent learnt of a server, all know. The
// zero value knows nothing yet. It is safe for concurrent use and must not be copied.
type Book struct {
	mu      sync.Mutex
	servers map[string]*server // by the name of the model; guarded by mu
}

// maxServers is how many models a Book remembers: the names of models of other nodes are made by agents.
const maxServers = 1024

// server returns what is known of the model of that name.
func (b *Book) server(name string) *server {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s := b.servers[name]; s != nil {
		return s
	}
	if len(b.servers) >= maxServers {
		maps.DeleteFunc(b.servers, func(_ string, s *server) bool { return s.idle() })
	}
	if b.servers == nil {
		b.servers = map[string]*server{}
	}
	s := &server{changed: make(chan struct{})}
	b.servers[name] = s
	return s
}

// server is what is known of one model and the server that has it. Its fields are guarded by mu.
type server struct {
	mu       sync.Mutex
	busy     int              // requests that are being answered
	failures int              // in a row
	failedAt time.Time        // the last of them
	why      error            // the last failure, nil after an answer
	pause    time.Time        // it is not asked before
	avoid    time.Time        // it is asked after the others of a list before
	reached  bool             // it has answered at all, if only with an error
	trying   bool             // a request finds out whether it works again; the others wait
	changed  chan struct{}    // closed when trying ends
	silences [8]time.Duration // before the latest answers began
	answers  int              // that have begun
	forms    forms            // of the tools that it did not take as they are
}

// Health is what a Book knows of a model that failed, or refused, and has not answered since.
type Health struct {
	Model string
	// Wait and Avoid are how long it is not asked, and asked after the others of a list.
	Wait, Avoid time.Duration
	Failures    int // in a row
	Err         error
}

// Health returns the models that do not do well now, sorted by name.
func (b *Book) Health() (list []Health) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	for _, name := range slices.Sorted(maps.Keys(b.servers)) {
		s := b.servers[name]
		s.mu.Lock()
		h := Health{name, max(0, s.pause.Sub(now)), max(0, s.avoid.Sub(now)), s.failures, s.why}
		s.mu.Unlock()
		if h.Err != nil && (h.Failures > 0 || h.Avoid > 0) {
			list = append(list, h)
		}
	}
	return list
}

func (s *server) idle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.busy == 0 && s.failures == 0
}

// state is what a request needs to know to choose among servers.
type state struct {
	wait    time.Duration   // until it may be asked
	changed <-chan struct{} // not nil: another request finds out whether it works again, until this is closed
	avoided bool            // others of a list are better
	reached bool
	busy    int
	why     error
}

// state returns the state of the server now.
func (s *server) state(now time.Time) state {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := state{wait: max(0, s.pause.Sub(now)), avoided: now.Before(s.avoid), reached: s.reached, busy: s.busy, why: s.why}
	if st.wait == 0 && s.trying {
		st.changed, st.avoided = s.changed, true
	}
	return st
}

// enter begins a request; nil if another one has changed the state since it was read, or if more than most are being answered.
func (s *server) enter(now time.Time, most int) *visit {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.Before(s.pause) || s.trying || s.busy > most {
		return nil
	}
	s.busy++
	s.trying = s.failures > 0
	return &visit{s, now, s.trying}
}

const (
	// minSilence and maxSilence bound how long a model of several may be silent before another one is asked.
	minSilence, maxSilence = 10 * time.Second, 30 * time.Second
	// resting is how long a model that failed twice in a row, or refused, is asked after the others of a list. maxResting
	// bounds what a server asks for there.
	resting, maxResting = 30 * time.Second, time.Hour
)

// patience is how long the model may be silent before another one is asked: four times as long as the slowest of its latest
// answers took to begin, and at most that long if most is not 0.
func (s *server) patience(most time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	limit := maxSilence
	if s.answers > 0 {
		limit = min(max(4*slices.Max(s.silences[:]), minSilence), maxSilence)
	}
	return cmp.Or(min(limit, most), limit)
}

// visit is one request to a server. One goroutine uses it.
type visit struct {
	*server
	began time.Time
	// tries is set for the request that finds out whether the server works again.
	tries bool
}

// answers notes that the answer begins.
func (v *visit) begin() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.silences[v.answers%len(v.silences)] = time.Since(v.began)
	v.answers++
	v.works()
}

// works notes that the server does its work. v.mu is held.
func (v *visit) works() {
	v.failures, v.why, v.reached, v.avoid = 0, nil, true, time.Time{}
	v.tried()
}

// tried lets the others ask, too. v.mu is held.
func (v *visit) tried() {
	if v.tries {
		v.tries, v.trying = false, false
		close(v.changed)
		v.changed = make(chan struct{})
	}
}

// end ends the request with its error; nil: it was answered.
func (v *visit) end(err error, c Config) {
	v.mu.Lock()
	defer v.mu.Unlock()
	defer v.tried()
	v.busy--
	now, asked := time.Now(), retryAfter(err)
	switch sayOf(err) {
	case works:
		v.works()
	case refuses:
		v.why, v.avoid = err, now.Add(cmp.Or(min(asked, maxResting), resting))
	case fails:
		v.why, v.reached = err, v.reached || !unreached(err)
		if !v.began.Before(v.failedAt) { // requests that failed together are one failure
			v.failures, v.failedAt = v.failures+1, now
		}
		wait := cmp.Or(asked, backoff.Jitter(backoff.Delay(v.failures, c.BackOff, c.MaxBackOff), 2))
		v.pause = later(v.pause, now.Add(wait))
		v.avoid = v.pause
		if v.failures > 1 {
			v.avoid = later(v.pause, now.Add(resting))
		}
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
