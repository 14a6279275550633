// Package walk finds the directories with a SKILL.md below a root.
//
// Each skill that the walk finds raises its limits: they count directories without a skill, and
// entries beyond some for each skill. So a large collection is found completely, while the walk of
// a root such as / ends within a second.
//
// A directory is visited once, or once for each of its names. No link leads out of a project. Notes
// has each limit that was reached and each link that was not followed. A FIFO in the place of a
// file or a directory does not block the walk.
//
// The package reads no file: package skills does that, and decides whether a SKILL.md is valid.
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

// pruned are directories in which skills are not searched. A directory with such a
// name can still be a skill itself.
var pruned = map[string]bool{"node_modules": true, "vendor": true, "dist": true, "build": true, ".git": true, ".jj": true, ".hg": true, ".svn": true}

// Pruned reports whether a directory of that name is searched only if it is a skill.
func Pruned(name string) bool { return pruned[name] }

// resources are directories of a skill. A SKILL.md in one of them is a template and not a skill.
var resources = map[string]bool{"scripts": true, "references": true, "reference": true, "assets": true}

// Workers returns how many goroutines read the disk at a time. It is more than the number of
// processors, because they wait for the disk.
func Workers() int { return max(4, 2*runtime.GOMAXPROCS(0)) }

// Place is a directory that the walk visits.
type Place struct {
	Path      string // as found
	Canonical string
	Skill     bool        // it has a SKILL.md
	Kind      fs.FileMode // the type of that, links not followed
	Has       Resources

	depth  int
	linked bool // a link led to it
}

// Resources reports which resource directories a skill has.
type Resources struct{ Scripts, References, Assets bool }

// perSkill is how many more entries may be read for each skill that was found, so that a large
// collection is found whole.
const perSkill = 16

// Config limits a walk. A limit of 0 allows nothing: there are no defaults here.
type Config struct {
	// Depth limits the levels of directories below the root.
	Depth int
	// Dirs limits the directories without a skill.
	Dirs int
	// Entries limits the entries of all directories together. Each skill that is found adds
	// perSkill.
	Entries int
	// Skills limits the directories with a skill.
	Skills int
	// Flat visits only the root and the directories directly in it.
	Flat bool
	// Project keeps the walk inside the root: other people can have written the links in it.
	Project bool
}

// Note is a diagnostic about a path, such as a link that was not followed.
type Note struct {
	Path       string
	Diagnostic format.Diagnostic
}

// WatchedPath is a path with its mark at the time of the walk.
type WatchedPath struct {
	Path string
	Mark Mark
}

// Walk visits the directories below a root, breadth first. It visits a directory under each name
// that links give it, because a skill must have the name of its directory, but visits what is below
// only once. Only one goroutine may use it.
type Walk struct {
	// Watched are the paths that change when there is something new to find. Notes are the other
	// findings. Limited is true if a limit ended the walk. They are complete when All has returned.
	Watched []WatchedPath
	Notes   []Note
	Limited bool

	cfg                    Config
	root, canonical        string
	opened, entries, found int // directories, entries, skills

	// queues are still to visit: real directories, then links, so that a skill is found under its own
	// name first, then hidden directories.
	queues  [3][]Place
	deep    []string        // those that are too far down
	visited []string        // canonical
	seen    map[string]bool // visited, made when the first link asks
}

// New prepares a walk. It follows a root that is a link, but not to a directory above the link, nor
// out of the project, which is the directory that has .agents.
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
	return &Walk{cfg: cfg, root: abs, canonical: canonical, queues: [3][]Place{{{Path: abs, Canonical: canonical}}}}, nil
}

// All yields each directory with a SKILL.md. It ends early when yield returns false.
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

// left returns how many entries may still be read.
func (w *Walk) left() int { return max(0, w.cfg.Entries+perSkill*w.found-w.entries) }

