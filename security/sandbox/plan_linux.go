//go:build amd64 || arm64

package sandbox

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// confine plans the job and makes the process that will do it.
func (b *Box) confine(c *command, p Policy, s Spec, temp string) error {
	j, err := b.plan(c, p, s, temp)
	if err != nil {
		return err
	}
	h, err := newHold(j)
	if err != nil {
		return err
	}
	c.hold = h
	c.cleanup = append(c.cleanup, h.close)
	attr := &syscall.SysProcAttr{Setsid: true} // no terminal: its input would be the user's
	switch b.here.level {
	case Native:
		attr.Cloneflags = syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWIPC
		if p.Network != NetworkFull {
			attr.Cloneflags |= syscall.CLONE_NEWNET
		}
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}}
		// For the helper, over its namespaces; the command has none.
		attr.AmbientCaps = []uintptr{unix.CAP_NET_ADMIN, unix.CAP_SYS_ADMIN, unix.CAP_SETPCAP}
		c.cmd = exec.CommandContext(c.ctx, "/proc/self/exe", helperArg)
	case Bwrap:
		hide, nothing, err := bwrapHide(j.Hide, ownFD+1)
		h.nothing = nothing
		if err != nil {
			return err
		}
		c.cmd = exec.CommandContext(c.ctx, bwrapPath, bwrapArgs(j, hide)...)
	default:
		c.cmd = exec.CommandContext(c.ctx, "/proc/self/exe", helperArg)
	}
	c.cmd.SysProcAttr = attr
	c.cmd.Dir = "/"
	c.cmd.Env = []string{helperMark, "GOMAXPROCS=1"} // it waits more than it works, and threads cost time to start
	c.cmd.ExtraFiles = append([]*os.File{h.job, h.statusIn, h.lifelineOut, h.self}, h.nothing...)
	c.cmd.Cancel = func() error {
		h.lifeline.Close()
		if b.here.level == Native {
			return c.cmd.Process.Kill() // the first of its namespace takes all others with it
		}
		return nil // the helper ends what there is; after the grace, it is killed
	}
	return nil
}

// helperMark tells a main that does not call Helper, and comes to a Box, what it is.
const helperMark = "SYMBIO_SANDBOX_HELPER=1"

// plan decides what the helper has to do.
func (b *Box) plan(c *command, p Policy, s Spec, temp string) (*job, error) {
	level := b.here.level
	namespaces := level == Native || level == Bwrap
	j := &job{
		Argv: s.Argv, Dir: filepath.Clean(s.Dir),
		Confine: level != Off, Mounts: level == Native,
		Network: p.Network, Loopback: level == Native && p.Network == NetworkLocal,
		Fork: p.Subprocess, Limits: p.Limits.enforced(), ABI: b.here.landlockABI,
		Metadata: level != Landlock || writesSomewhere(p.Files),
		Temp:     temp,
	}
	var err error
	if j.Dir, err = filepath.EvalSymlinks(j.Dir); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotStarted, err)
	}
	if level == Landlock && j.Network == NetworkLocal {
		j.Network = NetworkNone // it has no network of its own to give
	}
	if !namespaces {
		j.Limits.Processes = 0 // it would count what the user runs elsewhere
	}
	if j.Confine {
		if j.Write, err = places(p.Files.Write); err != nil {
			return nil, err
		}
		if temp != "" && namespaces && !slices.ContainsFunc(j.Write, func(w place) bool { return within("/tmp", w.Path) }) {
			j.TempFrom, j.Temp = temp, "/tmp"
			if j.Show, err = shown(j, p.Files); err != nil {
				return nil, err
			}
		} else if temp != "" && namespaces {
			more, err := places([]string{temp})
			if err != nil {
				return nil, err
			}
			j.Write = append(j.Write, more...)
		}
		if err := b.planHiding(j, p.Files, temp); err != nil {
			return nil, err
		}
		if namespaces && !p.Unprotected {
			kept, err := b.protect(j.Write, j.Dir)
			if err != nil {
				return nil, err
			}
			c.cleanup = append(c.cleanup, kept.release)
			j.Pins, j.Protect = kept.pins, kept.paths
		}
	}
	j.Env, err = b.environment(p, s.Env, j.Temp)
	return j, err
}

