//go:build amd64 || arm64

package unix

import (
	"syscall"
	"unsafe"
)

// Names of package syscall, so that callers need not import both packages.
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

// OpenHow is struct open_how: how Openat2 opens. Flags are O_ flags, Mode is the mode of a new
// file, Resolve are RESOLVE_ flags.
type OpenHow struct{ Flags, Mode, Resolve uint64 }

// MountAttr is struct mount_attr: the MOUNT_ATTR_ flags that MountSetattr sets and clears. Zero
// fields change nothing.
type MountAttr struct{ Attr_set, Attr_clr, Propagation, Userns_fd uint64 }

// CapUserHeader and CapUserData are what capset takes.
type (
	CapUserHeader struct {
		Version uint32
		Pid     int32
	}
	CapUserData struct{ Effective, Permitted, Inheritable uint32 }
)

// LandlockRulesetAttr is struct landlock_ruleset_attr: what a set of rules handles, and so refuses
// where no rule grants it. Older kernels know a shorter structure: the network came with version 4
// of Landlock, Scoped with 6.
type LandlockRulesetAttr struct{ Handled_access_fs, Handled_access_net, Scoped uint64 }

// LandlockPathBeneathAttr is struct landlock_path_beneath_attr: the rights on the file that
// Parent_fd is open on, and on all below. The kernel's structure is packed: its 12 bytes have no
// padding at the end as this one has.
type LandlockPathBeneathAttr struct {
	Allowed_access uint64
	Parent_fd      int32
}

// SockFprog is struct sock_fprog, a program for seccomp. Go and C pad it the same way.
type SockFprog struct {
	// Len counts the instructions, not bytes.
	Len uint16
	// Filter is the first of them, 8 bytes each.
	Filter *byte
}

// Rlimit is struct rlimit64: the soft limit, which is in force, and the hard limit, up to which it
// can be raised.
type Rlimit struct{ Cur, Max uint64 }

// Sigset_t is a set of signals as the kernel has it: bit n-1 is signal n.
type Sigset_t uint64

// failed returns e as an error; nil for 0, which as a plain conversion would be a non-nil error.
func failed(e syscall.Errno) error {
	if e != 0 {
		return e
	}
	return nil
}

// Openat2 opens a path relative to dir and returns the descriptor. It is repeated after EINTR.
// Linux 5.6.
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

// OpenTree returns a descriptor for the mount at path, or with OPEN_TREE_CLONE for a detached copy,
// which goes away with the descriptor unless MoveMount attaches it. Linux 5.2.
func OpenTree(dir int, path string, flags uint) (int, error) {
	p, err := syscall.BytePtrFromString(path)
	if err != nil {
		return -1, err
	}
	fd, _, e := syscall.Syscall(sysOpenTree, uintptr(dir), uintptr(unsafe.Pointer(p)), uintptr(flags))
	return int(fd), failed(e)
}

// MountSetattr changes the attributes of a mount; with AT_RECURSIVE also of all mounts below it, or
// of none if one fails. Linux 5.12.
func MountSetattr(dir int, path string, flags uint, attr *MountAttr) error {
	p, err := syscall.BytePtrFromString(path)
	if err != nil {
		return err
	}
	_, _, e := syscall.Syscall6(sysMountSetattr, uintptr(dir), uintptr(unsafe.Pointer(p)), uintptr(flags), uintptr(unsafe.Pointer(attr)), unsafe.Sizeof(*attr), 0)
	return failed(e)
}

// MoveMount attaches the mount that fromDir and from lead to at toDir and to. With empty paths and
// MOVE_MOUNT_ flags it goes by the descriptors alone. Linux 5.2.
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

// Prctl is prctl(2). Some options are about the calling thread, others about the process.
func Prctl(option int, a, b, c, d uintptr) error {
	_, _, e := syscall.RawSyscall6(syscall.SYS_PRCTL, uintptr(option), a, b, c, d, 0)
	return failed(e)
}

// CloseRange closes all descriptors from first to last, or with CLOSE_RANGE_CLOEXEC (Linux 5.11)
// marks them to be closed at execve. Linux 5.9.
func CloseRange(first, last uint, flags int) error {
	_, _, e := syscall.RawSyscall(sysCloseRange, uintptr(first), uintptr(last), uintptr(flags))
	return failed(e)
}

// SetSignals replaces the blocked signals of the calling thread, and returns those that were
// blocked before. The goroutine must stay on its thread until they are set back.
func SetSignals(set Sigset_t) (old Sigset_t, err error) {
	_, _, e := syscall.RawSyscall6(syscall.SYS_RT_SIGPROCMASK, SIG_SETMASK, uintptr(unsafe.Pointer(&set)), uintptr(unsafe.Pointer(&old)), unsafe.Sizeof(set), 0, 0)
	return old, failed(e)
}

// Prlimit reads a limit of this process into old, and sets it to to; either may be nil.
// syscall.Setrlimit is not used because package syscall handles RLIMIT_NOFILE specially: it
// remembers the value that the process was started with and gives it to its children.
func Prlimit(what int, to, old *Rlimit) error {
	_, _, e := syscall.RawSyscall6(syscall.SYS_PRLIMIT64, 0, uintptr(what), uintptr(unsafe.Pointer(to)), uintptr(unsafe.Pointer(old)), 0, 0)
	return failed(e)
}

// LandlockCreateRuleset returns the descriptor of a new set of rules; the kernel reads size bytes
// of attr. With nil, 0 and LANDLOCK_CREATE_RULESET_VERSION it returns the version of Landlock
// instead.
func LandlockCreateRuleset(attr *LandlockRulesetAttr, size uintptr, flags uint) (int, error) {
	r, _, e := syscall.Syscall(SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(attr)), size, uintptr(flags))
	return int(r), failed(e)
}

// LandlockAddPathBeneathRule adds a rule to a set that is not in force yet.
func LandlockAddPathBeneathRule(rules int, attr *LandlockPathBeneathAttr) error {
	_, _, e := syscall.Syscall6(SYS_LANDLOCK_ADD_RULE, uintptr(rules), LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(attr)), 0, 0, 0)
	return failed(e)
}

// ifreq is struct ifreq, 40 bytes, as SIOCGIFFLAGS and SIOCSIFFLAGS use it.
type ifreq struct {
	name  [16]byte
	flags uint16
	_     [22]byte
}

// InterfaceUp brings a network interface of this network namespace up. It needs CAP_NET_ADMIN
// there. Any socket will do for the ioctl.
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
