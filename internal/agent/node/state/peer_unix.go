//go:build linux || darwin

package state

import (
	"errors"
	"net"
)

// peerUID returns the user of the process at the other end of a Unix socket.
// The kernel knows it, so the process cannot lie about it.
func peerUID(conn net.Conn) (uid int, err error) {
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		return 0, err
	}
	ctl := raw.Control(func(fd uintptr) { uid, err = credentials(int(fd)) })
	return uid, errors.Join(ctl, err)
}
