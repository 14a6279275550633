package sandbox

import "golang.org/x/sys/unix"

// nativeArch is the architecture in struct seccomp_data. A 64-bit process can also make 32-bit
// calls; the filter ends it for that.
const nativeArch = unix.AUDIT_ARCH_X86_64

var (
	// oldForks and oldMetadata are calls that newer architectures do not have: there, programs use
	// clone, fchmodat and so on instead.
	oldForks    = []int{unix.SYS_FORK, unix.SYS_VFORK}
	oldMetadata = []int{unix.SYS_CHMOD, unix.SYS_CHOWN, unix.SYS_LCHOWN, unix.SYS_UTIME, unix.SYS_UTIMES, unix.SYS_FUTIMESAT}
)

// settingModes are all calls but openat2 that can set the mode of a file, with the arguments that
// have it. mkdir is not one of them: the kernel ignores set-user-ID and set-group-ID in it.
var settingModes = map[int]modeAt{
	unix.SYS_CHMOD: {mode: offArg1}, unix.SYS_CREAT: {mode: offArg1}, unix.SYS_MKNOD: {mode: offArg1}, unix.SYS_OPEN: {mode: offArg2, flags: offArg1},
	unix.SYS_FCHMOD: {mode: offArg1}, unix.SYS_FCHMODAT: {mode: offArg2}, unix.SYS_FCHMODAT2: {mode: offArg2},
	unix.SYS_OPENAT: {mode: offArg3, flags: offArg2}, unix.SYS_MKNODAT: {mode: offArg2},
}
