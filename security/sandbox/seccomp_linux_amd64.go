package sandbox

import "golang.org/x/sys/unix"

const nativeArch = unix.AUDIT_ARCH_X86_64

var (
	oldForks    = []int{unix.SYS_FORK, unix.SYS_VFORK}
	oldMetadata = []int{unix.SYS_CHMOD, unix.SYS_CHOWN, unix.SYS_LCHOWN, unix.SYS_UTIME, unix.SYS_UTIMES, unix.SYS_FUTIMESAT}
)
