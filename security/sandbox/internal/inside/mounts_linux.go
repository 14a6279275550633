//go:build amd64 || arm64

package inside

import (
	"os"
	"path"
	"slices"
	"strconv"

	"symbio/security/sandbox/internal/unix"
)

const (
	// shared memory and what else a command writes to its /dev counts against the machine's memory
	devSize = "size=256m,mode=755"
	// pidMaxLeast is 100 more than the kernel's least limit for the processes of a namespace.
	pidMaxLeast = 400
)

// devices are all that a command has, with the links that programs expect.
var devices = []string{"null", "zero", "full", "random", "urandom", "tty"}

var deviceLinks = map[string]string{
	"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2", "ptmx": "pts/ptmx",
}

// tree is a copy of a part of the files, to be attached at a path.
type tree struct {
	fd   int
	path string
	attr uint64
}

// mount makes every file read-only but those of the job. It needs a user and a mount namespace.
//
// What is to be writable is copied before everything becomes read-only, and attached again after: so nothing has to be
// made writable again, which the kernel refuses for what was read-only before.
func (j *Job) mount() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return wrap("make mounts private", err)
	}
	kept, err := j.copies()
	if err != nil {
		return err
	}
	dev, err := deviceCopies()
	if err != nil {
		return err
	}
	hard := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV}
	if err := unix.MountSetattr(unix.AT_FDCWD, "/", unix.AT_RECURSIVE, &hard); err != nil {
		return wrap("make everything read-only", err)
	}
	if err := makeDev(dev); err != nil {
		return wrap("make /dev", err)
	}
	if err := makeProc(j.Processes); err != nil {
		return wrap("make /proc", err)
	}
	for _, t := range kept {
		if err := t.attach(t.attr | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV); err != nil {
			return err
		}
	}
	// A directory that only contains a mount can be renamed, and another put in its place: see Protected. One that is
	// a mount cannot.
	slices.Sort(j.Pins)
	for _, pin := range j.Pins {
		if err := again(pin, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV); err != nil {
			return err
		}
	}
	for _, path := range j.Protect {
		if err := again(path, hard.Attr_set); err != nil {
			return err
		}
	}
	return j.hide()
}

// copies returns what is to be writable, or shown in spite of a private /tmp, those above before those below.
func (j *Job) copies() (out []tree, err error) {
	if j.TempFrom != "" {
		t, err := copyPlain(j.TempFrom, j.Temp)
		if err != nil {
			return nil, err
		}
		out = append(out, t)
	}
	write, err := copiesOf(j.Write, 0)
	if err != nil {
		return nil, err
	}
	show, err := copiesOf(j.Show, unix.MOUNT_ATTR_RDONLY)
	out = slices.Concat(out, write, show)
	slices.SortFunc(out, func(a, b tree) int { return len(a.path) - len(b.path) })
	return out, err
}

func copiesOf(places []Place, attr uint64) (out []tree, err error) {
	for _, p := range places {
		fd, err := p.Open()
		if err != nil {
			return nil, err
		}
		t, err := copyTree(fd, p.Path)
		unix.Close(fd)
		if err != nil {
			return nil, err
		}
		t.attr = attr
		out = append(out, t)
	}
	return out, nil
}

// copyPlain copies what is at a path, to be attached at another.
func copyPlain(from, path string) (tree, error) {
	fd, err := OpenPlain(from)
	if err != nil {
		return tree{}, err
	}
	defer unix.Close(fd)
	return copyTree(fd, path)
}

// copyTree copies what fd is open on.
func copyTree(fd int, path string) (tree, error) {
	c, err := unix.OpenTree(fd, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH|unix.AT_RECURSIVE)
	if err != nil {
		return tree{}, wrap("copy the mount of "+path, err)
	}
	return tree{fd: c, path: path}, nil
}

// attach puts the copy at its path. Below a private /tmp, the path has to be made first.
func (t tree) attach(attr uint64) error {
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
	return t.attachAt(to, attr)
}

// attachAt puts the copy where the descriptor is open, and closes the copy.
func (t tree) attachAt(to int, attr uint64) error {
	defer unix.Close(t.fd)
	if err := unix.MountSetattr(t.fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: attr}); err != nil {
		return wrap("set up the mount of "+t.path, err)
	}
	if err := unix.MoveMount(t.fd, "", to, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH); err != nil {
		return wrap("mount "+t.path, err)
	}
	return nil
}

// makePoint makes something to mount the tree on.
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

// again mounts a path over itself.
func again(path string, attr uint64) error {
	fd, err := OpenPlain(path)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	t, err := copyTree(fd, path)
	if err != nil {
		return err
	}
	return t.attachAt(fd, attr)
}

func deviceCopies() (out []tree, err error) {
	for _, name := range devices {
		path := "/dev/" + name
		t, err := copyPlain(path, path)
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

// makeDev makes a /dev with nothing of the machine in it. Read-only is not enough for that one: a disk can be written
// through its device on a read-only mount, by root even without capabilities.
func makeDev(dev []tree) error {
	if err := unix.Mount("tmpfs", "/dev", "tmpfs", unix.MS_NOSUID|unix.MS_NOEXEC, devSize); err != nil {
		return err
	}
	for _, t := range dev {
		if err := t.attach(unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NOEXEC); err != nil {
			return err
		}
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

// makeProc shows the namespace's own processes only. The kernel refuses it where parts of the machine's /proc are
// hidden, as in a container: then this level is not to be had.
func makeProc(processes int) error {
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return err
	}
	limitNamespace(processes)
	return unix.MountSetattr(unix.AT_FDCWD, "/proc", 0, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY})
}

// limitNamespace bounds the processes of a namespace by their numbers, which is the only limit that root meets. Before
// Linux 6.14 the numbers are the machine's, and cannot be set from here: Status says so.
func limitNamespace(processes int) {
	put("/proc/sys/kernel/pid_max", strconv.Itoa(max(processes, pidMaxLeast)))
}
