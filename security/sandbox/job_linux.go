//go:build amd64 || arm64

package sandbox

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"symbio/security/sandbox/internal/inside"
)

// job is what the helper has to do, with that from which encode makes its seccomp program.
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

// encode returns the job as the helper reads it, with the seccomp program made and, without a
// network, TCP refused by Landlock, too. It does not change j.
func (j *job) encode() []byte {
	whole := j.Job
	if j.Confine {
		whole.NoTCP = j.Network == NetworkNone
		for _, step := range j.filter() {
			whole.Filter = append(whole.Filter, (*[unsafe.Sizeof(step)]byte)(unsafe.Pointer(&step))[:]...)
		}
	}
	return whole.Encode()
}

// rlimits returns the limits as setrlimit takes them. All hold for each process of the command by
// itself but RLIMIT_NPROC, which counts the processes of the user in the namespace; 0 leaves it
// out.
func (l Limits) rlimits() []inside.Limit {
	seconds := uint64(l.CPU.Seconds())
	out := []inside.Limit{
		// Both limits 0: no core dumps.
		{What: unix.RLIMIT_CORE},
		// The soft limit sends SIGXCPU, which says why; a second later the hard limit kills.
		{What: unix.RLIMIT_CPU, Cur: seconds, Max: seconds + 1},
		{What: unix.RLIMIT_FSIZE, Cur: uint64(l.FileSize), Max: uint64(l.FileSize)},
		{What: unix.RLIMIT_NOFILE, Cur: uint64(l.OpenFiles), Max: uint64(l.OpenFiles)},
		// Private writable memory, since Linux 4.7.
		{What: unix.RLIMIT_DATA, Cur: uint64(l.Memory), Max: uint64(l.Memory)},
	}
	if l.Processes > 0 {
		out = append(out, inside.Limit{What: unix.RLIMIT_NPROC, Cur: uint64(l.Processes), Max: uint64(l.Processes)})
	}
	return out
}
