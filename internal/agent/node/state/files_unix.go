//go:build unix

package state

import (
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Lock locks an open file until it is closed. It fails at once if the file is
// locked already, by this or another process.
func Lock(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }

// isPrivate reports whether a directory belongs to this user and no other user
// can use it.
func isPrivate(info fs.FileInfo) bool { return isOwn(info) && modeOf(info)&0o077 == 0 }

// isOwn reports whether a file belongs to this user.
func isOwn(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Getuid()
}

// modeOf returns the permission bits of a file.
func modeOf(info fs.FileInfo) fs.FileMode { return info.Mode().Perm() }

// isWritable reports whether this user can make files in a directory.
func isWritable(dir string) bool { return unix.Access(dir, unix.W_OK|unix.X_OK) == nil }
