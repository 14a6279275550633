package sandbox

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Policy says what a command may do. The zero Policy is the strictest: it reads the system's own
// directories, writes nothing, has no network, starts no other program, and gets the least of each
// limit.
type Policy struct {
	Files   Files
	Network Network
	// Subprocess lets the command start other programs. Threads are always allowed.
	Subprocess bool
	// Unprotected lets the command write the files at the top of its directories that other
	// programs of the user execute: git's hooks and configuration, editor and shell settings. See
	// Protected.
	Unprotected bool
	Limits      Limits
	// Env names variables that the command may have beside PATH, HOME, LANG, TERM and TMPDIR. Exact
	// names.
	Env []string
}

// ProgramPaths returns what a program needs to see beside the usual files, for Files.Read: the program itself, an absolute path,
// and the top directories below /tmp in which it or one of the paths in more is, because commands have a /tmp of their own. A
// whole top directory is needed, because few programs are a single file, and both ends of a link, such as one of a package manager.
func ProgramPaths(program string, more ...string) (paths []string) {
	for _, path := range append([]string{program}, more...) {
		if !filepath.IsAbs(path) {
			continue
		}
		real, err := filepath.EvalSymlinks(path)
		if err != nil {
			real = path
		}
		for _, p := range []string{filepath.Clean(path), real} {
			if below, ok := strings.CutPrefix(p, "/tmp/"); ok {
				top, _, _ := strings.Cut(below, "/")
				paths = append(paths, "/tmp/"+top)
			} else if path == program {
				paths = append(paths, p)
			}
		}
	}
	return paths
}

// Network is what a command may reach.
type Network int

// The networks, narrowest first.
const (
	// NetworkNone is no socket of any kind.
	NetworkNone Network = iota
	// NetworkLocal is a loopback interface of the command's own: its processes can talk to each
	// other, and not to the services of the machine.
	NetworkLocal
	// NetworkFull is the machine's network, without its Unix sockets: see Files.Sockets.
	NetworkFull
)

// String returns none, local or full.
func (n Network) String() string {
	if n < NetworkNone || n > NetworkFull {
		n = NetworkNone
	}
	return [...]string{"none", "local", "full"}[n]
}

// Limits bound one command. Each is raised to its least value, so that the zero Limits are the
// narrowest, and set for each process of the command, but for Processes.
type Limits struct {
	CPU       time.Duration // whole seconds; at least 10 s
	FileSize  int64         // bytes of one file; at least 1 MiB
	OpenFiles int           // at least 64
	// Processes, threads included; at least 64. It holds where the command has a user namespace
	// (native, bwrap); for root only if the kernel numbers the processes of a namespace by
	// themselves (Linux 6.14), and then it is at least 400.
	Processes int
	// Memory is bytes that a process can write and that are its own; at least 128 MiB, without
	// which no Go program starts. Address space that is only reserved does not count, and so Go,
	// Java and JavaScript are not in its way; what is built with AddressSanitizer is, and needs 16
	// TiB of it. Memory that processes share does not count either. A process that asks for more is refused
	// it. When all of the machine's memory is used up, commands end before other programs.
	Memory int64
}

// least is the least that a command gets of each limit: enough for a program of the system to start
// and print something.
var least = Limits{CPU: 10 * time.Second, FileSize: 1 << 20, OpenFiles: 64, Processes: 64, Memory: 128 << 20}

// enforced returns the limits, each raised to its least value.
func (l Limits) enforced() Limits {
	return Limits{
		CPU:       max(l.CPU, least.CPU),
		FileSize:  max(l.FileSize, least.FileSize),
		OpenFiles: max(l.OpenFiles, least.OpenFiles),
		Processes: max(l.Processes, least.Processes),
		Memory:    max(l.Memory, least.Memory),
	}
}

// working are the limits below which a build of a large program stays, and a runaway does not.
var working = Limits{CPU: 10 * time.Minute, FileSize: 1 << 30, OpenFiles: 1024, Processes: 1024, Memory: 4 << 30}

