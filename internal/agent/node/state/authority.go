package state

import (
	"errors"
	"io/fs"

	"symbio/security/identity"
)

// LockAuthority encrypts the key of the cluster's authority on this machine with a passphrase. Before
// it stores a certificate for each node here that signs its own, so that these start without the
// key. It returns ErrNoAuthority without an authority, and identity.ErrLocked if it is locked already. Running
// nodes have the key until they are told (Control.Authority).
func (s Dir) LockAuthority(secret string) error {
	c, err := s.OpenCluster()
	if err != nil {
		return err
	}
	if c.Key().Locked() {
		return identity.ErrLocked
	}
	own, err := s.OwnIDs()
	if err != nil {
		return err
	}
	for id, name := range own {
		n := s.Node(name)
		if c.Revocations().Has(id) {
			continue
		}
		key, err := identity.LoadOrCreateKey(n.Key())
		if err != nil {
			return err
		}
		if err := c.Enlist(key, name, n.member()); err != nil {
			return err
		}
	}
	return c.Key().Lock(secret)
}

// ForgetAuthority drops the key of the authority c from the memory of the running node name, after LockAuthority,
// and makes the node use the certificate that is stored for it.
func (s Dir) ForgetAuthority(c *identity.Cluster, name string) error {
	if err := c.Enlisted(s.Node(name).member()); err != nil {
		return err
	}
	c.Key().Forget()
	return nil
}

// UnlockAuthority returns the cluster of this machine and the key of its authority, decrypted. It returns
// ErrNoAuthority without an authority, and ErrNotLocked if it is not locked.
func (s Dir) UnlockAuthority(secret string) (*identity.Cluster, []byte, error) {
	c, err := s.OpenCluster()
	if err != nil {
		return nil, nil, err
	}
	key, err := c.Key().Unlock(secret)
	if errors.Is(err, fs.ErrNotExist) {
		err = ErrNotLocked
	}
	return c, key, err
}

// ErrNotLocked says that there is nothing to unlock.
var ErrNotLocked = errors.New("the authority on this machine is not locked")
