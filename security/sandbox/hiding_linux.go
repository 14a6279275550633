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

// planHiding decides how the hidden paths disappear for the command: by a mount over each, or, at
// the level Landlock, by granting only what is beside them. It is an error (ErrNotStarted) if the
// command works or writes in a hidden directory.
func (b *Box) planHiding(j *job, f Files, temp string) error {
	hidden, err := b.hidden(f)
	if err != nil {
		return err
	}
	hidden = meetPaths(append(hidden, j.Hide...), []string{"/"})
	j.Hide = nil
	// The command cannot do without these.
	used := []string{j.Dir}
	if temp != "" && j.TempFrom == "" { // else the command sees it as /tmp
		used = append(used, temp)
	}
	for _, w := range j.Write {
		used = append(used, w.Path)
	}
	if err := openly(hidden, used...); err != nil {
		return err
	}
	if f.Home && b.here.level != Landlock {
		return b.planHome(j, f, hidden)
	}
	if b.here.level == Native && j.TempFrom != "" {
		b.planLayers(j, used, append(slices.Clone(used), hidden...))
	}
	if b.here.level != Landlock {
		j.Hide, hidden = hidden, nil
	}
	return j.grant(f, hidden)
}

// planSockets decides which Unix sockets the command sees, and hides the others: all of /run except
// the resolver's configuration, and every socket that is bound elsewhere at this moment. A socket
// is a way out of the sandbox: with a Docker socket, for example, a command becomes root. It sets
// j.Kept and adds to j.Hide.
func (j *job) planSockets(f Files) (err error) {
	run, _ := filepath.EvalSymlinks("/run")
	socket := func(path string) bool {
		st, err := os.Lstat(path)
		return err == nil && st.Mode().Type() == fs.ModeSocket
	}
	var kept []string
	for _, path := range f.Sockets {
		if real, _ := filepath.EvalSymlinks(path); socket(real) {
			kept = append(kept, f.writable([]string{real})...)
		}
	}
	// One line for each socket of this network namespace, the path last. Abstract sockets, which
	// have @ instead of a path, are not meant. Where the table cannot be read, /run alone is
	// hidden.
	table, _ := os.ReadFile("/proc/net/unix")
	for line := range strings.Lines(" " + run + "\n" + string(table)) {
		at := max(strings.Index(line, " /"), 0)
		real, _ := filepath.EvalSymlinks(strings.TrimSuffix(line[at+1:], "\n"))
		if (socket(real) || real == run && run != "") && !anyAround(real, f.Show) && !slices.Contains(kept, real) {
			j.Hide = append(j.Hide, real)
		}
	}
	if names, err := filepath.EvalSymlinks("/etc/resolv.conf"); err == nil && within(names, run) {
		kept = append(kept, names)
	}
	// A policy that writes in "/" has /run among its places, and what is written must not be
	// hidden.
	j.Write = slices.DeleteFunc(j.Write, func(w place) bool { return w.Path == run })
	j.Kept, err = places(kept)
	return err
}

// deny adds the files that rules deny to write to the protected paths, as far as they are in
// writable places. It pins the directories of the fixed files, so that the command cannot rename a
// directory to reach them under another name.
func (p *protection) deny(d DeniedFiles, write []place) error {
	for _, w := range write {
		for _, path := range d.ReadOnly {
			if rel, err := filepath.Rel(w.Path, path); err == nil && within(path, w.Path) {
				if err := p.add(w.Path, rel, false); err != nil {
					return err
				}
			}
		}
	}
	for _, path := range d.Fixed {
		p.pinTo(filepath.Dir(path), write)
	}
	p.pins = join(p.pins, nil)
	return nil
}

// grant decides what Landlock lets the command read. Landlock can only add permissions, so a
// directory with hidden files in it is granted entry by entry, and can be listed. A hidden path
// itself is not granted, even if the policy reads it.
func (j *job) grant(f Files, hidden []string) error {
	read := meetPaths(f.Read, []string{"/"})
	if !slices.Contains(read, "/") {
		read = append(read, system()...)
	}
	for _, path := range read {
		inside := slices.DeleteFunc(slices.Clone(hidden), func(h string) bool { return !within(h, path) })
		switch {
		// Nothing hidden is below: one rule is enough.
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

// system returns the systemPaths that exist. They may be links, such as /bin to /usr/bin, and a rule needs the target.
func system() (out []string) {
	for _, path := range systemPaths {
		if real, err := filepath.EvalSymlinks(path); err == nil && !slices.Contains(out, real) {
			out = append(out, real)
		}
	}
	return out
}

// systemPaths are always readable: programs, libraries and settings of the system. Missing
// ones are left out.
var systemPaths = []string{
	"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt", "/nix", "/proc", "/sys", "/dev",
	"/run/current-system", "/run/systemd/resolve", "/var/lib/alternatives", "/var/lib/dpkg", "/home/linuxbrew/.linuxbrew",
}

// bwrapHide returns the arguments by which bwrap hides and keeps the job's paths. next is the first
// descriptor of empty files that they name, and becomes that after the last one. A directory becomes an
// empty file system, which is made read-only after the kept paths are mounted in it.
func bwrapHide(j *job, next *int) (args []string, err error) {
	var sealed []string
	for _, path := range j.Hide {
		st, err := os.Stat(path)
		seen := func(p place) bool { return within(path, p.Path) }
		if os.IsNotExist(err) || j.TempFrom != "" && within(path, j.Temp) && !slices.ContainsFunc(slices.Concat(j.Write, j.Show), seen) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("find the files to hide from the command: %w", err)
		}
		// Sealed after the kept paths are mounted, which need mount points in it.
		if st.IsDir() {
			args, sealed = append(args, "--perms", "0555", "--tmpfs", path), append(sealed, "--remount-ro", path)
			continue
		}
		// bwrap copies the content of the descriptor into the file that it mounts: nothing.
		args = append(args, "--perms", "0444", "--ro-bind-data", strconv.Itoa(*next), path)
		*next++
	}
	for _, k := range j.Kept {
		args = append(args, "--ro-bind", k.Path, k.Path)
	}
	return append(args, sealed...), nil
}

// maxAround is the most Landlock rules for what lies beside hidden paths in one readable directory.
// Each rule takes some microseconds before every command. People hide things in directories with
// fewer entries.
const maxAround = 10_000

// around returns the paths below top that are not hidden, as few as possible. Symbolic links
// are left out: their targets have paths of their own.
func around(top string, hidden []string) (paths []string, err error) {
	for todo := []string{top}; len(todo) > 0; {
		dir := todo[0]
		todo = todo[1:]
		entries, err := os.ReadDir(dir)
		if err != nil {
			return nil, fmt.Errorf("list the files beside hidden ones: %w", err)
		}
		for _, e := range entries {
			path := filepath.Join(dir, e.Name())
			switch {
			case e.Type()&fs.ModeSymlink != 0, slices.Contains(hidden, path):
			case anyBelow(path, hidden):
				todo = append(todo, path)
			default:
				paths = append(paths, path)
			}
		}
		if len(paths) > maxAround {
			return nil, fmt.Errorf("%s is hidden from commands, and has too much beside it to grant that one by one", strings.Join(hidden, ", "))
		}
	}
	return paths, nil
}
