//go:build amd64 || arm64

package inside

import (
	"errors"
	"os"
	"unsafe"

	"symbio/security/sandbox/internal/unix"
)

const (
	fsRead = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR
	// fsOfFiles are the rights that make sense for what is not a directory.
	fsOfFiles = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE |
		unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	// fsOfDevices is what a program does with /dev/null and its like.
	fsOfDevices = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE |
		unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
)

// fsRights returns the rights that a Landlock of that version knows.
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

// SignalsABI is the first Landlock that keeps signals, and abstract Unix sockets, inside (Linux 6.12).
const SignalsABI = 6

// LandlockABI is the version of the kernel's Landlock; 0 = it has none. The kernel itself is asked; a file of it is not
// mounted everywhere.
func LandlockABI() int {
	v, err := unix.LandlockCreateRuleset(nil, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if err != nil {
		return 0
	}
	return v
}

// ruleset returns the rules of the job, not yet in force; -1 if the kernel has no Landlock.
func (j *Job) ruleset() (fd int, err error) {
	if j.ABI < 1 {
		return -1, nil
	}
	known := fsRights(j.ABI)
	attr := unix.LandlockRulesetAttr{Handled_access_fs: known}
	size := unsafe.Offsetof(attr.Handled_access_net)
	if j.ABI >= 4 {
		size = unsafe.Offsetof(attr.Scoped)
		if j.NoTCP {
			attr.Handled_access_net = unix.LANDLOCK_ACCESS_NET_BIND_TCP | unix.LANDLOCK_ACCESS_NET_CONNECT_TCP
		}
	}
	if j.ABI >= SignalsABI {
		size = unsafe.Sizeof(attr)
		attr.Scoped = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL
	}
	if fd, err = unix.LandlockCreateRuleset(&attr, size, 0); err != nil {
		return -1, wrap("make Landlock rules", err)
	}
	if err := j.addRules(fd, known); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

func (j *Job) addRules(rules int, known uint64) error {
	plain := func(path string, rights uint64) error {
		fd, err := OpenPlain(path)
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		return addRule(rules, fd, path, rights&known)
	}
	for _, path := range j.Read {
		if err := plain(path, fsRead); err != nil {
			return err
		}
	}
	for _, path := range j.List {
		if err := plain(path, unix.LANDLOCK_ACCESS_FS_READ_DIR); err != nil {
			return err
		}
	}
	for _, name := range devices {
		if err := plain("/dev/"+name, fsOfDevices); err != nil {
			return err
		}
	}
	if j.Mounts { // they are the command's own
		if err := errors.Join(plain("/dev/pts", known), plain("/dev/shm", known)); err != nil {
			return err
		}
	}
	if j.Temp != "" {
		if err := plain(j.Temp, known); err != nil {
			return err
		}
	}
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

// addRule grants rights at and below what fd is open on, and closes it.
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
	if err := unix.LandlockAddPathBeneathRule(rules, &attr); err != nil {
		return wrap("make the Landlock rule for "+path, err)
	}
	return nil
}
