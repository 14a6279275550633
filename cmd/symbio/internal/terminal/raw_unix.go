//go:build linux || darwin

package terminal

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// readTimeout is how long a read of a raw terminal waits for a key. It is short enough that a
// person does not notice when the window changes its size or a signal ends the program. VTIME
// counts tenths of a second, so it cannot be shorter.
const readTimeout = 100 * time.Millisecond

// IsTerminal reports whether f is a terminal.
func IsTerminal(f *os.File) bool { return CanRaw(f) }

// CanRaw reports whether f is a terminal that can hand over single keys; see MakeRaw.
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

// MakeRaw switches a terminal to raw mode: each key is handed over as it is typed, without echo and
// without signals for Ctrl-C, and a read returns after readTimeout without a key. Output is still
// processed. The caller must call restore.
func MakeRaw(f *os.File) (restore func() error, err error) {
	fd := int(f.Fd())
	before, err := unix.IoctlGetTermios(fd, getTermios)
	if err != nil {
		return nil, err
	}
	raw := *before
	raw.Iflag &^= unix.BRKINT | unix.ICRNL | unix.INLCR | unix.IGNCR | unix.INPCK | unix.ISTRIP | unix.IXON
	raw.Lflag &^= unix.ECHO | unix.ECHONL | unix.ICANON | unix.IEXTEN | unix.ISIG
	// VMIN 0 lets a read return without data after VTIME, which counts tenths of a second.
	raw.Cc[unix.VMIN], raw.Cc[unix.VTIME] = 0, uint8(readTimeout/(100*time.Millisecond))
	if err := unix.IoctlSetTermios(fd, setTermios, &raw); err != nil {
		return nil, err
	}
	return func() error { return unix.IoctlSetTermios(fd, setTermios, before) }, nil
}

// size is how large a terminal is; the usual size when it does not say.
func size(f *os.File) (columns, lines int) {
	ws, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil || ws.Col == 0 || ws.Row == 0 {
		return defaultColumns, defaultLines
	}
	return int(ws.Col), int(ws.Row)
}
