//go:build amd64 || arm64

package sandbox

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"symbio/security/sandbox/internal/inside"
)

// bwrapPath is the bwrap of the system. The PATH is not searched: it could lead to a program of
// another user. Where AppArmor restricts user namespaces, bwrap may be the only program that can
// make them.
const bwrapPath = "/usr/bin/bwrap"

// bwrapArgs returns the arguments with which bwrap makes the namespaces and mounts of the job and
// then starts the helper in them, which does the rest. hide are the paths of bwrapHide. bwrap mounts in
// the order of its arguments, so that what comes later lies on top: everything read-only, the
// temporary directory, what is shown and what is writable, pins, protected paths, and hidden ones
// last.
func bwrapArgs(j *job, hide []string) []string {
	name, value, _ := strings.Cut(inside.Mark, "=")
	args := []string{
		"--unshare-user", "--disable-userns", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try",
		"--as-pid-1", // the helper: with it, everything ends
		"--new-session", "--cap-drop", "ALL", "--clearenv", "--setenv", name, value,
		"--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc",
	}
	if j.Network != NetworkFull {
		args = append(args, "--unshare-net")
	}
	if j.TempFrom != "" {
		args = append(args, "--bind", j.TempFrom, j.Temp)
	}
	args = append(args, j.bwrapFiles()...)
	for _, pin := range j.Pins {
		args = append(args, "--bind", pin, pin)
	}
	for _, path := range j.Protect {
		args = append(args, "--ro-bind", path, path)
	}
	args = append(args, hide...)
	// This program, by its descriptor: the mounts may have covered its path.
	return append(args, "--", fmt.Sprintf("/proc/self/fd/%d", inside.OwnFD), inside.Arg)
}

// bwrapFiles returns the arguments for what is private, shown and writable, what is around before what is inside.
// Layers are only in the command's home, and empty.
func (j *job) bwrapFiles() (args []string) {
	var all [][]string
	for _, path := range j.Scratch.Bare {
		all = append(all, []string{"--perms", "0755", "--tmpfs", path})
	}
	private := meetPaths(slices.Concat(j.Scratch.Private, j.Scratch.Layers), []string{"/"})
	for _, path := range private {
		all = append(all, []string{"--perms", "0700", "--size", strconv.Itoa(j.Scratch.Size / len(private)), "--tmpfs", path})
	}
	for _, s := range j.Show {
		all = append(all, []string{"--ro-bind", s.Path, s.Path})
	}
	for _, w := range j.Write {
		all = append(all, []string{"--bind", w.Path, w.Path})
	}
	slices.SortStableFunc(all, func(a, b []string) int { return len(a[len(a)-1]) - len(b[len(b)-1]) })
	for _, path := range j.Scratch.Bare {
		all = append(all, []string{"--remount-ro", path})
	}
	return slices.Concat(all...)
}
