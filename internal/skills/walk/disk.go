package walk

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"
)

// Entry is a name in a directory. Kind is its type; links are not followed.
type Entry struct {
	Name string
	Kind fs.FileMode // the type bits
}

// Mark identifies one version of a file or directory. The zero Mark is for a path
// that does not exist.
type Mark struct {
	dev, ino uint64
	mtime    int64 // ns since 1970
	ctime    int64 // as well, of the last change of permissions too; 0 where it is not known
	size     int64
}

// settleTime is the time after a change in which another change can leave no trace: the clock of
// the coarsest file system (FAT) ticks every two seconds.
const settleTime = 2 * time.Second

// Settled reports whether m, taken at now, differs after every later change. A modification time in
// the future is no proof, because programs can set it; the change time is set by the system.
func (m Mark) Settled(now time.Time) bool {
	before := now.Add(-settleTime).UnixNano()
	return m == Mark{} || m.mtime < before || m.ctime != 0 && m.ctime < before
}

// MarkOf returns the mark of the file that path leads to.
func MarkOf(path string) (Mark, error) {
	info, err := os.Stat(path)
	if err != nil {
		return Mark{}, err
	}
	return MarkOfInfo(info), nil
}

// Entries returns the entries of a directory, in no order, and its mark. It stops after limit
// entries unless limit is negative; more reports whether there are others. It does not block on a
// pipe that has replaced the directory.
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
