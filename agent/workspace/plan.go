package workspace

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"symbio/agent/content"
	"symbio/agent/tool/builtin"
	"symbio/security/filename"
)

// Action is what a plan does to a file.
type Action string

// The actions. Same leaves the file as it is, because it is already what the patch makes of it.
const (
	Add    Action = "add"
	Change Action = "change"
	Merge  Action = "merge"
	Delete Action = "delete"
	Same   Action = "same"
)

// Step is what a plan does to one path.
type Step struct {
	Path   string
	Action Action
	// Before is what is on the disk, After what it becomes; of a kind Deleted there is no file. The content of After is in
	// the store.
	Before, After File
	// Diff is the difference between Before and After as a unified diff, for people; "" if there is no text to compare.
	Diff string
	// Conflict says why the step cannot be taken; "" = it can.
	Conflict string
}

// Plan is what a patch does to a directory.
type Plan struct {
	// Steps are sorted by path.
	Steps []Step
	// Missing are contents of the base that were needed for a merge and are not in the store. Their files are conflicts. The lender
	// has them: with them in the store, a new plan can merge.
	Missing []content.Hash

	dir   string
	store *content.Store
}

// Conflicts are the steps that cannot be taken.
func (p *Plan) Conflicts() (all []Step) {
	for _, s := range p.Steps {
		if s.Conflict != "" {
			all = append(all, s)
		}
	}
	return all
}

// Plan compares the patch with the files on the disk, three-way by file: what has not changed here since base becomes what it is in
// the patch; what both changed is merged by lines, if it is text and no line changed on both sides. It changes nothing but the
// store, which gets merged contents. The patch must have passed Check with this base, and its contents must be pinned in the store
// until the plan is no more needed.
func (p Patch) Plan(ctx context.Context, base Manifest, dir string, store *content.Store) (*Plan, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("plan to apply a patch: %w", err)
	}
	defer root.Close()
	pl := &planner{root: root, base: byPath(base.Files), deleted: map[string]bool{}, names: map[string]map[string]string{}, plan: &Plan{dir: dir, store: store}}
	// Deletions come first: they make room, such as for a file in the place of a directory.
	for _, deletions := range []bool{true, false} {
		for _, c := range p.Changes {
			if deletions != (c.Kind == Deleted) {
				continue
			}
			if err := errors.Join(context.Cause(ctx), pl.add(c)); err != nil {
				return nil, fmt.Errorf("plan to apply a patch to %s: %w", dir, err)
			}
		}
	}
	slices.SortFunc(pl.plan.Steps, func(a, b Step) int { return strings.Compare(a.Path, b.Path) })
	return pl.plan, nil
}

// planner makes a plan.
type planner struct {
	root *os.Root
	base map[string]File
	plan *Plan
	// deleted are the paths that the plan deletes.
	deleted map[string]bool
	// names are the entries of directories by their folded names.
	names map[string]map[string]string
}

// add adds the step for one change.
func (p *planner) add(c File) error {
	s := Step{Path: c.Path, After: c}
	base, had := p.base[c.Path]
	if !had {
		base = File{Path: c.Path, Kind: Deleted}
	}
	var err error
	if s.Conflict = p.obstacle(c.Path); s.Conflict == "" {
		s.Before, s.Conflict, err = p.state(c.Path)
	}
	switch {
	case err != nil || s.Conflict != "":
	case s.Before == c:
		s.Action = Same
	case s.Before != base:
		s.Action = Merge
		err = p.merge(&s, base)
	case c.Kind == Deleted:
		s.Action = Delete
	case !had:
		s.Action = Add
	default:
		s.Action = Change
	}
	if err != nil {
		return err
	}
	p.deleted[c.Path] = c.Kind == Deleted && s.Conflict == ""
	if s.Action != Same {
		s.Diff = p.diff(s)
	}
	p.plan.Steps = append(p.plan.Steps, s)
	return nil
}

