package workspace

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"symbio/agent/content"
	"symbio/security/visible"
)

// ErrConflict means that files were changed here and in the patch so that they cannot be merged.
var ErrConflict = errors.New("there are conflicts")

// errNotDir is the error for a path below a file.
const errNotDir = syscall.ENOTDIR

// Apply does what the plan says, all or nothing. With conflicts it does nothing and returns ErrConflict, unless partial is
// true: then it takes the other steps. ErrChanged means that a file is not what it was when the plan was made. New contents
// are written to a directory of its own in the workspace first, and files that go are kept there until all steps are taken.
// After a crash the files are there.
func (p *Plan) Apply(ctx context.Context, partial bool) error {
	var steps []Step
	var conflicts []string
	for _, s := range p.Steps {
		switch {
		case s.Conflict != "":
			conflicts = append(conflicts, s.Path)
		case s.Action != Same:
			steps = append(steps, s)
		}
	}
	if len(conflicts) > 0 && !partial {
		return fmt.Errorf("apply a patch to %s: %w in %d files, nothing was changed: %s", p.dir, ErrConflict, len(conflicts), visible.Truncate(strings.Join(conflicts, ", "), 1000))
	}
	root, err := os.OpenRoot(p.dir)
	if err != nil {
		return fmt.Errorf("apply a patch: %w", err)
	}
	defer root.Close()
	a := &applier{root: root, store: p.store, staging: ".symbio-patch-" + rand.Text()}
	if err := a.apply(ctx, steps); err != nil {
		return fmt.Errorf("apply a patch to %s: %w", p.dir, errors.Join(err, a.rollback()))
	}
	return nil
}

// applier takes the steps of a plan.
type applier struct {
	root  *os.Root
	store *content.Store
	// staging is the directory with new and old files, named for the number of their step.
	staging string
	// undo are the steps back, in the order in which they were added.
	undo []func() error
}

func (a *applier) apply(ctx context.Context, steps []Step) error {
	if err := a.root.Mkdir(a.staging, 0o700); err != nil {
		return err
	}
	for i, s := range steps {
		if err := errors.Join(context.Cause(ctx), a.stage(a.newName(i), s)); err != nil {
			return err
		}
	}
	for i, s := range steps {
		if s.Before.Kind == Deleted {
			continue
		}
		if err := errors.Join(context.Cause(ctx), a.setAside(a.oldName(i), s)); err != nil {
			return err
		}
	}
	// A directory that is empty by now may be where a file comes.
	for _, s := range steps {
		if s.After.Kind == Deleted {
			a.prune(path.Dir(s.Path))
		}
	}
	for i, s := range steps {
		if s.After.Kind == Deleted {
			continue
		}
		if err := errors.Join(context.Cause(ctx), a.place(a.newName(i), s.Path)); err != nil {
			return err
		}
	}
	return a.root.RemoveAll(a.staging)
}

func (a *applier) newName(i int) string { return a.staging + "/new" + strconv.Itoa(i) }
func (a *applier) oldName(i int) string { return a.staging + "/old" + strconv.Itoa(i) }

// stage writes what a file becomes, with the permissions that it has.
func (a *applier) stage(name string, s Step) error {
	switch s.After.Kind {
	case Deleted:
		return nil
	case Link:
		return a.root.Symlink(s.After.Link, name)
	}
	if err := copyFile(a.root, name, s.After, a.store); err != nil || !s.Before.Kind.hasContent() {
		return err
	}
	info, err := a.root.Lstat(filepath.FromSlash(s.Path))
	if err != nil {
		return fmt.Errorf("%w: %w", err, ErrChanged)
	}
	perm := info.Mode().Perm() &^ 0o111
	if s.After.Kind == Executable {
		perm |= perm & 0o444 >> 2
	}
	return a.root.Chmod(name, perm)
}

// setAside moves a file into the staging directory, and only then looks whether it is still what the plan says: what another program
// writes later goes to a file of its own.
func (a *applier) setAside(name string, s Step) error {
	if err := a.move(s.Path, name); err != nil {
		return err
	}
	now, err := stat(a.root, name)
	if now.Path = s.Path; err == nil && now != s.Before {
		err = fmt.Errorf("%s: %w", s.Path, ErrChanged)
	}
	return err
}

// place moves a staged file to its place, where nothing may be.
func (a *applier) place(name, to string) error {
	if err := a.mkdir(path.Dir(to)); err != nil {
		return err
	}
	return a.move(name, to)
}

// move renames a file, unless there is one of the new name.
func (a *applier) move(from, to string) error {
	if err := a.rename(from, to); err != nil {
		return err
	}
	a.undo = append(a.undo, func() error { return a.rename(to, from) })
	return nil
}

func (a *applier) rename(from, to string) error {
	if _, err := a.root.Lstat(filepath.FromSlash(to)); !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(err, fmt.Errorf("%s is there: %w", to, ErrChanged))
	}
	return a.root.Rename(filepath.FromSlash(from), filepath.FromSlash(to))
}

// mkdir makes a directory and those above it.
func (a *applier) mkdir(dir string) error {
	if dir == "." {
		return nil
	}
	if err := a.mkdir(path.Dir(dir)); err != nil {
		return err
	}
	name := filepath.FromSlash(dir)
	err := a.root.Mkdir(name, 0o755)
	if err == nil {
		a.undo = append(a.undo, func() error { return a.root.Remove(name) })
		return nil
	}
	if info, errStat := a.root.Lstat(name); errStat == nil && info.IsDir() {
		return nil
	}
	return err
}

// prune removes a directory and those above it as far as they are empty, as git does.
func (a *applier) prune(dir string) {
	for ; dir != "."; dir = path.Dir(dir) {
		name := filepath.FromSlash(dir)
		info, err := a.root.Lstat(name)
		if err != nil || !info.IsDir() || a.root.Remove(name) != nil {
			return
		}
		a.undo = append(a.undo, func() error { return a.root.Mkdir(name, info.Mode().Perm()) })
	}
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
