//go:build unix && !darwin && !dragonfly && !freebsd && !netbsd && !openbsd

package mdns

import "syscall"

// setShared sets SO_REUSEADDR only: with SO_REUSEPORT, Linux would give each unicast packet to one of the sharers by
// its hash.
func setShared(fd uintptr) error {
	return syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1)
}
