//go:build faults && unix

package sqlite

import (
	"os"
	"strconv"
	"syscall"
)

// faults ends the process as kill -9 does, at the commit that SYMBIO_KILL_AT names: before:7 is before
// the seventh commit of the process, during:7 before its writes are committed, after:7 behind it.
// Only tests build it.
type faults struct {
	commits int // how many have begun; the Journal makes one at a time
}

// reach kills the process if point is the one that the environment names.
func (f *faults) reach(point string) {
	if point == "before" {
		f.commits++
	}
	if os.Getenv("SYMBIO_KILL_AT") != point+":"+strconv.Itoa(f.commits) {
		return
	}
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL) // it cannot fail for the own process
	select {}                                      // the other goroutines end with the process, too
}
