//go:build amd64 || arm64

package unix

import (
	"syscall"
	"unsafe"
)

// Errors and types that package syscall has too.
type (
	Errno      = syscall.Errno
	Stat_t     = syscall.Stat_t
	WaitStatus = syscall.WaitStatus
)

// What a call may answer.
const (
	EINTR  = syscall.EINTR
	ELOOP  = syscall.ELOOP
	ECHILD = syscall.ECHILD
)

// OpenHow says how Openat2 opens.
type OpenHow struct{ Flags, Mode, Resolve uint64 }

// MountAttr is what MountSetattr changes.
type MountAttr struct{ Attr_set, Attr_clr, Propagation, Userns_fd uint64 }

// CapUserHeader and CapUserData are what capset takes.
type (
	CapUserHeader struct {
		Version uint32
		Pid     int32
	}
	CapUserData struct{ Effective, Permitted, Inheritable uint32 }
)

// LandlockRulesetAttr says what a set of Landlock rules handles; a kernel takes as much of it as it knows.
type LandlockRulesetAttr struct{ Handled_access_fs, Handled_access_net, Scoped uint64 }

// LandlockPathBeneathAttr is the rule for what lies at and below an open file. The kernel's has no padding at its end.
type LandlockPathBeneathAttr struct {
	Allowed_access uint64
	Parent_fd      int32
}

// SockFprog is a program for seccomp.
type SockFprog struct {
	Len    uint16
	Filter *byte // 8 bytes for each step
}

// Rlimit is a limit of a process: in force, and the most that it can be.
type Rlimit struct{ Cur, Max uint64 }

// Sigset_t is a set of signals, as the kernel has it.
type Sigset_t uint64

func failed(e syscall.Errno) error {
	if e != 0 {
		return e
	}
	return nil
}

// Openat2 opens a path, with a say in how it is resolved.
func Openat2(dir int, path string, how *OpenHow) (int, error) {
	p, err := syscall.BytePtrFromString(path)
	if err != nil {
		return -1, err
	}
	for {
		fd, _, e := syscall.Syscall6(sysOpenat2, uintptr(dir), uintptr(unsafe.Pointer(p)), uintptr(unsafe.Pointer(how)), unsafe.Sizeof(*how), 0, 0)
		if e != EINTR {
			return int(fd), failed(e)
		}
	}
}

// OpenTree opens a mount, or a copy of it.
func OpenTree(dir int, path string, flags uint) (int, error) {
	p, err := syscall.BytePtrFromString(path)
	if err != nil {
		return -1, err
	}
	fd, _, e := syscall.Syscall(sysOpenTree, uintptr(dir), uintptr(unsafe.Pointer(p)), uintptr(flags))
	return int(fd), failed(e)
}

// MountSetattr changes a mount.
func MountSetattr(dir int, path string, flags uint, attr *MountAttr) error {
	p, err := syscall.BytePtrFromString(path)
	if err != nil {
		return err
	}
	_, _, e := syscall.Syscall6(sysMountSetattr, uintptr(dir), uintptr(unsafe.Pointer(p)), uintptr(flags), uintptr(unsafe.Pointer(attr)), unsafe.Sizeof(*attr), 0)
	return failed(e)
}

// MoveMount attaches a mount.
func MoveMount(fromDir int, from string, toDir int, to string, flags int) error {
	f, err := syscall.BytePtrFromString(from)
	if err != nil {
		return err
	}
	t, err := syscall.BytePtrFromString(to)
	if err != nil {
		return err
	}
	_, _, e := syscall.Syscall6(sysMoveMount, uintptr(fromDir), uintptr(unsafe.Pointer(f)), uintptr(toDir), uintptr(unsafe.Pointer(t)), uintptr(flags), 0)
	return failed(e)
}

// Prctl sets something of the calling thread or process.
func Prctl(option int, a, b, c, d uintptr) error {
	_, _, e := syscall.RawSyscall6(syscall.SYS_PRCTL, uintptr(option), a, b, c, d, 0)
	return failed(e)
}

