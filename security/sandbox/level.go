package sandbox

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
)

// Level is how well this machine can hold a command. A higher one is better, but Off is below all
// that hold anything.
type Level int

// The levels, worst first.
const (
	// None holds nothing; every command is refused.
	None Level = iota
	// Off is the user's own choice of no sandbox at all: a command runs as the user, with a chosen
	// environment, and its processes end with it as far as they can be found.
	Off
	// Seatbelt is the sandbox of macOS, by /usr/bin/sandbox-exec. It was never run by those who made it, and is used only
	// where commands show that it holds them.
	Seatbelt
	// Landlock is Landlock and seccomp without namespaces.
	Landlock
	// Bwrap is namespaces made by /usr/bin/bwrap, and Landlock and seccomp inside.
	Bwrap
	// Native is namespaces made by this program, and Landlock and seccomp inside.
	Native
)

// String returns the level's name for people and scripts.
func (l Level) String() string {
	if l < None || l > Native {
		l = None
	}
	return [...]string{"none", "off", "seatbelt", "landlock+seccomp", "bwrap", "native"}[l]
}

// Status is what this machine can do, for people.
type Status struct {
	Level Level
	// Missing says, a sentence each, what the level does not cover.
	Missing []string
	// Mend says how to get a better level; empty when there is none.
	Mend string
	// Unsure says that a better level took too long to try, as on a busy machine: another Probe may
	// find it.
	Unsure bool
}

// ErrRefused means that this machine cannot enforce what the policy asks for. The error is a
// *Refusal.
var ErrRefused = errors.New("the sandbox cannot hold this command")

// Refusal says what is lacking. It is shown to people, and to a model as the result of its call.
type Refusal struct {
	Level Level
	// Lacks says, a sentence each, what the policy asks for and the level cannot give.
	Lacks []string
	// Mend is what a person can do about it.
	Mend string
}

// Error says what is lacking and how to mend it.
func (r *Refusal) Error() string {
	s := fmt.Sprintf("%v (level %v): %s", ErrRefused, r.Level, strings.Join(r.Lacks, "; "))
	if r.Mend != "" {
		s += ". To mend it: " + r.Mend
	}
	return s
}

// Lacking says what the level cannot give, without the advice of Error.
func (r *Refusal) Lacking() string {
	return fmt.Sprintf("the sandbox (level %v) falls short: %s", r.Level, strings.Join(r.Lacks, "; "))
}

// Unwrap returns ErrRefused.
func (r *Refusal) Unwrap() error { return ErrRefused }

// sentences are for people.
type sentences []string

// when adds the sentences if they hold.
func (s *sentences) when(hold bool, more ...string) {
	if hold {
		*s = append(*s, more...)
	}
}

// lacks returns, a sentence each, what the policy asks for and the level cannot give; nil if it can
// hold the command.
func (m machine) lacks(p Policy) (out sentences) {
	f := p.Files
	out.when(f.Home && m.level < Bwrap, "the command would see the user's home and other directories that it is not to see, since there is no private home at this level")
	switch m.level {
	case None:
		return sentences{"there is nothing on this machine that holds a command, so none is run"}
	case Off, Seatbelt:
		return out // the user's own choice; what Seatbelt lacks for every policy is in missing
	}
	out.when(m.landlockABI < 1 && !readsAll(f) && !f.Home,
		"the command could read more than the policy allows, since the kernel has no Landlock")
	out.when(len(f.Sockets) > 0 && p.Network == NetworkFull && m.landlockABI < signalsABI,
		"the command could connect to abstract Unix sockets of the machine, since the kernel's Landlock is older than Linux 6.12")
	if m.level != Landlock {
		return out
	}
	out.when(len(f.Sockets) > 0, "the command could connect to all Unix sockets that this user may use, not only to those that are named")
	out.when(m.landlockABI < signalsABI,
		"the command could send signals to other processes of this user, since the kernel's Landlock is older than Linux 6.12")
	out.when(writesSomewhere(f) && !writesAll(f), "the command could change mode and times of files of this user outside of its directories")
	out.when(f.Temp && readsAll(f) && !writesAll(f), "the files of other programs in /tmp could be read")
	out.when(len(f.Write) > 0 && !p.Unprotected, "git's hooks and configuration, and editor and shell settings in its directories could be changed")
	return out
}

// signalsABI is the first version of Landlock that keeps signals and abstract Unix sockets inside
// (Linux 6.12). inside.SignalsABI is the same, but exists on Linux only.
const signalsABI = 6

// missing returns, a sentence each, what the level does not cover, whatever the policy.
func (m machine) missing() (out sentences) {
	switch m.level {
	case None:
		return sentences{"commands cannot be held, and none is run"}
	case Off:
		return sentences{"the sandbox is switched off: commands run with all that this user may do"}
	case Seatbelt:
		return sentences{
			"this level was never run by those who made it: a probe at the start shows only that reading, writing, network and other programs are held",
			"a command with a network of its own gets none",
			"processor time, memory, files and processes are not limited",
			"what leaves the command's process group goes on after its end",
			"protected names cannot be written at any depth, so git clone, git init and some packages fail",
		}
	}
	landlock := m.level == Landlock
	out.when(landlock,
		"a command with a network of its own gets none",
		"mode and times of this user's files outside of the command's directories can be changed, unless it may write nothing",
		"git's hooks and configuration, and editor and shell settings in the command's directories can be changed",
		"the names of hidden files can be seen, and /tmp is that of all programs",
		"other processes can be seen",
		"the number of processes is not limited")
	out.when(landlock && m.landlockABI < signalsABI, "signals can be sent to other processes of this user")
	out.when(m.landlockABI < 1, "what can be read cannot be limited: the kernel has no Landlock")
	out.when(true, "memory is limited for each process of a command, not for all together, nor what they share")
	out.when(m.level == Bwrap && os.Geteuid() == 0, "root's commands can change the mode and times of the machine's /dev/null, and of the other devices that each command has")
	out.when(!landlock && m.uncounted, "the number of processes is not limited for root on this kernel")
	return out
}

// readsAll and writesAll report whether the files include the whole file system; what can be
// written can also be read.
func readsAll(f Files) bool { return slices.ContainsFunc(f.Read, isRoot) || writesAll(f) }

func writesAll(f Files) bool { return slices.ContainsFunc(f.Write, isRoot) }

func isRoot(path string) bool { return clean(path) == "/" }

// writesSomewhere reports whether the command can write at all, temporary files included.
func writesSomewhere(f Files) bool { return len(f.Write) > 0 || f.Temp }
