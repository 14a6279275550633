package terminal

import "golang.org/x/sys/unix"

// The ioctl requests that read and set a terminal's modes on macOS.
const (
	getTermios = unix.TIOCGETA
	setTermios = unix.TIOCSETA
)
