package sandbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

const (
	// outputKept is how many bytes of each stream are kept: more than a model can use, and little
	// beside what a command can print.
	outputKept = 1 << 20
	// outputFlood is where printing is no longer work: a verbose build of a large project stays
	// far below 1 GiB.
	outputFlood = 1 << 30
	// grace is how long the processes, and the reading of their output, may take to end after
	// they were told to.
	grace = 5 * time.Second
)

var (
	// ErrFlood means that a command was ended because it printed more than Spec.Flood.
	ErrFlood = errors.New("the command printed too much and was ended")
	// ErrNotStarted means that the program is missing or cannot be executed, as seen from inside
	// the sandbox. Nothing of it has run.
	ErrNotStarted = errors.New("the command could not be started")
)

// Spec describes one command to run.
type Spec struct {
	// Argv is the program and its arguments. A name without a slash is looked for in the command's
	// PATH.
	Argv []string
	// Dir is the working directory: absolute, and it must exist.
	Dir string
	// Env are variables as NAME=VALUE; the policy must name those that are not PATH, HOME, LANG,
	// TERM or TMPDIR.
	Env []string
	// Stdin is the input of Run; nil = none. Start ignores it.
	Stdin io.Reader
	// Stderr sees standard error as it is printed, beside what is recorded; nil = none. Its errors
	// are ignored. It is written to until Run or Wait returns, and must not block: the command
	// would wait.
	Stderr io.Writer
	// Temp is a directory for temporary files that the caller made and removes, as for a session;
	// "" = a new one that goes with the command. Where it becomes the command's /tmp (native, bwrap) it may be hidden otherwise.
	Temp string
	// Keep is how many bytes of each stream are kept, half from the start and half from the end.
	// Default 1 MiB.
	Keep int
	// Flood is how many bytes may be printed before the command is ended. Default 1 GiB.
	Flood int64
	// Together records standard error in Stdout, in the order in which it was printed; Stderr then
	// sees nothing. Start ignores it.
	Together bool
	// Accept says that a person has seen what Check lacks, and wants the command to run all the
	// same. It does not make None run anything.
	Accept bool
}

// Result says the end and the output of a command.
type Result struct {
	// Code is the exit status; 128 and the signal's number after a signal, as shells have it.
	Code int
	// Signal is the name of the signal that ended the command; "" = none did.
	Signal string
	// Stdout and Stderr are its output. Of a Process, Stdout is empty.
	Stdout, Stderr Output
	// Took is from the call to the end of the last process.
	Took time.Duration
	// Level is where it ran.
	Level Level
	// Disarmed says, a line each, which files of git directories were set aside when it had ended,
	// since git would execute what they say outside of the sandbox.
	Disarmed []string
}

// Run runs a command, and blocks until it and everything it started have ended. When ctx ends,
// it ends them and returns the cause, with a Result of the output until then. A status
// other than 0 is not an error.
//
// Other errors are ErrRefused (the machine cannot hold the policy), ErrFlood, ErrNotStarted,
// and that the sandbox could not be set up; except after ErrFlood, nothing of the command has
// run. Run may be called from many goroutines.
func (b *Box) Run(ctx context.Context, p Policy, s Spec) (Result, error) {
	if b.cfg.OnRun == nil {
		return b.run(ctx, p, s)
	}
	ended := b.cfg.OnRun(ctx, s.Argv)
	r, err := b.run(ctx, p, s)
	ended(r, err)
	return r, err
}

// run is Run without Config.OnRun.
func (b *Box) run(ctx context.Context, p Policy, s Spec) (Result, error) {
	c, err := b.prepare(ctx, p, s)
	if err != nil {
		return Result{}, err
	}
	c.cmd.Stdin, c.cmd.Stdout, c.cmd.Stderr = s.Stdin, c.stdout, c.stderr
	if s.Together {
		c.cmd.Stderr = c.stdout
	}
	if err := c.start(); err != nil {
		return Result{}, err
	}
	return c.wait()
}

// Process is a command that keeps running, such as an MCP server on its standard input and
// output. Its methods may be called from several goroutines, Wait once.
type Process struct {
	// Stdin and Stdout are the command's. Read Stdout to its end before Wait.
	Stdin  io.WriteCloser
	Stdout io.ReadCloser
	c      *command
}

// Start is Run for a command to talk to: it returns as soon as the command has started. The
// end of ctx, or End, ends it with all that it started. Standard error is recorded; Stdout is
// for the caller to read, without a limit. Wait must be called in any case, since it releases
// the sandbox.
func (b *Box) Start(ctx context.Context, p Policy, s Spec) (*Process, error) {
	c, err := b.prepare(ctx, p, s)
	if err != nil {
		return nil, err
	}
	c.cmd.Stderr = c.stderr
	in, err := c.cmd.StdinPipe()
	out, outErr := c.cmd.StdoutPipe()
	if err := errors.Join(err, outErr); err != nil {
		c.release()
		return nil, fmt.Errorf("make a pipe for the command: %w", err)
	}
	if err := c.start(); err != nil {
		return nil, err
	}
	return &Process{Stdin: in, Stdout: out, c: c}, nil
}

// End ends the command and all that it started. It does not block; Wait returns then.
func (p *Process) End() { p.c.cancel(nil) }

