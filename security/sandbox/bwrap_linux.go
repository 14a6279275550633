//go:build amd64 || arm64

package sandbox

import (
	"fmt"
	"strings"

	"symbio/security/sandbox/internal/inside"
)

// bwrapPath is the system's own; one that a PATH leads to could be anybody's. On some systems it is the only program
// that may make namespaces.
const bwrapPath = "/usr/bin/bwrap"

// bwrapArgs has bwrap make the namespaces and mounts of the job, and start the helper in them, which does the rest.
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
	return append(args, "--", fmt.Sprintf("/proc/self/fd/%d", inside.OwnFD), inside.Arg)
}
