//go:build amd64 || arm64

package inside

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// supervise starts the command, reports that, and ends this process when the command has ended, or
// when lifeline has: the process that wanted the command has closed it, or is gone. Everything
// that the command started ends with it. supervise returns only if the command could not be
// started, or could not be waited for.
//
// first says that this is the first process of a pid namespace: when it ends, the kernel kills all
// others in there. Elsewhere this process becomes the parent of the command's orphans (child
// subreaper) and kills them itself.
func supervise(c *child, lifeline io.Reader, first bool) error {
	if !first {
		if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
			return fmt.Errorf("become the one that orphans come to: %w", err)
		}
	}
	// Not dumpable: no process of the same user, such as the command, may trace this one or read
	// its memory, which has the job.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("close this process to others: %w", err)
	}
	pid, err := c.start()
	if err != nil {
		return err
	}
	if null, err := unix.Open(os.DevNull, unix.O_RDWR|unix.O_CLOEXEC, 0); err == nil {
		// This process gives up the command's input and output. Otherwise their readers would see
		// no end before the helper's.
		for fd := range 3 {
			unix.Dup3(null, fd, unix.O_CLOEXEC)
		}
	}
	tell(Report{Kind: Started})
	var life sync.WaitGroup
	var unwanted atomic.Bool
	// This goroutine runs until the process ends. Nothing more is ever written to the lifeline: a read
	// returns when its other end is closed, which the kernel does even if its owner was killed.
	life.Go(func() {
		io.Copy(io.Discard, lifeline)
		// Set before anything is killed, so that the command's end is not reported as its own.
		unwanted.Store(true)
		if !first {
			killAll()
		}
		unix.Exit(0)
	})
	var status unix.WaitStatus
	// The orphans of the command are reaped here, too; only the end of the command itself matters.
	// A traced or stopped command has not ended.
	for {
		got, err := unix.Wait4(-1, &status, 0, nil)
		if got == pid && (status.Exited() || status.Signaled()) {
			break
		}
		if err != nil && err != unix.EINTR {
			return fmt.Errorf("wait for the command: %w", err)
		}
	}
	if !first {
		killAll()
	}
	// The status of a command that was killed from here says nothing about it.
	if !unwanted.Load() {
		tell(Report{Kind: Ended, Status: status})
	}
	unix.Exit(0)
	return nil
}

// killAll kills all descendants of this process and reaps them. It returns when there are none left
// (ECHILD). It repeats every millisecond, because a process may fork while the list is read. It may
// run in two goroutines at once.
func killAll() {
	for {
		got, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
		switch {
		case err == unix.ECHILD:
			return
		case got > 0 || err == unix.EINTR:
			continue
		}
		below := descendants()
		// Stopped first: a process that stands still starts no further ones while the others are
		// killed.
		for _, pid := range below {
			unix.Kill(pid, unix.SIGSTOP)
		}
		for _, pid := range below {
			unix.Kill(pid, unix.SIGKILL)
		}
		time.Sleep(time.Millisecond)
	}
}

// descendants returns the ids of the processes that descend from this one, parents before their
// children; nil if /proc cannot be read. It goes by parents, not by process groups or sessions,
// which a command can leave.
func descendants() (out []int) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	// Processes that end while the list is read are left out.
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

// parentIn returns the parent's id from a line of /proc/PID/stat: "PID (NAME) STATE PARENT …"
// (proc(5)). It searches the last parenthesis, since a process chooses its own name, which may
// contain spaces and parentheses. ok is false for a line of any other form.
func parentIn(stat []byte) (pid int, ok bool) {
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 2 {
		return 0, false
	}
	pid, err := strconv.Atoi(fields[1])
	return pid, err == nil
}
