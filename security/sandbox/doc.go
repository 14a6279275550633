// Package sandbox runs a command inside limits that the operating system enforces, whatever the
// command does.
//
// The one idea: a Policy says what a command may do, a Box knows what this machine can enforce, and
// a limit that it cannot hold is refused with a sentence that says how to mend it. Nothing ever runs with less
// than its policy asks, unless a person has accepted exactly that.
//
// The levels, best first: native (namespaces made by this program, read-only mounts, Landlock,
// seccomp), bwrap (the same, made by the system's /usr/bin/bwrap), landlock+seccomp (no namespaces;
// Status says what is not covered), and none, where everything is refused. On macOS there is
// seatbelt, which was never run by those who made it, is used only if commands show at the start
// that it holds them, and sets no limits. On Linux the work is
// done by a helper, which is this same program started again: a program that imports this package
// is one when it is started as one, before its main.
//
// Guarantees: the command writes only below its policy's directories, and not to the files at their
// top that other programs of the user execute (.git/hooks, .envrc and others); it has no network,
// one of its own, or the machine's; it meets no Unix socket of the machine but those that its
// policy names; it finds nothing where programs keep keys and passwords (package secret,
// Config.Hide) unless its policy shows that; it sees only the environment that was named; when it
// ends, or is ended, everything that it started has ended too. A Policy is a value; a Box may be
// used from many goroutines at once.
//
// Where a policy names sockets, /run is hidden but for them, and so is what is bound elsewhere when
// the command starts. One that is bound elsewhere later, or in another network namespace, is not
// kept from that command.
//
// A command that only looks (Look, Files.Home) sees the system's programs, what its policy names, and
// nothing else of the file system. Its home and /tmp are its own, in memory and bounded, and so are
// the layers that it writes over the caches of builds, which are layers of overlayfs at the level
// native, and else empty. Its changes are gone when it ends. It follows no link out of the files that it
// sees, so that a toolchain or a cache behind one is not there. Of the home it sees no settings either,
// such as git's. Reading the file system does not keep it from a named pipe: it can read one in what
// it sees, and, in the home and below /tmp, write to it.
//
// A command with a /tmp of its own writes such layers at the level native, too, if it sees the home.
//
// It does not limit the memory of all processes of a command together. A key that comes while a
// command runs, or takes the place of another by renaming, is not hidden from that command, nor is
// another hard link to it. Text that a command writes into the configuration or the hooks of a git
// directory that is not at the top, and git would execute, is set aside when the command has ended,
// not before.
package sandbox
