//go:build amd64 || arm64

package inside

import "golang.org/x/sys/unix"

// Job is everything that the helper has to do. Package sandbox decides all of it; the helper
// decides nothing. A job goes over a pipe in the encoding of package gob, never over arguments, which other users can
// see: the command's environment may hold secrets. Lists may be empty; paths are absolute, clean and without
// symbolic links.
type Job struct {
	// Argv and Env belong to the command. An Argv[0] without a slash is looked up in Path, a list of
	// directories, from inside the sandbox.
	Argv, Env []string
	Path      string
	// Dir is the working directory of the command.
	Dir string
	// Confine is false at the level Off: then the helper only starts the command and ends its
	// processes, and all fields below it but Limits are ignored.
	Confine bool
	// Mounts is true at the level Native: this process is the first one in user, mount and pid
	// namespaces of its own and makes the mounts. At the level Bwrap, bwrap has made them before.
	Mounts bool
	// Write are the places that can be written. The helper refuses the job if one of them has been
	// replaced since it was planned.
	Write []Place
	// Show are files and directories below a /tmp that is replaced, or below those of Scratch that are empty; they
	// are mounted read-only in the new ones. Only with Mounts.
	Show []Place
	// Read are the paths that Landlock lets the command read and execute; "/" is everything.
	Read []string
	// List are directories whose names, and those below, Landlock lets the command list without
	// reading the files.
	List []string
	// TempFrom is the private directory that is mounted over Temp; "" mounts none. Only with
	// Mounts.
	TempFrom string
	// Temp is where the command has its temporary files and may write; "" is nowhere.
	Temp string
	// Scratch are directories whose content is lost with the job. Only with Mounts.
	Scratch Scratch
	// Pins are directories that must not be renamed: each becomes a mount point. Only with Mounts.
	Pins []string
	// Protect are paths inside Write that stay read-only. Only with Mounts.
	Protect []string
	// Hide are files and directories that look empty. Only with Mounts: at the level Bwrap, bwrap
	// has hidden them; at the level Landlock, Read leaves them out.
	Hide []string
	// Kept are places inside Hide that are mounted read-only again, such as one socket below /run.
	Kept []Place
	// NoTCP has Landlock refuse to bind and connect TCP sockets, where its version can (4 and
	// later).
	NoTCP bool
	// Loopback brings up the loopback interface of the command's own network namespace.
	Loopback bool
	// Filter is the seccomp program. It must not be empty with Confine.
	Filter []unix.SockFilter
	// Limits are set in the command only, not in the helper.
	Limits []Limit
	// Processes bounds the processes of the pid namespace, at least pidMaxLeast. Only with Mounts.
	Processes int
	// ABI is the version of the kernel's Landlock; 0 means that the kernel has none, and no rules
	// are made.
	ABI int
}

// Scratch are directories in memory.
type Scratch struct {
	// Size is that in bytes of the file system that has them, and of which the layers have half as
	// much for themselves; 0 is none.
	Size int
	// Bare are directories that are empty, but for what is mounted in them. Private are empty ones
	// that can be written, Temp among them. Layers are directories of which the command writes a
	// layer of its own; where the kernel has none, they are empty.
	Bare, Private, Layers []string
}

// Place is a file or directory that was identified by device and inode when the job was planned, so
// that Open notices when another one has taken its path.
type Place struct {
	Path     string
	Dev, Ino uint64
}

// Limit is one call of setrlimit: What is an RLIMIT_ constant.
type Limit struct {
	What int
	unix.Rlimit
}

// Report is one message of the helper to the process that started it. A helper sends NotStarted or
// Failed and ends, or sends Started and later Ended. It sends no Ended when it was told to end, or
// was killed.
type Report struct {
	Kind Kind
	// Text says why; only for Failed and NotStarted.
	Text string
	// Status is the status of wait(2); only for Ended.
	Status unix.WaitStatus
}

// Kind is what a Report says.
type Kind int

// The kinds of reports.
const (
	// Failed: the sandbox could not be made. Nothing of the command has run, unless waiting for it
	// failed.
	Failed Kind = iota
	// NotStarted: the program is missing or cannot be executed. Nothing of it has run.
	NotStarted
	// Started: the command runs; execve has succeeded.
	Started
	// Ended: the command has ended by itself, and the helper has ended the processes that it left behind.
	Ended
)

// startError marks an error that lies with the command and not with the sandbox. The helper reports
// it as NotStarted, and callers of package sandbox get ErrNotStarted.
type startError struct{ error }
