//go:build linux || darwin

package terminal

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// readTimeout is how long a read of a raw terminal waits: below what a person notices, when the window has another
// size or a signal ends the program.
const readTimeout = 100 * time.Millisecond

// IsTerminal says whether a person reads or types there.
func IsTerminal(f *os.File) bool { return CanRaw(f) }

// CanRaw says whether a file is a terminal that can hand over each key.
func CanRaw(f *os.File) bool {
	_, err := unix.IoctlGetTermios(int(f.Fd()), getTermios)
	return err == nil
}

// InForeground says whether a shell lets this process read the terminal. One in the background would be stopped when it
// tried, or when it changed the terminal's settings. Without a shell's job control everybody is in front.
func InForeground(f *os.File) bool {
	group, err := unix.IoctlGetInt(int(f.Fd()), unix.TIOCGPGRP)
	return err != nil || group == unix.Getpgrp()
}

// MakeRaw has a terminal hand over each key as it is typed, and return from reads after a tick without one.
func MakeRaw(f *os.File) (restore func() error, err error) {
	fd := int(f.Fd())
	before, err := unix.IoctlGetTermios(fd, getTermios)
	if err != nil {
		return nil, err
	}
	raw := *before
	raw.Iflag &^= unix.BRKINT | unix.ICRNL | unix.INLCR | unix.IGNCR | unix.INPCK | unix.ISTRIP | unix.IXON
	raw.Lflag &^= unix.ECHO | unix.ECHONL | unix.ICANON | unix.IEXTEN | unix.ISIG
	raw.Cc[unix.VMIN], raw.Cc[unix.VTIME] = 0, uint8(readTimeout/(100*time.Millisecond)) // in tenths of a second
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
