//go:build !linux

package symbiotest

// playRole returns false: LANs of namespaces are made on Linux only.
func playRole(map[string]func()) bool { return false }
