//go:build amd64 || arm64

package unix

import "syscall"

// Calls that are newer than package syscall; their numbers are the same on all systems.
const (
	sysOpenTree     = 428
	sysMoveMount    = 429
	sysCloseRange   = 436
	sysOpenat2      = 437
	sysMountSetattr = 442

	SYS_LANDLOCK_CREATE_RULESET = 444
	SYS_LANDLOCK_ADD_RULE       = 445
	SYS_LANDLOCK_RESTRICT_SELF  = 446
)

// Opening, and what else works on paths.
const (
	AT_FDCWD      = -100
	AT_EMPTY_PATH = 0x1000
	AT_RECURSIVE  = 0x8000

	O_WRONLY  = syscall.O_WRONLY
	O_RDWR    = syscall.O_RDWR
	O_CLOEXEC = syscall.O_CLOEXEC
	O_PATH    = 0x200000

	RESOLVE_NO_SYMLINKS = 0x4

	S_IFMT  = syscall.S_IFMT
	S_IFDIR = syscall.S_IFDIR
	S_IFCHR = syscall.S_IFCHR
	X_OK    = 1

	CLOSE_RANGE_CLOEXEC = 0x4
)

// Mounts.
const (
	MS_NOSUID  = syscall.MS_NOSUID
	MS_NODEV   = syscall.MS_NODEV
	MS_NOEXEC  = syscall.MS_NOEXEC
	MS_RDONLY  = syscall.MS_RDONLY
	MS_BIND    = syscall.MS_BIND
	MS_REC     = syscall.MS_REC
	MS_PRIVATE = syscall.MS_PRIVATE

	MOUNT_ATTR_RDONLY = 0x1
	MOUNT_ATTR_NOSUID = 0x2
	MOUNT_ATTR_NODEV  = 0x4
	MOUNT_ATTR_NOEXEC = 0x8

	OPEN_TREE_CLONE   = 0x1
	OPEN_TREE_CLOEXEC = syscall.O_CLOEXEC

	MOVE_MOUNT_F_EMPTY_PATH = 0x4
	MOVE_MOUNT_T_EMPTY_PATH = 0x40
)

// What a process is and may.
const (
	// Options of Prctl.
	PR_SET_DUMPABLE          = 0x4
	PR_CAPBSET_READ          = 0x17
	PR_CAPBSET_DROP          = 0x18
	PR_SET_CHILD_SUBREAPER   = 0x24
	PR_SET_NO_NEW_PRIVS      = 0x26
	PR_CAP_AMBIENT           = 0x2f
	PR_CAP_AMBIENT_CLEAR_ALL = 0x4

	// The version of capset's structures with 64 capabilities, in two CapUserData.
	LINUX_CAPABILITY_VERSION_3 = 0x20080522
	SECCOMP_SET_MODE_FILTER    = 0x1

	SIG_SETMASK = 2
	SIGSTOP     = syscall.SIGSTOP
	SIGKILL     = syscall.SIGKILL
	WNOHANG     = syscall.WNOHANG

	RLIMIT_CPU    = syscall.RLIMIT_CPU
	RLIMIT_FSIZE  = syscall.RLIMIT_FSIZE
	RLIMIT_DATA   = syscall.RLIMIT_DATA
	RLIMIT_CORE   = syscall.RLIMIT_CORE
	RLIMIT_NPROC  = 0x6
	RLIMIT_NOFILE = syscall.RLIMIT_NOFILE
)

// Landlock.
const (
	LANDLOCK_CREATE_RULESET_VERSION = 0x1
	LANDLOCK_RULE_PATH_BENEATH      = 0x1

	// Rights on files. MAKE_SYM is the last one of version 1; the versions of the later ones are in
	// package inside.
	LANDLOCK_ACCESS_FS_EXECUTE    = 0x1
	LANDLOCK_ACCESS_FS_WRITE_FILE = 0x2
	LANDLOCK_ACCESS_FS_READ_FILE  = 0x4
	LANDLOCK_ACCESS_FS_READ_DIR   = 0x8
	LANDLOCK_ACCESS_FS_MAKE_SYM   = 0x1000
	LANDLOCK_ACCESS_FS_REFER      = 0x2000
	LANDLOCK_ACCESS_FS_TRUNCATE   = 0x4000
	LANDLOCK_ACCESS_FS_IOCTL_DEV  = 0x8000

	LANDLOCK_ACCESS_NET_BIND_TCP    = 0x1
	LANDLOCK_ACCESS_NET_CONNECT_TCP = 0x2

	LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET = 0x1
	LANDLOCK_SCOPE_SIGNAL               = 0x2
)
