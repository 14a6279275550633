package skills

import (
	"context"
	"time"

	"symbio/internal/skills/walk"
)

// scanner scans repeatedly, and reads only the files that have changed. If an edit breaks a skill,
// it keeps the last good version. Only one goroutine at a time may use it.
type scanner struct {
	cfg  Config
	last *scanResult // nil before the first scan
}

// scan walks the roots and reads each SKILL.md that is new or changed.
func (s *scanner) scan(ctx context.Context) (Catalog, error) {
	next, err := s.cfg.survey(ctx, s.last)
	if err != nil {
		return Catalog{}, err
	}
	s.last = next
	return next.catalog, nil
}

// unchanged reports whether a scan would find what the last one did: it compares the times of the
// files and directories that the last one saw, which takes a tenth of the time.
func (s *scanner) unchanged(ctx context.Context) bool { return s.last != nil && s.last.unchanged(ctx) }

// scanResult is the result of one scan, with what the next one needs to read only changed files.
type scanResult struct {
	catalog Catalog
	known   map[string]*knownSkill // by the path of the directory
	watched []walk.WatchedPath
	at      time.Time // when it began
	reads   int64     // files that were read; the others were known
}

// knownSkill is a SKILL.md as it was last read.
type knownSkill struct {
	canonical string
	reading   loadResult // without its text
	good      *Skill     // the last version that was in order, when this one is not
}
