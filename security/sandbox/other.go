//go:build !(linux && (amd64 || arm64))

package sandbox

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
)

// repositories is an empty type: it only matters where a level of the sandbox exists.
type repositories struct{}

// probe returns the level Seatbelt on macOS, if commands show that it holds them, else None: every command is then refused,
// unless the configuration names Off.
func probe(ctx context.Context, cfg Config) machine {
	why := fmt.Sprintf("there is no sandbox for %s/%s, or the configuration lets none be used", runtime.GOOS, runtime.GOARCH)
	if runtime.GOOS == "darwin" && slices.Contains(cfg.Levels, Seatbelt) {
		timed, cancel := context.WithTimeout(ctx, probeTime)
		defer cancel()
		err := trySeatbelt(timed, cfg)
		if err == nil {
			return machine{level: Seatbelt}
		}
		why = fmt.Sprintf("seatbelt does not hold commands here (%v)", err)
	}
	return machine{mend: why + "; to run commands with all that you may do yourself, switch it off in your own configuration"}
}

// confine prepares the command itself, without a helper: it gets its environment, its temporary directory, a process
// group of its own, and at the level Seatbelt a profile. Limits are not set.
func (b *Box) confine(c *command, p Policy, s Spec) error {
	temp, err := c.tempDir(b.cfg.TempDir, p, s)
	if err != nil {
		return err
	}
	env, err := b.environment(p, s.Env, temp, "")
	if err != nil {
		return err
	}
	argv := s.Argv
	if c.level == Seatbelt {
		program := argv[0]
		if filepath.Base(program) != program && !filepath.IsAbs(program) {
			program = filepath.Join(s.Dir, program)
		}
		program, err := exec.LookPath(program)
		if err == nil {
			program, err = filepath.EvalSymlinks(program)
		}
		if err != nil {
			return fmt.Errorf("%w: %w", ErrNotStarted, err)
		}
		if argv, err = b.seatbelt(p, program, argv[1:], s.Dir, temp); err != nil {
			return err
		}
	}
	c.cmd = exec.CommandContext(c.ctx, argv[0], argv[1:]...)
	c.cmd.Dir, c.cmd.Env = s.Dir, env
	ownGroup(c)
	c.hold = &hold{}
	return nil
}

// hold stands for the helper of other systems, and is empty: there is no helper.
type hold struct{}

// started returns nil: the command runs as soon as exec.Cmd.Start has returned.
func (*hold) started() error { return nil }

// ended returns the status of the command. known is false if it was ended by the end of its
// context: then the status says nothing about it.
func (*hold) ended(c *command) (status syscall.WaitStatus, known bool) {
	if c.ctx.Err() != nil || c.cmd.ProcessState == nil {
		return status, false
	}
	status, known = c.cmd.ProcessState.Sys().(syscall.WaitStatus)
	return status, known
}
