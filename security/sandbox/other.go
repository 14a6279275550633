//go:build !(linux && (amd64 || arm64))

package sandbox

import (
	"context"
	"fmt"
	"os/exec"
	"runtime"
	"syscall"
)

// spares and repositories are empty types: they only matter where a level of the sandbox exists.
type (
	spares       struct{}
	repositories struct{}
)

// newSpares returns nil: nothing is masked here.
func newSpares(string) *spares { return nil }

// probe returns the level None: on this system every command is refused, unless the configuration
// names Off.
func probe(context.Context, Config) machine {
	return machine{mend: fmt.Sprintf("there is no sandbox for %s/%s yet; to run commands with all that you may do yourself, switch it off in your own configuration", runtime.GOOS, runtime.GOARCH)}
}

// confine prepares the command itself, without a helper. Only the level Off exists here, so it
// confines nothing: the command gets its environment, its temporary directory and a process group
// of its own. Limits are not set.
func (b *Box) confine(c *command, p Policy, s Spec) error {
	temp, err := c.tempDir(b.cfg.TempDir, p, s)
	if err != nil {
		return err
	}
	env, err := b.environment(p, s.Env, temp)
	if err != nil {
		return err
	}
	c.cmd = exec.CommandContext(c.ctx, s.Argv[0], s.Argv[1:]...)
	c.cmd.Dir, c.cmd.Env = s.Dir, env
	ownGroup(c.cmd)
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
