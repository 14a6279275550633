//go:build amd64 || arm64

package sandbox

import (
	"fmt"
	"strings"

	"symbio/security/sandbox/internal/inside"
)

// bwrapPath is the bwrap of the system. The PATH is not searched: it could lead to a program of
// another user. Where AppArmor restricts user namespaces, bwrap may be the only program that can
// make them.
const bwrapPath = "/usr/bin/bwrap"

// bwrapArgs returns the arguments with which bwrap makes the namespaces and mounts of the job and
// then starts the helper in them, which does the rest. hide are those of bwrapHide. bwrap mounts in
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
	for _, s := range j.Show {
		args = append(args, "--ro-bind", s.Path, s.Path)
	}
	for _, w := range j.Write {
		args = append(args, "--bind", w.Path, w.Path)
	}
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
