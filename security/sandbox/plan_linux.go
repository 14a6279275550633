//go:build amd64 || arm64

package sandbox

import (
	"encoding/gob"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"symbio/security/sandbox/internal/inside"
)

// confine prepares the helper process that will run the command inside the sandbox. It sets c.cmd,
// c.hold and c.cleanup; the caller starts the process and then calls hold.started. The job is
// planned in started, while the helper starts, since both take about as long; only bwrap needs it
// before, as arguments.
func (b *Box) confine(c *command, p Policy, s Spec) error {
	plan := func() (*job, error) { return b.plan(c, p, s) }
	h, err := newHold(plan)
	if err != nil {
		return err
	}
	c.hold = h
	c.cleanup = append(c.cleanup, h.close)
	// A process group of its own: Ctrl-C in the terminal must not end the helper.
	attr := &syscall.SysProcAttr{Setpgid: true}
	files := inside.OwnFD + 1
	switch b.here.level {
	case Native:
		attr.Cloneflags = syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWIPC
		if p.Network != NetworkFull {
			attr.Cloneflags |= syscall.CLONE_NEWNET
		}
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}}
		// Capabilities of the helper over its new namespaces: for the loopback interface, the
		// mounts, the directory in which overlayfs works, and the bounding set. The command gets none of them.
		attr.AmbientCaps = []uintptr{unix.CAP_NET_ADMIN, unix.CAP_SYS_ADMIN, unix.CAP_SETPCAP, unix.CAP_DAC_OVERRIDE}
		c.cmd = exec.CommandContext(c.ctx, "/proc/self/exe", inside.Arg)
	case Bwrap:
		j, err := plan()
		if err != nil {
			return err
		}
		h.plan = func() (*job, error) { return j, nil }
		hide, err := bwrapHide(j, &files)
		if err != nil {
			return err
		}
		c.cmd = exec.CommandContext(c.ctx, bwrapPath, bwrapArgs(j, hide)...)
	default:
		// Landlock, and Off, which needs the helper to end the command's processes.
		c.cmd = exec.CommandContext(c.ctx, "/proc/self/exe", inside.Arg)
	}
	c.cmd.SysProcAttr = attr
	c.cmd.Dir = "/"
	// The helper waits more than it works, and threads cost time to start.
	c.cmd.Env = []string{inside.Mark, "GOMAXPROCS=1"}
	// In the order of inside.JobFD, reportFD and OwnFD; bwrap's files follow.
	c.cmd.ExtraFiles = append([]*os.File{h.job, h.statusIn, h.self}, slices.Repeat([]*os.File{h.nothing}, files-inside.OwnFD-1)...)
	// exec calls this when c.ctx ends. Closing the pipe of the job has the helper end everything.
	c.cmd.Cancel = func() error {
		h.jobIn.Close()
		if b.here.level == Native {
			// The first process of a pid namespace takes all others with it.
			return c.cmd.Process.Kill()
		}
		// exec kills a helper that is not done after WaitDelay.
		return nil
	}
	return nil
}

// plan returns what the helper has to do: the command, its environment, the files it may read and write,
// and its limits. It adds to c.cleanup. The error wraps ErrNotStarted where the command itself is
// at fault.
func (b *Box) plan(c *command, p Policy, s Spec) (*job, error) {
	temp, err := c.tempDir(b.cfg.TempDir, p, s)
	if err != nil {
		return nil, err
	}
	level := b.here.level
	namespaces := level == Native || level == Bwrap
	j := &job{Job: inside.Job{
		Argv: s.Argv, Dir: filepath.Clean(s.Dir),
		Confine: level != Off, Mounts: level == Native,
		Loopback: level == Native && p.Network == NetworkLocal,
		ABI:      b.here.landlockABI,
		Temp:     temp,
	}, Network: p.Network, Fork: p.Subprocess, Unix: len(p.Files.Sockets) > 0, Metadata: level != Landlock || writesSomewhere(p.Files)}
	if j.Dir, err = filepath.EvalSymlinks(j.Dir); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotStarted, err)
	}
	if level == Landlock && j.Network == NetworkLocal {
		// Without a namespace there is no network of the command's own to give.
		j.Network = NetworkNone
	}
	limits := p.Limits.enforced()
	if !namespaces {
		// Without a user namespace the kernel would count all processes of the user.
		limits.Processes = 0
	}
	j.Limits, j.Processes = limits.rlimits(), limits.Processes
	if j.Confine {
		// Without a network, Landlock refuses TCP, too.
		j.NoTCP, j.Filter = j.Network == NetworkNone, j.filter()
		if err := b.planFiles(c, j, p, temp); err != nil {
			return nil, err
		}
	}
	j.Env, err = b.environment(p, s.Env, j.Temp, j.home)
	j.Path = lookup(j.Env, "PATH")
	return j, err
}

