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
	// Trust is asked about the skills that grant nothing by themselves: a project's own, and those of other
	// nodes. Default: nobody has trusted any.
	Trust Trust
	// Policy is how skills are read. Default: level Standard.
	Policy format.Policy
	// MaxDepth, MaxDirs and MaxEntries bound the search of one root: how deep below it, how many
	// directories without a skill are opened, how many entries are looked at (for each skill that is
	// found, 16 more). Default: 6, 2000, 20000, which is more than any known collection needs and stops
	// at a root like / within a second.
	MaxDepth, MaxDirs, MaxEntries int
	// MaxSkills bounds the skills of one root. Default: 20000, with which a catalog takes 40 MB.
	MaxSkills int
	// Choices say which skills are off, or not for models.
	Choices Choices
	// Duplicates says what a name means that several skills have. Default: nothing, ErrAmbiguous.
	Duplicates Duplicates
	// MaxActive is how many skills an agent may have at a time. Default 16: as many whole texts, of the
	// 5,000 tokens that the specification recommends at most, are half of a usual context.
	MaxActive int
	// GrantTTL is how long a skill that was taken stays active. Default: GrantSession.
	GrantTTL GrantTTL
	// IncludeFrontMatter hands out a SKILL.md whole, not only the text below its front matter.
	IncludeFrontMatter bool
	// Fresh is how long Refresh takes what it knows for true. Default 2s: a person who has just saved a file is not
	// quicker, and agents that start together look once.
	Fresh time.Duration
	// Report gets each change, in order, from the actor's goroutine: it must not block, nor call the
	// Registry. Default: nobody.
	Report func(Event)
	// Name is the actor's. Default: "skills".
	Name string
	// Logger receives what a scan found and left out. Default: silent.
	Logger *slog.Logger
}

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
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// ordered are the roots in the order in which they are searched.
func (c Config) ordered() []Root {
	roots := slices.Concat(c.Roots, fetched(c.Trust))
	slices.SortStableFunc(roots, func(a, b Root) int { return cmp.Compare(a.Scope.rank(), b.Scope.rank()) })
	return roots
}

// Scan finds all skills and reads their front matter. It never fails as a whole: skills that cannot
// be read are in Catalog.Errors. The error is that of ctx, which ends a scan early. It reads the
// disk, and may block as long as that does.
func Scan(ctx context.Context, cfg Config) (Catalog, error) {
	return (&scanner{cfg: cfg.withDefaults()}).scan(ctx)
}
