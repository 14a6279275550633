//go:build amd64 || arm64

package sandbox

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	// maxSpares bounds the masks that wait for their next use. A command needs about ten.
	maxSpares = 128
	// sparesPrefix begins the name of a pool's directory; a random part follows.
	sparesPrefix = ".symbio-masks-"
)

// spares keeps masks that are not in use, to be moved into place for the next command. On
// common file systems making and removing a directory takes ten times as long as moving one,
// and a command needs about ten masks. The directory of the spares lies beside those for
// temporary files; if that is another file system, masks are made and removed each time. A nil
// *spares keeps none. It may be used from many goroutines.
type spares struct {
	// in is the directory in which the pool's directory is made.
	in string

	mu sync.Mutex
	// dir is the pool's directory; "" until the first mask is kept. Guarded by mu.
	dir string
	// lock is open on dir with a shared lock, which tells other processes that dir is in use.
	// Guarded by mu.
	lock *os.File
	// off says that the directory could not be made; then nothing is kept. Guarded by mu.
	off bool
	// kept are the masks by kind, and n counts all of them; guarded by mu. Each is locked.
	kept map[kind][]*mask
	n    int
}

// newSpares returns an empty pool. Its directory is made in the directory in when the first
// mask is kept.
func newSpares(in string) *spares { return &spares{in: in, kept: map[kind][]*mask{}} }

// take removes a mask from the pool and returns it, locked; nil if there is none of that kind.
func (s *spares) take(k kind) *mask {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.kept[k]
	if len(all) == 0 {
		return nil
	}
	m := all[len(all)-1]
	s.kept[k] = all[:len(all)-1]
	s.n--
	return m
}

// give puts a mask back that take returned and that could not be moved.
func (s *spares) give(m *mask) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept[m.kind] = append(s.kept[m.kind], m)
	s.n++
}

// keep moves a mask that only this process holds into the pool. It returns false if that is
// not possible, for example when the pool is full; then the mask is where it was.
func (s *spares) keep(m *mask) bool {
	if s == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.n >= maxSpares || !s.open() {
		return false
	}
	was := m.path
	if m.move(filepath.Join(s.dir, fmt.Sprintf("%016x", rand.Uint64()))) != nil {
		return false
	}
	// Another program may have put something into it at the last moment: then it must stay where
	// the user can find it. Otherwise the exclusive lock of release becomes the shared one that a
	// mask in place has.
	if !m.empty() || flock(m.f, unix.LOCK_SH) != nil {
		return m.move(was) != nil
	}
	s.kept[m.kind] = append(s.kept[m.kind], m)
	s.n++
	return true
}

// open makes the directory of the pool, locks it, and removes those of processes that have
// ended. After a failure it does not try again. The caller holds s.mu.
func (s *spares) open() bool {
	if s.dir != "" || s.off {
		return !s.off
	}
	// Until everything has succeeded.
	s.off = true
	clearSpares(s.in)
	dir, err := os.MkdirTemp(s.in, sparesPrefix)
	if err != nil {
		return false
	}
	lock, err := os.Open(dir)
	if err != nil {
		return false
	}
	s.dir, s.lock, s.off = dir, lock, flock(lock, unix.LOCK_SH) != nil
	return !s.off
}

// clearSpares removes the pools of processes that have ended. A killed process leaves its pool
// behind. Errors are ignored: the next process tries again.
func clearSpares(in string) {
	entries, err := os.ReadDir(in)
	if err != nil {
		return
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), sparesPrefix) && e.IsDir() {
			clearLeft(filepath.Join(in, e.Name()))
		}
	}
}

// clearLeft removes a directory of spares if it is this user's and no process has it locked.
// It removes only empty masks, never a file with content.
func clearLeft(dir string) {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	f := os.NewFile(uintptr(fd), dir)
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return
	}
	if st, ok := info.Sys().(*syscall.Stat_t); !ok || int(st.Uid) != os.Getuid() || flock(f, unix.LOCK_EX|unix.LOCK_NB) != nil {
		return
	}
	entries, err := f.ReadDir(2 * maxSpares)
	if err != nil {
		return
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil && isMask(info) {
			_ = os.Remove(filepath.Join(dir, e.Name()))
		}
	}
	_ = os.Remove(dir)
}
