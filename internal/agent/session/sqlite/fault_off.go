//go:build !faults || !unix

package sqlite

// faults does nothing without the build tag faults.
type faults struct{}

func (faults) reach(string) {}
