//go:build !race

package symbiotest

// Slow is how much longer things may take than without the race detector.
const Slow = 1

func hasten() error { return nil }