// Close closes the command's standard input, which tells a server to end, ends it when it has not ended after a while, and returns
// when it has.
func (p *Process) Close(after time.Duration) {
	_ = p.Stdin.Close() // it may have ended already
	late := time.AfterFunc(after, p.End)
	defer late.Stop()
	_, _ = p.Wait() // how it ends is of no interest: it was told to
}

// Wait blocks until the command and all that it started have ended, as Run does. After End the
// error is context.Canceled.
func (p *Process) Wait() (Result, error) { return p.c.wait() }

// command is a prepared command. Either start fails or wait is called; both release the resources that it
// holds.
type command struct {
	cmd    *exec.Cmd
	ctx    context.Context
	cancel context.CancelCauseFunc
	// stdout and stderr keep what is printed; they share one flood.
	stdout, stderr *recorder
	// begun is when prepare was called.
	begun time.Time
	level Level
	// hold is the link to the helper.
	hold *hold
	// disarmed is Result.Disarmed, set by a cleanup.
	disarmed []string
	// cleanup are run by release, the last one first.
	cleanup []func() error
}

// prepare checks the policy and makes everything that the command needs. On an error it
// releases all of it.
func (b *Box) prepare(ctx context.Context, p Policy, s Spec) (_ *command, err error) {
	if err := b.Check(p); err != nil && (!s.Accept || b.here.level == None) {
		return nil, err
	}
	if len(s.Argv) == 0 || s.Argv[0] == "" {
		return nil, fmt.Errorf("%w: it has no name", ErrNotStarted)
	}
	if !filepath.IsAbs(s.Dir) {
		return nil, fmt.Errorf("%w: its directory %q is not absolute", ErrNotStarted, s.Dir)
	}
	c := &command{begun: time.Now(), level: b.here.level}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.release())
		}
	}()
	c.ctx, c.cancel = context.WithCancelCause(ctx)
	f := &flood{most: cmp.Or(s.Flood, outputFlood), over: func() { c.cancel(ErrFlood) }}
	keep := max(cmp.Or(s.Keep, outputKept), 2)
	c.stdout, c.stderr = &recorder{keep: keep, flood: f}, &recorder{keep: keep, flood: f, seen: s.Stderr}
	if err := b.confine(c, p, s); err != nil {
		return nil, err
	}
	c.cmd.WaitDelay = grace
	return c, nil
}

// tempDir returns the directory for temporary files, with links resolved; "" if the policy has
// none. A directory made here is removed after the command.
func (c *command) tempDir(parent string, p Policy, s Spec) (string, error) {
	if !p.Files.Temp || p.Files.Home {
		return "", nil
	}
	if s.Temp != "" {
		return filepath.EvalSymlinks(s.Temp)
	}
	dir, err := os.MkdirTemp(parent, "symbio-run-")
	if err != nil {
		return "", fmt.Errorf("make the command's directory for temporary files: %w", err)
	}
	c.cleanup = append(c.cleanup, func() error { return removeAll(dir) })
	return filepath.EvalSymlinks(dir)
}

// removeAll removes a directory although a command may have removed its own permissions for it.
func removeAll(dir string) error {
	if os.RemoveAll(dir) == nil {
		return nil
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	// An os.Root, so that a link which the command left there leads nowhere else. A directory is read
	// after its permissions are given back.
	fs.WalkDir(root.FS(), ".", func(path string, d fs.DirEntry, _ error) error {
		if d != nil && d.IsDir() {
			root.Chmod(path, 0o700)
		}
		return nil
	})
	return os.RemoveAll(dir)
}

// start starts the command and blocks until it runs. After an error everything is released, and
// wait must not be called.
func (c *command) start() error {
	err := c.cmd.Start()
	if err == nil {
		err = c.hold.started()
		// A command that was ended before the helper's report, or in the middle of it, may have run and printed: wait says
		// how it ended.
		if err == nil || (errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)) && context.Cause(c.ctx) != nil {
			return nil
		}
	}
	if ctxErr := context.Cause(c.ctx); ctxErr != nil && !errors.Is(err, ErrNotStarted) {
		err = errors.Join(ctxErr, err)
	}
	if c.cmd.Process != nil {
		c.cancel(err)
		c.cmd.Wait() // it has not run: how it ended is of no interest
	}
	return errors.Join(err, c.release())
}

// wait blocks until everything has ended, releases what the command held, and returns the result.
func (c *command) wait() (Result, error) {
	waited := c.cmd.Wait()
	r := Result{Stdout: c.stdout.output(), Stderr: c.stderr.output(), Level: c.level}
	var err error
	status, known := c.hold.ended(c)
	switch {
	case known && status.Signaled():
		r.Code, r.Signal = 128+int(status.Signal()), status.Signal().String()
	case known:
		r.Code = status.ExitStatus()
	case c.ctx.Err() != nil:
		err = context.Cause(c.ctx)
	default:
		err = fmt.Errorf("the command was lost: its sandbox ended first (%w)", cmp.Or(waited, io.ErrUnexpectedEOF))
	}
	err = errors.Join(err, c.release())
	r.Took, r.Disarmed = time.Since(c.begun), c.disarmed
	return r, err
}

// release undoes prepare, in the opposite order. It goes on after an error, and may be called
// again.
func (c *command) release() (err error) {
	if c.cancel != nil {
		c.cancel(nil)
	}
	for i := len(c.cleanup) - 1; i >= 0; i-- {
		err = errors.Join(err, c.cleanup[i]())
	}
	c.cleanup = nil
	return err
}
