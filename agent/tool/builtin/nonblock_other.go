//go:build !unix

package builtin

// nonblock is not needed here: a file system has no FIFOs.
const nonblock = 0
