//go:build race

package symbiotest

import "os"

// slow is how much longer things may take under the race detector, with which a start alone takes
// most of a second.
const Slow = 5

// hasten has the programs that tests start not wait at their end. There the detector sleeps a second, in which goroutines
// may race that without it would have ended with the program; hundreds of commands, one after the other, did that for most
// of the time that the tests took. What is left is time for a report to be written, and for what a node says at its end to
// arrive on a loaded machine. Who sets GORACE has the last word.
func hasten() error { return os.Setenv("GORACE", "atexit_sleep_ms=100 "+os.Getenv("GORACE")) }
