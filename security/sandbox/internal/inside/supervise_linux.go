//go:build amd64 || arm64

package inside

import (
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"symbio/security/sandbox/internal/unix"
)

// supervise starts the command and ends this process when the command, or the life of whoever wanted it, has ended:
// with it ends everything that the command started. It returns only if the command could not be started.
//
// first says that this is the first process of a pid namespace, with which the kernel ends all others. Elsewhere the
// orphans of the command come to this process, which kills until there are none.
func supervise(c *child, first bool) error {
	if !first {
		if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
			return wrap("become the one that orphans come to", err)
		}
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil { // no process of the user may read this one's memory
		return wrap("close this process to others", err)
	}
	pid, err := c.start()
	if err != nil {
		return err
	}
	if null, err := unix.Open(os.DevNull, unix.O_RDWR|unix.O_CLOEXEC, 0); err == nil {
		for fd := range 3 { // so that the command is the only one who holds its pipes
			unix.Dup3(null, fd, unix.O_CLOEXEC)
		}
	}
	tell(Report{Kind: Started})
	var life sync.WaitGroup
	var unwanted atomic.Bool
	life.Go(func() { // ends with the process
		var b [1]byte
		for {
			if n, err := unix.Read(lifelineFD, b[:]); n == 0 || err != nil && err != unix.EINTR {
				break
			}
		}
		unwanted.Store(true)
		if !first {
			killAll()
		}
		unix.Exit(0)
	})
	var status unix.WaitStatus
	for {
		got, err := unix.Wait4(-1, &status, 0)
		if got == pid && (status.Exited() || status.Signaled()) {
			break
		}
		if err != nil && err != unix.EINTR {
			return wrap("wait for the command", err)
		}
	}
	if !first {
		killAll()
	}
	if !unwanted.Load() { // else its end says nothing about it
		tell(Report{Kind: Ended, Status: int(status)})
	}
	unix.Exit(0)
	return nil
}

// killAll kills the descendants of this process until there are none. It repeats, because a
// process may fork while the list is read.
func killAll() {
	for {
		got, err := unix.Wait4(-1, nil, unix.WNOHANG)
		switch {
		case err == unix.ECHILD:
			return
		case got > 0 || err == unix.EINTR:
			continue
		}
		below := descendants()
		for _, pid := range below { // what stands still, starts nothing more
			unix.Kill(pid, unix.SIGSTOP)
		}
		for _, pid := range below {
			unix.Kill(pid, unix.SIGKILL)
		}
		time.Sleep(time.Millisecond)
	}
}

// descendants returns the processes that descend from this one, from /proc.
func descendants() (out []int) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	children := map[int][]int{}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		text, err := os.ReadFile("/proc/" + e.Name() + "/stat")
		if err != nil {
			continue
		}
		if parent, ok := parentIn(text); ok {
			children[parent] = append(children[parent], pid)
		}
	}
	for next := children[os.Getpid()]; len(next) > 0; next = next[1:] {
		out = append(out, next[0])
		next = slices.Concat(next, children[next[0]])
	}
	return out
}

// parentIn returns the parent from a /proc/PID/stat line, "PID (NAME) STATE PARENT …". It
// searches the last parenthesis, since a process chooses its own name, which may contain
// anything.
func parentIn(stat []byte) (pid int, ok bool) {
	end := len(stat) - 1
	for end >= 0 && stat[end] != ')' {
		end--
	}
	const before = len(") S ") // the state is one letter
	if end < 0 || len(stat) < end+before {
		return 0, false
	}
	rest := stat[end+before:]
	digits := slices.Index(rest, ' ')
	if digits < 0 {
		return 0, false
	}
	pid, err := strconv.Atoi(string(rest[:digits]))
	return pid, err == nil
}