// planFiles decides what the command sees and writes of the file system: what the policy lets it
// write, a /tmp of its own, and hidden and protected files. All but the limit on writing needs
// mounts, and so namespaces; at the level Landlock files are hidden by not granting them.
//
// The order matters: planHiding needs the sockets and places of planMounts, and watchRepositories
// the protected paths.
func (b *Box) planFiles(c *command, j *job, p Policy, temp string) (err error) {
	if j.Write, err = places(p.Files.Write); err != nil {
		return err
	}
	j.Write = slices.DeleteFunc(j.Write, func(w place) bool { return len(p.Files.writable([]string{w.Path})) == 0 })
	namespaces := b.here.level == Native || b.here.level == Bwrap
	if namespaces {
		if err := j.planMounts(p.Files, temp); err != nil {
			return err
		}
	}
	if err := b.planHiding(j, p.Files, temp); err != nil {
		return err
	}
	if namespaces {
		if err := b.planProtection(c, j, p); err != nil {
			return err
		}
	}
	return b.watchRepositories(c, j, p)
}

// planMounts decides on the sockets and the /tmp that the command sees. The directory temp is
// mounted over /tmp, unless the command may write in the real one: then temp is just one more
// writable place. temp "" changes nothing.
func (j *job) planMounts(f Files, temp string) error {
	if j.Unix {
		if err := j.planSockets(f); err != nil {
			return err
		}
	}
	if temp == "" {
		return nil
	}
	if j.writes("/tmp") {
		more, err := places([]string{temp})
		j.Write = append(j.Write, more...)
		return err
	}
	j.TempFrom, j.Temp = temp, "/tmp"
	var err error
	j.Show, err = shown(j, f)
	return err
}

// planProtection keeps the command from writing files that other programs execute, and files
// that rules deny. The masks that it makes are released in c.cleanup.
func (b *Box) planProtection(c *command, j *job, p Policy) (err error) {
	kept := &protection{}
	if !p.Unprotected {
		if kept, err = b.protect(j.Write, j.Dir); err != nil {
			return err
		}
	}
	c.cleanup = append(c.cleanup, kept.release)
	if err := kept.deny(p.Files.Denied, j.Write); err != nil {
		return err
	}
	j.Pins, j.Protect = kept.pins, kept.paths
	return nil
}

// watchRepositories compares the git repositories below the writable directories before and after
// the command. Hooks and settings that the command made there would be executed by the user's own
// git outside the sandbox, so they are set aside and reported in c.disarmed and to Config.Disarmed
// (ADR 0030).
func (b *Box) watchRepositories(c *command, j *job, p Policy) error {
	roots := meetPaths(p.Files.Write, p.Files.Write)
	if p.Unprotected || len(roots) == 0 {
		return nil
	}
	if err := b.repositories.begin(roots); err != nil {
		return fmt.Errorf("%w: %w", ErrNotStarted, err)
	}
	// Cleanups run in the opposite order: this one before the masks are released, while end can
	// still tell the command's files from masks.
	c.cleanup = append(c.cleanup, func() (err error) {
		if c.disarmed, err = b.repositories.end(roots, j.Protect); len(c.disarmed) > 0 && b.cfg.Disarmed != nil {
			b.cfg.Disarmed(c.disarmed)
		}
		return err
	})
	return nil
}

// writes reports whether the command can write path.
func (j *job) writes(path string) bool {
	return slices.ContainsFunc(j.Write, func(w place) bool { return within(path, w.Path) })
}

// shown returns the directories that a private /tmp would hide although the command needs
// them: the working directory, and the paths below /tmp that the policy lets it read.
func shown(j *job, f Files) ([]place, error) {
	var hidden []string
	read := append(slices.Clone(f.Read), j.Dir)
	for _, k := range j.Kept {
		read = append(read, k.Path)
	}
	for _, path := range read {
		path = clean(path)
		if path != "/tmp" && within(path, "/tmp") && !j.writes(path) && isThere(path) {
			hidden = append(hidden, path)
		}
	}
	return places(hidden)
}

