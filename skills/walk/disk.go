package walk

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"
)

// Entry is a name in a directory, and what kind of file it is without following it.
type Entry struct {
	Name string
	Kind fs.FileMode // the type bits
}

// Mark tells one version of a file or directory from another (skills.md, C34). The zero Mark is that of
// a path where nothing is.
type Mark struct {
	dev, ino uint64
	mtime    int64 // ns since 1970
	ctime    int64 // as well, of the last change of permissions too; 0 where it is not known
	size     int64
}

// settling is how long after a change a file can change again without a trace: the coarsest clock among
// file systems (FAT) ticks every two seconds.
const settling = 2 * time.Second

// Settled reports whether m, taken at now, shows every later change. A modification time in the future
// says nothing; the time of the last change is the system's own.
func (m Mark) Settled(now time.Time) bool {
	before := now.Add(-settling).UnixNano()
	return m == Mark{} || m.mtime < before || m.ctime != 0 && m.ctime < before
}

// MarkOf returns the mark of what path leads to.
func MarkOf(path string) (Mark, error) {
	info, err := os.Stat(path)
	if err != nil {
		return Mark{}, err
	}
	return MarkOfInfo(info), nil
}

// Entries returns what is in a directory, in no order, and its mark. It stops after limit entries unless limit is
// negative; more says that it did. It does not wait for a pipe that has taken the directory's place.
func Entries(dir string, limit int) (entries []Entry, m Mark, more bool, err error) {
	f, err := os.OpenFile(dir, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, Mark{}, false, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, Mark{}, false, err
	}
	m = MarkOfInfo(info)
	n := -1
	if limit >= 0 {
		n = limit + 1
	}
	found, err := f.ReadDir(n)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, m, false, err
	}
	more = limit >= 0 && len(found) > limit
	if more {
		found = found[:limit]
	}
	entries = make([]Entry, len(found))
	for i, e := range found {
		entries[i] = Entry{e.Name(), e.Type()}
	}
	return entries, m, more, nil
}

// Size is the size of the file in bytes.
func (m Mark) Size() int64 { return m.size }
