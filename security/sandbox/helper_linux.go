//go:build amd64 || arm64

package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// helperArg is the only argument of this program as a helper.
const helperArg = "symbio-sandbox-helper"

// What the helper inherits. Nothing of it reaches the command.
const (
	jobFD      = 3 // the job, as JSON
	statusFD   = 4 // reports, a line of JSON each
	lifelineFD = 5 // ends when whoever wants the command is gone
	ownFD      = 6 // this program, for bwrap to start
)

// job is what the helper has to do. It holds no secret but the command's own environment.
type job struct {
	Argv, Env []string
	Dir       string
	Confine   bool // false at the level Off: only look after the processes
	Mounts    bool // this process has namespaces of its own, and is the first in them
	Write     []place
	Show      []place  // below a /tmp that is replaced, and to be seen all the same
	Read      []string // "/" is everything
	List      []string // directories of which only the names can be seen, theirs and those of all that is below
	TempFrom  string   // to be mounted over Temp, where Mounts
	Temp      string   // where the command has its temporary files
	Pins      []string // directories that must not be moved
	Protect   []string // not to be written, though inside of Write
	Hide      []string // not to be seen, where there are mounts
	Network   Network
	Loopback  bool // bring the loopback interface up
	Metadata  bool // modes and times may be changed
	Fork      bool
	Limits    Limits
	ABI       int // of Landlock; 0 = there is none
}

// place is a file that was looked at. Whatever is there later under that path has to be the same.
type place struct {
	Path     string
	Dev, Ino uint64
}

// report is a line from the helper.
type report struct {
	Error      string `json:"error,omitempty"`
	NotStarted bool   `json:"not_started,omitempty"`
	Started    bool   `json:"started,omitempty"`
	Status     *int   `json:"status,omitempty"`
}

// Helper does not return if this process was started by a Box to make a sandbox: it makes it, runs the command in it,
// and ends the process. In any other process it does nothing. Call it first in main, before anything reads
// arguments, opens files or starts goroutines.
func Helper() {
	if len(os.Args) != 2 || os.Args[1] != helperArg {
		return
	}
	runtime.LockOSThread() // what forks the command, sets its own thread up for it
	for fd := jobFD; fd <= ownFD; fd++ {
		unix.CloseOnExec(fd)
	}
	unix.CloseRange(ownFD+1, ^uint(0), unix.CLOSE_RANGE_CLOEXEC) // somebody's else; not there before Linux 5.11
	err := help()
	// Reached only when the command does not run. Not os.Exit: a program built to find races sleeps a second in it.
	tell(report{Error: err.Error(), NotStarted: errors.Is(err, ErrNotStarted)})
	unix.Exit(126)
}

func tell(r report) {
	line, _ := json.Marshal(r) // strings, numbers and flags
	unix.Write(statusFD, append(line, '\n'))
}

// help does the job. It returns only if the command could not be started.
func help() error {
	j, err := readJob()
	if err != nil {
		return fmt.Errorf("read the job: %w", err)
	}
	if err := j.enter(); err != nil {
		return err
	}
	if err := os.Chdir(j.Dir); err != nil {
		return fmt.Errorf("%w: %w", ErrNotStarted, err)
	}
	path, err := find(j.Argv[0], lookup(j.Env, "PATH"))
	if err != nil {
		return err
	}
	if err := setLimits(j.Limits); err != nil {
		return err
	}
	child, err := newChild(path, j)
	if err != nil {
		return err
	}
	return supervise(child, os.Getpid() == 1)
}

func readJob() (*job, error) {
	f := os.NewFile(jobFD, "job")
	defer f.Close()
	text, err := io.ReadAll(io.NewSectionReader(f, 0, 64<<20))
	if err != nil {
		return nil, err
	}
	j := new(job)
	return j, json.Unmarshal(text, j)
}

// enter makes this process's view of the machine the command's.
func (j *job) enter() error {
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
		fd, err := w.open()
		if err != nil {
			return err
		}
		unix.Close(fd)
	}
	return nil
}

// open opens the place, if it is still what it was.
func (p place) open() (int, error) {
	fd, err := openPlain(p.Path)
	if err != nil {
		return -1, err
	}
	now, err := identify(fd, p.Path)
	if err == nil && now != p {
		err = fmt.Errorf("%s is not the directory that it was", p.Path)
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// openPlain opens a path in which nothing is a symbolic link: one that somebody puts there after it was looked at
// must not lead elsewhere.
func openPlain(path string) (int, error) {
	fd, err := unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS})
	if err == unix.ELOOP {
		return -1, fmt.Errorf("%s is a symbolic link, or leads through one, and a command must not be sent elsewhere", path)
	}
	if err != nil {
		return -1, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return fd, nil
}

func identify(fd int, path string) (place, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return place{}, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	return place{Path: path, Dev: st.Dev, Ino: st.Ino}, nil
}

// find looks a program up as a shell would, from inside.
func find(name, path string) (string, error) {
	if strings.ContainsRune(name, '/') {
		return name, nil
	}
	for _, dir := range filepath.SplitList(path) {
		if !filepath.IsAbs(dir) {
			continue // a directory of the command's own must not stand for the system's
		}
		file := filepath.Join(dir, name)
		if st, err := os.Stat(file); err == nil && st.Mode().IsRegular() && unix.Access(file, unix.X_OK) == nil {
			return file, nil
		}
	}
	return "", fmt.Errorf("%w: there is no program %q in %s", ErrNotStarted, name, path)
}

func setLimits(l Limits) error {
	seconds := uint64(l.CPU.Seconds())
	for _, r := range []struct {
		what      int
		cur, most uint64
	}{
		{unix.RLIMIT_CORE, 0, 0},
		{unix.RLIMIT_CPU, seconds, seconds + 1}, // first the signal that says why
		{unix.RLIMIT_FSIZE, uint64(l.FileSize), uint64(l.FileSize)},
		{unix.RLIMIT_NOFILE, uint64(l.OpenFiles), uint64(l.OpenFiles)},
		{unix.RLIMIT_NPROC, uint64(l.Processes), uint64(l.Processes)},
	} {
		if r.most == 0 && r.what != unix.RLIMIT_CORE {
			continue
		}
		var old unix.Rlimit
		if err := unix.Getrlimit(r.what, &old); err != nil {
			return fmt.Errorf("read limit %d: %w", r.what, err)
		}
		limit := unix.Rlimit{Cur: min(r.cur, old.Max), Max: min(r.most, old.Max)}
		if err := unix.Setrlimit(r.what, &limit); err != nil {
			return fmt.Errorf("set limit %d: %w", r.what, err)
		}
	}
	return nil
}

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
	if err := unix.IoctlIfreq(fd, unix.SIOCGIFFLAGS, lo); err != nil {
		return err
	}
	lo.SetUint16(lo.Uint16() | unix.IFF_UP)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo)
}
