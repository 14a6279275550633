//go:build amd64 || arm64

package inside

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

const (
	// emptyDir and emptyFile are mounted over what is hidden. A program that finds no key goes on
	// without; one that is refused to look for it often ends. They are made in the command's own
	// /dev, because that is writable and in memory.
	emptyDir  = "/dev/.nothing"
	emptyFile = "/dev/.empty"
)

// hide mounts something empty over each hidden path, and then the kept places on top. It must run
// after all other mounts, which would otherwise show the hidden paths.
func (j *Job) hide() error {
	if len(j.Hide) == 0 {
		return nil
	}
	if err := os.Mkdir(emptyDir, 0o555); err != nil {
		return err
	}
	if err := os.WriteFile(emptyFile, nil, 0o444); err != nil {
		return err
	}
	// Copied before they are covered: after that, their paths lead to nothing.
	kept, err := copiesOf(j.Kept, readOnly)
	if err != nil {
		return err
	}
	for _, path := range j.Hide {
		if err := j.cover(path); err != nil {
			return err
		}
	}
	// A directory that was covered has no entry for a kept place; attach makes one.
	if err := attachAll(kept); err != nil {
		return err
	}
	// Only the names go; the mounts hold the directory and the file. With their names, the command
	// could open them in /dev, which is writable, and fill them.
	if err := os.Remove(emptyDir); err != nil {
		return err
	}
	return os.Remove(emptyFile)
}

// cover mounts an empty file or directory over path. It does nothing if the path does not exist
// here, for example below a private /tmp, or if it is closed to this user, and so to the command. A
// directory with kept places below gets an empty writable file system of its own, since their mount
// points have to be made in it. Landlock keeps the command from writing there.
func (j *Job) cover(path string) error {
	to, err := OpenPlain(path)
	if os.IsNotExist(err) || os.IsPermission(err) {
		// Neither can the command reach it.
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(to)
	var st unix.Stat_t
	if err := unix.Fstat(to, &st); err != nil {
		return &os.PathError{Op: "stat", Path: path, Err: err}
	}
	with := emptyFile
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		with = emptyDir
		for _, k := range j.Kept {
			if len(k.Path) > len(path) && k.Path[:len(path)+1] == path+"/" { // it needs a place of its own; Landlock closes it
				return unix.Mount("tmpfs", path, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "size=64k,mode=755")
			}
		}
	}
	t, err := copyPlain(with, path, readOnly|unix.MOUNT_ATTR_NOEXEC)
	if err != nil {
		return err
	}
	err = t.attachAt(to)
	if errors.Is(err, os.ErrNotExist) {
		return nil // it was removed since it was opened, as sockets of other programs are at any time
	}
	return err
}