// visit processes one listed directory. It returns false to end the walk.
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
	w.Watched = append(w.Watched, WatchedPath{p.Path, l.mark})
	if l.err != nil {
		w.note(p.Path, format.CodeFileRead, fmt.Sprintf("the directory cannot be read: %v", Reason(l.err)))
		return true
	}
	if left := w.left(); len(l.entries) > left {
		l.entries, l.more = l.entries[:left], true
	}
	w.entries += len(l.entries)
	p.SetEntries(l.entries)
	if p.Skill {
		w.found++
		if !yield(p) {
			return false
		}
	} else if i := slices.IndexFunc(l.entries, func(e Entry) bool { return strings.EqualFold(e.Name, FileName) }); i >= 0 {
		w.note(p.Path, format.CodeFileNameCase, fmt.Sprintf("its %s is not read: the file of a skill must be named %s", l.entries[i].Name, FileName))
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

// listing is the result of listing a directory.
type listing struct {
	entries []Entry
	mark    Mark
	more    bool
	err     error
}

// listBatch is how many directories are listed in parallel. Their entries are in memory at the same
// time.
const listBatch = 32

// listAll lists the places in parallel, at most limit entries of each. All its goroutines have
// ended when it returns.
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

// SetEntries sets Skill, Kind and Has from the entries of the directory. It sorts entries.
func (p *Place) SetEntries(entries []Entry) {
	slices.SortStableFunc(entries, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
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

// leadsToDir reports whether e is a directory, or a link to a directory inside p.
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

// next returns the next directories to visit. It returns links one at a time, because the target of
// one decides whether the next is visited.
func (w *Walk) next() []Place {
	for rank, queue := range w.queues {
		if len(queue) == 0 {
			continue
		}
		n := 1
		if rank == 0 {
			n = min(listBatch, len(queue))
		}
		if queue[0].linked && w.seen == nil {
			w.seen = make(map[string]bool, len(w.visited))
			for _, v := range w.visited {
				w.seen[v] = true
			}
		}
		w.queues[rank] = queue[n:]
		return queue[:n]
	}
	return nil
}

// push queues the directories among the entries of p.
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
		if w.seen != nil && !isLink {
			w.seen[child.Canonical] = true
		}
		rank := 0
		if isLink {
			rank = 1
		} else if e.Name[0] == '.' {
			rank = 2
		}
		w.queues[rank] = append(w.queues[rank], child)
	}
}

// Join is filepath.Join of a clean path and one name.
func Join(dir, name string) string {
	if dir[len(dir)-1] == filepath.Separator {
		return dir + name
	}
	return dir + string(filepath.Separator) + name
}

// skipped reports whether a directory in p is not searched.
func skipped(p Place, name string) bool {
	return pruned[name] && !IsSkill(Join(p.Path, name)) || p.Skill && resources[name]
}

// follow resolves a link and reports whether to visit its target. It ignores links to files. It
// notes broken links outside of skills, and all links that lead to a directory above or out of a
// project.
func (w *Walk) follow(child *Place, parent Place) bool {
	info, err := os.Stat(child.Path)
	if err != nil {
		w.Watched = append(w.Watched, WatchedPath{Path: child.Path})
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

// maxDeep limits how many of the directories below Config.Depth are named in the note.
const maxDeep = 5

// finish reports on the directories that are too far down.
func (w *Walk) finish() {
	if n := len(w.deep); n > maxDeep {
		w.deep = append(w.deep[:maxDeep], fmt.Sprintf("and %d more", n-maxDeep))
	}
	if len(w.deep) > 0 {
		w.limit(fmt.Sprintf("more than %d levels down (skills.max_depth) are %s", w.cfg.Depth, strings.Join(w.deep, ", ")))
	}
}

// limit notes the first limit that was reached.
func (w *Walk) limit(why string) {
	if !w.Limited {
		w.note(w.root, format.CodeScanLimit, "not all of it was searched: "+why)
	}
	w.Limited = true
}

// note adds a warning about a path.
func (w *Walk) note(path string, c format.Code, message string) {
	w.Notes = append(w.Notes, Note{path, format.Diagnostic{Code: c, Severity: format.Warning, Message: message}})
}

// IsSkill reports whether dir has a regular file called SKILL.md, whatever its content. It follows
// links.
func IsSkill(dir string) bool {
	info, err := os.Stat(filepath.Join(dir, FileName))
	return err == nil && info.Mode().IsRegular()
}

// Within reports whether dir is root or below it. It compares the paths as text.
func Within(root, dir string) bool {
	rel, err := filepath.Rel(root, dir)
	return err == nil && filepath.IsLocal(rel)
}

// Reason returns err without the path, because the message around it names the path.
func Reason(err error) error {
	if p := (*fs.PathError)(nil); errors.As(err, &p) {
		return p.Err
	}
	return err
}
