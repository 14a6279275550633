//go:build amd64 || arm64

package sandbox

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"symbio/security/sandbox/internal/inside"
)

// job is what the helper has to do, with what its seccomp program is made from.
type job struct {
	inside.Job
	Network  Network
	Metadata bool // modes and times may be changed
	Fork     bool
	Unix     bool // stream sockets may be connected to those of the machine that can be seen
}

type place = inside.Place

// encode returns what the helper reads.
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

// rlimits are the limits as the kernel takes them, for each process of the command.
func (l Limits) rlimits() []inside.Limit {
	seconds := uint64(l.CPU.Seconds())
	out := []inside.Limit{
		{What: unix.RLIMIT_CORE},
		{What: unix.RLIMIT_CPU, Cur: seconds, Max: seconds + 1}, // first the signal that says why
		{What: unix.RLIMIT_FSIZE, Cur: uint64(l.FileSize), Max: uint64(l.FileSize)},
		{What: unix.RLIMIT_NOFILE, Cur: uint64(l.OpenFiles), Max: uint64(l.OpenFiles)},
		{What: unix.RLIMIT_DATA, Cur: uint64(l.Memory), Max: uint64(l.Memory)}, // private and writable, since Linux 4.7
	}
	if l.Processes > 0 {
		out = append(out, inside.Limit{What: unix.RLIMIT_NPROC, Cur: uint64(l.Processes), Max: uint64(l.Processes)})
	}
	return out
}
