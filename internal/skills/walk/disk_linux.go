package walk

import (
	"io/fs"
	"os"
	"syscall"
)

// MarkOfInfo returns the mark of an open file.
func MarkOfInfo(info fs.FileInfo) Mark {
	m := Mark{mtime: info.ModTime().UnixNano(), size: info.Size()}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		m.dev, m.ino, m.ctime = uint64(st.Dev), st.Ino, st.Ctim.Nano()
	}
	return m
}

// OpenPlain opens a file in dir unless it is a link. It needs no os.Root then: no other file type
// leads out of dir.
func OpenPlain(dir, name string) (fs.File, error) {
	return os.OpenFile(Join(dir, name), os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
}
