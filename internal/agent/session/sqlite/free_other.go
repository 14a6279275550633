//go:build !linux && !darwin

package sqlite

// free says how much room the disk of a directory has; "" because that is not known on this system.
func free(string) string { return "" }
