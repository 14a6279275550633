//go:build amd64 || arm64

package inside

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// child is everything that the new process needs, in the form that system calls take. It is
// prepared before the fork: after it there is no runtime that could allocate memory.
type child struct {
	// path, args and env are for execve: strings that end with a zero byte, and arrays of them that
	// end with nil.
	path *byte
	args []*byte
	env  []*byte
	// lock says that the command is confined, as Job.Confine.
	lock bool
	// rules is the descriptor of the Landlock rules; -1 means that there are none.
	rules int
	// prog is the seccomp program. It points into Job.Filter.
	prog unix.SockFprog
	// limit are the limits to set, none above what this process has.
	limit []Limit
	// root says that the command runs as user 0. The kernel gives such a process the capabilities
	// of its bounding set at execve, so that set must be empty.
	root bool
}

// newChild prepares the command of the job. path is the program's file. The error is a startError
// if a string of the command has a zero byte; any other error lies with the sandbox.
func newChild(path string, j *Job) (*child, error) {
	c := &child{lock: j.Confine, rules: -1, root: os.Geteuid() == 0}
	var err error
	if c.path, err = syscall.BytePtrFromString(path); err != nil {
		return nil, startError{err}
	}
	if c.args, err = syscall.SlicePtrFromStrings(j.Argv); err != nil {
		return nil, startError{err}
	}
	if c.env, err = syscall.SlicePtrFromStrings(j.Env); err != nil {
		return nil, startError{err}
	}
	if c.limit, err = within(j.Limits); err != nil {
		return nil, err
	}
	// At the level Off, only the limits are set.
	if !j.Confine {
		return c, nil
	}
	// A job without a filter is damaged: a command is never confined by half.
	if len(j.Filter) == 0 {
		return nil, errors.New("read the job: it has no filter")
	}
	if c.rules, err = j.ruleset(); err != nil {
		return nil, err
	}
	c.prog = unix.SockFprog{Len: uint16(len(j.Filter)), Filter: &j.Filter[0]}
	return c, nil
}

// within returns the limits, lowered to the hard limits of this process: a process without
// privileges can only lower its hard limit, and setrlimit would fail.
func within(limits []Limit) ([]Limit, error) {
	out := slices.Clone(limits)
	for i, l := range out {
		var old unix.Rlimit
		if err := unix.Prlimit(0, l.What, nil, &old); err != nil {
			return nil, fmt.Errorf("read the limit %d: %w", l.What, err)
		}
		out[i].Cur, out[i].Max = min(l.Cur, old.Max), min(l.Max, old.Max)
	}
	return out, nil
}

// The steps of the child, for its error.
const (
	// The steps of fork in their order. The order of doings must be the same.
	doingSession = iota + 1
	doingLimits
	doingCapabilities
	doingPrivileges
	doingLandlock
	doingSeccomp
	doingExec
)

var doings = [...]string{"", "leave the terminal", "set the limits", "give up capabilities", "give up new privileges",
	"put Landlock in force", "put seccomp in force", "start the program"}

// failure is what the new process writes to the pipe when a step fails: two numbers in the byte
// order of the machine, since both ends run on it.
type failure struct {
	doing uint32
	errno uint32
}

