//go:build unix

package builtin

import "syscall"

// nonblock makes the open of a FIFO return at once. Without it the open waits until another process
// opens the other end, which may never happen.
const nonblock = syscall.O_NONBLOCK
