package terminal

import "golang.org/x/sys/unix"

// getTermios is the ioctl request that reads a terminal's modes.
const getTermios = unix.TIOCGETA
