package identity

// Reopen opens the membership in dir as a process that starts anew does, with i's key.
func Reopen(dir string, i *Identity) (*Identity, error) { return OpenMember(dir, i.key) }
