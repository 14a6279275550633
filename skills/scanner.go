package skills

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Scanner scans again and again, and reads only what has changed. When an edit breaks a skill, it keeps
// the last version that was in order. Any number of goroutines may call it: one scan runs at a time, and
// all who ask meanwhile share the next one, so that what they get was read after they asked.
type Scanner struct {
	cfg  Config
	turn chan struct{} // held by who scans; guards last

	mu      sync.Mutex
	waiting *flight // the scan that has not begun; guarded by mu

	last *survey // nil before the first scan
}

// flight is one scan, and those who wait for it. Its result is set before done is closed.
type flight struct {
	walk    bool // guarded by Scanner.mu
	done    chan struct{}
	catalog Catalog
	err     error
}

// NewScanner returns a scanner that has not read anything yet.
func NewScanner(cfg Config) *Scanner {
	return &Scanner{cfg: cfg.withDefaults(), turn: make(chan struct{}, 1)}
}

// Scan walks the roots and reads each SKILL.md that is new or changed. What it returns and blocks on
// is as with the function Scan.
func (s *Scanner) Scan(ctx context.Context) (Catalog, error) { return s.share(ctx, true) }

// Refresh is Scan for frequent use: it first asks the file system for the times of the files and
// directories that the last scan saw, which takes a tenth of the time, and walks only when one differs.
func (s *Scanner) Refresh(ctx context.Context) (Catalog, error) { return s.share(ctx, false) }

// share takes part in the next scan to begin, and runs it if nobody else does.
func (s *Scanner) share(ctx context.Context, walk bool) (Catalog, error) {
	for {
		f := s.join(walk)
		select {
		case <-f.done:
		case s.turn <- struct{}{}:
			s.lead(ctx, f)
			<-s.turn
		case <-ctx.Done():
			return Catalog{}, fmt.Errorf("wait for a scan for skills: %w", context.Cause(ctx))
		}
		select {
		case <-f.done:
		default:
			continue // the turn came when another flight was next
		}
		if f.err != nil && ctx.Err() == nil {
			continue // only the context of who ran it can have ended it
		}
		return f.catalog, f.err
	}
}

func (s *Scanner) join(walk bool) *flight {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting == nil {
		s.waiting = &flight{done: make(chan struct{})}
	}
	s.waiting.walk = s.waiting.walk || walk
	return s.waiting
}

// lead runs f if it is still the one that waits. The caller has the turn.
func (s *Scanner) lead(ctx context.Context, f *flight) {
	s.mu.Lock()
	if s.waiting != f {
		s.mu.Unlock()
		return // it was led already, and is done
	}
	s.waiting = nil
	walk := f.walk
	s.mu.Unlock()
	defer close(f.done)
	if !walk && s.last != nil && s.last.unchanged(ctx) {
		f.catalog = s.last.catalog
		return
	}
	next, err := s.cfg.survey(ctx, s.last)
	if err != nil {
		f.err = err
		return
	}
	s.last, f.catalog = next, next.catalog
}

// survey is what one scan saw.
type survey struct {
	catalog Catalog
	known   map[string]*known // by the path of the directory
	watched []watched
	at      time.Time // when it began
	reads   int64     // files that were read; the others were known
}

// known is a SKILL.md as it was read.
type known struct {
	canonical string
	reading   reading // without its text
	good      *Skill  // the last version that was in order, when this one is not
}
