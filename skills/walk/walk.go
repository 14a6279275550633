// Package walk finds directories that hold a SKILL.md below a root.
//
// The one idea: what was found pays for itself. The limits count directories without a skill, and entries beyond some for
// each skill, so that a large collection is found whole while a root such as / ends the walk within a second.
//
// Guarantees: no directory is visited twice but under different names of its own, no link leads out of a project, and each
// limit and each link that is not followed is in Notes. A FIFO in the place of a file or a directory does not hang it.
//
// It reads no file: package skills does, and decides what a SKILL.md is worth.
package walk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"symbio/skills/format"
)

// FileName is the name of the file that makes a directory a skill.
const FileName = "SKILL.md"

// pruned are directories that hold no skills of their own (skills.md, C7), but may each be a skill by its name.
var pruned = map[string]bool{"node_modules": true, "vendor": true, "dist": true, "build": true, ".git": true, ".jj": true, ".hg": true, ".svn": true}

// Pruned reports whether directories of that name are not searched unless they are a skill.
func Pruned(name string) bool { return pruned[name] }

// resources are the directories of a skill in which a SKILL.md is a template.
var resources = map[string]bool{"scripts": true, "references": true, "reference": true, "assets": true}

// Workers is how many goroutines read the disk at a time: more than there are processors, because a disk that is not in
// memory is waited for.
func Workers() int { return max(4, 2*runtime.GOMAXPROCS(0)) }

// Place is a directory of a walk.
type Place struct {
	Path      string // as found
	Canonical string
	Skill     bool        // it has a SKILL.md
	Kind      fs.FileMode // the type of that, links not followed
	Has       Resources

	depth  int
	linked bool // a link led to it
}

// Resources says which directories of resources a skill has.
type Resources struct{ Scripts, References, Assets bool }

// perSkill is how many more entries may be looked at for each skill that was found.
const perSkill = 16

// Config bounds a walk. All but Project and Flat are limits, of which none is the default.
type Config struct {
	Depth   int // directories below the root
	Dirs    int // directories without a skill
	Entries int // in all directories, and 16 more for each skill
	Skills  int
	Flat    bool // only the directories right below the root
	Project bool // others wrote it: no link leads out
}

// Note is what a reader of the result should know of a path.
type Note struct {
	Path       string
	Diagnostic format.Diagnostic
}

// Watched is a path and what was there.
type Watched struct {
	Path string
	Mark Mark
}

// Walk visits the directories below a root, breadth first. One that several links lead to is visited
// under each of its names, because a skill must have the name of its directory, but what is below it
// only once. One goroutine may use it.
type Walk struct {
	// Watched are the paths that change when there is something new to find, Notes what else was noticed, Limited whether
	// a limit ended the walk. They are complete when All has returned.
	Watched []Watched
	Notes   []Note
	Limited bool

	cfg                   Config
	root, canonical       string
	opened, looked, found int // directories, entries, skills

	real, links []Place // still to visit; links wait until no real directory is left, so that a
	// skill is found under its own name first
	late    []Place         // bulky and hidden ones; they wait for the links
	deep    []string        // those that are too far down
	visited []string        // canonical
	seen    map[string]bool // visited, made when the first link asks
}

// New starts a walk. A root that is a link is followed, but not to a directory above it, nor out of the project
// whose root it is: that is the directory that holds .agents.
func New(root string, cfg Config) (*Walk, error) {
	abs, err := filepath.Abs(root)
	if err != nil {
		return nil, fmt.Errorf("find %s: %w", root, err)
	}
	canonical, err := filepath.EvalSymlinks(abs)
	if err != nil {
		return nil, fmt.Errorf("find %s: %w", root, Reason(err))
	}
	if info, err := os.Stat(canonical); err != nil || !info.IsDir() {
		return nil, fmt.Errorf("%s is not a directory", root)
	}
	parent, _ := filepath.EvalSymlinks(filepath.Dir(abs))
	project, _ := filepath.EvalSymlinks(filepath.Dir(filepath.Dir(abs)))
	if canonical != Join(parent, filepath.Base(abs)) && Within(canonical, parent) || cfg.Project && !Within(project, canonical) {
		return nil, fmt.Errorf("%s is not searched: links lead to %s, out of the project or above the link", root, canonical)
	}
	return &Walk{cfg: cfg, root: abs, canonical: canonical, real: []Place{{Path: abs, Canonical: canonical}}}, nil
}

