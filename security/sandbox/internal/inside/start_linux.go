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

// Arg is the only argument of this program as a helper, and Mark is in its environment: one of the two alone is somebody's
// accident.
const (
	Arg      = "symbio-sandbox-helper"
	Mark     = markName + "=1"
	markName = "SYMBIO_SANDBOX_HELPER"
)

// What the helper inherits. Nothing of it reaches the command.
const (
	JobFD      = 3 // the job, encoded
	statusFD   = 4 // reports, a line each
	lifelineFD = 5 // ends when whoever wants the command is gone
	OwnFD      = 6 // this program, for bwrap to start
)

// This is initialised before what other packages have: see the package's comment. In a helper, that never ends.
var _ = begin()

func begin() (done struct{}) {
	// The variable is looked at first: it says no at once in all processes that are no helper.
	if v, _ := syscall.Getenv(markName); v != "1" || len(os.Args) != 2 || os.Args[1] != Arg {
		return done
	}
	// What forks the command, sets its own thread up for it: until all packages are initialised, this is always the main
	// one. To lock it once more would cost another thread.
	for fd := JobFD; fd <= OwnFD; fd++ {
		unix.CloseOnExec(fd)
	}
	unix.CloseRange(OwnFD+1, ^uint(0), unix.CLOSE_RANGE_CLOEXEC) // descriptors of other code; the flag is missing before Linux 5.11, hence no check
	err := help()
	// Reached only when the command does not run. Not os.Exit: a program built to find races sleeps a second in it.
	r := Report{Kind: Failed, Text: err.Error()}
	if n := (notStarted{}); errors.As(err, &n) {
		r.Kind = NotStarted
	}
	tell(r)
	unix.Exit(126)
	return done
}

func tell(r Report) { unix.Write(statusFD, r.line()) }

// help does the job. It returns only if the command could not be started.
func help() error {
	j, err := readJob()
	if err != nil {
		return wrap("read the job", err)
	}
	yield()
	if err := j.enter(); err != nil {
		return err
	}
	if err := os.Chdir(j.Dir); err != nil {
		return notStarted{err}
	}
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

// enter changes this process's view of the machine to the command's: mounts, network and
// hidden files.
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

func Identify(fd int, path string) (Place, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return Place{}, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	return Place{Path: path, Dev: st.Dev, Ino: st.Ino}, nil
}

// find looks up a program in PATH as a shell would, from inside the sandbox, where files may
// be hidden.
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
	return "", notStarted{errors.New("there is no program " + strconv.Quote(name) + " in " + dirs)}
}

// lookup returns the last value of a variable, as the system does.
func lookup(env []string, name string) (value string) {
	for _, kv := range env {
		if len(kv) > len(name) && kv[:len(name)] == name && kv[len(name)] == '=' {
			value = kv[len(name)+1:]
		}
	}
	return value
}
