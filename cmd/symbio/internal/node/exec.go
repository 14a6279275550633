package node

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"symbio/cmd/symbio/internal/config"
	"symbio/community"
)

const (
	execTimeout = time.Minute            // of a command that was given none: an answer, not a job
	execOutput  = 1 << 20                // bytes of standard output: what a reply may carry
	execErrors  = 4 << 10                // bytes of standard error that are kept for the error
	execGrace   = 500 * time.Millisecond // for children that keep the pipes open after the end
)

// execEnv are the variables that a command inherits. Keys of models are not among them.
var execEnv = []string{"PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "TEMP", "SystemRoot"}

// runCommand gives input to a capability's command and returns what it prints: JSON both ways. ctx
// ends it. A command that fails, prints no JSON or too much of it is an error of the call, with the
// start of what it said on standard error. Input that is no JSON, or nested more than depth deep, is
// ErrInvalid.
func runCommand(ctx context.Context, c config.Capability, input []byte, depth int) ([]byte, error) {
	timeout := c.Timeout
	if timeout == 0 {
		timeout = execTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if len(bytes.TrimSpace(input)) == 0 {
		input = []byte("null")
	}
	if err := community.CheckJSON(input, depth); err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, c.Exec[0], c.Exec[1:]...)
	cmd.Stdin = bytes.NewReader(input)
	out, complaint := &capped{max: execOutput}, &capped{max: execErrors}
	cmd.Stdout, cmd.Stderr = out, complaint
	told := &lines{tell: func(line string) { community.Report(ctx, progressOf(line)) }}
	if c.Progress {
		cmd.Stderr = io.MultiWriter(complaint, told)
	}
	cmd.Env = append(inherited(os.LookupEnv), traceEnv(community.TraceOf(ctx))...)
	cmd.WaitDelay = execGrace
	ownGroup(cmd)
	err := cmd.Run()
	told.end()
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		// The caller learns how the command ended; what it said is for this node's log.
		explained := community.Explain(community.ErrAgentFailed, ending(err))
		return nil, fmt.Errorf("%w: %w: %s", explained, err, bytes.TrimSpace(complaint.kept))
	case out.cut:
		return nil, community.Explain(community.ErrTooLarge, fmt.Sprintf("the command printed more than %d KiB", execOutput>>10))
	case !json.Valid(out.kept):
		return nil, community.Explain(community.ErrAgentFailed, "the command did not print JSON")
	}
	return bytes.TrimSpace(out.kept), nil
}

// ending says how a command ended, without a path of this machine.
func ending(err error) string {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return "the command ended with " + exit.Error()
	}
	return "the command could not be started"
}

func inherited(lookup func(string) (string, bool)) (env []string) {
	for _, name := range execEnv {
		if v, ok := lookup(name); ok {
			env = append(env, name+"="+v)
		}
	}
	return env
}

// capped keeps the first max bytes written to it and drops the rest.
type capped struct {
	kept []byte // no bytes.Buffer: its ReadFrom would let everything in
	max  int
	cut  bool
}

func (c *capped) Write(p []byte) (int, error) {
	keep := p
	if room := c.max - len(c.kept); len(p) > room {
		keep, c.cut = p[:room], true
	}
	c.kept = append(c.kept, keep...)
	return len(p), nil
}
