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
)

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
	if b.here.level != Landlock {
		j.Hide, hidden = hidden, nil
	}
	return j.grant(f, hidden)
}

// grant decides what Landlock lets the command read: all of it, but what is hidden and nothing is mounted over.
func (j *job) grant(f Files, hidden []string) error {
	read := meetPaths(f.Read, []string{"/"})
	if !slices.Contains(read, "/") {
		for _, path := range systemPaths { // root's own, which may be links
			if real, err := filepath.EvalSymlinks(path); err == nil {
				read = append(read, real)
			}
		}
	}
	for _, path := range read {
		inside := slices.DeleteFunc(slices.Clone(hidden), func(h string) bool { return !within(h, path) })
		switch {
		case len(inside) == 0:
			j.Read = append(j.Read, path)
		case slices.Contains(inside, path):
		default:
			paths, err := around(path, inside)
			if err != nil {
				return err
			}
			j.Read, j.List = append(j.Read, paths...), append(j.List, path)
		}
	}
	return nil
}

// systemPaths can always be read: what programs are made of. Those that are missing are left out.
var systemPaths = []string{
	"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt", "/nix", "/proc", "/sys", "/dev",
	"/run/current-system", "/run/systemd/resolve", "/var/lib/alternatives",
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
