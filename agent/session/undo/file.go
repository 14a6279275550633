package undo

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
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

	name string // below Plan.Dir; Path if it is not there
	// now and before are the hashes of the present content and of the one that is put back; "" means
	// that there is no file.
	now, before             string
	nowContent, wantContent []byte
	mode                    fs.FileMode // of the file when it is put back
}

// maxContent is the size of files up to which their content is read, in bytes. It is that up to which
// the tools keep it.
const maxContent = 16 << 20

// inspect reads the file and finds out what its changes made of it. The error says why it cannot be
// put back.
func (f *File) inspect(ctx context.Context, p *Plan, root *os.Root, changes []change) (err error) {
	name, err := filepath.Rel(p.Dir, f.Path)
	if err != nil || !filepath.IsLocal(name) {
		return fmt.Errorf("it is outside of the session's directory, %s; only files below it are put back", p.Dir)
	}
	first := changes[0]
	f.name, f.before, f.mode = name, first.Before, fs.FileMode(first.Mode)
	if f.mode == 0 {
		f.mode = 0o644 // an undo removed a file, whose mode the agent's tools had chosen
	}
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
	if err := f.check(changes); err != nil {
		return err
	}
	if f.before != "" {
		f.wantContent, err = p.store.Content(ctx, first.session, f.before)
		if errors.Is(err, session.ErrNotFound) {
			return fmt.Errorf("its content was not kept: a file has at most %d MiB for that, and all of a session %d MiB", maxContent>>20, session.MaxContents>>20)
		}
	}
	f.Diff = f.diff()
	return err
}

// check returns an error if another program changed the file since, or between two of the changes. A
// change that is recorded may not have happened, because its record comes first.
func (f *File) check(changes []change) error {
	states := []string{changes[0].Before}
	for _, c := range changes {
		if !slices.Contains(states, c.Before) {
			return errors.New("another program, or a command, changed it between two changes of the session; undo a later exchange, or put it back by hand")
		}
		states = []string{c.Before, c.After}
	}
	switch {
	case slices.Contains(states, f.now):
		return nil
	case f.now == "":
		return errors.New("it was removed since")
	}
	return errors.New("it was changed since")
}

// openDir opens the directory of a file below root. It refuses one to which a symbolic link leads: the
// paths that are recorded have no links, so the link was made since.
func openDir(root *os.Root, name string) (_ *os.Root, err error) {
	at := filepath.Dir(name)
	dir, err := root.OpenRoot(at)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("its directory was removed since: %w", err)
	}
	if err != nil {
		return nil, fmt.Errorf("its directory cannot be opened: %w", err)
	}
	defer func() {
		if err != nil {
			_ = dir.Close() // nothing was written
		}
	}()
	link := errors.New("its directory is, or lies behind, a symbolic link that was made since")
	here, err := dir.Stat(".")
	if err != nil {
		return nil, err
	}
	// The open directory is compared, so that a link that was there for a moment is found, too.
	if there, err := root.Lstat(at); err != nil || !os.SameFile(here, there) {
		return nil, link
	}
	for ; at != "."; at = filepath.Dir(at) {
		if info, err := root.Lstat(at); err != nil || info.Mode()&fs.ModeSymlink != 0 {
			return nil, link
		}
	}
	return dir, nil
}

// read sets now and nowContent from the file in dir. It returns its state, nil if there is no file.
func (f *File) read(dir *os.Root) (fs.FileInfo, error) {
	f.now, f.nowContent = "", nil
	info, err := dir.Lstat(filepath.Base(f.name))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	case info.Mode()&fs.ModeSymlink != 0:
		return nil, errors.New("it is a symbolic link now")
	case info.IsDir():
		return nil, errors.New("it is a directory now")
	case !info.Mode().IsRegular():
		return nil, errors.New("it is not a regular file now")
	}
	file, err := dir.Open(filepath.Base(f.name))
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if opened, err := file.Stat(); err != nil || !os.SameFile(info, opened) {
		return nil, errors.New("another program replaces it now")
	}
	hash := sha256.New()
	f.nowContent, err = io.ReadAll(io.LimitReader(io.TeeReader(file, hash), maxContent+1))
	if err == nil && len(f.nowContent) > maxContent {
		f.nowContent = nil
		_, err = io.Copy(hash, file)
	}
	f.now = fmt.Sprintf("%x", hash.Sum(nil))
	return info, err
}

// diff returns the unified difference from the present content to the one that is put back.
func (f *File) diff() string {
	old, fresh := filepath.ToSlash(f.name), filepath.ToSlash(f.name)
	if f.now == "" {
		old = os.DevNull
	}
	if f.before == "" {
		fresh = os.DevNull
	}
	head := fmt.Sprintf("--- %s\n+++ %s\n", old, fresh)
	text := func(b []byte) bool { return utf8.Valid(b) && bytes.IndexByte(b, 0) < 0 }
	if f.now != "" && f.nowContent == nil || !text(f.nowContent) || !text(f.wantContent) {
		return head + "[no text, or too long to compare]\n"
	}
	_, after, found := strings.Cut(string(diff.Diff(old, f.nowContent, fresh, f.wantContent)), head)
	if !found {
		after = "[an empty file]\n"
	}
	return head + after
}

// Apply puts the files of the plan back that are not refused, and sets their Done, or Refused if it is
// too late. What it replaces is recorded first. The error says why nothing was put back.
func (p *Plan) Apply(ctx context.Context) error {
	root, err := os.OpenRoot(p.Dir)
	if err != nil {
		return err
	}
	defer root.Close()
	call := callPrefix + session.NewID()
	var entries []session.Entry
	for _, f := range p.Files {
		if f.Refused == "" {
			e := &session.FileEdit{Path: f.Path, Call: call, Before: f.now, After: f.before, Mode: uint32(f.mode), Content: f.nowContent}
			p.room -= e.Limit(p.room)
			entries = append(entries, session.Entry{Kind: session.Edit, Time: time.Now().UTC(), Edit: e})
		}
	}
	if len(entries) == 0 {
		return nil
	}
	if err := p.store.Commit([]session.Write{{Info: session.Info{ID: p.Session}, Entries: entries}}); err != nil {
		return fmt.Errorf("nothing was put back, because it cannot be recorded: %w", err)
	}
	for _, f := range p.Files {
		if f.Refused != "" {
			continue
		}
		err := context.Cause(ctx)
		if err == nil {
			err = f.putBack(root)
		}
		if f.Done = err == nil; err != nil {
			f.Refused = err.Error()
		}
	}
	return nil
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
		if err := f.write(dir, temp); err != nil {
			return err
		}
		defer func() {
			if err != nil {
				err = errors.Join(err, dir.Remove(temp))
			}
		}()
	}
	present := *f
	if _, err := present.read(dir); err != nil {
		return err
	}
	switch {
	case present.now != f.now:
		return errors.New("it was changed while the undo was running")
	case f.before == "":
		return dir.Remove(name)
	}
	return dir.Rename(temp, name)
}

// write makes a new file in dir with the content that is put back. With an error there is none.
func (f *File) write(dir *os.Root, name string) error {
	file, err := dir.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(f.wantContent)
	if err := errors.Join(err, file.Chmod(f.mode), file.Close()); err != nil {
		return errors.Join(err, dir.Remove(name))
	}
	return nil
}
