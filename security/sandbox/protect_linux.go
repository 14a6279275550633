//go:build amd64 || arm64

package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// protection is what keeps the protected names of a job's directories.
type protection struct {
	pins, paths []string
	masks       []*mask
}

// protect finds out what to protect below the writable places. Masks are made in the directories themselves, where
// everybody sees them while the command runs; release removes them.
func (b *Box) protect(write []place, dir string) (_ *protection, err error) {
	p := new(protection)
	defer func() {
		if err != nil {
			err = errors.Join(err, p.release())
		}
	}()
	for _, base := range b.bases(write, dir) {
		p.pinTo(base, write)
		names, others := masked, slices.Concat(existing, shellSettings, b.cfg.Protect)
		if base == b.home() {
			names, others = slices.Concat(masked, shellSettings), slices.Concat(existing, b.cfg.Protect)
		}
		if isGitDir(base) {
			names = gitDir
		}
		modules, err := filepath.Glob(filepath.Join(base, ".git/modules/*"))
		if err != nil {
			return nil, err
		}
		for _, m := range modules {
			for _, name := range gitDir {
				others = append(others, filepath.Join(".git/modules", filepath.Base(m), name))
			}
		}
		for _, name := range names {
			if err := p.add(base, name, true); err != nil {
				return nil, err
			}
		}
		for _, name := range others {
			if err := p.add(base, name, false); err != nil {
				return nil, err
			}
		}
	}
	slices.Sort(p.pins)
	p.pins = slices.Compact(p.pins)
	slices.Sort(p.paths)
	p.paths = slices.Compact(p.paths)
	return p, nil
}

