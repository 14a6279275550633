package identity

// Reopen opens the membership in dir as a process that starts anew does, with i's key.
func Reopen(dir string, i *Identity) (*Identity, error) { return OpenMember(dir, i.cred.key) }

// ReopenAt is Reopen on the machine that holds c.
func ReopenAt(c *Cluster, dir string, i *Identity) (*Identity, error) {
	return c.OpenMember(dir, i.cred.key)
}

// KeyOf returns the key of an identity.
func KeyOf(i *Identity) *Key { return i.cred.key }