// CloseRange does something with all descriptors from first to last.
func CloseRange(first, last uint, flags int) error {
	_, _, e := syscall.RawSyscall(sysCloseRange, uintptr(first), uintptr(last), uintptr(flags))
	return failed(e)
}

// SetSignals makes set the calling thread's blocked signals, and returns those that were.
func SetSignals(set Sigset_t) (old Sigset_t, err error) {
	_, _, e := syscall.RawSyscall6(syscall.SYS_RT_SIGPROCMASK, SIG_SETMASK, uintptr(unsafe.Pointer(&set)), uintptr(unsafe.Pointer(&old)), unsafe.Sizeof(set), 0, 0)
	return old, failed(e)
}

// Prlimit reads a limit of this process, and sets it if to is not nil. Package syscall's own remembers what it set and
// gives it to no other process.
func Prlimit(what int, to, old *Rlimit) error {
	_, _, e := syscall.RawSyscall6(syscall.SYS_PRLIMIT64, 0, uintptr(what), uintptr(unsafe.Pointer(to)), uintptr(unsafe.Pointer(old)), 0, 0)
	return failed(e)
}

// LandlockCreateRuleset makes a set of rules of which the kernel reads size bytes. With flags and no attr it says
// which Landlock it has.
func LandlockCreateRuleset(attr *LandlockRulesetAttr, size uintptr, flags uint) (int, error) {
	r, _, e := syscall.Syscall(SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(attr)), size, uintptr(flags))
	return int(r), failed(e)
}

// LandlockAddPathBeneathRule adds a rule to a set.
func LandlockAddPathBeneathRule(rules int, attr *LandlockPathBeneathAttr) error {
	_, _, e := syscall.Syscall6(SYS_LANDLOCK_ADD_RULE, uintptr(rules), LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(attr)), 0, 0, 0)
	return failed(e)
}

// ifreq is an interface and its flags.
type ifreq struct {
	name  [16]byte
	flags uint16
	_     [22]byte
}

// InterfaceUp brings an interface up.
func InterfaceUp(name string) error {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_DGRAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer syscall.Close(fd)
	var r ifreq
	copy(r.name[:len(r.name)-1], name)
	if _, _, e := syscall.Syscall(syscall.SYS_IOCTL, uintptr(fd), syscall.SIOCGIFFLAGS, uintptr(unsafe.Pointer(&r))); e != 0 {
		return e
	}
	r.flags |= syscall.IFF_UP
	_, _, e := syscall.Syscall(syscall.SYS_IOCTL, uintptr(fd), syscall.SIOCSIFFLAGS, uintptr(unsafe.Pointer(&r)))
	return failed(e)
}

// The following are package syscall's own.

func Mount(source, target, kind string, flags uintptr, data string) error {
	return syscall.Mount(source, target, kind, flags, data)
}
func Open(path string, flags int, mode uint32) (int, error) { return syscall.Open(path, flags, mode) }
func Close(fd int) error                                    { return syscall.Close(fd) }
func CloseOnExec(fd int)                                    { syscall.CloseOnExec(fd) }
func Dup3(from, to, flags int) error                        { return syscall.Dup3(from, to, flags) }
func Fstat(fd int, st *Stat_t) error                        { return syscall.Fstat(fd, st) }
func Access(path string, mode uint32) error                 { return syscall.Access(path, mode) }
func Read(fd int, p []byte) (int, error)                    { return syscall.Read(fd, p) }
func Write(fd int, p []byte) (int, error)                   { return syscall.Write(fd, p) }
func Pipe2(p []int, flags int) error                        { return syscall.Pipe2(p, flags) }
func Kill(pid int, s syscall.Signal) error                  { return syscall.Kill(pid, s) }
func Exit(code int)                                         { syscall.Exit(code) }
func Wait4(pid int, status *WaitStatus, options int) (int, error) {
	return syscall.Wait4(pid, status, options, nil)
}
