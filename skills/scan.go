package skills

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"symbio/skills/format"
)

// Config sets up a Registry or a Scan. The zero value is usable: no skills.
type Config struct {
	// Roots are searched in the order of their scopes; StandardRoots computes the usual ones.
	Roots []Root
	// Bundled holds the program's own skills, a directory each. Default: none.
	Bundled fs.FS
	// Policy is how skills are read. Default: level Standard.
	Policy format.Policy
	// MaxDepth, MaxDirs and MaxEntries bound the search of one root: how deep below it, how many
	// directories are opened, how many of their entries are looked at. Default: 6, 2000, 20000,
	// which is more than any known collection needs and stops at a root like / within a second.
	MaxDepth, MaxDirs, MaxEntries int
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
	// RootsFor says where the skills of another working directory are, for List. Default: nowhere.
	RootsFor func(dir string) []Root
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
	c.Name = cmp.Or(c.Name, "skills")
	c.Duplicates = cmp.Or(c.Duplicates, DuplicatesAmbiguous)
	c.MaxActive = cmp.Or(c.MaxActive, 16)
	c.GrantTTL = cmp.Or(c.GrantTTL, GrantSession)
	if c.RootsFor == nil {
		c.RootsFor = func(string) []Root { return nil }
	}
	if c.Report == nil {
		c.Report = func(Event) {}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// Scan finds all skills and reads their front matter. It never fails as a whole: skills that cannot
// be read are in Catalog.Errors. The error is that of ctx, which ends a scan early. It reads the
// disk, and may block as long as that does.
func Scan(ctx context.Context, cfg Config) (Catalog, error) {
	cfg = cfg.withDefaults()
	g := gather{seen: make(map[string]bool)}
	roots := slices.Clone(cfg.Roots)
	slices.SortStableFunc(roots, func(a, b Root) int { return cmp.Compare(a.Scope.rank(), b.Scope.rank()) })
	for _, root := range roots {
		if err := g.scan(ctx, root, cfg); err != nil {
			return Catalog{}, err
		}
	}
	if cfg.Bundled != nil {
		g.scanBundled(cfg)
	}
	return cfg.Choices.Apply(g.finish()), nil
}

func (g *gather) scan(ctx context.Context, root Root, cfg Config) error {
	w, err := newWalk(root.Path)
	if err != nil {
		if root.Scope == ScopeConfig {
			g.catalog.Notes = append(g.catalog.Notes, Problem{root.Path, []format.Diagnostic{{Code: format.CodeNoDirectory, Severity: format.Warning, Message: err.Error()}}})
		}
		return nil
	}
	w.depth, w.dirs, w.entries = cfg.MaxDepth, cfg.MaxDirs, cfg.MaxEntries
	w.prune = true
	for dir := range w.all {
		if ctx.Err() != nil {
			return fmt.Errorf("scan %s for skills: %w", root.Path, context.Cause(ctx))
		}
		if !dir.skill {
			continue
		}
		r := readDir(dir.path, dir.canonical, cfg.Policy, false)
		r.skill.Scope = cmp.Or(root.Scope, ScopeProject)
		g.add(r)
	}
	g.catalog.Notes = append(g.catalog.Notes, w.notes...)
	g.catalog.Truncated = g.catalog.Truncated || w.limited
	return nil
}

func (g *gather) scanBundled(cfg Config) {
	found, err := fs.Glob(cfg.Bundled, "*/"+fileName)
	if err != nil {
		return // only a bad pattern fails
	}
	for _, file := range found {
		g.add(readBundled(cfg.Bundled, path.Dir(file), cfg.Policy, false))
	}
}

// pruned are directories that hold no skills of their own (skills.md, C7).
var pruned = map[string]bool{"node_modules": true, "vendor": true, "dist": true, "build": true}

// resources are the directories of a skill in which a SKILL.md is a template.
var resources = map[string]bool{"scripts": true, "references": true, "reference": true, "assets": true}

// place is a directory of a walk.
type place struct {
	path      string // as found
	canonical string
	depth     int
	skill     bool // it has a SKILL.md
	linked    bool // a link led to it
}

// walk visits the directories below a root, breadth first. One that several links lead to is
// visited under each of its names, because a skill must have the name of its directory, but what is
// below it only once.
type walk struct {
	depth, dirs, entries int  // limits; 0 = none
	prune                bool // leave out what holds no skills, and follow links further than one step

	real, links []place // still to visit; links wait until no real directory is left, so that a
	// skill is found under its own name first
	seen    map[string]bool
	notes   []Problem
	limited bool
	root    string
}

// newWalk starts a walk. A root that is a link is followed.
func newWalk(root string) (*walk, error) {
	abs, err := filepath.Abs(root)
	if err != nil {
		return nil, fmt.Errorf("find %s: %w", root, err)
	}
	canonical, err := filepath.EvalSymlinks(abs)
	if err != nil {
		return nil, fmt.Errorf("find %s: %w", root, reason(err))
	}
	if info, err := os.Stat(canonical); err != nil || !info.IsDir() {
		return nil, fmt.Errorf("%s is not a directory", root)
	}
	return &walk{root: abs, real: []place{{path: abs, canonical: canonical}}, seen: map[string]bool{canonical: true}}, nil
}

// all yields each directory after it has been listed.
func (w *walk) all(yield func(place) bool) {
	opened, looked := 0, 0
	for p, ok := w.next(); ok; p, ok = w.next() {
		if w.dirs > 0 && opened == w.dirs {
			w.limit(fmt.Sprintf("more than %d directories", w.dirs))
			return
		}
		opened++
		left := -1
		if w.entries > 0 {
			left = w.entries - looked
		}
		list, more, err := entriesOf(p.path, left)
		if err != nil {
			w.note(p.path, format.CodeFileRead, fmt.Sprintf("the directory cannot be read: %v", reason(err)))
			continue
		}
		looked += len(list)
		p.skill = slices.ContainsFunc(list, func(e fs.DirEntry) bool { return e.Name() == fileName })
		if !yield(p) {
			return
		}
		if more {
			w.limit(fmt.Sprintf("more than %d entries", w.entries))
			return
		}
		if !p.linked || w.prune && !w.seen[p.canonical] {
			w.push(p, list)
		}
		w.seen[p.canonical] = true
	}
}

// next takes the next directory to visit.
func (w *walk) next() (place, bool) {
	if len(w.real) > 0 {
		p := w.real[0]
		w.real = w.real[1:]
		return p, true
	}
	for len(w.links) > 0 {
		p := w.links[0]
		w.links = w.links[1:]
		if w.prune || !w.seen[p.canonical] {
			return p, true
		}
	}
	return place{}, false
}

func (w *walk) push(p place, list []fs.DirEntry) {
	for _, e := range list {
		name := e.Name()
		isLink := e.Type()&fs.ModeSymlink != 0
		if !e.IsDir() && !isLink || w.skip(p, name) {
			continue
		}
		child := place{path: filepath.Join(p.path, name), canonical: filepath.Join(p.canonical, name), depth: p.depth + 1, linked: isLink}
		if isLink && !w.follow(&child, p.skill) || w.seen[child.canonical] && !isLink {
			continue
		}
		if w.depth > 0 && child.depth > w.depth {
			w.limit(fmt.Sprintf("directories more than %d levels down", w.depth))
			continue
		}
		if isLink {
			w.links = append(w.links, child)
			continue
		}
		w.seen[child.canonical] = true
		w.real = append(w.real, child)
	}
}

func (w *walk) skip(p place, name string) bool {
	if !w.prune {
		return name == ".git"
	}
	return strings.HasPrefix(name, ".") || pruned[name] || p.skill && resources[name]
}

// follow resolves a link. Links to files are nobody's business here, dangling ones outside a skill
// are reported.
func (w *walk) follow(child *place, inSkill bool) bool {
	info, err := os.Stat(child.path)
	if err != nil {
		if !inSkill {
			w.note(child.path, format.CodeBrokenLink, fmt.Sprintf("the link leads nowhere: %v", reason(err)))
		}
		return false
	}
	if !info.IsDir() {
		return false
	}
	canonical, err := filepath.EvalSymlinks(child.path)
	if err != nil {
		return false
	}
	child.canonical = canonical
	return true
}

func (w *walk) limit(why string) {
	if !w.limited {
		w.note(w.root, format.CodeScanLimit, "not all of it was searched: "+why)
	}
	w.limited = true
}

func (w *walk) note(path string, c format.Code, message string) {
	w.notes = append(w.notes, Problem{path, []format.Diagnostic{{Code: c, Severity: format.Warning, Message: message}}})
}

// entriesOf lists a directory by name, at most limit entries of it unless limit is negative.
func entriesOf(dir string, limit int) (list []fs.DirEntry, more bool, err error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, false, err
	}
	defer f.Close()
	n := -1
	if limit >= 0 {
		n = limit + 1
	}
	list, err = f.ReadDir(n)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, false, err
	}
	if limit >= 0 && len(list) > limit {
		list, more = list[:limit], true
	}
	slices.SortFunc(list, func(a, b fs.DirEntry) int { return cmp.Compare(a.Name(), b.Name()) })
	return list, more, nil
}
