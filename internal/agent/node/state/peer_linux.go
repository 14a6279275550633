package state

import "golang.org/x/sys/unix"

// credentials returns the user of the process at the other end of a socket, as
// the kernel recorded it when the connection was made.
func credentials(fd int) (int, error) {
	peer, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return 0, err
	}
	return int(peer.Uid), nil
}
