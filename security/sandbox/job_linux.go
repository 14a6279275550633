//go:build amd64 || arm64

package sandbox

import (
	"golang.org/x/sys/unix"

	"symbio/security/sandbox/internal/inside"
)

// job is what the helper has to do, with that from which plan makes its seccomp program.
type job struct {
	inside.Job
	// Network is the policy's, or NetworkNone where the level has no network to give.
	Network Network
	// Metadata lets the command change modes, owners and times of files.
	Metadata bool
	// Fork lets the command start processes; threads are always allowed.
	Fork bool
	// Unix lets the command connect stream sockets to those Unix sockets of the machine that it can
	// see.
	Unix bool
	// home is the command's HOME if it is not the user's; "" if it is.
	home string
}

// place identifies a file by device and inode.
type place = inside.Place

// rlimits returns the limits as setrlimit takes them. All hold for each process of the command by
// itself but RLIMIT_NPROC, which counts the processes of the user in the namespace; 0 leaves it
// out.
func (l Limits) rlimits() []inside.Limit {
	both := func(what int, n int64) inside.Limit {
		return inside.Limit{What: what, Rlimit: unix.Rlimit{Cur: uint64(n), Max: uint64(n)}}
	}
	cpu := both(unix.RLIMIT_CPU, int64(l.CPU.Seconds()))
	// The soft limit sends SIGXCPU, which says why; a second later the hard limit kills.
	cpu.Max++
	// No core dumps: at 0 the kernel would still start the machine's handler of crashes, outside, at 1 it does not
	// (fs/coredump.c). And RLIMIT_DATA is private writable memory, since Linux 4.7.
	out := []inside.Limit{both(unix.RLIMIT_CORE, 1), cpu, both(unix.RLIMIT_FSIZE, l.FileSize), both(unix.RLIMIT_NOFILE, int64(l.OpenFiles)),
		both(unix.RLIMIT_DATA, l.Memory)}
	if l.Processes > 0 {
		out = append(out, both(unix.RLIMIT_NPROC, int64(l.Processes)))
	}
	return out
}
