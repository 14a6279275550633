//go:build !(linux && (amd64 || arm64))

package sandbox

import (
	"context"
	"fmt"
	"os/exec"
	"runtime"
	"syscall"
)

// spares and repositories are of use only where something is held.
type (
	spares       struct{}
	repositories struct{}
)

func newSpares(string) *spares { return nil }

func probe(context.Context, Config) machine {
	return machine{mend: fmt.Sprintf("there is no sandbox for %s/%s yet; to run commands with all that you may do yourself, switch it off in your own configuration", runtime.GOOS, runtime.GOARCH)}
}

// confine is reached only with the sandbox switched off.
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

// hold has nothing to hold.
type hold struct{}

func (*hold) started() error { return nil }

func (*hold) ended(c *command) (status syscall.WaitStatus, known bool) {
	if c.ctx.Err() != nil || c.cmd.ProcessState == nil {
		return status, false
	}
	status, known = c.cmd.ProcessState.Sys().(syscall.WaitStatus)
	return status, known
}
