package exec

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"symbio/agent/node/config"
	"symbio/community"
	"symbio/internal/security/redact"
	"symbio/internal/security/visible"
	"symbio/security/sandbox"
)

const (
	execTimeout = time.Minute // default timeout: a call is an answer, not a job
	execOutput  = 1 << 20     // default of Config.MaxOutput, the default of limits.message
	execErrors  = 4 << 10     // bytes of standard error that the error shows
	execFlood   = 64 << 20    // bytes of output after which the command is stopped
)

// execEnv are the variables that a command gets in addition to the variables of every
// sandboxed command. API keys of models are not among them.
var execEnv = []string{"LC_ALL"}

// Command answers the calls of one capability with a process for each call. It
// is safe for concurrent use.
type Command struct {
	capability config.Capability
	runner     *Runner
	sandbox    config.Sandbox
	real       string // the file that the command's name links to; "" = no absolute name
}

// Command returns the Command of a capability with exec. The error says that
// there is no such program.
func (r *Runner) Command(c config.Capability) (*Command, error) {
	out := &Command{capability: c, runner: r, sandbox: r.SandboxFor(c.Sandbox)}
	if _, err := exec.LookPath(c.Exec[0]); errors.Is(err, fs.ErrPermission) {
		return nil, fmt.Errorf("%w; make it executable: chmod +x %s", err, c.Exec[0])
	} else if err != nil {
		return nil, fmt.Errorf("%w; install the program, or write the path of its file under exec", err)
	}
	if real, err := filepath.EvalSymlinks(c.Exec[0]); err == nil && filepath.IsAbs(c.Exec[0]) {
		out.real = real
	}
	return out, nil
}

// policy returns what a process of the command may do now. It is computed for
// each call, because a reload may change the denied files. env are variables of
// this call, which the process may see, and dir has its artifacts, which the
// process may read and add to; "" = it has none.
func (c *Command) policy(env []string, dir string) (sandbox.Policy, error) {
	p, err := c.runner.Policy(c.sandbox)
	for _, path := range []string{c.real, dir} {
		if path != "" { // also where a private /tmp stands in the place of its directory
			p.Files.Read = append(slices.Clip(p.Files.Read), path)
		}
	}
	if dir != "" {
		p.Files.Write = append(slices.Clip(p.Files.Write), filepath.Join(dir, madeDir))
	}
	p.Env = append(slices.Clip(p.Env), execEnv...)
	for _, v := range env {
		name, _, _ := strings.Cut(v, "=")
		p.Env = append(p.Env, name)
	}
	return p, err
}

// Answer runs the command with input on standard input and returns the JSON
// that it prints, or the text as a JSON string if the capability says text. An artifact that input names is the path of a file there; it
// is fetched from caller, the calling node, which may fetch the result's:
// they stand there in the place of paths in artifactsEnv. Answer blocks until the command and
// all processes that it started have ended; ctx, or the timeout of the
// capability, ends them. Errors: community.ErrInvalid if input is not JSON,
// nested too deep, or names an artifact that the caller did not give, ErrDenied
// if the sandbox cannot hold the command, ErrTooLarge if it prints more than
// Config.MaxOutput, ErrAgentFailed if it fails, prints no JSON, or gives a file
// that cannot be kept. Callers of
// other nodes see the explanation of the error only, which has what a command that failed
// wrote to standard error; the rest may name files of this machine.
func (c *Command) Answer(ctx context.Context, input []byte, caller community.NodeID) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(c.capability.Timeout, execTimeout))
	defer cancel()
	if len(bytes.TrimSpace(input)) == 0 {
		input = []byte("null")
	}
	if err := community.CheckJSON(input, community.MaxDepth); err != nil {
		return nil, err
	}
	box, err := c.runner.Box(c.sandbox, false)
	if err != nil {
		return nil, fmt.Errorf("the sandbox: %w", err)
	}
	dir, err := c.makeDir()
	defer os.RemoveAll(dir) // of "" nothing; what cannot be removed stays among the temporary files
	if err == nil {
		input, err = c.takeArtifacts(ctx, input, caller, dir)
	}
	if err != nil {
		return nil, err
	}
	spec := sandbox.Spec{Argv: c.capability.Exec, Dir: c.runner.cfg.Dir, Stdin: bytes.NewReader(input),
		Env: traceEnv(community.TraceOf(ctx)), Keep: c.runner.maxOutput(), Flood: execFlood}
	if dir != "" {
		spec.Env = append(spec.Env, artifactsEnv+"="+filepath.Join(dir, madeDir))
	}
	errOut := &lines{emit: func(line string) { community.Report(ctx, progressOf(line)) }}
	if c.capability.Progress {
		spec.Stderr = errOut
	}
	policy, err := c.policy(spec.Env, dir)
	if err != nil {
		return nil, err
	}
	r, err := box.Run(ctx, policy, spec)
	errOut.end()
	output, err := parseOutput(ctx, r, err, spec.Keep, c.capability.Text)
	if err != nil {
		return nil, err
	}
	return c.giveArtifacts(output, caller, dir)
}

// parseOutput returns the result that a command printed, or the error of the
// call. The order of the cases matters: a command that was stopped for too much
// output has an exit code, too.
func parseOutput(ctx context.Context, r sandbox.Result, err error, limit int, text bool) ([]byte, error) {
	var refused *sandbox.Refusal
	switch {
	case errors.As(err, &refused):
		return nil, fmt.Errorf("%w: %w", community.Explain(community.ErrDenied, toCaller(refused)), refused)
	case errors.Is(err, sandbox.ErrFlood), err == nil && r.Stdout.Cut > 0:
		return nil, community.Explain(community.ErrTooLarge, fmt.Sprintf("the command printed more than %d KiB (limits.message of its node): let it write that to a file in $%s, and print the path", limit>>10, artifactsEnv))
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.Is(err, sandbox.ErrNotStarted):
		return nil, fmt.Errorf("%w: %w", community.Explain(community.ErrAgentFailed, "the command could not be started"), err)
	case err != nil:
		return nil, fmt.Errorf("%w: %w", community.ErrAgentFailed, err)
	case r.Code != 0:
		return nil, community.Explain(community.ErrAgentFailed, describeExit(r))
	case text:
		return json.Marshal(strings.ToValidUTF8(strings.TrimRight(string(r.Stdout.Head), "\r\n"), "\ufffd"))
	case !json.Valid(r.Stdout.Head):
		return nil, community.Explain(community.ErrAgentFailed, "the command did not print JSON; if it is to print text, its capability needs text: true")
	}
	return bytes.TrimSpace(r.Stdout.Head), nil
}

// describeExit says how a command ended, with its standard error.
func describeExit(r sandbox.Result) string {
	how := fmt.Sprintf("the command ended with exit status %d", r.Code)
	if r.Signal != "" {
		how = "the command was ended by the signal " + r.Signal
	}
	said := strings.Join(strings.Fields(string(r.Stderr.Head)+" "+string(r.Stderr.Tail)), " ")
	if said = visible.Suffix(said, execErrors); said != "" { // the end says why
		how += ": " + redact.Text(visible.Line(said, execErrors))
	}
	return how
}

// toCaller is a refusal for another node: that there is nothing to be done from
// there, and what has to be done here. It names no path, which what is lacking
// may.
func toCaller(r *sandbox.Refusal) string {
	text := fmt.Sprintf("the sandbox of that node (level %v) cannot hold the command", r.Level)
	if r.Mend != "" {
		text += ". To mend it there: " + r.Mend
	}
	return text
}
