//go:build amd64 || arm64

package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// mask is an empty read-only file or directory at a protected path where nothing exists, so
// that a command cannot create it. Commands that run at the same time share masks, also those
// of other nodes: each holds a shared lock, and the last one removes it. A mask that a killed
// node left behind is recognised by its modification time, and removed with the next command.
type mask struct {
	// path is where the mask is now.
	path string
	// f is open on the mask and holds the shared lock; closing it releases the lock.
	f *os.File
	// kind is the zero value for a mask that keepMask has found.
	kind kind
	// own says that this process has made the mask. Only such a mask goes into the pool.
	own bool
}

// kind is what a mask looks like: a directory, or a file with a content that its readers accept as
// empty. It is comparable: the pool has masks by kind.
type kind struct {
	isFile  bool
	content string
}

// kindOf returns the kind of mask for a path.
func kindOf(path string) kind {
	content, isFile := contents[filepath.Base(path)]
	return kind{isFile, content}
}

// maskTime is the modification time that marks a mask: one second and 20261121 nanoseconds after
// 1970, which no file of a user has by chance. Changing a mask, or making a file in it, changes its
// time, and so it stops being one.
var maskTime = time.Unix(1, 20261121)

// isMask reports whether a file is an unchanged mask, made by this node or another. 2 bytes are the
// longest content.
func isMask(st fs.FileInfo) bool {
	return st.ModTime().Equal(maskTime) && (st.IsDir() || st.Mode().IsRegular() && st.Size() <= 2)
}

// mask makes a mask at path or locks the one that is there. It returns nil where this user
// cannot create anything, and where something else exists: neither needs a mask. It tries
// again when another process removes the mask in between.
func (s *spares) mask(path string) (*mask, error) {
	for range 100 { // another process may remove it between two steps
		st, err := os.Lstat(path)
		if errors.Is(err, fs.ErrNotExist) {
			m, err := s.place(path)
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
	// After 100 rounds, another program makes and removes the file all the time.
	return nil, fmt.Errorf("mask what is not there: %s comes and goes", path)
}

// place moves a finished mask to path. It is made under another name first, so that no process
// sees a mask without its time or without a lock. It returns nil without an error if the mask
// is there but not locked by this process.
func (s *spares) place(path string) (*mask, error) {
	k := kindOf(path)
	// A mask of the pool can be moved only within a file system (EXDEV); otherwise a new one is
	// made in the same directory.
	if m := s.take(k); m != nil {
		if err := m.move(path); err == nil {
			return m, nil
		} else if s.give(m); !errors.Is(err, unix.EXDEV) {
			return nil, err
		}
	}
	m, err := newMask(filepath.Dir(path), k)
	if err != nil {
		return nil, err
	}
	if err = m.move(path); err == nil {
		return m, nil
	}
	err = errors.Join(err, m.f.Close(), os.Remove(m.path))
	if k.isFile || !errors.Is(err, unix.EINVAL) {
		return nil, err
	}
	// EINVAL: the file system, such as NFS, does not know RENAME_NOREPLACE. The mask is made
	// directly, and locked by keepMask in the next round.
	if err := os.Mkdir(path, 0o555); err != nil { // a network's files cannot be renamed like that
		return nil, err
	}
	return nil, os.Chtimes(path, maskTime, maskTime)
}

// move renames the mask to a name that does not exist; it never replaces a file.
func (m *mask) move(to string) error {
	if m.kind.isFile {
		return m.rename(to)
	}
	// Moving a directory to another parent writes its ".." entry, for which the kernel wants write
	// permission.
	if err := m.f.Chmod(0o755); err != nil {
		return err
	}
	return errors.Join(m.rename(to), m.f.Chmod(0o555))
}

// rename uses RENAME_NOREPLACE, so that a file which the user makes at the same instant is not
// lost.
func (m *mask) rename(to string) error {
	if err := unix.Renameat2(unix.AT_FDCWD, m.path, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE); err != nil {
		return &os.LinkError{Op: "rename", Old: m.path, New: to, Err: err}
	}
	m.path = to
	return nil
}

// newMask makes and locks a mask in dir under a random name. The caller moves it into place, or
// closes and removes it.
func newMask(dir string, k kind) (*mask, error) {
	name := filepath.Join(dir, fmt.Sprintf(".symbio-mask-%016x", rand.Uint64()))
	flags, mode := unix.O_RDONLY|unix.O_DIRECTORY, uint32(0o555)
	if k.isFile {
		flags, mode = unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, 0o444
	} else if err := unix.Mkdir(name, mode); err != nil {
		return nil, &os.PathError{Op: "mkdir", Path: name, Err: err}
	}
	fd, err := unix.Open(name, flags|unix.O_CLOEXEC|unix.O_NOFOLLOW, mode)
	if err != nil {
		return nil, errors.Join(&os.PathError{Op: "open", Path: name, Err: err}, os.Remove(name))
	}
	f := os.NewFile(uintptr(fd), name)
	if err := finishMask(f, k.content, mode); err != nil {
		return nil, errors.Join(err, f.Close(), os.Remove(name))
	}
	return &mask{name, f, k, true}, nil
}

// finishMask writes the content, the mode and the time of a new mask, and locks it. The mode
// is set again because of the umask.
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
	// The umask may have taken permissions away, and nodes of other users have to see the mask,
	// too.
	if uint32(st.Mode().Perm()) != mode {
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

// keepMask locks the mask at path that another process, or this one, has made. It returns nil if
// the mask is gone or was replaced before it was locked; the caller tries again.
func keepMask(path string) (*mask, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("hold the mask: %w", err)
	}
	m := &mask{path: path, f: f}
	if err := flock(f, unix.LOCK_SH); err != nil {
		return nil, errors.Join(fmt.Errorf("hold the mask %s: %w", path, err), f.Close())
	}
	if !m.inPlace() {
		return nil, f.Close()
	}
	return m, nil
}

// inPlace reports whether the mask is still the file at its path.
func (m *mask) inPlace() bool {
	mine, err := m.f.Stat()
	if err != nil {
		return false
	}
	there, err := os.Lstat(m.path)
	return err == nil && os.SameFile(mine, there)
}

// release ends this process's use of the mask. The mask stays where it is if another process holds
// it, or if it is not empty any more; otherwise it goes into the pool or is removed. It always
// gives up the lock on a mask that stays.
func (s *spares) release(m *mask) error {
	if flock(m.f, unix.LOCK_EX|unix.LOCK_NB) != nil || !m.inPlace() || !m.empty() {
		return m.f.Close()
	}
	if m.own && s.keep(m) {
		return nil
	}
	defer m.f.Close()
	if !m.empty() {
		// Another program has put something into it since keep looked.
		return nil
	}
	st, err := m.f.Stat()
	if err != nil {
		return fmt.Errorf("remove the mask: %w", err)
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

// empty reports whether the mask is as it was made. It looks at the open file, not at the path.
func (m *mask) empty() bool {
	st, err := m.f.Stat()
	return err == nil && isMask(st)
}

// flock is flock(2), repeated after a signal. Locks end with the last descriptor, also when the
// process is killed.
func flock(f *os.File, how int) error {
	for {
		if err := unix.Flock(int(f.Fd()), how); err != unix.EINTR {
			return err
		}
	}
}