// obstacle returns what is in the way of a path: a file or link in place of a directory above it, or a name that is the
// same on some system.
func (p *planner) obstacle(name string) string {
	dir := "."
	for part := range strings.SplitSeq(name, "/") {
		if other := p.list(dir)[filename.Fold(part)]; other != "" && other != part && !p.deleted[path.Join(dir, other)] {
			return fmt.Sprintf("there is %q here, which is the same name on some systems", path.Join(dir, other))
		}
		if dir = path.Join(dir, part); dir == name {
			break
		}
		info, err := p.root.Lstat(filepath.FromSlash(dir))
		if err == nil && !info.IsDir() && !p.deleted[dir] {
			return fmt.Sprintf("%q is not a directory here", dir)
		}
		if err != nil || !info.IsDir() {
			break
		}
	}
	return ""
}

// list returns the names in a directory by their folded form. One that cannot be read has none; then the step fails later.
func (p *planner) list(dir string) map[string]string {
	if p.names[dir] == nil {
		p.names[dir] = map[string]string{}
		entries, _ := fs.ReadDir(p.root.FS(), dir)
		for _, e := range entries {
			p.names[dir][filename.Fold(e.Name())] = e.Name()
		}
	}
	return p.names[dir]
}

// state returns the file that is on the disk. It is Deleted in place of a directory of which the plan deletes all files; of other
// directories and what is no file conflict says it.
func (p *planner) state(name string) (f File, conflict string, err error) {
	f, err = stat(p.root, name)
	if err != nil || f.Kind != 0 {
		return f, "", err
	}
	err = fs.WalkDir(p.root.FS(), name, func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && !p.deleted[name] {
			conflict = fmt.Sprintf("%q is here, of which the patch knows nothing", name)
			return fs.SkipAll
		}
		return err
	})
	return File{Path: f.Path, Kind: Deleted}, conflict, err
}

// stat returns the file at a path, with its hash; Deleted if there is none, and kind 0 if it is neither a regular file nor a
// link.
func stat(root *os.Root, name string) (File, error) {
	f := File{Path: name, Kind: Deleted}
	info, err := root.Lstat(filepath.FromSlash(name))
	switch {
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, errNotDir):
		return f, nil
	case err != nil:
		return f, err
	case info.Mode().Type() == fs.ModeSymlink:
		f.Kind = Link
		f.Link, err = root.Readlink(filepath.FromSlash(name))
		f.Link = filepath.ToSlash(f.Link)
		return f, err
	case !info.Mode().IsRegular():
		f.Kind = 0
		return f, nil
	}
	if f.Kind = Regular; info.Mode().Perm()&0o111 != 0 {
		f.Kind = Executable
	}
	file, err := openRegular(root, name)
	if err != nil {
		return f, err
	}
	defer file.Close()
	sum := sha256.New()
	f.Size, err = io.Copy(sum, file)
	f.Hash = content.Hash(sum.Sum(nil))
	return f, err
}

// diff returns the change of a step for people.
func (p *planner) diff(s Step) string {
	from, to := s.Path, s.Path
	before, errBefore := p.read(s.Before, func() (*os.File, error) { return openRegular(p.root, s.Path) })
	after, errAfter := p.read(s.After, func() (*os.File, error) { return p.plan.store.Open(s.After.Hash) })
	if errBefore != nil || errAfter != nil || s.Before.Kind == Link || s.After.Kind == Link {
		return ""
	}
	if s.Before.Kind == Deleted {
		from = "/dev/null"
	}
	if s.After.Kind == Deleted {
		to = "/dev/null"
	}
	return builtin.Unified(from, to, before, after)
}

// errLarge means that a content is too large to be compared by lines.
var errLarge = fmt.Errorf("it has more than %d MiB", maxText>>20)

// read returns the content of a file; nothing if it has none.
func (p *planner) read(f File, open func() (*os.File, error)) ([]byte, error) {
	switch {
	case !f.Kind.hasContent():
		return nil, nil
	case f.Size > maxText:
		return nil, errLarge
	}
	file, err := open()
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, f.Size+1))
	if err == nil && content.Sum(text) != f.Hash {
		err = ErrChanged
	}
	return text, err
}
