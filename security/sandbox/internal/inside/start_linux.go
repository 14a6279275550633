//go:build amd64 || arm64

package inside

import (
	"errors"
	"os"
	"path"
	"slices"
	"strconv"
	"syscall"

	"symbio/security/sandbox/internal/unix"
)

// What makes a process a helper.
const (
	// Arg is the only argument of a helper, and Mark is a variable in its environment. begin asks
	// for both: one alone may come from a user by accident.
	Arg      = "symbio-sandbox-helper"
	Mark     = markName + "=1"
	markName = "SYMBIO_SANDBOX_HELPER"
)

// The descriptors that a helper inherits. begin sets all to close-on-exec, so that none of them
// reaches the command.
const (
	// JobFD is the reading end of a pipe with the job, as Encode writes it.
	JobFD = 3
	// statusFD is the writing end of the pipe for reports.
	statusFD = 4
	// lifelineFD is the reading end of a pipe without data. It ends when the process that wants the
	// command closes the other end or dies.
	lifelineFD = 5
	// OwnFD is open on this program's file. bwrap executes it as /proc/self/fd/6.
	OwnFD = 6
)

// Go runs begin when the package is initialised, long before main (ADR 0021). In a helper it never
// returns.
var _ = begin()

// begin runs the helper and ends the process if this process is one. Otherwise it returns at once
// and has no effect.
func begin() (done struct{}) {
	// The environment is checked first, because that is the cheaper test in all other processes.
	if v, _ := syscall.Getenv(markName); v != "1" || len(os.Args) != 2 || os.Args[1] != Arg {
		return done
	}
	// No LockOSThread is needed: while packages are initialised, the main goroutine is on the main
	// thread, and another lock would cost another thread. start relies on that.
	for fd := JobFD; fd <= OwnFD; fd++ {
		unix.CloseOnExec(fd)
	}
	// Descriptors that other code of the parent has left open must not reach the command. The
	// result is not checked: CLOSE_RANGE_CLOEXEC is missing before Linux 5.11, and Go opens files
	// with O_CLOEXEC anyway.
	unix.CloseRange(OwnFD+1, ^uint(0), unix.CLOSE_RANGE_CLOEXEC)
	err := help()
	// Reached only if the command does not run, or could not be waited for. unix.Exit is used
	// because os.Exit of a program with the race detector sleeps for a second.
	r := Report{Kind: Failed, Text: err.Error()}
	if n := (startError{}); errors.As(err, &n) {
		r.Kind = NotStarted
	}
	tell(r)
	unix.Exit(126)
	return done
}

// tell sends a report. Its error is ignored: if the other side is gone, the lifeline says so, too.
func tell(r Report) { unix.Write(statusFD, r.line()) }

// help does the job: it reads it, enters the sandbox, finds the program in there and runs it. It
// returns only on an error, of which notStarted lies with the command.
func help() error {
	j, err := readJob()
	if err != nil {
		return wrap("read the job", err)
	}
	// Before enter, which makes /proc read-only.
	yield()
	if err := j.enter(); err != nil {
		return err
	}
	if err := os.Chdir(j.Dir); err != nil {
		return startError{err}
	}
	// From here on, paths mean what they mean to the command.
	program, err := find(j.Argv[0], lookup(j.Env, "PATH"))
	if err != nil {
		return err
	}
	child, err := newChild(program, j)
	if err != nil {
		return err
	}
	return supervise(child, os.Getpid() == 1)
}

// yield makes the kernel end this process and its children first when memory runs out. It
// protects the machine from mistakes, not from malice: an ordinary user's command can take it
// back.
func yield() { put("/proc/self/oom_score_adj", "1000") }

