//go:build amd64 || arm64

package inside

import (
	"errors"
	"os"
	"slices"
	"strconv"
	"syscall"
	"unsafe"

	"symbio/security/sandbox/internal/unix"
)

// child is everything that the new process needs, prepared before the fork: after it nothing
// may be allocated.
type child struct {
	path  *byte
	args  []*byte
	env   []*byte
	lock  bool
	rules int // of Landlock; -1 = none
	prog  unix.SockFprog
	limit []Limit
	root  bool // keeps capabilities by its user id, unless the bounding set is empty
}

func newChild(path string, j *Job) (*child, error) {
	c := &child{lock: j.Confine, rules: -1, root: os.Geteuid() == 0}
	var err error
	if c.path, err = syscall.BytePtrFromString(path); err != nil {
		return nil, notStarted{err}
	}
	if c.args, err = syscall.SlicePtrFromStrings(j.Argv); err != nil {
		return nil, notStarted{err}
	}
	if c.env, err = syscall.SlicePtrFromStrings(j.Env); err != nil {
		return nil, notStarted{err}
	}
	if c.limit, err = within(j.Limits); err != nil {
		return nil, err
	}
	if !j.Confine {
		return c, nil
	}
	if len(j.Filter) == 0 || len(j.Filter)%step != 0 {
		return nil, errJob
	}
	if c.rules, err = j.ruleset(); err != nil {
		return nil, err
	}
	c.prog = unix.SockFprog{Len: uint16(len(j.Filter) / step), Filter: &j.Filter[0]}
	return c, nil
}

// step is the size of one step of a program for seccomp.
const step = 8

// within lowers the limits to what this process itself may have; the kernel refuses to raise a
// hard limit.
func within(limits []Limit) ([]Limit, error) {
	out := slices.Clone(limits)
	for i, l := range out {
		var old unix.Rlimit
		if err := unix.Prlimit(l.What, nil, &old); err != nil {
			return nil, wrap("read the limit "+strconv.Itoa(l.What), err)
		}
		out[i].Cur, out[i].Max = min(l.Cur, old.Max), min(l.Max, old.Max)
	}
	return out, nil
}

// What the child was doing when it failed.
const (
	doingNothing = iota
	doingSession
	doingLimits
	doingCapabilities
	doingPrivileges
	doingLandlock
	doingSeccomp
	doingExec
)

var doings = [...]string{"", "leave the terminal", "set the limits", "give up capabilities", "give up new privileges", "put Landlock in force", "put seccomp in force", "start the program"}

// failure is what the new process reports before it ends: the step that failed and the error
// number.
type failure struct {
	doing uint32
	errno uint32
}

// start forks, and confines and executes the command in the new process: what stays is this one, unconfined, to look
// after it. The command cannot be confined before, in this process: it could then send signals to this one.
func (c *child) start() (pid int, err error) {
	pipe := make([]int, 2)
	if err := unix.Pipe2(pipe, unix.O_CLOEXEC); err != nil {
		return 0, wrap("make a pipe", err)
	}
	defer unix.Close(pipe[0])
	// Go's handlers must not run in the new process.
	old, err := unix.SetSignals(^unix.Sigset_t(0))
	if err != nil {
		unix.Close(pipe[1])
		return 0, wrap("block signals", err)
	}
	forked, errno := c.fork(pipe[1], &old)
	unix.SetSignals(old)
	unix.Close(pipe[1])
	if errno != 0 {
		return 0, wrap("fork", errno)
	}
	var f failure
	n, err := unix.Read(pipe[0], (*[unsafe.Sizeof(f)]byte)(unsafe.Pointer(&f))[:])
	switch {
	case err != nil:
		return 0, wrap("start the command", err)
	case n == 0:
		return int(forked), nil // execve closed the pipe
	case n < int(unsafe.Sizeof(f)) || f.doing >= uint32(len(doings)):
		return 0, errors.New("start the command: what it said is damaged")
	case f.doing == doingExec:
		return 0, notStarted{unix.Errno(f.errno)}
	}
	return 0, wrap(doings[f.doing], unix.Errno(f.errno))
}

// fork returns in the old process only. The new one has one thread of a Go program and no runtime: it may only make
// raw system calls, as syscall.ForkExec does.
//
//go:noinline
//go:norace
//go:nocheckptr
func (c *child) fork(pipe int, mask *unix.Sigset_t) (pid uintptr, errno syscall.Errno) {
	var (
		header = unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		none   [2]unix.CapUserData
		f      failure
		held   uintptr
	)
	pid, _, errno = syscall.RawSyscall6(syscall.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
	if errno != 0 || pid != 0 {
		return pid, errno
	}
	// No terminal: its input would be the user's. Not for the helper too, since the kernel shares the processors out among
	// sessions, and a new one has to wait its turn.
	f.doing = doingSession
	if _, _, errno = syscall.RawSyscall(syscall.SYS_SETSID, 0, 0, 0); errno != 0 {
		goto failed
	}
	f.doing = doingLimits
	for i := range c.limit { // here and not before: this program may need more than the command is to have
		if _, _, errno = syscall.RawSyscall6(syscall.SYS_PRLIMIT64, 0, uintptr(c.limit[i].What), uintptr(unsafe.Pointer(&c.limit[i].Cur)), 0, 0, 0); errno != 0 {
			goto failed
		}
	}
	if c.lock {
		f.doing = doingCapabilities
		for n := uintptr(0); n < 64; n++ {
			syscall.RawSyscall(syscall.SYS_PRCTL, unix.PR_CAPBSET_DROP, n, 0) // where it matters, the next loop looks
		}
		for n := uintptr(0); n < 64 && c.root; n++ {
			if held, _, errno = syscall.RawSyscall(syscall.SYS_PRCTL, unix.PR_CAPBSET_READ, n, 0); errno == 0 && held != 0 {
				errno = syscall.EPERM
				goto failed
			}
		}
		syscall.RawSyscall6(syscall.SYS_PRCTL, unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0, 0)
		if _, _, errno = syscall.RawSyscall(syscall.SYS_CAPSET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&none[0])), 0); errno != 0 {
			goto failed
		}
	}
	if c.lock {
		f.doing = doingPrivileges
		if _, _, errno = syscall.RawSyscall6(syscall.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0); errno != 0 {
			goto failed
		}
	}
	if c.rules >= 0 {
		f.doing = doingLandlock
		if _, _, errno = syscall.RawSyscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(c.rules), 0, 0); errno != 0 {
			goto failed
		}
	}
	if c.lock {
		f.doing = doingSeccomp
		if _, _, errno = syscall.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&c.prog))); errno != 0 {
			goto failed
		}
	}
	f.doing = doingExec
	syscall.RawSyscall6(syscall.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(mask)), 0, 8, 0, 0)
	_, _, errno = syscall.RawSyscall(syscall.SYS_EXECVE, uintptr(unsafe.Pointer(c.path)), uintptr(unsafe.Pointer(&c.args[0])), uintptr(unsafe.Pointer(&c.env[0])))
failed:
	f.errno = uint32(errno)
	syscall.RawSyscall(syscall.SYS_WRITE, uintptr(pipe), uintptr(unsafe.Pointer(&f)), unsafe.Sizeof(f))
	for {
		syscall.RawSyscall(syscall.SYS_EXIT_GROUP, 127, 0, 0)
	}
}
