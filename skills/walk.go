package skills

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"symbio/skills/format"
)

// pruned are directories that hold no skills of their own (skills.md, C7).
var pruned = map[string]bool{"node_modules": true, "vendor": true, "dist": true, "build": true}

// resources are the directories of a skill in which a SKILL.md is a template.
var resources = map[string]bool{"scripts": true, "references": true, "reference": true, "assets": true}

// place is a directory of a walk.
type place struct {
	path      string // as found
	canonical string
	depth     int
	linked    bool        // a link led to it
	skill     bool        // it has a SKILL.md
	kind      fs.FileMode // the type of that, links not followed
	has       resourceSet
}

// resourceSet says which directories of resources a skill has.
type resourceSet struct{ scripts, references, assets bool }

// perSkill is how many more entries may be looked at for each skill that was found.
const perSkill = 16

// walk visits the directories below a root, breadth first. One that several links lead to is visited
// under each of its names, because a skill must have the name of its directory, but what is below it
// only once.
type walk struct {
	root                         string
	depth, dirs, entries, skills int  // limits
	flat                         bool // only the directories right below the root
	opened, looked, found        int  // directories, entries, skills

	real, links []place // still to visit; links wait until no real directory is left, so that a
	// skill is found under its own name first
	visited []string        // canonical
	seen    map[string]bool // visited, made when the first link asks
	watched []watched       // what changes when there is something new to find
	notes   []Problem
	limited bool
}

// watched is a path and what was there.
type watched struct {
	path string
	mark mark
}

// newWalk starts a walk. A root that is a link is followed.
func newWalk(root string, cfg Config) (*walk, error) {
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
	return &walk{root: abs, depth: cfg.MaxDepth, dirs: cfg.MaxDirs, entries: cfg.MaxEntries, skills: cfg.MaxSkills,
		real: []place{{path: abs, canonical: canonical}}}, nil
}

// all yields each directory with a SKILL.md after it has been listed. What was found pays for itself:
// the limits count directories without a SKILL.md, and entries beyond perSkill for each skill.
func (w *walk) all(yield func(place) bool) {
	for {
		places := w.next()
		if len(places) == 0 {
			return
		}
		for i, l := range listAll(places, w.left()) {
			if !w.visit(places[i], l, yield) {
				return
			}
		}
	}
}

// left is how many entries may still be looked at.
func (w *walk) left() int { return max(0, w.entries+perSkill*w.found-w.looked) }

// visit takes in one directory; false ends the walk.
func (w *walk) visit(p place, l listing, yield func(place) bool) bool {
	switch {
	case w.opened-w.found >= w.dirs:
		w.limit(fmt.Sprintf("more than %d directories without a skill", w.dirs))
		return false
	case w.found >= w.skills:
		w.limit(fmt.Sprintf("more than %d skills", w.skills))
		return false
	}
	w.opened++
	w.visited = append(w.visited, p.canonical)
	w.watched = append(w.watched, watched{p.path, l.mark})
	if l.err != nil {
		w.note(p.path, format.CodeFileRead, fmt.Sprintf("the directory cannot be read: %v", reason(l.err)))
		return true
	}
	if left := w.left(); len(l.entries) > left {
		l.entries, l.more = l.entries[:left], true
	}
	w.looked += len(l.entries)
	p.take(l.entries)
	if p.skill {
		w.found++
		if !yield(p) {
			return false
		}
	}
	if l.more {
		w.limit(fmt.Sprintf("more than %d entries", w.entries))
		return false
	}
	if !p.linked || !w.seen[p.canonical] {
		w.push(p, l.entries)
	}
	if w.seen != nil {
		w.seen[p.canonical] = true
	}
	return true
}

// listing is what came of listing a directory.
type listing struct {
	entries []dirent
	mark    mark
	more    bool
	err     error
}

// together is how many directories are listed side by side; their entries are in memory at a time.
const together = 32

// listAll lists places, of each at most limit entries.
func listAll(places []place, limit int) []listing {
	lists := make([]listing, len(places))
	var next atomic.Int64
	var wg sync.WaitGroup
	one := func() {
		for i := next.Add(1) - 1; i < int64(len(places)); i = next.Add(1) - 1 {
			l := &lists[i]
			if l.entries, l.mark, l.more, l.err = entriesOf(places[i].path, limit); l.err != nil {
				l.mark, _ = markOf(places[i].path)
			}
		}
	}
	for range min(len(places)/4, workers()-1) {
		wg.Go(one)
	}
	one()
	wg.Wait()
	return lists
}

// take notes which of the entries make a skill.
func (p *place) take(entries []dirent) {
	slices.SortFunc(entries, func(a, b dirent) int { return strings.Compare(a.name, b.name) })
	for _, e := range entries {
		switch e.name {
		case fileName:
			p.skill, p.kind = true, e.kind
		case "scripts":
			p.has.scripts = p.leadsToDir(e)
		case "references", "reference":
			p.has.references = p.has.references || p.leadsToDir(e)
		case "assets":
			p.has.assets = p.leadsToDir(e)
		}
	}
}

// leadsToDir reports a directory, or a link to one that stays within p.
func (p *place) leadsToDir(e dirent) bool {
	if e.kind&fs.ModeSymlink == 0 {
		return e.kind.IsDir()
	}
	root, err := os.OpenRoot(p.path)
	if err != nil {
		return false
	}
	defer root.Close()
	info, err := root.Stat(e.name)
	return err == nil && info.IsDir()
}

// next takes the next directories to visit. Of links it is one, because what it leads to decides whether
// the one after it is visited.
func (w *walk) next() (next []place) {
	switch {
	case len(w.real) > 0:
		n := min(together, len(w.real))
		next, w.real = w.real[:n], w.real[n:]
	case len(w.links) > 0:
		if w.seen == nil {
			w.seen = make(map[string]bool, len(w.visited))
			for _, v := range w.visited {
				w.seen[v] = true
			}
		}
		next, w.links = w.links[:1], w.links[1:]
	}
	return next
}

func (w *walk) push(p place, entries []dirent) {
	for _, e := range entries {
		isLink := e.kind&fs.ModeSymlink != 0
		if !e.kind.IsDir() && !isLink || skipped(p, e.name) || w.flat && p.depth > 0 {
			continue
		}
		if isLink && e.name == fileName {
			continue // it stands for the file, wherever it leads
		}
		child := place{path: join(p.path, e.name), depth: p.depth + 1, linked: isLink}
		child.canonical = child.path
		if p.canonical != p.path {
			child.canonical = join(p.canonical, e.name)
		}
		if isLink && !w.follow(&child, p.skill) || !isLink && w.seen[child.canonical] {
			continue
		}
		if child.depth > w.depth {
			w.limit(fmt.Sprintf("directories more than %d levels down", w.depth))
			continue
		}
		if isLink {
			w.links = append(w.links, child)
			continue
		}
		if w.seen != nil {
			w.seen[child.canonical] = true
		}
		w.real = append(w.real, child)
	}
}

// join is filepath.Join of a clean path and one name.
func join(dir, name string) string {
	if dir[len(dir)-1] == filepath.Separator {
		return dir + name
	}
	return dir + string(filepath.Separator) + name
}

func skipped(p place, name string) bool {
	return name[0] == '.' || pruned[name] || p.skill && resources[name]
}

// follow resolves a link. Links to files are nobody's business here, dangling ones outside a skill
// are reported.
func (w *walk) follow(child *place, inSkill bool) bool {
	info, err := os.Stat(child.path)
	if err != nil {
		w.watched = append(w.watched, watched{path: child.path})
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
