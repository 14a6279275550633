package workspace

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/aymanbagabas/go-udiff"

	"symbio/agent/tool/builtin"
	"symbio/internal/agent/content"
)

// ErrConflict means that files were changed here and in the patch so that they cannot be merged.
var ErrConflict = errors.New("there are conflicts")

// Action is what a plan does to a file.
type Action string

// The actions. Same leaves the file as it is, because it is already what the patch makes of it.
const Add, Change, Merge, Delete, Same Action = "add", "change", "merge", "delete", "same"

// Step is what a plan does to one path.
type Step struct {
	Path   string
	Action Action
	// Before is the file on the disk, After its replacement; of a kind Deleted there is no file. The content of After is in
	// the store.
	Before, After File
	// Diff is the difference between Before and After as a unified diff, for people; "" if there is no text to compare, or too
	// much of it.
	Diff string
	// Conflict says why the step cannot be taken; "" = it can.
	Conflict string
}

// Plan is what a patch does to a directory.
type Plan struct {
	// Steps are sorted by path.
	Steps []Step
	// Missing are contents of the base that were needed for a merge and are not in the store. Their files are conflicts. The
	// lender has them: with them in the store, a new plan can merge.
	Missing []content.Hash

	tree
	store *content.Store
	// compared counts the bytes of texts that were compared for people.
	compared int
}

// Plan compares the patch with the files on the disk, three-way by file: what has not changed here since base becomes what
// it is in the patch; what both changed is merged by lines, if it is text and no line changed on both sides. It changes
// nothing but the store, which gets merged contents. The patch must have passed Check with this base, and its contents must
// be pinned in the store until the plan is no more needed.
func (p Patch) Plan(ctx context.Context, base Manifest, dir string, store *content.Store) (*Plan, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("plan to apply a patch: %w", err)
	}
	defer root.Close()
	pl := &Plan{tree: tree{root, map[string]bool{}}, store: store}
	had := byPath(base.Files)
	for _, c := range p.Changes {
		s, err := pl.step(cmp.Or(had[c.Path], File{Path: c.Path, Kind: Deleted}), c)
		if err = cmp.Or(context.Cause(ctx), err); err != nil {
			return nil, fmt.Errorf("plan to apply a patch to %s: %s: %w", dir, c.Path, err)
		}
		pl.Steps = append(pl.Steps, s)
	}
	pl.findObstacles()
	return pl, nil
}

// findObstacles sets the conflict of each file in whose place is a directory here, or that needs a directory where there is
// something else, unless all of that goes by the same patch.
func (p *Plan) findObstacles() {
	goes := map[string]bool{}
	for _, s := range p.Steps {
		goes[s.Path] = s.Conflict == "" && s.After.Kind == Deleted
	}
	var stays func(dir string) bool
	stays = func(dir string) bool {
		entries, err := fs.ReadDir(p.root.FS(), dir)
		return err != nil || len(entries) == 0 || slices.ContainsFunc(entries, func(e fs.DirEntry) bool {
			name := path.Join(dir, e.Name())
			return e.IsDir() && stays(name) || !e.IsDir() && !goes[name]
		})
	}
	for i := range p.Steps {
		s := &p.Steps[i]
		if s.Conflict != "" || s.After.Kind == Deleted {
			continue
		}
		if p.isDir(s.Path) && stays(s.Path) {
			s.Conflict = "it is a directory here, and a file in the patch"
		}
		for dir := path.Dir(s.Path); dir != "."; dir = path.Dir(dir) {
			// The target of a link is not in the way: the link is.
			if f, _ := p.stat(dir); f.Kind != Deleted && !goes[dir] {
				s.Conflict = fmt.Sprintf("%s is no directory here, and one in the patch", dir)
			}
		}
	}
}

// Conflicts are the steps that cannot be taken.
func (p *Plan) Conflicts() []Step {
	return slices.DeleteFunc(slices.Clone(p.Steps), func(s Step) bool { return s.Conflict == "" })
}

// step returns the step for one change of base.
func (p *Plan) step(base, change File) (s Step, err error) {
	s = Step{Path: change.Path, Action: Change, After: change}
	if s.Before, err = p.stat(s.Path); err == nil {
		_, err = p.hash(&s.Before)
	}
	switch {
	case err != nil:
		return s, err
	case s.Before == change:
		s.Action = Same
		return s, nil
	case s.Before != base:
		s.Action = Merge
		err = p.merge(&s, base)
	case base.Kind == Deleted:
		s.Action = Add
	case change.Kind == Deleted:
		s.Action = Delete
	}
	before, errBefore := p.text(s.Before, true)
	after, errAfter := p.text(s.After, false)
	p.compared += len(before) + len(after)
	if errBefore == nil && errAfter == nil && s.Before.Kind != Link && s.After.Kind != Link && p.compared < maxCompared {
		names := map[bool]string{false: s.Path, true: os.DevNull}
		s.Diff = builtin.Unified(names[s.Before.Kind == Deleted], names[s.After.Kind == Deleted], before, after)
	}
	return s, err
}

