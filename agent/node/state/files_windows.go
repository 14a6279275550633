package state

import (
	"io/fs"
	"os"

	"golang.org/x/sys/windows"
)

func lock(f *os.File) error {
	return windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, new(windows.Overlapped))
}

// private trusts the access list that a user's profile directory hands down.
func closed(fs.FileInfo) bool { return true }

// own, openTo and mayWrite trust it as well.
func own(fs.FileInfo) bool           { return true }
func openTo(fs.FileInfo) fs.FileMode { return 0 }
func mayWrite(string) bool           { return true }
