package undo

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/rogpeppe/go-internal/diff"

	"symbio/agent/session"
)

// File is a file of a Plan.
type File struct {
	Path string `json:"path"` // absolute
	// Refused says why the file is not put back; "" = it can be, or was.
	Refused string `json:"refused,omitempty"`
	// Diff is the unified difference from the present content to the one that is put back.
	Diff string `json:"diff,omitempty"`
	// Done is true after Apply has put the file back.
	Done bool `json:"done"`

	name    string // below Plan.Dir; Path if it is not there
	changes []change
	// now and before are the hashes of the present content and of the one that is put back; "" means
	// that there is no file.
	now, before         string
	content, oldContent []byte
	mode                fs.FileMode // of the file when it is put back
}

// maxContent is the size of files up to which their content is read, in bytes. It is that up to which
// the tools keep it.
const maxContent = 16 << 20

// inspect reads the file and finds out what its changes made of it. The error says why it cannot be
// put back.
func (f *File) inspect(ctx context.Context, p *Plan, root *os.Root) (err error) {
	name, err := filepath.Rel(p.Dir, f.Path)
	if err != nil || !filepath.IsLocal(name) {
		return fmt.Errorf("it is outside of the session's directory, %s", p.Dir)
	}
	first := f.changes[0]
	f.name, f.before, f.mode = name, first.Before, fs.FileMode(first.Mode)
	dir, err := openDir(root, name)
	if errors.Is(err, fs.ErrNotExist) && f.before == "" {
		return nil // it was new, and its directory was removed since
	}
	if err != nil {
		return err
	}
	defer dir.Close()
	info, err := f.read(dir)
	if err != nil || f.now == f.before {
		return err
	}
	if info != nil {
		f.mode = info.Mode().Perm()
	}
	if err := f.check(); err != nil {
		return err
	}
	if f.before != "" {
		if f.oldContent, err = p.store.Content(ctx, first.session, f.before); err != nil {
			return fmt.Errorf("its content was not kept (at most %d MiB of a file are, and %d MiB of a session): %w", maxContent>>20, session.MaxContents>>20, err)
		}
	}
	f.Diff = f.diff()
	return nil
}

// check returns an error if another program changed the file since, or between two of the changes. A
// change that is recorded may not have happened, because its record comes first.
func (f *File) check() error {
	states := []string{f.before}
	for _, c := range f.changes {
		if !slices.Contains(states, c.Before) {
			return errors.New("another program, or a command, changed it between two changes of the session; undo a later exchange")
		}
		states = []string{c.Before, c.After}
	}
	if !slices.Contains(states, f.now) {
		return errors.New("it was changed or removed since")
	}
	return nil
}

// openDir opens the directory of a file below root. It refuses one to which a symbolic link leads: the
// paths that are recorded have no links, so the link was made since.
func openDir(root *os.Root, name string) (*os.Root, error) {
	dir, err := root.OpenRoot(filepath.Dir(name))
	if err != nil {
		return nil, fmt.Errorf("its directory was removed or replaced since: %w", err)
	}
	// The open directory is compared, so that a link that was there for a moment is found, too.
	path := filepath.Join(root.Name(), filepath.Dir(name))
	real, errReal := filepath.EvalSymlinks(path)
	here, errHere := dir.Stat(".")
	there, errThere := os.Lstat(path)
	if errors.Join(errReal, errHere, errThere) != nil || real != path || !os.SameFile(here, there) {
		return nil, errors.Join(errors.New("its directory is, or lies behind, a symbolic link that was made since"), dir.Close())
	}
	return dir, nil
}

// read sets now and content from the file in dir. It returns its state, nil if there is no file.
func (f *File) read(dir *os.Root) (fs.FileInfo, error) {
	f.now, f.content = "", nil
	info, err := dir.Lstat(filepath.Base(f.name))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, errors.New("it is a directory, a symbolic link or no regular file now")
	case info.Size() > maxContent:
		return nil, fmt.Errorf("it is longer than %d MiB now", maxContent>>20)
	}
	if f.content, err = dir.ReadFile(filepath.Base(f.name)); err == nil {
		f.now = fmt.Sprintf("%x", sha256.Sum256(f.content))
	}
	return info, err
}

// maxDiff limits the bytes of a difference, so that a person can look at it.
const maxDiff = 32 << 10

// diff returns the unified difference from the present content to the one that is put back.
func (f *File) diff() string {
	old, fresh := f.name, f.name
	if f.now == "" {
		old = os.DevNull
	}
	if f.before == "" {
		fresh = os.DevNull
	}
	head := fmt.Sprintf("--- %s\n+++ %s\n", old, fresh)
	if both := slices.Concat(f.content, f.oldContent); !utf8.Valid(both) || bytes.IndexByte(both, 0) >= 0 {
		return head + "[no text]\n"
	}
	_, text, _ := strings.Cut(string(diff.Diff(old, f.content, fresh, f.oldContent)), head)
	if len(text) > maxDiff {
		text = strings.ToValidUTF8(text[:maxDiff], "") + fmt.Sprintf("\n[%d more bytes]\n", len(text)-maxDiff)
	}
	return head + text
}

// Apply puts the files of the plan back that are not refused, sets their Done, or Refused if it is
// too late, and returns how many are done. It records the old content first. The error says why
// nothing was put back.
func (p *Plan) Apply() (done int, err error) {
	root, err := os.OpenRoot(p.Dir)
	if err != nil {
		return 0, err
	}
	defer root.Close()
	w := session.Write{Info: session.Info{ID: p.Session}}
	call := session.UndoPrefix + session.NewID()
	files := slices.DeleteFunc(slices.Clone(p.Files), func(f *File) bool { return f.Refused != "" })
	for _, f := range files {
		w.Entries = append(w.Entries, session.Entry{Kind: session.Edit, Time: time.Now().UTC(), Edit: &session.FileEdit{
			Path: f.Path, Call: call, Before: f.now, After: f.before, Mode: uint32(f.mode), Content: f.content, Size: int64(len(f.content)),
		}})
	}
	if err := p.store.Commit([]session.Write{w}); err != nil {
		return 0, fmt.Errorf("nothing was put back, because it cannot be recorded: %w", err)
	}
	for _, f := range files {
		if err := f.putBack(root); err != nil {
			f.Refused = err.Error()
			continue
		}
		f.Done, done = true, done+1
	}
	return done, nil
}

// putBack replaces or removes the file, if it still is as the plan found it. A short time remains
// between the last look and the change: no system call does both at once.
func (f *File) putBack(root *os.Root) (err error) {
	dir, err := openDir(root, f.name)
	if err != nil {
		return err
	}
	defer dir.Close()
	temp, name := ".symbio-"+rand.Text()+".tmp", filepath.Base(f.name)
	if f.before != "" {
		defer func() {
			if err != nil {
				_ = dir.Remove(temp) // it may not have been made
			}
		}()
		if err := errors.Join(dir.WriteFile(temp, f.oldContent, 0o600), dir.Chmod(temp, f.mode)); err != nil {
			return err
		}
	}
	present := *f
	switch _, err := present.read(dir); {
	case err != nil:
		return err
	case present.now != f.now:
		return errors.New("it was changed since")
	case f.before == "":
		return dir.Remove(name)
	}
	return dir.Rename(temp, name)
}
