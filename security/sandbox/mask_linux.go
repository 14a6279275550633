//go:build amd64 || arm64

package sandbox

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// mask is an empty file or directory at a protected path where nothing exists, so that a command
// cannot create it; the command has it read-only. Commands that run at the same time share masks,
// also processes of other nodes: each holds a shared lock, and the last one removes it. A mask that a
// killed node left behind is recognised by its mode, and removed with the next command.
type mask struct {
	path string
	// f is open on the mask and holds the shared lock; closing it releases the lock.
	f *os.File
	// own says that this process has made it, also where the file system does not keep its mode.
	own bool
}

// maskMode is the mode of a mask that is a directory; one that is a file can be neither written nor
// executed. No file of a user has the sticky bit by chance. A mask has it from its beginning, so
// that no process takes one for a file of the user.
const maskMode = unix.S_ISVTX | 0o755

// isMask reports whether a file is a mask, made by this node or another. 2 bytes are the longest
// content.
func isMask(st fs.FileInfo) bool {
	mode := st.Mode()
	return mode&fs.ModeSticky != 0 && mode.Perm()&0o022 == 0 && (mode.IsDir() || mode.IsRegular() && st.Size() <= 2)
}

// maskPool has the masks that wait for their next use: on common file systems making and removing a
// directory takes ten times as long as moving one, and waits for the disk where others write. It
// may be used by one goroutine at a time, its directory by many processes.
type maskPool struct {
	// dir is its directory; "" is none.
	dir string
	// names are those that were in the directory when this command began.
	names []string
}

// newMaskPool returns the pool in a directory, which it makes; an empty one if that is not
// possible, or is another user's.
func newMaskPool(dir string) (p maskPool) {
	_ = os.Mkdir(dir, 0o700) // mostly it is there
	var st unix.Stat_t
	if dir == "" || unix.Lstat(dir, &st) != nil || int(st.Uid) != os.Getuid() || st.Mode&0o077 != 0 {
		return p
	}
	p.dir = dir
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		p.names = append(p.names, e.Name())
	}
	return p
}

// mask makes a mask at path or locks the one that is there. It returns nil where this user
// cannot create anything, and where something else exists: neither needs a mask. It tries
// again when another process removes the mask in between.
func (p *maskPool) mask(path string) (*mask, error) {
	for range 100 {
		made := p.place(path)
		if errors.Is(made, fs.ErrPermission) || errors.Is(made, unix.EROFS) {
			return nil, nil
		}
		if made != nil && !errors.Is(made, fs.ErrExist) {
			return nil, fmt.Errorf("mask what is not there: %w", made)
		}
		m, err := lockMask(path, made == nil)
		if !errors.Is(err, fs.ErrNotExist) {
			return m, err
		}
	}
	// After 100 rounds, another program makes and removes the file all the time.
	return nil, fmt.Errorf("mask what is not there: %s comes and goes", path)
}

// place puts a mask at path, one of the pool if it can. It never replaces a file.
func (p *maskPool) place(path string) error {
	if content, isFile := contents[filepath.Base(path)]; isFile {
		fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, maskMode&^0o333)
		if err != nil {
			return err
		}
		f := os.NewFile(uintptr(fd), path)
		_, err = f.WriteString(content)
		return errors.Join(err, f.Close())
	}
	for len(p.names) > 0 {
		from := filepath.Join(p.dir, p.names[0])
		p.names = p.names[1:]
		if moved := move(from, path); moved == nil || errors.Is(moved, fs.ErrExist) {
			return moved
		}
		// Another process has taken it, or path is on another file system.
	}
	return unix.Mkdir(path, maskMode)
}

// move renames a file. It never replaces one.
func move(from, to string) error {
	return unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE)
}

// lockMask locks the mask at path. It returns nil if what is there is no mask, and fs.ErrNotExist
// if it was removed or replaced before it was locked.
func lockMask(path string, own bool) (*mask, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, unix.ELOOP) || errors.Is(err, fs.ErrPermission) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("hold the mask: %w", err)
	}
	m := &mask{path, f, own}
	if !m.empty() {
		return nil, f.Close()
	}
	if err = flock(f, unix.LOCK_SH); err == nil && !m.inPlace() {
		err = fs.ErrNotExist
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("hold the mask %s: %w", path, err), f.Close())
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

// empty reports whether the mask is as it was made. If a program of the user has put something into
// a directory, that is the user's own from then on.
func (m *mask) empty() bool {
	st, err := m.f.Stat()
	if err != nil || !isMask(st) && !(m.own && st.IsDir()) {
		return false
	}
	if !st.IsDir() {
		return true
	}
	m.f.Seek(0, io.SeekStart)
	_, err = m.f.Readdirnames(1)
	if err == nil {
		m.f.Chmod(0o755)
	}
	return err != nil
}

// release ends this process's use of the mask. It stays where it is if another process holds it, or
// if it is not empty any more; otherwise it goes into the pool or is removed.
func (p *maskPool) release(m *mask) error {
	defer m.f.Close()
	if flock(m.f, unix.LOCK_EX|unix.LOCK_NB) != nil || !m.inPlace() || !m.empty() {
		return nil
	}
	kept := filepath.Join(p.dir, fmt.Sprintf("%016x", rand.Uint64()))
	if _, isFile := contents[filepath.Base(m.path)]; !isFile && p.dir != "" && move(m.path, kept) == nil {
		if m.empty() {
			return nil
		}
		// Another program has put something into it at the last moment.
		return move(kept, m.path)
	}
	if err := os.Remove(m.path); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENOTEMPTY) {
		return fmt.Errorf("remove the mask: %w", err)
	}
	return nil
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
