//go:build unix

package sandbox

// systemNames are the variables that programs of this system cannot start without.
var systemNames []string
