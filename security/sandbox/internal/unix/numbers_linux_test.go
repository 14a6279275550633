//go:build amd64 || arm64

package unix

import (
	"testing"
	"unsafe"

	real "golang.org/x/sys/unix"
)

func TestNumbersAreTheKernels(t *testing.T) {
	for name, n := range map[string][2]int64{
		"open_tree": {sysOpenTree, real.SYS_OPEN_TREE}, "move_mount": {sysMoveMount, real.SYS_MOVE_MOUNT},
		"close_range": {sysCloseRange, real.SYS_CLOSE_RANGE}, "openat2": {sysOpenat2, real.SYS_OPENAT2},
		"mount_setattr": {sysMountSetattr, real.SYS_MOUNT_SETATTR}, "seccomp": {SYS_SECCOMP, real.SYS_SECCOMP},
		"landlock_create_ruleset": {SYS_LANDLOCK_CREATE_RULESET, real.SYS_LANDLOCK_CREATE_RULESET},
		"landlock_add_rule":       {SYS_LANDLOCK_ADD_RULE, real.SYS_LANDLOCK_ADD_RULE},
		"landlock_restrict_self":  {SYS_LANDLOCK_RESTRICT_SELF, real.SYS_LANDLOCK_RESTRICT_SELF},

		"AT_FDCWD": {AT_FDCWD, real.AT_FDCWD}, "AT_EMPTY_PATH": {AT_EMPTY_PATH, real.AT_EMPTY_PATH}, "AT_RECURSIVE": {AT_RECURSIVE, real.AT_RECURSIVE},
		"O_WRONLY": {O_WRONLY, real.O_WRONLY}, "O_RDWR": {O_RDWR, real.O_RDWR}, "O_CLOEXEC": {O_CLOEXEC, real.O_CLOEXEC}, "O_PATH": {O_PATH, real.O_PATH},
		"RESOLVE_NO_SYMLINKS": {RESOLVE_NO_SYMLINKS, real.RESOLVE_NO_SYMLINKS}, "CLOSE_RANGE_CLOEXEC": {CLOSE_RANGE_CLOEXEC, real.CLOSE_RANGE_CLOEXEC},
		"S_IFMT": {S_IFMT, real.S_IFMT}, "S_IFDIR": {S_IFDIR, real.S_IFDIR}, "S_IFCHR": {S_IFCHR, real.S_IFCHR}, "X_OK": {X_OK, real.X_OK},

		"MS_NOSUID": {MS_NOSUID, real.MS_NOSUID}, "MS_NODEV": {MS_NODEV, real.MS_NODEV}, "MS_NOEXEC": {MS_NOEXEC, real.MS_NOEXEC},
		"MS_RDONLY": {MS_RDONLY, real.MS_RDONLY}, "MS_BIND": {MS_BIND, real.MS_BIND}, "MS_REC": {MS_REC, real.MS_REC}, "MS_PRIVATE": {MS_PRIVATE, real.MS_PRIVATE},
		"MOUNT_ATTR_RDONLY": {MOUNT_ATTR_RDONLY, real.MOUNT_ATTR_RDONLY}, "MOUNT_ATTR_NOSUID": {MOUNT_ATTR_NOSUID, real.MOUNT_ATTR_NOSUID},
		"MOUNT_ATTR_NODEV": {MOUNT_ATTR_NODEV, real.MOUNT_ATTR_NODEV}, "MOUNT_ATTR_NOEXEC": {MOUNT_ATTR_NOEXEC, real.MOUNT_ATTR_NOEXEC},
		"OPEN_TREE_CLONE": {OPEN_TREE_CLONE, real.OPEN_TREE_CLONE}, "OPEN_TREE_CLOEXEC": {OPEN_TREE_CLOEXEC, real.OPEN_TREE_CLOEXEC},
		"MOVE_MOUNT_F_EMPTY_PATH": {MOVE_MOUNT_F_EMPTY_PATH, real.MOVE_MOUNT_F_EMPTY_PATH}, "MOVE_MOUNT_T_EMPTY_PATH": {MOVE_MOUNT_T_EMPTY_PATH, real.MOVE_MOUNT_T_EMPTY_PATH},

		"PR_SET_DUMPABLE": {PR_SET_DUMPABLE, real.PR_SET_DUMPABLE}, "PR_CAPBSET_READ": {PR_CAPBSET_READ, real.PR_CAPBSET_READ},
		"PR_CAPBSET_DROP": {PR_CAPBSET_DROP, real.PR_CAPBSET_DROP}, "PR_SET_CHILD_SUBREAPER": {PR_SET_CHILD_SUBREAPER, real.PR_SET_CHILD_SUBREAPER},
		"PR_SET_NO_NEW_PRIVS": {PR_SET_NO_NEW_PRIVS, real.PR_SET_NO_NEW_PRIVS}, "PR_CAP_AMBIENT": {PR_CAP_AMBIENT, real.PR_CAP_AMBIENT},
		"PR_CAP_AMBIENT_CLEAR_ALL":   {PR_CAP_AMBIENT_CLEAR_ALL, real.PR_CAP_AMBIENT_CLEAR_ALL},
		"LINUX_CAPABILITY_VERSION_3": {LINUX_CAPABILITY_VERSION_3, real.LINUX_CAPABILITY_VERSION_3},
		"SECCOMP_SET_MODE_FILTER":    {SECCOMP_SET_MODE_FILTER, real.SECCOMP_SET_MODE_FILTER}, "SIG_SETMASK": {SIG_SETMASK, real.SIG_SETMASK},
		"RLIMIT_NPROC": {RLIMIT_NPROC, real.RLIMIT_NPROC},

		"LANDLOCK_CREATE_RULESET_VERSION": {LANDLOCK_CREATE_RULESET_VERSION, real.LANDLOCK_CREATE_RULESET_VERSION},
		"LANDLOCK_RULE_PATH_BENEATH":      {LANDLOCK_RULE_PATH_BENEATH, real.LANDLOCK_RULE_PATH_BENEATH},
		"EXECUTE":                         {LANDLOCK_ACCESS_FS_EXECUTE, real.LANDLOCK_ACCESS_FS_EXECUTE},
		"WRITE_FILE":                      {LANDLOCK_ACCESS_FS_WRITE_FILE, real.LANDLOCK_ACCESS_FS_WRITE_FILE},
		"READ_FILE":                       {LANDLOCK_ACCESS_FS_READ_FILE, real.LANDLOCK_ACCESS_FS_READ_FILE},
		"READ_DIR":                        {LANDLOCK_ACCESS_FS_READ_DIR, real.LANDLOCK_ACCESS_FS_READ_DIR},
		"MAKE_SYM":                        {LANDLOCK_ACCESS_FS_MAKE_SYM, real.LANDLOCK_ACCESS_FS_MAKE_SYM},
		"REFER":                           {LANDLOCK_ACCESS_FS_REFER, real.LANDLOCK_ACCESS_FS_REFER},
		"TRUNCATE":                        {LANDLOCK_ACCESS_FS_TRUNCATE, real.LANDLOCK_ACCESS_FS_TRUNCATE},
		"IOCTL_DEV":                       {LANDLOCK_ACCESS_FS_IOCTL_DEV, real.LANDLOCK_ACCESS_FS_IOCTL_DEV},
		"BIND_TCP":                        {LANDLOCK_ACCESS_NET_BIND_TCP, real.LANDLOCK_ACCESS_NET_BIND_TCP},
		"CONNECT_TCP":                     {LANDLOCK_ACCESS_NET_CONNECT_TCP, real.LANDLOCK_ACCESS_NET_CONNECT_TCP},
		"SCOPE_ABSTRACT_UNIX_SOCKET":      {LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET, real.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET},
		"SCOPE_SIGNAL":                    {LANDLOCK_SCOPE_SIGNAL, real.LANDLOCK_SCOPE_SIGNAL},
	} {
		if n[0] != n[1] {
			t.Errorf("%s is %d, want %d", name, n[0], n[1])
		}
	}
}