// Look returns the policy for a command that only looks: it reads the given paths beside the system's own, sees nothing
// else (Files.Home), writes nothing that stays, has no network, and starts other programs. Paths that do not exist are
// left out. Ask Box.Looks whether a machine can hold it.
func Look(read []string) (Policy, error) {
	files, err := Custom(read, nil)
	files.Temp, files.Home = false, true
	return Policy{Files: files, Subprocess: true, Limits: working, Env: BuildEnv()}, err
}

// Standard returns the policy for work in dir: everything can be read, dir and a private /tmp
// written; a network of the command's own, and subprocesses. Its writes into the caches of builds go with it. It
// returns an error if dir does not exist.
func Standard(dir string) (Policy, error) {
	files, err := WorkingDirectoryOnly(dir)
	return Policy{Files: files, Network: NetworkLocal, Subprocess: true, Limits: working}, err
}

// Permissive returns the policy with the machine's network and all files that the user may write.
// It is still a sandbox: no Unix sockets, no debugging of other processes, no new privileges,
// limits, and an end that takes everything with it.
func Permissive() Policy {
	return Policy{
		Files: Files{Read: []string{"/"}, Write: []string{"/"}, Temp: true}, Network: NetworkFull, Subprocess: true, Unprotected: true,
		Limits: Limits{CPU: time.Hour, FileSize: 16 << 30, OpenFiles: 4096, Processes: 4096, Memory: 32 << 30},
	}
}

// Restrictive returns the policy that reads everything, writes nothing, has no network and starts
// no other program.
func Restrictive() Policy {
	return Policy{Files: ReadOnly(), Limits: Limits{CPU: time.Minute, FileSize: 16 << 20, OpenFiles: 256, Memory: 1 << 30}}
}

// Presets returns the names that Preset knows.
func Presets() []string {
	return []string{"standard", "look", "work", "restrictive", "permissive", "off"}
}

// Preset returns the policy with that name for work in dir; "" and work are standard. An unknown name is an
// error. "off" returns Permissive: that nothing holds the command to it comes from the Level Off,
// which the configuration has to name.
func Preset(name, dir string) (Policy, error) {
	switch name {
	case "", "standard", "work":
		return Standard(dir)
	case "look":
		return Look([]string{dir})
	case "restrictive":
		return Restrictive(), nil
	case "permissive", "off":
		return Permissive(), nil
	}
	return Policy{}, fmt.Errorf("there is no sandbox preset %q: write one of %v", name, Presets())
}

// Meet returns the widest policy that is within both a and b: in every dimension the narrower of
// the two. It is commutative, associative and idempotent.
func Meet(a, b Policy) Policy {
	return Policy{
		Files:       meetFiles(a.Files, b.Files),
		Network:     min(a.Network, b.Network),
		Subprocess:  a.Subprocess && b.Subprocess,
		Unprotected: a.Unprotected && b.Unprotected,
		Limits: Limits{
			CPU:       min(a.Limits.CPU, b.Limits.CPU),
			FileSize:  min(a.Limits.FileSize, b.Limits.FileSize),
			OpenFiles: min(a.Limits.OpenFiles, b.Limits.OpenFiles),
			Processes: min(a.Limits.Processes, b.Limits.Processes),
			Memory:    min(a.Limits.Memory, b.Limits.Memory),
		},
		Env: meetNames(a.Env, b.Env),
	}
}

// meetNames returns the names that are in both lists, sorted, each once.
func meetNames(a, b []string) (both []string) {
	for _, name := range a {
		if slices.Contains(b, name) {
			both = append(both, name)
		}
	}
	return join(both, nil)
}

// join returns the names that are in either list, sorted, each once.
func join(a, b []string) []string {
	both := slices.Concat(a, b)
	slices.Sort(both)
	return slices.Compact(both)
}
