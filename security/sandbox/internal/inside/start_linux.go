//go:build amd64 || arm64

package inside

import (
	"encoding/gob"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// The arguments that make a process a helper.
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
	// JobFD is the reading end of a pipe with the job. It ends when the process that wants the command
	// closes the other end or dies.
	JobFD = 3
	// reportFD is the writing end of the pipe for reports.
	reportFD = 4
	// OwnFD is open on this program's file. bwrap executes it as /proc/self/fd/5.
	OwnFD = 5
)

// Go runs begin when the package is initialised, before main and before most other packages of this
// module (ADR 0059). In a helper it never returns.
var _ = begin()

// reports has the reports of this process, if it is a helper.
var reports *gob.Encoder

// begin runs the helper and ends the process if this process is one. Otherwise it returns at once
// and has no effect.
func begin() (done struct{}) {
	if len(os.Args) != 2 || os.Args[1] != Arg || os.Getenv(markName) != "1" {
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
	unix.CloseRange(OwnFD+1, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC)
	reports = gob.NewEncoder(os.NewFile(reportFD, "reports"))
	err := help(os.NewFile(JobFD, "job"))
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
func tell(r Report) { _ = reports.Encode(r) }

// help does the job: it reads it, enters the sandbox, finds the program in there and runs it. It
// returns only on an error; startError lies with the command.
func help(job *os.File) error {
	var j Job
	// It blocks until the other side has planned the job.
	if err := gob.NewDecoder(job).Decode(&j); err != nil {
		return fmt.Errorf("read the job: %w", err)
	}
	// The kernel ends this process and its children first when memory runs out. That protects the
	// machine from mistakes, not from malice: an ordinary user's command can take it back. Before
	// enter, which makes /proc read-only.
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0)
	if err := j.enter(); err != nil {
		return err
	}
	if err := os.Chdir(j.Dir); err != nil {
		return startError{err}
	}
	// From here on, paths mean what they mean to the command.
	program, err := find(j.Argv[0], j.Path)
	if err != nil {
		return err
	}
	child, err := newChild(program, &j)
	if err != nil {
		return err
	}
	return supervise(child, job, os.Getpid() == 1)
}

// enter changes this process's view of the machine to the command's: the network interface, and at
// the level Native mounts and hidden files. At the other levels it only checks that the places to
// write are still as planned.
func (j *Job) enter() error {
	if !j.Confine {
		return nil
	}
	if j.Loopback {
		if err := loopbackUp(); err != nil {
			return fmt.Errorf("bring up the loopback interface: %w", err)
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

// loopbackUp brings the loopback interface of this network namespace up. It needs CAP_NET_ADMIN
// there. Any socket will do for the ioctl.
func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	lo.SetUint16(unix.IFF_UP)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo)
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

// OpenPlain opens a path without a symbolic link; a link that is put there after
// the path was checked is an error.
func OpenPlain(path string) (int, error) {
	fd, err := unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS})
	if err == unix.EINTR {
		return OpenPlain(path)
	}
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
// files may be hidden. It returns a startError if there is none. Unlike a shell it skips relative
// directories in PATH, the empty one included.
func find(name, dirs string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil
	}
	for _, dir := range filepath.SplitList(dirs) {
		if !filepath.IsAbs(dir) {
			continue // a directory of the command's own must not stand for the system's
		}
		file := filepath.Join(dir, name)
		if st, err := os.Stat(file); err == nil && st.Mode().IsRegular() && unix.Access(file, unix.X_OK) == nil {
			return file, nil
		}
	}
	return "", startError{fmt.Errorf("there is no program %q in %s", name, dirs)}
}