// put writes a file of the kernel if it can, and ignores errors. It uses raw calls: package os
// would start the runtime's poller in a helper that needs none.
func put(file, text string) {
	fd, err := unix.Open(file, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	unix.Write(fd, []byte(text))
	unix.Close(fd)
}

// maxJob is the largest job in bytes: more than the kernel accepts as arguments and
// environment of a command.
const maxJob = 64 << 20

// readJob reads the job from its pipe and closes it. It blocks until the other side has planned the
// job. It returns errJob if the job is damaged, too long, incomplete or without a command.
func readJob() (*Job, error) {
	defer unix.Close(JobFD)
	length := coder{bytes: make([]byte, 8)}
	if err := readFull(JobFD, length.bytes); err != nil {
		return nil, err
	}
	n := 0
	if length.int(&n); n < 0 || n > maxJob {
		return nil, errJob
	}
	text := make([]byte, n)
	if err := readFull(JobFD, text); err != nil {
		return nil, err
	}
	j, err := DecodeJob(text)
	if err == nil && len(j.Argv) == 0 {
		err = errJob
	}
	return j, err
}

// readFull fills p from fd; errJob if fd ends before. It is io.ReadFull on a descriptor.
func readFull(fd int, p []byte) error {
	for len(p) > 0 {
		n, err := unix.Read(fd, p)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return err
		case n == 0:
			return errJob
		}
		p = p[max(n, 0):]
	}
	return nil
}

// enter changes this process's view of the machine to the command's: the network interface, and at
// the level Native mounts and hidden files. At the other levels it only checks that the places to
// write are still those of the plan.
func (j *Job) enter() error {
	if !j.Confine {
		return nil
	}
	if j.Loopback {
		if err := unix.InterfaceUp("lo"); err != nil {
			return wrap("bring up the loopback interface", err)
		}
	}
	if j.Mounts {
		return j.mount()
	}
	for _, w := range j.Write {
		fd, err := w.Open()
		if err != nil {
			return err
		}
		unix.Close(fd)
	}
	return nil
}

// Open opens the place, and returns an error if it is no longer the same file (device and
// inode), so that a command cannot swap a directory for a link before it is mounted.
func (p Place) Open() (int, error) {
	fd, err := OpenPlain(p.Path)
	if err != nil {
		return -1, err
	}
	now, err := Identify(fd, p.Path)
	if err == nil && now != p {
		err = errors.New(p.Path + " is not the directory that it was")
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// OpenPlain opens a path of which no part is a symbolic link; a link that is put there after
// the path was checked is an error.
func OpenPlain(path string) (int, error) {
	fd, err := unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS})
	if err == unix.ELOOP {
		return -1, errors.New(path + " is a symbolic link, or leads through one, and a command must not be sent elsewhere")
	}
	if err != nil {
		return -1, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return fd, nil
}

// Identify returns the place that fd is open on. path is taken as it is; the caller has opened it
// with OpenPlain.
func Identify(fd int, path string) (Place, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return Place{}, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	return Place{Path: path, Dev: st.Dev, Ino: st.Ino}, nil
}

// find returns the file of a program: name itself if it has a slash, else the first executable
// regular file of that name in dirs, which is a PATH. It must be called inside the sandbox, where
// files may be hidden. It returns a notStarted if there is none. Unlike a shell it skips relative
// directories in PATH, the empty one included.
func find(name, dirs string) (string, error) {
	if slices.Contains([]byte(name), '/') {
		return name, nil
	}
	for rest := dirs; rest != ""; {
		end := slices.Index([]byte(rest), ':')
		if end < 0 {
			end = len(rest)
		}
		dir := rest[:end]
		rest = rest[min(end+1, len(rest)):]
		if !path.IsAbs(dir) {
			continue // a directory of the command's own must not stand for the system's
		}
		file := path.Join(dir, name)
		if st, err := os.Stat(file); err == nil && st.Mode().IsRegular() && unix.Access(file, unix.X_OK) == nil {
			return file, nil
		}
	}
	return "", startError{errors.New("there is no program " + strconv.Quote(name) + " in " + dirs)}
}

// lookup returns the value of a variable in env; of several with the same name it takes the last.
// "" means that it is not set, or empty.
func lookup(env []string, name string) (value string) {
	for _, kv := range env {
		if len(kv) > len(name) && kv[:len(name)] == name && kv[len(name)] == '=' {
			value = kv[len(name)+1:]
		}
	}
	return value
}
