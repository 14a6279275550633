//go:build amd64 || arm64

package sandbox

import (
	"slices"

	"golang.org/x/sys/unix"
)

// Offsets in struct seccomp_data. Both architectures are little-endian: the low half of an
// argument, which is all that the kernel looks at in these calls, comes first.
const (
	offNumber = 0
	offArch   = 4
	offArg0   = 16
	offArg1   = 24
	offArg2   = 32
	offArg3   = 40
)

// newest is the first number of a system call that this filter does not know (setxattrat,
// Linux 6.13). It and later ones return ENOSYS, as on an older kernel: programs can do
// without, and no new call gets past the filter. Raise it after reading what the calls in
// between do.
const newest = 463

// never are calls that no command needs, and that reach out of a sandbox or into rarely tested
// parts of the kernel. They fail with EPERM.
var never = []int{
	unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_PROCESS_MADVISE, unix.SYS_KCMP, unix.SYS_PIDFD_GETFD,
	unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER, // they make sockets past this filter
	unix.SYS_UNSHARE, unix.SYS_SETNS, unix.SYS_CHROOT, unix.SYS_PIVOT_ROOT,
	unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK, unix.SYS_MOVE_MOUNT,
	unix.SYS_OPEN_TREE, unix.SYS_MOUNT_SETATTR,
	unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_FANOTIFY_INIT, unix.SYS_QUOTACTL, unix.SYS_QUOTACTL_FD,
	unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY, unix.SYS_KEYCTL,
	unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD,
	unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE, unix.SYS_KEXEC_LOAD, unix.SYS_KEXEC_FILE_LOAD,
	unix.SYS_REBOOT, unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_ACCT, unix.SYS_SYSLOG, unix.SYS_VHANGUP,
	unix.SYS_SETHOSTNAME, unix.SYS_SETDOMAINNAME, unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME, unix.SYS_ADJTIMEX, unix.SYS_CLOCK_ADJTIME,
}

// metadata are the calls that change modes, owners, times and attributes, which Landlock does
// not check.
var metadata = slices.Concat([]int{
	unix.SYS_FCHMOD, unix.SYS_FCHMODAT, unix.SYS_FCHMODAT2, unix.SYS_FCHOWN, unix.SYS_FCHOWNAT, unix.SYS_UTIMENSAT,
	unix.SYS_SETXATTR, unix.SYS_LSETXATTR, unix.SYS_FSETXATTR, unix.SYS_REMOVEXATTR, unix.SYS_LREMOVEXATTR, unix.SYS_FREMOVEXATTR,
}, oldMetadata)

// newNamespaces are the flags of clone that make namespaces. In a namespace of its own a
// command would have capabilities again, and could undo mounts.
const newNamespaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET

const (
	// The actions of the filter. EPERM tells a program that it may not do this, ENOSYS that the
	// kernel is too old for the call, so that it falls back to an older one.
	allow  = unix.SECCOMP_RET_ALLOW
	eperm  = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
	enosys = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)
)

// assembler writes a BPF filter. Between its steps the accumulator holds the call's number.
type assembler struct{ code []unix.SockFilter }

// op appends one instruction; jt and jf are how many instructions to skip if its test is true
// or false.
func (a *assembler) op(code uint16, k uint32, jt, jf uint8) {
	a.code = append(a.code, unix.SockFilter{Code: code, K: k, Jt: jt, Jf: jf})
}

// load loads four bytes of struct seccomp_data into the accumulator.
func (a *assembler) load(offset uint32) { a.op(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, offset, 0, 0) }

// ret ends the filter with an action.
func (a *assembler) ret(action uint32) { a.op(unix.BPF_RET|unix.BPF_K, action, 0, 0) }

// unless skips n instructions unless the accumulator equals k.
func (a *assembler) unless(k uint32, n int) {
	a.op(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, k, 0, uint8(n))
}

// refuse ends each of the calls with an action.
func (a *assembler) refuse(action uint32, calls ...int) {
	for _, nr := range calls {
		a.unless(uint32(nr), 1)
		a.ret(action)
	}
}

// on adds steps for one call. They begin with the number in the accumulator; if they do not
// decide, the next steps do.
func (a *assembler) on(call int, steps func(*assembler)) {
	var body assembler
	steps(&body)
	body.load(offNumber)
	a.unless(uint32(call), len(body.code))
	a.code = append(a.code, body.code...)
}

