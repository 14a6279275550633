package state

import "golang.org/x/sys/unix"

// credentials asks the system for the user of a socket's peer.
func credentials(fd int) (int, error) {
	peer, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return 0, err
	}
	return int(peer.Uid), nil
}
