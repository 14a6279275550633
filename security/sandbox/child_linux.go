//go:build amd64 || arm64

package sandbox

import (
	"fmt"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// child is the command before it is started: all that the new process needs, since it can allocate nothing.
type child struct {
	path  *byte
	args  []*byte
	env   []*byte
	lock  bool
	rules int // of Landlock; -1 = none
	prog  unix.SockFprog
	root  bool // keeps capabilities by its user id, unless the bounding set is empty
}

func newChild(path string, j *job) (*child, error) {
	c := &child{lock: j.Confine, rules: -1, root: os.Geteuid() == 0}
	var err error
	if c.path, err = syscall.BytePtrFromString(path); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotStarted, err)
	}
	if c.args, err = syscall.SlicePtrFromStrings(j.Argv); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotStarted, err)
	}
	if c.env, err = syscall.SlicePtrFromStrings(j.Env); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotStarted, err)
	}
	if !j.Confine {
		return c, nil
	}
	if c.rules, err = j.ruleset(); err != nil {
		return nil, err
	}
	code := j.filter()
	c.prog = unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]}
	return c, nil
}

// What the child was doing when it failed.
const (
	doingNothing = iota
	doingCapabilities
	doingPrivileges
	doingLandlock
	doingSeccomp
	doingExec
)

var doings = [...]string{"", "give up capabilities", "give up new privileges", "put Landlock in force", "put seccomp in force", "start the program"}

// failure is what the child says before it ends.
type failure struct {
	doing uint32
	errno uint32
}

// start forks, and confines and executes the command in the new process: what stays is this one, unconfined, to look
// after it. The command cannot be confined before, in this process: it could then send signals to this one.
func (c *child) start() (pid int, err error) {
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		return 0, fmt.Errorf("make a pipe: %w", err)
	}
	defer unix.Close(pipe[0])
	// Go's handlers must not run in the new process.
	var all, old unix.Sigset_t
	for i := range all.Val {
		all.Val[i] = ^all.Val[i]
	}
	if err := unix.PthreadSigmask(unix.SIG_SETMASK, &all, &old); err != nil {
		unix.Close(pipe[1])
		return 0, fmt.Errorf("block signals: %w", err)
	}
	forked, errno := c.fork(pipe[1], &old)
	unix.PthreadSigmask(unix.SIG_SETMASK, &old, nil)
	unix.Close(pipe[1])
	if errno != 0 {
		return 0, fmt.Errorf("fork: %w", errno)
	}
	var f failure
	n, err := unix.Read(pipe[0], (*[unsafe.Sizeof(f)]byte)(unsafe.Pointer(&f))[:])
	switch {
	case err != nil:
		return 0, fmt.Errorf("start the command: %w", err)
	case n == 0:
		return int(forked), nil // execve closed the pipe
	case n < int(unsafe.Sizeof(f)) || f.doing >= uint32(len(doings)):
		return 0, fmt.Errorf("start the command: it said %d bytes", n)
	case f.doing == doingExec:
		return 0, fmt.Errorf("%w: %w", ErrNotStarted, unix.Errno(f.errno))
	}
	return 0, fmt.Errorf("%s: %w", doings[f.doing], unix.Errno(f.errno))
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
