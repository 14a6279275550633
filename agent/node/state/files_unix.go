//go:build unix

package state

import (
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

func lock(f *os.File) error {
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
}

// closed says whether a directory is this user's and closed to all others.
func closed(info fs.FileInfo) bool { return own(info) && openTo(info)&0o077 == 0 }

// own says whether a file is this user's.
func own(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Getuid()
}

// openTo is what a file's mode permits.
func openTo(info fs.FileInfo) fs.FileMode { return info.Mode().Perm() }

// mayWrite says whether this user may make something in a directory.
func mayWrite(dir string) bool { return unix.Access(dir, unix.W_OK|unix.X_OK) == nil }
