//go:build linux || darwin

package terminal

import (
	"os"

	"golang.org/x/sys/unix"
)

// IsTerminal reports whether f is a terminal.
func IsTerminal(f *os.File) bool { return CanRaw(f) }

// CanRaw reports whether f is a terminal that can hand over single keys.
func CanRaw(f *os.File) bool {
	_, err := unix.IoctlGetTermios(int(f.Fd()), getTermios)
	return err == nil
}

// InForeground reports whether this process may read the terminal f. The kernel stops a process in
// the background of a shell's job control when it reads the terminal (SIGTTIN) or changes its
// settings (SIGTTOU). Without job control every process is in the foreground.
func InForeground(f *os.File) bool {
	group, err := unix.IoctlGetInt(int(f.Fd()), unix.TIOCGPGRP)
	return err != nil || group == unix.Getpgrp()
}

// size is how large a terminal is; the usual size when it does not say.
func size(f *os.File) (columns, lines int) {
	ws, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil || ws.Col == 0 || ws.Row == 0 {
		return defaultColumns, defaultLines
	}
	return int(ws.Col), int(ws.Row)
}