// maxText is how long a text may be that is compared or merged by lines, maxCompared how long all are together that are compared
// for people, in bytes: this bounds the memory and the time that a patch takes.
const maxText, maxCompared = 1 << 20, 64 << 20

var errNoText = errors.New("it is no text, or too long")

// text returns the content of a file from the disk or the store; errNoText if it is none that can be merged.
func (p *Plan) text(f File, onDisk bool) (text []byte, err error) {
	var file io.ReadCloser
	switch {
	case f.Size > maxText:
		return nil, errNoText
	case !f.Kind.hasContent():
		return nil, nil
	case onDisk:
		file, _, err = builtin.OpenRegular(p.root, f.Path)
	default:
		file, err = p.store.Open(f.Hash)
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if text, err = io.ReadAll(verify(file, f)); err == nil && (!utf8.Valid(text) || bytes.IndexByte(text, 0) >= 0) {
		err = errNoText
	}
	return text, err
}

// merge sets what becomes of a file that has changed here and in the patch: both changes if both are of text and of
// different lines, else it sets Conflict.
func (p *Plan) merge(s *Step, base File) error {
	s.Conflict = "it was changed here and in the patch"
	if !base.Kind.hasContent() || !s.Before.Kind.hasContent() || !s.After.Kind.hasContent() {
		s.Conflict = fmt.Sprintf("it was: %s, is here: %s, and in the patch: %s", base.Kind, cmp.Or(s.Before.Kind, "no file"), s.After.Kind)
		return nil
	}
	text, err := p.text(base, false)
	ours, errOurs := p.text(s.Before, true)
	theirs, errTheirs := p.text(s.After, false)
	if errors.Is(err, fs.ErrNotExist) {
		p.Missing = append(p.Missing, base.Hash)
	}
	var merged []byte
	if err = cmp.Or(err, errOurs, errTheirs); err == nil {
		merged, err = mergeText(text, ours, theirs)
	}
	if err != nil {
		s.Conflict += ": " + err.Error()
		return nil
	}
	s.Conflict = ""
	s.After.Size, s.After.Hash = int64(len(merged)), content.Sum(merged)
	if s.Before.Kind != base.Kind {
		s.After.Kind = s.Before.Kind
	}
	return p.store.PutAs(s.After.Hash, bytes.NewReader(merged), s.After.Size)
}

// mergeText makes the changes from base to ours and to theirs both, if they are of lines that are neither the same nor next
// to each other. That is as strict as git; a change that both made counts once.
func mergeText(base, ours, theirs []byte) ([]byte, error) {
	x, y := udiff.Lines(string(base), string(ours)), udiff.Lines(string(base), string(theirs))
	if slices.ContainsFunc(x, func(a udiff.Edit) bool {
		return slices.ContainsFunc(y, func(b udiff.Edit) bool { return a != b && a.Start <= b.End && b.Start <= a.End })
	}) {
		return nil, errors.New("the same lines, or lines next to each other")
	}
	both, _ := udiff.Merge(x, y) // edits that do not touch have no conflict
	return udiff.ApplyBytes(base, both)
}

// Apply does what the plan says, all or nothing. With conflicts it does nothing and returns ErrConflict, unless partial is
// true: then it takes the other steps. ErrChanged means that a file has changed since the plan was made. New contents
// are written to a directory of its own in the workspace first, and files that go are kept there until all steps are taken.
// After a crash the files are there: see Leftovers.
func (p *Plan) Apply(ctx context.Context, partial bool) error {
	if c := p.Conflicts(); len(c) > 0 && !partial {
		return fmt.Errorf("apply a patch to %s: %w in %d files, such as %s; nothing was changed", p.root.Name(), ErrConflict, len(c), c[0].Path)
	}
	root, err := os.OpenRoot(p.root.Name())
	if err != nil {
		return fmt.Errorf("apply a patch: %w", err)
	}
	defer root.Close()
	a := &applier{root: root, staging: stagingPrefix + rand.Text()}
	steps := slices.DeleteFunc(slices.Clone(p.Steps), func(s Step) bool { return s.Conflict != "" || s.Action == Same })
	if err := a.apply(ctx, steps, p.store); err != nil {
		return fmt.Errorf("apply a patch to %s: %w", p.root.Name(), errors.Join(err, a.rollback()))
	}
	return nil
}

// stagingPrefix begins the names of staging directories, which do not travel. One that is older than maxApply is left of a
// crash: Apply takes seconds.
const (
	stagingPrefix = ".symbio-patch-"
	maxApply      = time.Hour
)

// Leftovers removes what applies that a crash has ended left in directories. It is safe for concurrent use.
type Leftovers struct {
	mu     sync.Mutex
	looked map[string]time.Time // by directory; guarded by mu
}

// Remove removes the leftovers in a directory, at most once in maxApply. It returns the paths of those that it leaves,
// because files were set aside there: these may be the only ones of their kind. Nothing is put back, since other programs can write
// there.
func (l *Leftovers) Remove(dir string) (kept []string) {
	l.mu.Lock()
	last, known := l.looked[dir]
	if l.looked == nil {
		l.looked = map[string]time.Time{}
	}
	if known = known && time.Since(last) <= maxApply; !known {
		l.looked[dir] = time.Now()
	}
	l.mu.Unlock()
	if known {
		return nil
	}
	left, _ := fs.Glob(os.DirFS(dir), stagingPrefix+"*") // the pattern is right
	for _, name := range left {
		name = filepath.Join(dir, name)
		info, err := os.Lstat(name)
		if err != nil || time.Since(info.ModTime()) <= maxApply {
			continue
		}
		if _, err := os.Lstat(filepath.Join(name, "old")); !errors.Is(err, fs.ErrNotExist) {
			kept = append(kept, name)
		} else {
			_ = os.RemoveAll(name) // else the next one does
		}
	}
	return kept
}

// applier takes the steps of a plan. The staging directory has the new files and the old ones. undo are the steps back, in
// the order in which they were added.
type applier struct {
	root    *os.Root
	staging string
	undo    []func() error
}

func (a *applier) apply(ctx context.Context, steps []Step, store *content.Store) error {
	if err := a.root.Mkdir(a.staging, 0o700); err != nil {
		return err
	}
	var files []File
	for _, s := range steps {
		if s.After.Kind != Deleted {
			files = append(files, s.After)
		}
	}
	if err := write(ctx, files, store, a.root, a.staging+"/new"); err != nil {
		return err
	}
	// All old files go first, since one can be where another needs a directory.
	for _, s := range steps {
		if err := cmp.Or(context.Cause(ctx), a.setAside(s)); err != nil {
			return err
		}
	}
	for _, f := range files {
		if err := cmp.Or(context.Cause(ctx), a.move(a.staging+"/new/"+f.Path, f.Path)); err != nil {
			return err
		}
	}
	// Its name says that the old files are not needed any more.
	if err := a.root.Rename(a.staging+"/old", a.staging+"/done"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return a.root.RemoveAll(a.staging)
}

// setAside moves a file into the staging directory, and only then looks whether it is still what the plan says: what another
// program writes later goes to a file of its own. Its permissions go to the new file.
func (a *applier) setAside(s Step) error {
	if s.Before.Kind == Deleted {
		return nil
	}
	old := a.staging + "/old/" + s.Path
	if err := a.move(s.Path, old); err != nil {
		return err
	}
	t := tree{a.root, map[string]bool{}}
	now, err := t.stat(old)
	if err == nil {
		_, err = t.hash(&now)
	}
	if now.Path = s.Path; err == nil && now != s.Before {
		err = fmt.Errorf("%s: %w", s.Path, ErrChanged)
	}
	if err != nil || s.After.Kind == Deleted {
		a.prune(s.Path)
		return err
	}
	// A file that becomes executable, or is no more, has the usual permissions.
	if info, err := a.root.Lstat(old); err == nil && s.Before.Kind == s.After.Kind && s.After.Kind != Link {
		return a.root.Chmod(a.staging+"/new/"+s.Path, info.Mode().Perm())
	}
	return nil
}

// prune removes the directories above a path that are empty, as git does.
func (a *applier) prune(p string) {
	for dir := path.Dir(p); dir != "." && a.root.Remove(dir) == nil; {
		dir = path.Dir(dir)
	}
}

// move renames a file, and makes the directories above the new name. There must be none of that name, and no link above it:
// MkdirAll would follow it.
func (a *applier) move(from, to string) error {
	for dir := path.Dir(to); dir != "."; dir = path.Dir(dir) {
		if info, err := a.root.Lstat(dir); err == nil && !info.IsDir() {
			return fmt.Errorf("%s is not a directory: %w", dir, ErrChanged)
		}
	}
	if err := a.root.MkdirAll(path.Dir(to), 0o755); err != nil {
		return err
	}
	if _, err := a.root.Lstat(to); !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(fmt.Errorf("%s is there: %w", to, ErrChanged), err)
	}
	if err := a.root.Rename(from, to); err != nil {
		return err
	}
	a.undo = append(a.undo, func() error {
		defer a.prune(to)
		return a.move(to, from)
	})
	return nil
}

// rollback takes all steps back. If it cannot, old files stay in the staging directory, and the error says so.
func (a *applier) rollback() (err error) {
	for _, undo := range slices.Backward(a.undo) {
		err = errors.Join(err, undo())
	}
	if err != nil {
		return fmt.Errorf("steps could not be taken back, the files are in %s: %w", a.staging, err)
	}
	return a.root.RemoveAll(a.staging)
}
