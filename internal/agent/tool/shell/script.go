package shell

import (
	"context"
	"time"

	"symbio/agent/tool"
	"symbio/security/permission"
	"symbio/security/sandbox"
)

// Script is a program of a skill.
type Script struct {
	Argv []string
	Dir  string // of the skill; the script starts there
	// Network gives it the network that commands have. Default: none.
	Network bool
}

// Scripts runs the scripts of skills in the sandbox of commands, with limits of their own.
type Scripts struct {
	// Timeout is how long a script may take, and MaxOutput how many bytes it may print.
	Timeout   time.Duration
	MaxOutput int64
	// Work gives scripts the sandbox of commands, with the workspace. Default: the box that only looks, with the skill alone.
	Work bool

	runner *runner
}

// NewScripts returns Scripts with the limits 60 s and 1 MB.
func NewScripts(cfg Config) *Scripts {
	return &Scripts{Timeout: time.Minute, MaxOutput: 1 << 20, runner: &runner{cfg}}
}

// Holds is for tool.Spec, as Bash has it.
func (s *Scripts) Holds(ctx context.Context) error { return s.runner.checkSandbox(ctx) }

// Keeps is for tool.Spec, as Bash has it.
func (s *Scripts) Keeps(ctx context.Context, d *permission.FileDenials) bool {
	return s.runner.sandboxKeeps(ctx, d)
}

// Run runs a script that the guard has allowed, and returns its output as a result.
func (s *Scripts) Run(ctx context.Context, one Script) tool.Result {
	if one.Argv[0] == "" {
		return failed("it is not executable, and no program is known for the ending of its name")
	}
	if tool.Plan(ctx) == nil {
		return failed("no permission check has judged it")
	}
	if s.runner.cfg.Box == nil {
		return failed("no sandbox is available, and commands run only in a sandbox")
	}
	box, policy, err := s.runner.held(ctx)
	if err == nil && !s.Work && s.runner.hasBox(ctx, permission.BoxLook) {
		box, policy, err = s.looking(ctx, one)
	}
	if err != nil {
		return failed("the sandbox: " + err.Error())
	}
	dirs := []string{one.Dir}
	if !one.Network {
		policy.Network = sandbox.NetworkNone
	}
	spec := sandbox.Spec{Argv: one.Argv, Dir: one.Dir, Env: skillVariables(dirs), Flood: s.MaxOutput}
	return runIn(ctx, box, showing(policy, dirs), spec, s.Timeout)
}

// looking returns the box of a script, and its access there: it sees its skill, and not the workspace.
func (s *Scripts) looking(ctx context.Context, one Script) (*sandbox.Box, sandbox.Policy, error) {
	box, err := s.runner.cfg.Look(ctx)
	if err != nil {
		return nil, sandbox.Policy{}, err
	}
	policy, err := sandbox.Look([]string{one.Dir})
	policy.Network = s.runner.cfg.Policy.Network
	return box, tool.Constrain(ctx, policy), err
}
