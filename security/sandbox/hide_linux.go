//go:build amd64 || arm64

package sandbox

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// What stands in the place of what is hidden: nothing, which can be looked at. A program that finds no key goes on
// without; one that may not look for it ends.
const (
	emptyDir  = "/dev/.nothing"
	emptyFile = "/dev/.empty"
)

// hide puts nothing over each hidden path. It comes last: whatever was mounted before lies below.
func (j *job) hide() error {
	if len(j.Hide) == 0 {
		return nil
	}
	if err := os.Mkdir(emptyDir, 0o555); err != nil {
		return fmt.Errorf("make what hides directories: %w", err)
	}
	if err := os.WriteFile(emptyFile, nil, 0o444); err != nil {
		return fmt.Errorf("make what hides files: %w", err)
	}
	for _, path := range j.Hide {
		if err := cover(path); err != nil {
			return err
		}
	}
	// The mounts keep them, and nobody can put anything in any more.
	if err := os.Remove(emptyDir); err != nil {
		return fmt.Errorf("remove what hides directories: %w", err)
	}
	if err := os.Remove(emptyFile); err != nil {
		return fmt.Errorf("remove what hides files: %w", err)
	}
	return nil
}

func cover(path string) error {
	to, err := openPlain(path)
	if os.IsNotExist(err) {
		return nil // a private /tmp has it no more
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
	}
	from, err := openPlain(with)
	if err != nil {
		return err
	}
	t, err := copyTree(from, path)
	unix.Close(from)
	if err != nil {
		return err
	}
	return t.attachAt(to, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOEXEC)
}

// bwrapHide has bwrap do the same. It reads what to show in place of each file from a descriptor of its own; they
// begin at first.
func bwrapHide(hidden []string, first int) (args []string, nothing []*os.File, err error) {
	for _, path := range hidden {
		st, err := os.Stat(path)
		if os.IsNotExist(err) || within(path, "/tmp") {
			continue // /tmp is the command's own
		}
		if err != nil {
			return nil, nothing, fmt.Errorf("look at what to hide from the command: %w", err)
		}
		if st.IsDir() {
			args = append(args, "--perms", "0555", "--tmpfs", path, "--remount-ro", path)
			continue
		}
		f, err := os.Open(os.DevNull)
		if err != nil {
			return nil, nothing, err
		}
		args = append(args, "--perms", "0444", "--ro-bind-data", strconv.Itoa(first+len(nothing)), path)
		nothing = append(nothing, f)
	}
	return args, nothing, nil
}

// mostCarved is how many Landlock rules a command may need for what is beside the hidden: each takes some
// microseconds, and a directory of that many entries is no home.
const mostCarved = 10_000

// around returns what there is below top, but what is hidden: what Landlock has to be given one by one, since it takes
// nothing away again. Links are left out: what they lead to has a path of its own.
func around(top string, hidden []string) (paths []string, err error) {
	for todo := []string{top}; len(todo) > 0; {
		dir := todo[0]
		todo = todo[1:]
		entries, err := os.ReadDir(dir)
		if err != nil {
			return nil, fmt.Errorf("look at what is beside the hidden: %w", err)
		}
		for _, e := range entries {
			path := filepath.Join(dir, e.Name())
			switch {
			case e.Type()&fs.ModeSymlink != 0, slices.Contains(hidden, path):
			case slices.ContainsFunc(hidden, func(h string) bool { return within(h, path) }):
				todo = append(todo, path)
			default:
				paths = append(paths, path)
			}
		}
		if len(paths) > mostCarved {
			return nil, fmt.Errorf("%s is hidden from commands, and has too much beside it to grant that one by one", strings.Join(hidden, ", "))
		}
	}
	return paths, nil
}

// planHiding decides how the job hides what there is to hide.
func (b *Box) planHiding(j *job, f Files, temp string) error {
	hidden, err := b.hidden(f)
	if err != nil {
		return err
	}
	used := []string{j.Dir}
	if temp != "" {
		used = append(used, temp)
	}
	for _, w := range j.Write {
		used = append(used, w.Path)
	}
	if err := openly(hidden, used...); err != nil {
		return err
	}
	if b.here.level == Landlock {
		j.Carve = hidden
	} else {
		j.Hide = hidden
	}
	return nil
}