// start forks, and confines and executes the command in the new process. It returns the process's
// id when execve has succeeded, a startError if execve failed, and another error if a step before
// it failed. This process stays unconfined to look after the command. It cannot be confined and
// then fork: the command would be in the same Landlock domain and could send signals to it.
//
// It must run on the main thread while packages are initialised, since blocked signals belong to a
// thread.
func (c *child) start() (pid int, err error) {
	// The pipe carries a failure. execve closes its writing end, so that the end of the pipe
	// without data means success.
	pipe := make([]int, 2)
	if err := unix.Pipe2(pipe, unix.O_CLOEXEC); err != nil {
		return 0, fmt.Errorf("make a pipe: %w", err)
	}
	defer unix.Close(pipe[0])
	// All signals stay blocked until execve: Go's handlers must not run in the new process, which
	// has no runtime.
	var all, old unix.Sigset_t
	for i := range all.Val {
		all.Val[i] = ^uint64(0)
	}
	if err := unix.PthreadSigmask(unix.SIG_SETMASK, &all, &old); err != nil {
		unix.Close(pipe[1])
		return 0, fmt.Errorf("block signals: %w", err)
	}
	forked, errno := c.fork(pipe[1], &old)
	unix.PthreadSigmask(unix.SIG_SETMASK, &old, nil)
	// With this end open, the read below would never see the end.
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
		return 0, errors.New("start the command: its first message is damaged")
	case f.doing == doingExec:
		return 0, startError{syscall.Errno(f.errno)}
	}
	return 0, fmt.Errorf("%s: %w", doings[f.doing], syscall.Errno(f.errno))
}

// fork creates the new process, and returns in the old one only: the id of the new one, or the
// error of clone. The new process has one thread and no Go runtime. It makes raw system calls only,
// as syscall.ForkExec does: it must not allocate, grow its stack, take a lock or call a function
// that could. All variables are declared at the top, because goto may not jump over a declaration.
//
// The order of the last steps matters: a process without capabilities needs no_new_privs for
// Landlock and for seccomp, and seccomp is the last, since its filter also applies to the calls
// made here.
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
	// A session of its own takes the command off the terminal, whose input would be the user's. The
	// helper keeps its session: the kernel shares the processors out among sessions, and a new one
	// waits its turn at each step.
	f.doing = doingSession
	if _, _, errno = syscall.RawSyscall(syscall.SYS_SETSID, 0, 0, 0); errno != 0 {
		goto failed
	}
	f.doing = doingLimits
	// Set here and not in the helper, which may need more than the command is to have.
	for i := range c.limit {
		if _, _, errno = syscall.RawSyscall6(syscall.SYS_PRLIMIT64, 0, uintptr(c.limit[i].What), uintptr(unsafe.Pointer(&c.limit[i].Cur)), 0, 0, 0); errno != 0 {
			goto failed
		}
	}
	if c.lock {
		f.doing = doingCapabilities
		for n := uintptr(0); n < 64; n++ {
			// 64 is more than the kernel has capabilities; unknown ones fail. Without CAP_SETPCAP
			// all fail, which matters for root only: the next loop checks.
			syscall.RawSyscall(syscall.SYS_PRCTL, unix.PR_CAPBSET_DROP, n, 0)
		}
		for n := uintptr(0); n < 64 && c.root; n++ {
			if held, _, errno = syscall.RawSyscall(syscall.SYS_PRCTL, unix.PR_CAPBSET_READ, n, 0); errno == 0 && held != 0 {
				errno = syscall.EPERM
				goto failed
			}
		}
		// The ambient set would survive execve. The error is ignored: the capset after it empties
		// the permitted set, and with that the ambient one.
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
	// The command gets the signal mask that this thread had before; execve resets the handlers. 8
	// is the size of the mask in bytes.
	syscall.RawSyscall6(syscall.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(mask)), 0, 8, 0, 0)
	_, _, errno = syscall.RawSyscall(syscall.SYS_EXECVE, uintptr(unsafe.Pointer(c.path)), uintptr(unsafe.Pointer(&c.args[0])), uintptr(unsafe.Pointer(&c.env[0])))
failed:
	// A pipe takes 8 bytes in one piece, so that the other end never sees half a failure.
	f.errno = uint32(errno)
	syscall.RawSyscall(syscall.SYS_WRITE, uintptr(pipe), uintptr(unsafe.Pointer(&f)), unsafe.Sizeof(f))
	for {
		syscall.RawSyscall(syscall.SYS_EXIT_GROUP, 127, 0, 0)
	}
}
