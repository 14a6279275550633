//go:build amd64 || arm64

package inside

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// fsRead are the rights on everything that the command may read; programs can be executed, too.
	fsRead = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR
	// fsOfFiles are the rights that the kernel accepts in a rule for a file. A right on directories
	// makes it refuse the rule (EINVAL).
	fsOfFiles = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE |
		unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	// fsOfDevices are the rights on the entries of devices, such as /dev/null.
	fsOfDevices = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE |
		unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
)

// fsRights returns all rights on files that this version of Landlock knows. A ruleset handles all
// of them, so that what no rule grants is refused; a right that the kernel does not know is an
// error. Version 1 has those up to MAKE_SYM, 2 added REFER, 3 TRUNCATE, 5 IOCTL_DEV; 4 and 6 are
// about the network and signals.
func fsRights(abi int) uint64 {
	rights := uint64(unix.LANDLOCK_ACCESS_FS_MAKE_SYM)<<1 - 1
	if abi >= 2 {
		rights |= unix.LANDLOCK_ACCESS_FS_REFER
	}
	if abi >= 3 {
		rights |= unix.LANDLOCK_ACCESS_FS_TRUNCATE
	}
	if abi >= 5 {
		rights |= unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	}
	return rights
}

// SignalsABI is the first Landlock that keeps signals, and abstract Unix sockets, inside (Linux
// 6.12).
const SignalsABI = 6

// LandlockABI returns the version of the kernel's Landlock; 0 if it has none, or if the running
// container forbids the call. The system call is asked because files that tell it are not mounted
// everywhere.
func LandlockABI() int {
	v, err := createRuleset(nil, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if err != nil {
		return 0
	}
	return v
}

// createRuleset is landlock_create_ruleset(2); the kernel reads size bytes of attr.
func createRuleset(attr *unix.LandlockRulesetAttr, size, flags uintptr) (int, error) {
	r, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(attr)), size, flags)
	if errno != 0 {
		return -1, errno
	}
	return int(r), nil
}

// ruleset makes the rules of the job and returns their descriptor; -1 if the kernel has no
// Landlock. They are not in force yet: fork does that in the new process, since the helper must
// stay outside.
func (j *Job) ruleset() (fd int, err error) {
	if j.ABI < 1 {
		return -1, nil
	}
	known := fsRights(j.ABI)
	attr := unix.LandlockRulesetAttr{Handled_access_fs: known}
	// The kernel is given only those fields of attr that its version has.
	size := unsafe.Offsetof(attr.Handled_access_net)
	if j.ABI >= 4 {
		size = unsafe.Offsetof(attr.Scoped)
		if j.NoTCP {
			// An access that is handled and has no rule is refused, and no rule grants a port.
			attr.Handled_access_net = unix.LANDLOCK_ACCESS_NET_BIND_TCP | unix.LANDLOCK_ACCESS_NET_CONNECT_TCP
		}
	}
	if j.ABI >= SignalsABI {
		size = unsafe.Offsetof(attr.Quiet_access_fs)
		// The command can neither connect to abstract sockets of processes outside nor signal them.
		attr.Scoped = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL
	}
	if fd, err = createRuleset(&attr, size, 0); err != nil {
		return -1, fmt.Errorf("make Landlock rules: %w", err)
	}
	if err := j.addRules(fd, known); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// addRules adds a rule for each path that the command may use. Rights of several rules for one file
// add up, and nothing can be taken away below a granted directory.
func (j *Job) addRules(rules int, known uint64) error {
	// A path that is missing is left out: the system's directories are not the same everywhere. A
	// path with a symbolic link in it is an error.
	all := slices.Concat(j.Scratch.Private, j.Scratch.Layers)
	if j.Temp != "" {
		all = append(all, j.Temp)
	}
	// These two are in the /dev that makeDev has made, which no other process sees.
	if j.Mounts {
		all = append(all, "/dev/pts", "/dev/shm")
	}
	for _, may := range []struct {
		rights uint64
		paths  []string
	}{{fsRead, j.Read}, {unix.LANDLOCK_ACCESS_FS_READ_DIR, j.List}, {fsOfDevices, devices}, {known, all}} {
		for _, path := range may.paths {
			fd, err := OpenPlain(path)
			if errors.Is(err, os.ErrNotExist) {
				continue
			}
			if err != nil {
				return err
			}
			if err := addRule(rules, fd, path, may.rights&known); err != nil {
				return err
			}
		}
	}
	// Unlike those, these must exist and be the files that were planned.
	for _, w := range j.Write {
		fd, err := w.Open()
		if err != nil {
			return err
		}
		if err := addRule(rules, fd, w.Path, known); err != nil {
			return err
		}
	}
	return nil
}

// addRule grants rights on the file that fd is open on, and on everything below if it is a
// directory. It closes fd. path is for the error.
func addRule(rules, fd int, path string, rights uint64) error {
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return &os.PathError{Op: "stat", Path: path, Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		rights &= fsOfFiles
	}
	attr := unix.LandlockPathBeneathAttr{Allowed_access: rights, Parent_fd: int32(fd)}
	if _, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(rules), unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&attr)), 0, 0, 0); errno != 0 {
		return fmt.Errorf("make the Landlock rule for %s: %w", path, errno)
	}
	return nil
}
