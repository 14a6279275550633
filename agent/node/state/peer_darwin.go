package state

import "golang.org/x/sys/unix"

// credentials asks the system for the user of a socket's peer.
func credentials(fd int) (int, error) {
	peer, err := unix.GetsockoptXucred(fd, unix.SOL_LOCAL, unix.LOCAL_PEERCRED)
	if err != nil {
		return 0, err
	}
	return int(peer.Uid), nil
}