// shown are the working directory, and what the policy names to be read, where a private /tmp would hide them.
func shown(j *job, f Files) ([]place, error) {
	var hidden []string
	for _, path := range append(slices.Clone(f.Read), j.Dir) {
		path = clean(path)
		inWrite := slices.ContainsFunc(j.Write, func(w place) bool { return within(path, w.Path) })
		if path != "/tmp" && within(path, "/tmp") && !inWrite && isThere(path) {
			hidden = append(hidden, path)
		}
	}
	return places(hidden)
}

// places looks at the paths that can be written. "/" is everything but what the kernel shows of itself.
func places(paths []string) (out []place, err error) {
	for _, path := range meetPaths(paths, []string{"/"}) {
		if path == "/" {
			entries, err := os.ReadDir("/")
			if err != nil {
				return nil, err
			}
			for _, e := range entries {
				if name := "/" + e.Name(); (e.IsDir() || e.Type().IsRegular()) && !slices.Contains(kernels, name) {
					paths = append(paths, name)
				}
			}
			return places(slices.DeleteFunc(slices.Clone(paths), isRoot))
		}
		for _, k := range kernels {
			if within(path, k) {
				return nil, fmt.Errorf("no command may write in %s", k)
			}
		}
		fd, err := openPlain(path)
		if err != nil {
			return nil, fmt.Errorf("look at the directory to write: %w", err)
		}
		at, err := identify(fd, path)
		unix.Close(fd)
		if err != nil {
			return nil, err
		}
		out = append(out, at)
	}
	return out, nil
}

// kernels are where writing changes the machine, not files.
var kernels = []string{"/proc", "/sys", "/dev"}

// hold is how this process holds the helper: what it was given, and what it says.
type hold struct {
	job, statusIn, lifelineOut, self *os.File   // the helper's ends
	nothing                          []*os.File // bwrap's, beside
	status, lifeline                 *os.File
	lines                            *bufio.Reader
}

func newHold(j *job) (_ *hold, err error) {
	h := new(hold)
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("make what the sandbox needs: %w", err), h.close())
		}
	}()
	text, err := json.Marshal(j)
	if err != nil {
		return nil, err
	}
	fd, err := unix.MemfdCreate("job", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	h.job = os.NewFile(uintptr(fd), "job")
	if _, err := h.job.Write(text); err != nil {
		return nil, err
	}
	if h.self, err = os.Open("/proc/self/exe"); err != nil {
		return nil, err
	}
	if h.status, h.statusIn, err = os.Pipe(); err != nil {
		return nil, err
	}
	if h.lifelineOut, h.lifeline, err = os.Pipe(); err != nil {
		return nil, err
	}
	h.lines = bufio.NewReader(h.status)
	return h, nil
}

func (h *hold) close() error {
	h.closeTheirs()
	for _, f := range []*os.File{h.status, h.lifeline} {
		if f != nil {
			f.Close()
		}
	}
	return nil
}

func (h *hold) closeTheirs() {
	for _, f := range append([]*os.File{h.job, h.statusIn, h.lifelineOut, h.self}, h.nothing...) {
		if f != nil {
			f.Close()
		}
	}
}

// started waits for the helper to say that the command runs, or why it does not.
func (h *hold) started() error {
	h.closeTheirs()
	r, err := h.next()
	switch {
	case err != nil:
		return fmt.Errorf("the sandbox ended before the command ran: %w", err)
	case r.NotStarted:
		return reported{r.Error}
	case r.Error != "":
		return fmt.Errorf("make the sandbox: %s", r.Error)
	}
	return nil
}

// reported is an error of the command itself, as the helper says it.
type reported struct{ text string }

func (r reported) Error() string { return r.text }
func (r reported) Unwrap() error { return ErrNotStarted }

// ended returns how the command ended; false if it was ended.
func (h *hold) ended(*command) (syscall.WaitStatus, bool) {
	h.status.SetReadDeadline(time.Now().Add(grace)) // whoever could say more, has ended
	r, err := h.next()
	if err != nil || r.Status == nil {
		return 0, false
	}
	return syscall.WaitStatus(*r.Status), true
}

func (h *hold) next() (r report, err error) {
	line, err := h.lines.ReadBytes('\n')
	if err != nil {
		return r, err
	}
	return r, json.Unmarshal(line, &r)
}