// filter returns the seccomp program for the job. The kernel runs it for every system call of
// the command, so frequent tests come first. Calls of another architecture end the process,
// since they have other numbers.
func (j *job) filter() []unix.SockFilter {
	var a assembler
	a.load(offArch)
	a.op(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, nativeArch, 1, 0)
	a.ret(unix.SECCOMP_RET_KILL_PROCESS) // 32-bit calls have other numbers
	a.load(offNumber)
	a.op(unix.BPF_JMP|unix.BPF_JGE|unix.BPF_K, newest, 0, 1) // and x32, on amd64
	a.ret(enosys)
	a.refuse(eperm, never...)
	j.modes(&a)
	if !j.Metadata {
		a.refuse(eperm, metadata...)
	}
	a.refuse(enosys, unix.SYS_CLONE3) // its flags are in memory; libraries go on with clone
	a.on(unix.SYS_CLONE, func(a *assembler) {
		a.load(offArg0)
		a.op(unix.BPF_JMP|unix.BPF_JSET|unix.BPF_K, newNamespaces, 0, 1)
		a.ret(eperm)
		if !j.Fork {
			a.op(unix.BPF_JMP|unix.BPF_JSET|unix.BPF_K, unix.CLONE_THREAD, 1, 0)
			a.ret(eperm)
		}
	})
	if !j.Fork {
		a.refuse(eperm, oldForks...)
	}
	// Input put into a terminal is run by the shell that reads it next.
	a.on(unix.SYS_IOCTL, func(a *assembler) {
		a.load(offArg1)
		a.refuse(eperm, unix.TIOCSTI, unix.TIOCLINUX)
	})
	j.sockets(&a)
	a.ret(allow)
	return a.code
}

// modes refuses to create set-user-ID and set-group-ID files: run later by another user or
// program, they would act with this user's rights. openat2 has its mode in memory, which a
// filter cannot read, so it fails with ENOSYS and programs fall back to openat.
func (j *job) modes(a *assembler) {
	// O_TMPFILE contains O_DIRECTORY, which alone creates nothing.
	const special, creates = unix.S_ISUID | unix.S_ISGID, unix.O_CREAT | unix.O_TMPFILE&^unix.O_DIRECTORY
	a.refuse(enosys, unix.SYS_OPENAT2)
	for call, at := range settingModes {
		a.on(call, func(a *assembler) {
			if at.flags != 0 { // without them there is no mode
				a.load(at.flags)
				a.op(unix.BPF_JMP|unix.BPF_JSET|unix.BPF_K, creates, 0, 3)
			}
			a.load(at.mode)
			a.op(unix.BPF_JMP|unix.BPF_JSET|unix.BPF_K, special, 0, 1)
			a.ret(eperm)
		})
	}
}

// modeAt has the offsets in struct seccomp_data of a call's mode, and of the flags that say whether
// the call uses the mode; flags 0 means that it always does.
type modeAt struct{ mode, flags uint32 }

// sockets adds the rules for socket and socketpair that the policy's network needs.
func (j *job) sockets(a *assembler) {
	// A pair of datagram sockets can be connected again, to a socket of the machine; the other
	// kinds cannot.
	a.on(unix.SYS_SOCKETPAIR, func(a *assembler) {
		a.load(offArg1)
		a.op(unix.BPF_ALU|unix.BPF_AND|unix.BPF_K, 0xf, 0, 0) // without SOCK_CLOEXEC and SOCK_NONBLOCK
		a.refuse(eperm, unix.SOCK_DGRAM, unix.SOCK_RAW)       // SOCK_RAW of a Unix pair is SOCK_DGRAM
	})
	if j.Unix { // hidden paths decide which sockets a command can connect to
		a.on(unix.SYS_SOCKET, func(a *assembler) {
			a.load(offArg0)
			a.unless(unix.AF_UNIX, 4)
			a.load(offArg1)
			a.op(unix.BPF_ALU|unix.BPF_AND|unix.BPF_K, 0xf, 0, 0)
			a.refuse(allow, unix.SOCK_STREAM)
		})
	}
	// Reached with another domain than AF_UNIX, or with another type of socket. socketpair stays
	// allowed: both its ends are the command's own.
	if j.Network == NetworkNone {
		a.refuse(eperm, unix.SYS_SOCKET)
		return
	}
	a.on(unix.SYS_SOCKET, func(a *assembler) {
		a.load(offArg0)
		a.refuse(allow, unix.AF_INET, unix.AF_INET6)
		a.unless(unix.AF_NETLINK, 3) // for what addresses and routes there are, and nothing else
		a.load(offArg2)
		a.unless(unix.NETLINK_ROUTE, 1)
		a.ret(allow)
		a.ret(eperm)
	})
}
