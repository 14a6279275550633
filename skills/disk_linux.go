package skills

import (
	"encoding/binary"
	"io"
	"io/fs"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// On Linux the disk is read by system calls alone: package os spends as much again on each file (a
// poller that regular files do not have, finalizers, a FileInfo for each entry), and a scan is nothing
// but such calls.

// markOf returns the mark of what path leads to.
func markOf(path string) (mark, error) {
	var st unix.Stat_t
	if err := again(func() error { return unix.Stat(path, &st) }); err != nil {
		return mark{}, err
	}
	return markFrom(&st), nil
}

func markFrom(st *unix.Stat_t) mark {
	return mark{uint64(st.Dev), st.Ino, st.Mtim.Nano(), st.Ctim.Nano(), st.Size}
}

// again repeats a call that a signal interrupted.
func again(call func() error) error {
	for {
		if err := call(); err != unix.EINTR {
			return err
		}
	}
}

func openFD(path string, flags int) (fd int, err error) {
	err = again(func() error {
		fd, err = unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK|flags, 0)
		return err
	})
	return fd, err
}

// direntSize holds some hundred entries, so that most directories take one call and the one that finds
// the end.
const direntSize = 16 << 10

var direntPool = sync.Pool{New: func() any { return new([direntSize]byte) }}

// entriesOf returns what is in a directory, in no order, and its mark. It stops after limit entries unless
// limit is negative; more says that it did.
func entriesOf(dir string, limit int) (entries []dirent, m mark, more bool, err error) {
	fd, err := openFD(dir, unix.O_DIRECTORY)
	if err != nil {
		return nil, mark{}, false, err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, mark{}, false, err
	}
	m = markFrom(&st)
	buf := direntPool.Get().(*[direntSize]byte)
	defer direntPool.Put(buf)
	for {
		var n int
		err := again(func() (err error) { n, err = unix.Getdents(fd, buf[:]); return err })
		if err != nil || n <= 0 {
			return entries, m, false, err
		}
		entries = dirents(entries, fd, buf[:n])
		if limit >= 0 && len(entries) > limit {
			return entries[:limit], m, true, nil
		}
	}
}

// dirents appends the records of getdents64(2): inode 8, offset 8, length 2, type 1, name, NUL.
func dirents(entries []dirent, fd int, buf []byte) []dirent {
	const header = 19
	for len(buf) > header {
		size := int(binary.NativeEndian.Uint16(buf[16:]))
		if size <= header || size > len(buf) {
			return entries // never, from a kernel
		}
		name := buf[header:size]
		kind := buf[18]
		buf = buf[size:]
		end := 0
		for end < len(name) && name[end] != 0 {
			end++
		}
		if s := string(name[:end]); s != "." && s != ".." && s != "" {
			entries = append(entries, dirent{s, kindOfDirent(fd, s, kind)})
		}
	}
	return entries
}

func kindOfDirent(fd int, name string, kind byte) fs.FileMode {
	switch kind {
	case unix.DT_DIR:
		return fs.ModeDir
	case unix.DT_REG:
		return 0
	case unix.DT_LNK:
		return fs.ModeSymlink
	case unix.DT_FIFO:
		return fs.ModeNamedPipe
	case unix.DT_SOCK:
		return fs.ModeSocket
	case unix.DT_CHR, unix.DT_BLK:
		return fs.ModeDevice
	case unix.DT_UNKNOWN: // some file systems do not say
		var st unix.Stat_t
		if unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil {
			return modeOf(st.Mode).Type()
		}
	}
	return fs.ModeIrregular
}

// openPlain opens the file of that name in dir if it is no link: then nothing can lead out of dir.
func openPlain(dir, name string) (fs.File, error) {
	fd, err := openFD(dir+"/"+name, unix.O_NOFOLLOW)
	if err != nil {
		return nil, err
	}
	return &plainFile{fd: fd, name: name}, nil
}

// plainFile is an fs.File that does no more than is asked of it.
type plainFile struct {
	fd   int
	name string
	st   unix.Stat_t
}

func (f *plainFile) Stat() (fs.FileInfo, error) {
	if err := unix.Fstat(f.fd, &f.st); err != nil {
		return nil, err
	}
	return plainInfo{f}, nil
}

func (f *plainFile) Read(p []byte) (n int, err error) {
	if len(p) == 0 {
		return 0, nil
	}
	err = again(func() (err error) { n, err = unix.Read(f.fd, p); return err })
	switch {
	case err != nil:
		return 0, err
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}

func (f *plainFile) Close() error { return unix.Close(f.fd) }

type plainInfo struct{ f *plainFile }

func (i plainInfo) Name() string       { return i.f.name }
func (i plainInfo) Size() int64        { return i.f.st.Size }
func (i plainInfo) Mode() fs.FileMode  { return modeOf(i.f.st.Mode) }
func (i plainInfo) ModTime() time.Time { return time.Unix(i.f.st.Mtim.Unix()) }
func (i plainInfo) IsDir() bool        { return i.Mode().IsDir() }
func (i plainInfo) Sys() any           { return &i.f.st }

// markOfInfo is the mark of an open file.
func markOfInfo(info fs.FileInfo) mark {
	switch st := info.Sys().(type) {
	case *unix.Stat_t:
		return markFrom(st)
	case *syscall.Stat_t: // of a file that package os opened
		return mark{uint64(st.Dev), st.Ino, st.Mtim.Nano(), st.Ctim.Nano(), st.Size}
	}
	return mark{mtime: info.ModTime().UnixNano(), size: info.Size()}
}

func modeOf(mode uint32) fs.FileMode {
	perm := fs.FileMode(mode & 0o777)
	switch mode & unix.S_IFMT {
	case unix.S_IFREG:
		return perm
	case unix.S_IFDIR:
		return perm | fs.ModeDir
	case unix.S_IFLNK:
		return perm | fs.ModeSymlink
	case unix.S_IFIFO:
		return perm | fs.ModeNamedPipe
	case unix.S_IFSOCK:
		return perm | fs.ModeSocket
	case unix.S_IFBLK:
		return perm | fs.ModeDevice
	case unix.S_IFCHR:
		return perm | fs.ModeDevice | fs.ModeCharDevice
	}
	return perm | fs.ModeIrregular
}
