//go:build !unix

package builtin

// There are no FIFOs among the files here.
const nonblock = 0
