package skills

import (
	"context"

	"symbio/skills/format"
)

// Scanner is the registry's own.
type Scanner struct{ own scanner }

func NewScanner(cfg Config) *Scanner { return &Scanner{scanner{cfg: cfg.withDefaults()}} }

func (s *Scanner) Scan(ctx context.Context) (Catalog, error) { return s.own.scan(ctx) }

// Refresh is what the library does between scans: it scans if something has changed.
func (s *Scanner) Refresh(ctx context.Context) (Catalog, error) {
	if s.own.unchanged(ctx) {
		return s.own.last.catalog, nil
	}
	return s.own.scan(ctx)
}

// Work is how much the last scan of s did: the files that it read, and which scan it was.
func (s *Scanner) Work() (reads int64, scan any) {
	if s.own.last == nil {
		return 0, nil
	}
	return s.own.last.reads, s.own.last
}

// Validate is ValidateTree with the reports in a list.
func Validate(dir string, level format.Level) []Report {
	reports := []Report{}
	// Nothing ends it: neither the context nor the function returns an error.
	_ = ValidateTree(context.Background(), dir, format.Policy{Level: level}, func(r Report) error {
		reports = append(reports, r)
		return nil
	})
	return reports
}

// Relations is relations.
func Relations(skills []Skill) []Problem { return relations(skills) }
