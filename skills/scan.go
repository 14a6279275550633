package skills

import (
	"cmp"
	"context"
	"io/fs"
	"log/slog"
	"slices"
	"time"

	"symbio/skills/format"
)

// Config sets up a Registry or a Scan. The zero value is usable: no skills.
type Config struct {
	// Roots are searched in the order of their scopes; StandardRoots computes the usual ones.
	Roots []Root
	// Bundled holds the program's own skills, a directory each. Default: none.
	Bundled fs.FS
	// Trust answers whether a person trusts a skill that grants nothing by itself: a project's own,
	// or one of another node. Default: no skill is trusted.
	Trust Trust
	// Policy is how strictly skills are read. Default: level Standard.
	Policy format.Policy
	// MaxDepth, MaxDirs and MaxEntries limit the search of one root: the depth below it, the
	// directories without a skill, and the entries (16 more for each skill that is found). Default:
	// 6, 2000, 20000. That is more than any known collection needs, and ends the search of a root
	// like / within a second.
	MaxDepth, MaxDirs, MaxEntries int
	// MaxSkills limits the skills of one root. Default: 20000, with which a catalog takes 40 MB.
	MaxSkills int
	// Choices are the skills that a person has switched off or restricted.
	Choices Choices
	// Duplicates selects what a name means that several skills have. Default: ErrAmbiguous.
	Duplicates Duplicates
	// MaxActive is the largest number of active skills of one agent. Default 16: as many whole
	// texts of the recommended 5,000 tokens are half of a usual context.
	MaxActive int
	// GrantTTL is how long an activated skill stays active. Default: GrantSession.
	GrantTTL GrantTTL
	// Fresh is how long Refresh trusts its last look at the disk. Default 2s: a person who has just
	// saved a file is not faster, and agents that start together cause one look.
	Fresh time.Duration
	// Report is called for each change, in order, from the actor's goroutine. It must not block,
	// nor call the Registry. Default: no report.
	Report func(Event)
	// Name is the name of the registry's actor. Default: "skills".
	Name string
	// Logger receives the results of scans. Default: silent.
	Logger *slog.Logger
}

// withDefaults returns c with the defaults filled in.
func (c Config) withDefaults() Config {
	c.MaxDepth = cmp.Or(c.MaxDepth, 6)
	c.MaxDirs = cmp.Or(c.MaxDirs, 2000)
	c.MaxEntries = cmp.Or(c.MaxEntries, 20000)
	c.MaxSkills = cmp.Or(c.MaxSkills, 20000)
	c.Name = cmp.Or(c.Name, "skills")
	c.Duplicates = cmp.Or(c.Duplicates, DuplicatesAmbiguous)
	c.MaxActive = cmp.Or(c.MaxActive, 16)
	c.Fresh = cmp.Or(c.Fresh, 2*time.Second)
	c.GrantTTL = cmp.Or(c.GrantTTL, GrantSession)
	if c.Report == nil {
		c.Report = func(Event) {}
	}
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	return c
}

// orderedRoots returns the roots in the order in which they are searched.
func (c Config) orderedRoots() []Root {
	roots := slices.Concat(c.Roots, fetchedRoots(c.Trust))
	slices.SortStableFunc(roots, func(a, b Root) int { return cmp.Compare(a.Scope.rank(), b.Scope.rank()) })
	return roots
}

// Scan finds all skills and reads their front matter. It never fails because of a skill: skills
// that cannot be read are in Catalog.Errors. The error comes from ctx, which ends a scan early. It
// reads the disk and can block on it.
func Scan(ctx context.Context, cfg Config) (Catalog, error) {
	return (&scanner{cfg: cfg.withDefaults()}).scan(ctx)
}
