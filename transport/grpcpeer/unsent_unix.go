//go:build linux || darwin

package grpcpeer

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// limitUnsent keeps what is written to c from waiting in the kernel: what is urgent would wait behind it,
// for seconds on a slow link. Here gRPC sends from all streams in turn.
func limitUnsent(c net.Conn) {
	s, ok := c.(syscall.Conn)
	if !ok {
		return
	}
	if raw, err := s.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, 16<<10) })
	}
}
