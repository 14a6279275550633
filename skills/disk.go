package skills

import (
	"io/fs"
	"time"
)

// dirent is a name in a directory, and what kind of file it is without following it.
type dirent struct {
	name string
	kind fs.FileMode // the type bits
}

// mark tells one version of a file or directory from another (skills.md, C34). The zero mark is that of
// a path where nothing is.
type mark struct {
	dev, ino uint64
	mtime    int64 // ns since 1970
	ctime    int64 // as well, of the last change of permissions too; 0 where it is not known
	size     int64
}

// settling is how long after a change a file can change again without a trace: the coarsest clock among
// file systems (FAT) ticks every two seconds.
const settling = 2 * time.Second

// settled reports whether m, taken at now, shows every later change. A modification time in the future
// says nothing; the time of the last change is the system's own.
func (m mark) settled(now time.Time) bool {
	before := now.Add(-settling).UnixNano()
	return m == mark{} || m.mtime < before || m.ctime != 0 && m.ctime < before
}
