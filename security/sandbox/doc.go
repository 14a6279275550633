// Package sandbox runs a command inside limits that the operating system enforces, whatever the command does.
//
// The one idea: a Policy says what a command may do, a Box knows what this machine can enforce, and what it cannot is
// refused with a sentence that says how to mend it. Nothing ever runs with less than its policy asks, unless a person
// has accepted exactly that.
//
// The levels, best first: native (namespaces made by this program, read-only mounts, Landlock, seccomp), bwrap (the
// same, made by the system's /usr/bin/bwrap), landlock+seccomp (no namespaces; Status says what is not covered), and
// none, where everything is refused. On Linux the work is done by a helper, which is this same program started again: a
// program that imports this package is one when it is started as one, before its main.
//
// Guarantees: the command writes only below its policy's directories, and not to the files at their top that other
// programs of the user execute (.git/hooks, .envrc and others); it has no network, one of its own, or the machine's;
// it never meets a Unix socket of the machine; it finds nothing where programs keep keys and passwords (package secret,
// Config.Hide) unless its policy shows that; it sees only the environment that was named; when it ends, or is ended,
// everything that it started has ended too. A Policy is a value; a Box may be used from many goroutines at once.
//
// It does not limit the memory of all processes of a command together. A key that comes while a command runs, or takes
// the place of another by renaming, is not hidden from that command, nor is another hard link to it. Repositories nested
// below the top of a writable directory are not protected: what a command wrote there is as trustworthy as the command.
package sandbox