// places returns the identity (device and inode) of the writable paths, so that the helper notices
// when one is replaced before it is mounted. Paths below others are dropped. "/" becomes its
// directories and files, except those in kernels. A path that does not exist, has a symbolic link
// in it or is in kernels is an error.
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
		if anyAround(path, kernels) {
			return nil, fmt.Errorf("no command may write in %s", path)
		}
		fd, err := inside.OpenPlain(path)
		if err != nil {
			return nil, fmt.Errorf("look at the directory to write: %w", err)
		}
		at, err := inside.Identify(fd, path)
		unix.Close(fd)
		if err != nil {
			return nil, err
		}
		out = append(out, at)
	}
	return out, nil
}

// kernels are the directories of the kernel. Writing there changes the machine, not files, so
// no policy can allow it.
var kernels = []string{"/proc", "/sys", "/dev"}

// hold is this process's side of a helper: the pipes for the job and for reports. When the pipe of
// the job closes, also because this process was killed, the helper ends the command. It
// is used by one goroutine at a time, except that Cancel may close jobIn at any time.
type hold struct {
	// job, statusIn and self are the helper's ends and this program's file. closeTheirs closes them
	// once the helper has started.
	job, statusIn, self *os.File
	// nothing is an empty file; see bwrapHide.
	nothing *os.File
	// jobIn and status are this process's ends.
	jobIn, status *os.File
	// plan makes the job; started calls it once.
	plan func() (*job, error)
	// reports reads status.
	reports *gob.Decoder
}

// newHold makes the pipes and opens this program's own file for the helper. On an error it
// closes its own files.
func newHold(plan func() (*job, error)) (*hold, error) {
	h := &hold{plan: plan}
	var errs [4]error
	h.job, h.jobIn, errs[0] = os.Pipe()
	h.status, h.statusIn, errs[1] = os.Pipe()
	h.self, errs[2] = os.Open("/proc/self/exe")
	h.nothing, errs[3] = os.Open(os.DevNull)
	if err := errors.Join(errs[:]...); err != nil {
		return nil, errors.Join(fmt.Errorf("make what the sandbox needs: %w", err), h.close())
	}
	h.reports = gob.NewDecoder(h.status)
	return h, nil
}

// close closes both ends. It may be called more than once.
func (h *hold) close() error {
	h.closeTheirs()
	h.jobIn.Close()
	h.status.Close()
	return nil
}

// closeTheirs closes the helper's ends in this process once the helper has them. Without that
// a helper that dies would not be noticed: its pipes would stay open.
func (h *hold) closeTheirs() {
	for _, f := range []*os.File{h.job, h.statusIn, h.self, h.nothing} {
		f.Close()
	}
}

// started sends the job to the helper and blocks until it reports that the command runs, or why it
// does not. After an error nothing of the command has run, unless the helper died before its
// report, which wraps io.EOF. The error wraps ErrNotStarted if the command itself is at fault.
func (h *hold) started() error {
	h.closeTheirs()
	j, err := h.plan()
	if err != nil {
		return err
	}
	if err := gob.NewEncoder(h.jobIn).Encode(j.Job); err != nil {
		return fmt.Errorf("the sandbox ended before it knew what to run: %w", err)
	}
	var r inside.Report
	err = h.reports.Decode(&r)
	switch {
	case err != nil:
		return fmt.Errorf("the sandbox ended before the command ran: %w", err)
	case r.Kind == inside.NotStarted:
		return fmt.Errorf("%w: %s", ErrNotStarted, r.Text)
	case r.Kind != inside.Started:
		return fmt.Errorf("make the sandbox: %s", r.Text)
	}
	return nil
}

// ended returns how the command ended; false if the helper did not report it, because it was
// killed or ended by a limit. It waits for the grace time at most.
func (h *hold) ended(*command) (syscall.WaitStatus, bool) {
	// The helper has ended, so that normally the pipe has, too. The deadline bounds the wait if it
	// has not.
	h.status.SetReadDeadline(time.Now().Add(grace))
	var r inside.Report
	if err := h.reports.Decode(&r); err != nil || r.Kind != inside.Ended {
		return 0, false
	}
	return syscall.WaitStatus(r.Status), true
}
