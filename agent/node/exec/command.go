package exec

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"symbio/agent/node/config"
	"symbio/community"
	"symbio/security/sandbox"
)

const (
	execTimeout = time.Minute // of a command that was given none: an answer, not a job
	execOutput  = 1 << 20     // bytes of standard output, where no Config.MaxOutput is given: what a reply may carry by default
	execErrors  = 4 << 10     // bytes of standard error that are shown in the error
	execFlood   = 64 << 20    // bytes after which it is no answer that it prints, nor progress
)

// execEnv are the variables that a command inherits beside those that every command in a sandbox does. Keys of models
// are not among them.
var execEnv = []string{"LC_ALL"}

// Command answers calls of a capability: one process for each call, held by the sandbox. It is safe for concurrent use.
type Command struct {
	capability config.Capability
	runner     *Runner
	sandbox    config.Sandbox
	depth      int    // of nested JSON in its input
	real       string // the command's own file, where the name that is run is a link to it
}

// Command prepares what answers for a capability. depth bounds the nesting of its input.
func (r *Runner) Command(c config.Capability, depth int) *Command {
	out := &Command{capability: c, runner: r, sandbox: r.Over(c.Sandbox), depth: depth}
	if real, err := filepath.EvalSymlinks(c.Exec[0]); err == nil && filepath.IsAbs(c.Exec[0]) {
		out.real = real
	}
	return out
}

// policy is what a process may do now, with these variables of its own.
func (c *Command) policy(env []string) (sandbox.Policy, error) {
	p, err := c.runner.Policy(c.sandbox)
	if c.real != "" { // also where a private /tmp stands in the place of its directory
		p.Files.Read = append(slices.Clip(p.Files.Read), c.real)
	}
	p.Env = append(slices.Clip(p.Env), execEnv...)
	for _, v := range env {
		name, _, _ := strings.Cut(v, "=")
		p.Env = append(p.Env, name)
	}
	return p, err
}

// Answer gives input to the command and returns what it prints: JSON both ways. ctx ends it, with all that it started.
// A command that fails, prints no JSON or too much of it is an error of the call, with the start of what it said on
// standard error. Input that is no JSON, or nested too deep, is ErrInvalid. What the sandbox cannot hold is ErrDenied.
func (c *Command) Answer(ctx context.Context, input []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(c.capability.Timeout, execTimeout))
	defer cancel()
	if len(bytes.TrimSpace(input)) == 0 {
		input = []byte("null")
	}
	if err := community.CheckJSON(input, c.depth); err != nil {
		return nil, err
	}
	box, err := c.runner.Box(c.sandbox, false)
	if err != nil {
		return nil, fmt.Errorf("the sandbox: %w", err)
	}
	spec := sandbox.Spec{Argv: c.capability.Exec, Dir: c.runner.cfg.Dir, Stdin: bytes.NewReader(input), Env: traceEnv(community.TraceOf(ctx)), Keep: c.runner.maxOutput(), Flood: execFlood}
	errOut := &lines{emit: func(line string) { community.Report(ctx, progressOf(line)) }}
	if c.capability.Progress {
		spec.Stderr = errOut
	}
	policy, err := c.policy(spec.Env)
	if err != nil {
		return nil, err
	}
	r, err := box.Run(ctx, policy, spec)
	errOut.end()
	return printed(ctx, r, err, spec.Keep)
}

// printed is the answer that a command printed, or why there is none.
func printed(ctx context.Context, r sandbox.Result, err error, limit int) ([]byte, error) {
	var refused *sandbox.Refusal
	complaint := bytes.TrimSpace(r.Stderr.Head[:min(len(r.Stderr.Head), execErrors)])
	switch {
	case errors.As(err, &refused):
		return nil, fmt.Errorf("%w: %w", community.Explain(community.ErrDenied, toCaller(refused)), refused)
	case errors.Is(err, sandbox.ErrFlood), err == nil && r.Stdout.Cut > 0:
		return nil, community.Explain(community.ErrTooLarge, fmt.Sprintf("the command printed more than %d KiB (limits.message of its node)", limit>>10))
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.Is(err, sandbox.ErrNotStarted):
		return nil, fmt.Errorf("%w: %w", community.Explain(community.ErrAgentFailed, "the command could not be started"), err)
	case err != nil:
		return nil, fmt.Errorf("%w: %w", community.ErrAgentFailed, err)
	case r.Code != 0:
		// The caller learns how the command ended; what it said is for this node's log.
		explained := community.Explain(community.ErrAgentFailed, ending(r))
		return nil, fmt.Errorf("%w: %s", explained, complaint)
	case !json.Valid(r.Stdout.Head):
		return nil, community.Explain(community.ErrAgentFailed, "the command did not print JSON")
	}
	return bytes.TrimSpace(r.Stdout.Head), nil
}

// ending says how a command ended, without a path of this machine.
func ending(r sandbox.Result) string {
	if r.Signal != "" {
		return "the command was ended by the signal " + r.Signal
	}
	return fmt.Sprintf("the command ended with exit status %d", r.Code)
}

// toCaller is a refusal for another node: that there is nothing to be done from there, and what has to be done here.
// It names no path, which what is lacking may.
func toCaller(r *sandbox.Refusal) string {
	text := fmt.Sprintf("the sandbox of that node (level %v) cannot hold the command", r.Level)
	if r.Mend != "" {
		text += ". To mend it there: " + r.Mend
	}
	return text
}