func TestStructuresAreTheKernels(t *testing.T) {
	for name, n := range map[string][2]uintptr{
		"open_how":         {unsafe.Sizeof(OpenHow{}), unsafe.Sizeof(real.OpenHow{})},
		"mount_attr":       {unsafe.Sizeof(MountAttr{}), unsafe.Sizeof(real.MountAttr{})},
		"cap_user_header":  {unsafe.Sizeof(CapUserHeader{}), unsafe.Sizeof(real.CapUserHeader{})},
		"cap_user_data":    {unsafe.Sizeof(CapUserData{}), unsafe.Sizeof(real.CapUserData{})},
		"sock_fprog":       {unsafe.Offsetof(SockFprog{}.Filter), unsafe.Offsetof(real.SockFprog{}.Filter)},
		"rlimit":           {unsafe.Sizeof(Rlimit{}), unsafe.Sizeof(real.Rlimit{})},
		"landlock scoped":  {unsafe.Offsetof(LandlockRulesetAttr{}.Scoped), unsafe.Offsetof(real.LandlockRulesetAttr{}.Scoped)},
		"landlock network": {unsafe.Offsetof(LandlockRulesetAttr{}.Handled_access_net), unsafe.Offsetof(real.LandlockRulesetAttr{}.Handled_access_net)},
		"path_beneath":     {unsafe.Offsetof(LandlockPathBeneathAttr{}.Parent_fd), unsafe.Offsetof(real.LandlockPathBeneathAttr{}.Parent_fd)},
		"ifreq":            {unsafe.Sizeof(ifreq{}), 40},
	} {
		if n[0] != n[1] {
			t.Errorf("%s is at, or has, %d bytes, want %d", name, n[0], n[1])
		}
	}
}
