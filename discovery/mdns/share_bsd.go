//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package mdns

import (
	"errors"
	"syscall"
)

// setShared sets SO_REUSEPORT too: without it these systems refuse a second socket on a port.
func setShared(fd uintptr) error {
	return errors.Join(
		syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1),
		syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_REUSEPORT, 1))
}
