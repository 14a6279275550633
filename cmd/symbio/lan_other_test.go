//go:build !linux

package main

// playRole is for the tests on LANs of namespaces, which only Linux has.
func playRole() bool { return false }
