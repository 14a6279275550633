//go:build linux || darwin

package terminal

import (
	"os"

	"golang.org/x/sys/unix"
)

// InForeground reports whether this process may read the terminal f. The kernel stops a process in
// the background of a shell's job control when it reads the terminal (SIGTTIN) or changes its
// settings (SIGTTOU). Without job control every process is in the foreground.
func InForeground(f *os.File) bool {
	group, err := unix.IoctlGetInt(int(f.Fd()), unix.TIOCGPGRP)
	return err != nil || group == unix.Getpgrp()
}
