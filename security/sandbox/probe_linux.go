//go:build amd64 || arm64

package sandbox

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"symbio/security/sandbox/internal/inside"
)

// landlockLeast is the first version of Landlock that can be a level of its own (Linux 6.2): before
// version 3 a file that may not be written could still be truncated.
const landlockLeast = 3

// probeTime is how long one level may take to show that it works: some 10 ms are usual, and a
// loaded machine gets 500 times that.
const probeTime = 5 * time.Second

// probe returns the best level that works on this machine, found by running a program at each.
// The kernel's own word about its abilities is not enough: containers and security modules forbid it in
// ways that only a try shows.
func probe(ctx context.Context, cfg Config) machine {
	abi, unsure := inside.LandlockABI(), false
	for _, level := range []Level{Native, Bwrap, Landlock} {
		if !slices.Contains(cfg.Levels, level) {
			continue
		}
		m := machine{level: level, landlockABI: abi, unsure: unsure}
		// A level that took too long is not ruled out, only passed over: Status.Unsure.
		works, inTime := try(ctx, cfg, m)
		if unsure = unsure || !inTime; works {
			m.uncounted = os.Geteuid() == 0 && !(level == Native && countsNamespaces())
			if level == Landlock {
				m.mend = mend(cfg)
			}
			return m
		}
	}
	return machine{landlockABI: abi, mend: mend(cfg), unsure: unsure}
}

// try runs a program at a level, with everything that a policy may ask for: read-only files,
// temporary files, no network, and a loopback interface. inTime is false if it took longer
// than probeTime, so that the answer is not certain.
func try(ctx context.Context, cfg Config, m machine) (works, inTime bool) {
	if m.level == Landlock && m.landlockABI < landlockLeast {
		return false, true
	}
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	program := "/bin/true"
	if _, err := os.Stat(program); err != nil {
		program = "true"
	}
	b := &Box{cfg: cfg, here: m}
	local := Policy{Files: Files{Read: []string{"/"}, Temp: true}, Network: NetworkLocal, Subprocess: true}
	// The two policies together need everything that a level has to offer.
	for _, p := range []Policy{Restrictive(), local} {
		// Nothing is hidden in the try: a path that cannot be hidden is an error of the command
		// that it is hidden from, not of the level.
		p.Files.Show = []string{"/"} // what cannot be hidden here is an error of the command that it is to be hidden from
		r, err := b.Run(ctx, p, Spec{Argv: []string{program}, Dir: "/", Accept: true})
		if err != nil || r.Code != 0 {
			return false, ctx.Err() == nil
		}
	}
	return true, true
}

// countsNamespaces reports whether the kernel limits the processes of each pid namespace by
// itself (Linux 6.14). On other kernels the limit of the user applies, which root does not
// have.
func countsNamespaces() bool {
	release, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	var major, minor int
	fmt.Sscanf(string(release), "%d.%d", &major, &minor) // what cannot be read counts as 0
	return major > 6 || major == 6 && minor >= 14
}

// mend returns, as an imperative for people, how to get a better level on this machine.
func mend(cfg Config) string {
	switch {
	case len(cfg.Levels) == 0:
		return "let the configuration use a level of the sandbox"
	case !slices.Contains(cfg.Levels, Native) && !slices.Contains(cfg.Levels, Bwrap):
		return "let the configuration use the levels native and bwrap of the sandbox"
	case holds("/proc/sys/user/max_user_namespaces", "0"):
		return "let users make namespaces: sudo sysctl -w user.max_user_namespaces=15000"
	case holds("/proc/sys/kernel/unprivileged_userns_clone", "0"):
		return "let users make namespaces: sudo sysctl -w kernel.unprivileged_userns_clone=1"
	case !isThere(bwrapPath):
		return "install bubblewrap: sudo apt install bubblewrap (or dnf, pacman, apk)"
	case holds("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1"):
		return "let AppArmor give this program namespaces: sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"
	}
	return "let this program make namespaces; a container has to be started with --security-opt seccomp=unconfined --security-opt systempaths=unconfined"
}

// holds reports whether a file of the kernel has a certain value.
func holds(file, want string) bool {
	got, err := os.ReadFile(file)
	return err == nil && string(bytes.TrimSpace(got)) == want
}

// isThere reports whether a file exists, links followed.
func isThere(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}
