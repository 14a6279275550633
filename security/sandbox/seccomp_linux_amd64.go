package sandbox

import "golang.org/x/sys/unix"

const nativeArch = unix.AUDIT_ARCH_X86_64

var (
	oldForks    = []int{unix.SYS_FORK, unix.SYS_VFORK}
	oldMetadata = []int{unix.SYS_CHMOD, unix.SYS_CHOWN, unix.SYS_LCHOWN, unix.SYS_UTIME, unix.SYS_UTIMES, unix.SYS_FUTIMESAT}
)

var settingModes = map[int]modeAt{
	unix.SYS_CHMOD: {mode: offArg1}, unix.SYS_CREAT: {mode: offArg1}, unix.SYS_MKNOD: {mode: offArg1}, unix.SYS_OPEN: {mode: offArg2, flags: offArg1},
	unix.SYS_FCHMOD: {mode: offArg1}, unix.SYS_FCHMODAT: {mode: offArg2}, unix.SYS_FCHMODAT2: {mode: offArg2},
	unix.SYS_OPENAT: {mode: offArg3, flags: offArg2}, unix.SYS_MKNODAT: {mode: offArg2},
}
