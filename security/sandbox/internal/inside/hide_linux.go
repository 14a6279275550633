//go:build amd64 || arm64

package inside

import (
	"os"

	"symbio/security/sandbox/internal/unix"
)

// What stands in the place of what is hidden: nothing, which can be looked at. A program that finds no key goes on
// without; one that may not look for it ends.
const (
	emptyDir  = "/dev/.nothing"
	emptyFile = "/dev/.empty"
)

// hide puts nothing over each hidden path. It comes last: whatever was mounted before lies below.
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
	kept, err := copiesOf(j.Kept, unix.MOUNT_ATTR_RDONLY)
	if err != nil {
		return err
	}
	for _, path := range j.Hide {
		if err := j.cover(path); err != nil {
			return err
		}
	}
	for _, t := range kept {
		if err := t.attach(t.attr | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV); err != nil {
			return err
		}
	}
	// The mounts keep them open, and no process can write into them any more.
	if err := os.Remove(emptyDir); err != nil {
		return err
	}
	return os.Remove(emptyFile)
}

func (j *Job) cover(path string) error {
	to, err := OpenPlain(path)
	if os.IsNotExist(err) || os.IsPermission(err) {
		return nil // a private /tmp has it no more, or it is closed to this user, and so to the command
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
	t, err := copyPlain(with, path)
	if err != nil {
		return err
	}
	return t.attachAt(to, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOEXEC)
}