// bases are the directories at whose top names are protected: the writable ones, and those of the working directory
// and the user's home that lie inside of them.
func (b *Box) bases(write []place, dir string) (out []string) {
	also := []string{b.home(), dir}
	for _, w := range write {
		if st, err := os.Lstat(w.Path); err != nil || !st.IsDir() {
			continue
		}
		out = append(out, w.Path)
		for _, d := range also {
			if d != "" && within(d, w.Path) {
				out = append(out, d)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func (b *Box) home() string {
	real, err := filepath.EvalSymlinks(b.cfg.Home)
	if err != nil || real == "/" {
		return ""
	}
	return real
}

func isGitDir(dir string) bool {
	for _, name := range []string{"HEAD", "objects", "refs"} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err != nil {
			return false
		}
	}
	return true
}

// pinTo pins a base that lies inside of a writable place, with all directories on the way to it.
func (p *protection) pinTo(base string, write []place) {
	for _, w := range write {
		for at := base; at != w.Path && within(at, w.Path); at = filepath.Dir(at) {
			p.pins = append(p.pins, at)
		}
	}
}

// add protects base/name. Every directory between the two is pinned. The first part that does not exist is masked, if
// it is to be.
func (p *protection) add(base, name string, create bool) error {
	at := base
	parts := strings.Split(filepath.ToSlash(filepath.Clean(name)), "/")
	for i, part := range parts {
		if part == ".." || part == "." {
			return fmt.Errorf("a protected name must lie inside its directory: %q", name)
		}
		at = filepath.Join(at, part)
		if slices.Contains(p.paths, at) {
			return nil
		}
		st, err := os.Lstat(at)
		gone := errors.Is(err, fs.ErrNotExist)
		if gone && !create {
			return nil
		}
		if gone || err == nil && isMask(st) {
			var m *mask
			if m, err = makeMask(at); err != nil {
				return err
			}
			if m != nil {
				p.masks = append(p.masks, m)
				p.paths = append(p.paths, at)
				return nil
			}
			if st, err = os.Lstat(at); errors.Is(err, fs.ErrNotExist) {
				return nil // where this process can make nothing, the command cannot either
			}
		}
		if err != nil {
			return fmt.Errorf("look at what to protect: %w", err)
		}
		switch {
		case st.Mode()&fs.ModeSymlink != 0:
			return fmt.Errorf("%s is a symbolic link, which cannot be protected: replace it by what it points to, or give the command no write access there", at)
		case i == len(parts)-1 || !st.IsDir() || isMask(st):
			p.paths = append(p.paths, at)
			return nil
		}
		p.pins = append(p.pins, at)
	}
	return nil
}

func (p *protection) release() (err error) {
	for i := len(p.masks) - 1; i >= 0; i-- {
		err = errors.Join(err, p.masks[i].release())
	}
	p.masks = nil
	return err
}

// mask stands where something protected is not. Commands that run at the same time share it, those of other nodes
// too: each holds a shared lock on it, and who is the last removes it. One that was left by a node that was killed is
// found by its time, and goes with the next command.
type mask struct {
	path string
	f    *os.File
}

// maskTime is the time of masks: a moment that no clock showed.
var maskTime = time.Unix(1, 20261121)

func isMask(st fs.FileInfo) bool {
	return st.ModTime().Equal(maskTime) && (st.IsDir() || st.Mode().IsRegular() && st.Size() <= 2)
}

// makeMask returns nil where nothing can be made, and where there is something else.
func makeMask(path string) (*mask, error) {
	for range 100 { // somebody may remove it between two steps
		st, err := os.Lstat(path)
		if errors.Is(err, fs.ErrNotExist) {
			m, err := createMask(path)
			switch {
			case m != nil:
				return m, nil
			case errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.EROFS):
				return nil, nil
			case err != nil && !errors.Is(err, fs.ErrExist):
				return nil, fmt.Errorf("mask what is not there: %w", err)
			}
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("mask what is not there: %w", err)
		}
		if !isMask(st) {
			return nil, nil
		}
		if m, err := keepMask(path); m != nil || err != nil {
			return m, err
		}
	}
	return nil, fmt.Errorf("mask what is not there: %s comes and goes", path)
}

// createMask makes the mask under another name first: nobody is to see one without its time, or that nobody holds. It
// returns nil with no error if the mask is there, but not held.
func createMask(path string) (*mask, error) {
	f, err := unnamedMask(path)
	if err != nil {
		return nil, err
	}
	made := f.Name()
	err = unix.Renameat2(unix.AT_FDCWD, made, unix.AT_FDCWD, path, unix.RENAME_NOREPLACE)
	if err == nil {
		return &mask{path, f}, nil
	}
	err = errors.Join(&os.LinkError{Op: "rename", Old: made, New: path, Err: err}, f.Close(), os.Remove(made))
	if _, isFile := contents[filepath.Base(path)]; isFile || !errors.Is(err, unix.EINVAL) {
		return nil, err
	}
	if err := os.Mkdir(path, 0o555); err != nil { // a network's files cannot be renamed like that
		return nil, err
	}
	return nil, os.Chtimes(path, maskTime, maskTime)
}

// unnamedMask makes what is to become the mask of path, beside it, and holds it.
func unnamedMask(path string) (*os.File, error) {
	name := filepath.Join(filepath.Dir(path), fmt.Sprintf(".symbio-mask-%016x", rand.Uint64()))
	content, isFile := contents[filepath.Base(path)]
	flags, mode := unix.O_RDONLY|unix.O_DIRECTORY, uint32(0o555)
	if isFile {
		flags, mode = unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, 0o444
	} else if err := unix.Mkdir(name, mode); err != nil {
		return nil, &os.PathError{Op: "mkdir", Path: name, Err: err}
	}
	fd, err := unix.Open(name, flags|unix.O_CLOEXEC|unix.O_NOFOLLOW, mode)
	if err != nil {
		return nil, errors.Join(&os.PathError{Op: "open", Path: name, Err: err}, os.Remove(name))
	}
	f := os.NewFile(uintptr(fd), name)
	if err := finishMask(f, content, mode); err != nil {
		return nil, errors.Join(err, f.Close(), os.Remove(name))
	}
	return f, nil
}

func finishMask(f *os.File, content string, mode uint32) error {
	if content != "" {
		if _, err := f.WriteString(content); err != nil {
			return err
		}
	}
	st, err := f.Stat()
	if err != nil {
		return err
	}
	if uint32(st.Mode().Perm()) != mode { // the umask; other users' nodes are to see it too
		if err := f.Chmod(fs.FileMode(mode)); err != nil {
			return err
		}
	}
	at := unix.NsecToTimespec(maskTime.UnixNano())
	if err := unix.UtimesNanoAt(unix.AT_FDCWD, f.Name(), []unix.Timespec{at, at}, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return &os.PathError{Op: "set the time of", Path: f.Name(), Err: err}
	}
	return flock(f, unix.LOCK_SH)
}

// keepMask returns nil if the mask is gone.
func keepMask(path string) (*mask, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("hold the mask: %w", err)
	}
	m := &mask{path, f}
	if err := flock(f, unix.LOCK_SH); err != nil {
		return nil, errors.Join(fmt.Errorf("hold the mask %s: %w", path, err), f.Close())
	}
	if !m.inPlace() {
		return nil, f.Close()
	}
	return m, nil
}

// inPlace says that the mask is still what its path leads to.
func (m *mask) inPlace() bool {
	mine, err := m.f.Stat()
	if err != nil {
		return false
	}
	there, err := os.Lstat(m.path)
	return err == nil && os.SameFile(mine, there)
}

// release removes the mask if nobody else holds it and it is still empty.
func (m *mask) release() error {
	defer m.f.Close()
	if flock(m.f, unix.LOCK_EX|unix.LOCK_NB) != nil || !m.inPlace() {
		return nil
	}
	st, err := m.f.Stat()
	if err != nil {
		return fmt.Errorf("remove the mask: %w", err)
	}
	if !isMask(st) {
		return nil // somebody put something in it
	}
	remove := unix.Rmdir
	if !st.IsDir() {
		remove = unix.Unlink
	}
	if err := remove(m.path); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENOTEMPTY) {
		return fmt.Errorf("remove the mask: %w", err)
	}
	return nil
}

func flock(f *os.File, how int) error {
	for {
		if err := unix.Flock(int(f.Fd()), how); err != unix.EINTR {
			return err
		}
	}
}
