//go:build unix

package builtin

import "syscall"

// nonblock keeps the opening of a FIFO that nobody writes to from waiting forever.
const nonblock = syscall.O_NONBLOCK
