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
	// maxSpares bounds the masks that wait for their next use: those of some commands at a time.
	maxSpares    = 128
	sparesPrefix = ".symbio-masks-"
)

// spares are masks that nobody needs now. On common file systems it takes ten times as long to make and to remove a
// directory as to move one, and a command needs about ten. They wait in a directory of their own, beside those for
// temporary files; where that is on another file system than what is protected, masks are made and removed each time.
// nil keeps none. It may be used from many goroutines at once.
type spares struct {
	in string // the directory that the directory of the spares is made in

	mu   sync.Mutex
	dir  string   // "" until the first is kept
	lock *os.File // says to other processes that dir is in use
	off  bool     // the directory could not be made
	kept map[kind][]*mask
	n    int
}

func newSpares(in string) *spares { return &spares{in: in, kept: map[kind][]*mask{}} }

// take returns a mask that is held, and still to be moved to its place; nil if there is none.
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

// give puts a mask back that take returned.
func (s *spares) give(m *mask) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept[m.kind] = append(s.kept[m.kind], m)
	s.n++
}

// keep moves a mask that is held alone among the spares. It is false where that cannot be done: then the mask is where it
// was.
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
	// Somebody may have put something into it at the last moment: then it is theirs. Otherwise it is held as it has to be
	// when it is in place again.
	if !m.empty() || flock(m.f, unix.LOCK_SH) != nil {
		return m.move(was) != nil
	}
	s.kept[m.kind] = append(s.kept[m.kind], m)
	s.n++
	return true
}

// open makes the directory of the spares, and removes those of processes that have ended.
func (s *spares) open() bool {
	if s.dir != "" || s.off {
		return !s.off
	}
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

// clearSpares removes what processes that have ended left.
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

// clearLeft removes a directory of spares that is this user's and in nobody's use. Only what is empty goes.
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
