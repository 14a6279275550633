package terminal

import "golang.org/x/sys/unix"

// The ioctl requests that read and set a terminal's modes on Linux.
const (
	getTermios = unix.TCGETS
	setTermios = unix.TCSETS
)
