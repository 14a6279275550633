//go:build amd64 || arm64

package inside

import (
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

const (
	// devSize are the options of the command's /dev. Shared memory and whatever else a command
	// writes there counts against the machine's memory, hence 256 MiB.
	devSize = "size=256m,nr_inodes=16k,mode=755"
	// pidMaxLeast is the least value that limitNamespace sets. The kernel refuses less than 301
	// (its 300 reserved ids, and one).
	pidMaxLeast = 400
	// filesOnly are the attributes of all mounts of the command but devices, and readOnly of those that
	// it cannot write.
	filesOnly = unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV
	readOnly  = filesOnly | unix.MOUNT_ATTR_RDONLY
)

// devices are all devices in a command's /dev. Those that the machine lacks are left out.
var devices = []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"}

// deviceLinks are the symbolic links in /dev that programs expect, by name.
var deviceLinks = map[string]string{
	"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2", "ptmx": "pts/ptmx",
}

// tree is a detached copy of a mount and the mounts below it (open_tree(2) with OPEN_TREE_CLONE),
// to be attached at a path. A copy keeps its attributes when the original becomes read-only.
type tree struct {
	// fd is the descriptor of the copy; attachAt closes it.
	fd int
	// path is where the copy is to be attached.
	path string
	// attr are the MOUNT_ATTR_ flags to set.
	attr uint64
}

// mount makes every file read-only but the job's, and hides what the job hides. The process
// must have a user and a mount namespace of its own. After an error the namespace is half made, and
// the helper must end without starting the command.
//
// A writable directory is copied before everything becomes read-only, and attached again after
// that. So no mount has to be made writable again, which the kernel refuses for those that are
// read-only in the machine's namespace (locked flags, mount_namespaces(7)).
func (j *Job) mount() error {
	// Nothing that is mounted here may appear in the machine's own mount namespace, nor the other
	// way round.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	kept, err := j.copies()
	if err != nil {
		return err
	}
	lower, err := openAll(j.Scratch.Layers)
	if err != nil {
		return err
	}
	dev, err := deviceCopies()
	if err != nil {
		return err
	}
	hard := unix.MountAttr{Attr_set: readOnly}
	if err := unix.MountSetattr(unix.AT_FDCWD, "/", unix.AT_RECURSIVE, &hard); err != nil {
		return fmt.Errorf("make everything read-only: %w", err)
	}
	if err := makeDev(dev); err != nil {
		return fmt.Errorf("make /dev: %w", err)
	}
	ownNull()
	if err := makeProc(j.Processes); err != nil {
		return fmt.Errorf("make /proc: %w", err)
	}
	if j.Scratch.Size > 0 {
		more, err := j.scratch(lower)
		if err != nil {
			return err
		}
		kept = inOrder(append(more, kept...))
	}
	if err := attachAll(kept); err != nil {
		return err
	}
	// Now that they have the mount points.
	for _, path := range j.Scratch.Bare {
		if err := unix.MountSetattr(unix.AT_FDCWD, path, 0, &hard); err != nil {
			return fmt.Errorf("make read-only %s: %w", path, err)
		}
	}
	// A directory that is a mount point cannot be renamed or removed. The order is outer before
	// inner: a directory is copied together with the mounts below it.
	slices.Sort(j.Pins)
	for _, pin := range j.Pins {
		if err := again(pin, filesOnly); err != nil {
			return err
		}
	}
	for _, path := range j.Protect {
		if err := again(path, readOnly); err != nil {
			return err
		}
	}
	return j.hide()
}

// copies returns copies of the temporary directory, of the places to write and of those to show
// below a private /tmp. Shorter paths come first, so that no mount covers an earlier one.
func (j *Job) copies() (out []tree, err error) {
	if j.TempFrom != "" {
		t, err := copyPlain(j.TempFrom, j.Temp, filesOnly)
		if err != nil {
			return nil, err
		}
		out = append(out, t)
	}
	write, err := copiesOf(j.Write, filesOnly)
	if err != nil {
		return nil, err
	}
	show, err := copiesOf(j.Show, readOnly)
	return inOrder(slices.Concat(out, write, show)), err
}

// inOrder sorts copies so that none covers one that is mounted before.
func inOrder(all []tree) []tree {
	slices.SortStableFunc(all, func(a, b tree) int { return len(a.path) - len(b.path) })
	return all
}

// openAll opens what is at the paths, before other mounts cover it. The descriptors stay open as
// long as the helper.
func openAll(paths []string) (fds []int, err error) {
	for _, path := range paths {
		fd, err := OpenPlain(path)
		if err != nil {
			return nil, err
		}
		fds = append(fds, fd)
	}
	return fds, nil
}

// scratch makes the file system in memory, and returns its directories for Bare, Private and Layers. Those that it has
// in it are covered as soon as the one for Temp is mounted over it. lower are open on Layers.
func (j *Job) scratch(lower []int) (out []tree, err error) {
	// Layers have a place of their own: go writes the time of use of files in its cache, for which overlayfs
	// copies the file. go does without once that is full, but not without /tmp.
	layers := j.Temp + "/layers"
	if err := errors.Join(inMemory(j.Temp, j.Scratch.Size), os.Mkdir(layers, 0o755), inMemory(layers, j.Scratch.Size/2)); err != nil {
		return nil, fmt.Errorf("make a file system in memory: %w", err)
	}
	for i, path := range slices.Concat(j.Scratch.Bare, j.Scratch.Private, j.Scratch.Layers) {
		dir := j.Temp + "/" + strconv.Itoa(i)
		if err := os.Mkdir(dir, 0o755); err != nil {
			return nil, err
		}
		if l := i - len(j.Scratch.Bare) - len(j.Scratch.Private); l >= 0 {
			upper, work := layers+"/upper"+strconv.Itoa(l), layers+"/work"+strconv.Itoa(l)
			if err := errors.Join(os.Mkdir(upper, 0o755), os.Mkdir(work, 0o755)); err != nil {
				return nil, err
			}
			// Without it, as where the kernel is older than Linux 5.11, the directory is empty in a private home, and else
			// unchanged.
			if unix.Mount("overlay", dir, "overlay", unix.MS_NOSUID|unix.MS_NODEV,
				"userxattr,lowerdir=/proc/self/fd/"+strconv.Itoa(lower[l])+",upperdir="+upper+",workdir="+work) != nil &&
				len(j.Scratch.Private) == 0 {
				continue
			}
		}
		t, err := copyPlain(dir, path, filesOnly)
		if err != nil {
			return nil, err
		}
		out = append(out, t)
	}
	return out, nil
}

// copiesOf copies the places, for mounts with attr. It fails if one is not the same file any more.
func copiesOf(places []Place, attr uint64) (out []tree, err error) {
	for _, p := range places {
		fd, err := p.Open()
		if err != nil {
			return nil, err
		}
		t, err := copyTree(fd, p.Path, attr)
		unix.Close(fd)
		if err != nil {
			return nil, err
		}
		out = append(out, t)
	}
	return out, nil
}

// copyPlain returns a copy of the mount at from, to be attached at path. from must be free of
// symbolic links.
func copyPlain(from, path string, attr uint64) (tree, error) {
	fd, err := OpenPlain(from)
	if err != nil {
		return tree{}, err
	}
	defer unix.Close(fd)
	return copyTree(fd, path, attr)
}

// copyTree returns a copy of the directory of fd, with all mounts below it. fd stays open.
func copyTree(fd int, path string, attr uint64) (tree, error) {
	c, err := unix.OpenTree(fd, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH|unix.AT_RECURSIVE)
	if err != nil {
		return tree{}, fmt.Errorf("copy the mount of %s: %w", path, err)
	}
	return tree{fd: c, path: path, attr: attr}, nil
}

// attachAll mounts the copies, in their order.
func attachAll(all []tree) error {
	for _, t := range all {
		if err := t.attach(); err != nil {
			return err
		}
	}
	return nil
}

// attach mounts the copy at its path. If the path does not exist, as below
// a private /tmp or in a new /dev, attach makes it first.
func (t tree) attach() error {
	to, err := OpenPlain(t.path)
	if os.IsNotExist(err) {
		if err := makePoint(t); err != nil {
			return err
		}
		to, err = OpenPlain(t.path)
	}
	if err != nil {
		return err
	}
	defer unix.Close(to)
	return t.attachAt(to)
}

// attachAt mounts the copy over the file that to is open on, and closes the copy. Attributes are
// set before it can be seen, so that no process finds it with fewer.
func (t tree) attachAt(to int) error {
	defer unix.Close(t.fd)
	if err := unix.MountSetattr(t.fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: t.attr}); err != nil {
		return fmt.Errorf("set up the mount of %s: %w", t.path, err)
	}
	if err := unix.MoveMount(t.fd, "", to, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH); err != nil {
		return fmt.Errorf("mount %s: %w", t.path, err)
	}
	return nil
}