// All yields each directory with a SKILL.md after it has been listed.
func (w *Walk) All(yield func(Place) bool) {
	defer w.finish()
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
func (w *Walk) left() int { return max(0, w.cfg.Entries+perSkill*w.found-w.looked) }

// visit takes in one directory; false ends the walk.
func (w *Walk) visit(p Place, l listing, yield func(Place) bool) bool {
	switch {
	case w.opened-w.found >= w.cfg.Dirs:
		w.limit(fmt.Sprintf("more than %d directories without a skill (skills.max_directories)", w.cfg.Dirs))
		return false
	case w.found >= w.cfg.Skills:
		w.limit(fmt.Sprintf("more than %d skills (skills.max_skills)", w.cfg.Skills))
		return false
	}
	w.opened++
	w.visited = append(w.visited, p.Canonical)
	w.Watched = append(w.Watched, Watched{p.Path, l.mark})
	if l.err != nil {
		w.note(p.Path, format.CodeFileRead, fmt.Sprintf("the directory cannot be read: %v", Reason(l.err)))
		return true
	}
	if left := w.left(); len(l.entries) > left {
		l.entries, l.more = l.entries[:left], true
	}
	w.looked += len(l.entries)
	p.Take(l.entries)
	if p.Skill {
		w.found++
		if !yield(p) {
			return false
		}
	}
	if l.more {
		w.limit(fmt.Sprintf("more than %d entries (skills.max_entries)", w.cfg.Entries))
		return false
	}
	if !p.linked || !w.seen[p.Canonical] {
		w.push(p, l.entries)
	}
	if w.seen != nil {
		w.seen[p.Canonical] = true
	}
	return true
}

// listing is what came of listing a directory.
type listing struct {
	entries []Entry
	mark    Mark
	more    bool
	err     error
}

// together is how many directories are listed side by side; their entries are in memory at a time.
const together = 32

// listAll lists places, of each at most limit entries.
func listAll(places []Place, limit int) []listing {
	lists := make([]listing, len(places))
	var next atomic.Int64
	var wg sync.WaitGroup
	one := func() {
		for i := next.Add(1) - 1; i < int64(len(places)); i = next.Add(1) - 1 {
			l := &lists[i]
			if l.entries, l.mark, l.more, l.err = Entries(places[i].Path, limit); l.err != nil {
				l.mark, _ = MarkOf(places[i].Path)
			}
		}
	}
	for range min(len(places)/4, Workers()-1) {
		wg.Go(one)
	}
	one()
	wg.Wait()
	return lists
}

// Take notes which of the entries make a skill.
func (p *Place) Take(entries []Entry) {
	slices.SortFunc(entries, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
	for _, e := range entries {
		switch e.Name {
		case FileName:
			p.Skill, p.Kind = true, e.Kind
		case "scripts":
			p.Has.Scripts = p.leadsToDir(e)
		case "references", "reference":
			p.Has.References = p.Has.References || p.leadsToDir(e)
		case "assets":
			p.Has.Assets = p.leadsToDir(e)
		}
	}
}

// leadsToDir reports a directory, or a link to one that stays within p.
func (p *Place) leadsToDir(e Entry) bool {
	if e.Kind&fs.ModeSymlink == 0 {
		return e.Kind.IsDir()
	}
	root, err := os.OpenRoot(p.Path)
	if err != nil {
		return false
	}
	defer root.Close()
	info, err := root.Stat(e.Name)
	return err == nil && info.IsDir()
}

// next takes the next directories to visit. Of links it is one, because what it leads to decides whether
// the one after it is visited.
func (w *Walk) next() (next []Place) {
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
	case len(w.late) > 0:
		next, w.late = w.late[:1], w.late[1:]
	}
	return next
}

func (w *Walk) push(p Place, entries []Entry) {
	for _, e := range entries {
		isLink := e.Kind&fs.ModeSymlink != 0
		if !e.Kind.IsDir() && !isLink || skipped(p, e.Name) || w.cfg.Flat && p.depth > 0 {
			continue
		}
		if isLink && e.Name == FileName {
			continue // it stands for the file, wherever it leads
		}
		child := Place{Path: Join(p.Path, e.Name), depth: p.depth + 1, linked: isLink}
		child.Canonical = child.Path
		if p.Canonical != p.Path {
			child.Canonical = Join(p.Canonical, e.Name)
		}
		if isLink && !w.follow(&child, p) || !isLink && w.seen[child.Canonical] {
			continue
		}
		if child.depth > w.cfg.Depth {
			w.deep = append(w.deep, child.Path)
			continue
		}
		if isLink {
			w.links = append(w.links, child)
			continue
		}
		if w.seen != nil {
			w.seen[child.Canonical] = true
		}
		if e.Name[0] == '.' {
			w.late = append(w.late, child)
			continue
		}
		w.real = append(w.real, child)
	}
}

// Join is filepath.Join of a clean path and one name.
func Join(dir, name string) string {
	if dir[len(dir)-1] == filepath.Separator {
		return dir + name
	}
	return dir + string(filepath.Separator) + name
}

func skipped(p Place, name string) bool {
	return pruned[name] && !IsSkill(Join(p.Path, name)) || p.Skill && resources[name]
}

// follow resolves a link. Links to files are left alone. Those that lead nowhere are reported outside of skills, and
// everywhere those that are not followed: to a directory above, and out of a project's root.
func (w *Walk) follow(child *Place, parent Place) bool {
	info, err := os.Stat(child.Path)
	if err != nil {
		w.Watched = append(w.Watched, Watched{Path: child.Path})
		if !parent.Skill {
			w.note(child.Path, format.CodeBrokenLink, fmt.Sprintf("the link leads nowhere: %v", Reason(err)))
		}
		return false
	}
	if !info.IsDir() {
		return false
	}
	canonical, err := filepath.EvalSymlinks(child.Path)
	switch {
	case err != nil:
		return false
	case Within(w.canonical, canonical) && Within(canonical, parent.Canonical):
		return false // visited already
	case Within(canonical, w.canonical) || Within(canonical, parent.Canonical):
		w.note(child.Path, format.CodeLinkRefused, fmt.Sprintf("the link is not followed: %s is a directory above it", canonical))
		return false
	case w.cfg.Project && !Within(w.canonical, canonical):
		w.note(child.Path, format.CodeLinkRefused, fmt.Sprintf("the link is not followed: it leads out of the project's skills, to %s; to have what is there, name that directory under skills.dirs", canonical))
		return false
	}
	child.Canonical = canonical
	return true
}

// maxDeep bounds how many of the directories that are too far down are named.
const maxDeep = 5

// finish reports on the directories that are too far down.
func (w *Walk) finish() {
	if n := len(w.deep); n > maxDeep {
		w.deep = append(w.deep[:maxDeep], fmt.Sprintf("and %d others", n-maxDeep))
	}
	if len(w.deep) > 0 {
		w.limit(fmt.Sprintf("more than %d levels down (skills.max_depth) are %s", w.cfg.Depth, strings.Join(w.deep, ", ")))
	}
}

func (w *Walk) limit(why string) {
	if !w.Limited {
		w.note(w.root, format.CodeScanLimit, "not all of it was searched: "+why)
	}
	w.Limited = true
}

func (w *Walk) note(path string, c format.Code, message string) {
	w.Notes = append(w.Notes, Note{path, format.Diagnostic{Code: c, Severity: format.Warning, Message: message}})
}

// IsSkill reports whether dir holds a regular file called SKILL.md, whatever is in it. Links are followed.
func IsSkill(dir string) bool {
	info, err := os.Stat(filepath.Join(dir, FileName))
	return err == nil && info.Mode().IsRegular()
}

// Within reports whether dir is root or below it, as their paths are written.
func Within(root, dir string) bool {
	rel, err := filepath.Rel(root, dir)
	return err == nil && filepath.IsLocal(rel)
}

// Reason is err without the path, which the message names already.
func Reason(err error) error {
	if p := (*fs.PathError)(nil); errors.As(err, &p) {
		return p.Err
	}
	return err
}