// inMemory mounts a file system in memory of so many bytes. Each file takes more than its bytes, so that their number is
// bounded, too.
func inMemory(path string, size int) error {
	return unix.Mount("tmpfs", path, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755,size="+strconv.Itoa(size)+",nr_inodes="+strconv.Itoa(size/8192))
}

// makePoint makes an empty directory or file at the tree's path, whichever the tree is, and the
// directories above it.
func makePoint(t tree) error {
	var st unix.Stat_t
	if err := unix.Fstat(t.fd, &st); err != nil {
		return &os.PathError{Op: "stat", Path: t.path, Err: err}
	}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return os.MkdirAll(t.path, 0o755)
	}
	if err := os.MkdirAll(path.Dir(t.path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(t.path, nil, 0o600)
}

// again mounts a path over itself with more attributes.
func again(path string, attr uint64) error {
	fd, err := OpenPlain(path)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	t, err := copyTree(fd, path, attr)
	if err != nil {
		return err
	}
	return t.attachAt(fd)
}

// deviceCopies returns copies of the machine's devices. They are bind mounts, because a process in
// a user namespace may not make device files.
func deviceCopies() (out []tree, err error) {
	for _, path := range devices {
		// Read-only is about the device's mode, owner and times, which root could change; what is written goes through.
		t, err := copyPlain(path, path, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC)
		if os.IsNotExist(err) {
			continue // a container may have fewer
		}
		if err != nil {
			return nil, err
		}
		out = append(out, t)
	}
	return out, nil
}

// makeDev mounts a /dev that has only the given devices, an empty /dev/shm and terminals of its own
// in /dev/pts. A read-only /dev is not enough: through the device of a disk, root can write on a
// read-only mount, even without capabilities.
func makeDev(dev []tree) error {
	if err := unix.Mount("tmpfs", "/dev", "tmpfs", unix.MS_NOSUID|unix.MS_NOEXEC, devSize); err != nil {
		return err
	}
	if err := attachAll(dev); err != nil {
		return err
	}
	for name, to := range deviceLinks {
		if err := os.Symlink(to, "/dev/"+name); err != nil {
			return err
		}
	}
	for _, dir := range []string{"/dev/shm", "/dev/pts"} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
	}
	return unix.Mount("devpts", "/dev/pts", "devpts", unix.MS_NOSUID|unix.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=620")
}

// ownNull puts the null device of the command's /dev in the place of the machine's as its input: through a descriptor, too,
// root could change its mode.
func ownNull() {
	var st unix.Stat_t
	null, err := unix.Open(os.DevNull, unix.O_CLOEXEC, 0)
	if err == nil && unix.Fstat(0, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFCHR {
		unix.Dup3(null, 0, 0)
	}
}

// makeProc mounts a /proc that shows the processes of this pid namespace only, and limits their
// number. The kernel refuses it where parts of the machine's /proc are covered, as in most
// containers: then the level Native does not work there. /proc becomes read-only after the limit
// has been written through it.
func makeProc(processes int) error {
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return err
	}
	limitNamespace(processes)
	return unix.MountSetattr(unix.AT_FDCWD, "/proc", 0, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY})
}

// limitNamespace bounds the number of processes in this pid namespace by the largest process id. It
// is the only limit that also holds for root. Before Linux 6.14 pid_max belongs to the whole
// machine and cannot be set from here; the error is ignored, and Status says that the limit is
// missing.
func limitNamespace(processes int) {
	_ = os.WriteFile("/proc/sys/kernel/pid_max", fmt.Append(nil, max(processes, pidMaxLeast)), 0)
}
