package shell

import (
	"context"
	_ "embed"
	"slices"
	"strings"

	"symbio/agent/tool"
	"symbio/security/permission"
	"symbio/security/sandbox"
)

//go:embed git.md
var gitText string

type gitArgs struct {
	Command string   `json:"command" jsonschema:"The subcommand, such as status."`
	Args    []string `json:"args,omitempty" jsonschema:"Its arguments, one string each."`
	Access  string   `json:"access,omitempty" jsonschema:"What it needs: look, write or network. Without it a command that nothing allows to write only looks."`
	Timeout int      `json:"timeout,omitempty" jsonschema:"How long it may take, in seconds."`
}

// quiet are variables that keep git from asking for input and from optional writes. The sandbox
// enforces the rest.
var quiet = []string{"PAGER=cat", "GIT_TERMINAL_PROMPT=0", "GIT_OPTIONAL_LOCKS=0"}

func (r *runner) git() tool.Tool {
	spec := tool.Spec{Name: "Git", Description: gitText, Enums: map[string][]string{permission.AccessArg: {"look", "write", "network"}},
		Alone: true, Holds: r.checkGit, Keeps: r.sandboxKeeps, HasBox: r.hasBox}
	return tool.New(spec, func(ctx context.Context, a gitArgs) tool.Result {
		limit, err := timeLimit(a.Timeout)
		if err != nil {
			return failed(err.Error())
		}
		if strings.HasPrefix(a.Command, "-") {
			return failed("command is the subcommand; options before it cannot be given")
		}
		plan := tool.Plan(ctx)
		if plan == nil || len(plan.Argv) == 0 {
			return failed("no permission check has judged it")
		}
		return r.run(ctx, withoutPrograms(plan.Argv), quiet, limit)
	})
}

// checkGit is checkSandbox for Git, which a person has to accept without a sandbox.
func (r *runner) checkGit(ctx context.Context) error {
	if r.cfg.Box != nil && tool.BoxOf(ctx) != permission.BoxLook {
		if box, err := r.cfg.Box(ctx); err == nil && box.Status().Level == sandbox.Off {
			return &sandbox.Refusal{Level: sandbox.Off, Lacks: []string{"git runs what the repository's configuration names, with all that this user may do"}}
		}
	}
	return r.checkSandbox(ctx)
}

// withoutPrograms returns the words of a git command with options by which it prints differences
// itself. Of the programs that a repository may name, those for differences are the only ones that
// git lets its caller switch off and that have names which gitenv.Hardened cannot list.
func withoutPrograms(argv []string) []string {
	if len(argv) < 2 {
		return argv
	}
	switch argv[1] {
	case "diff", "diff-files", "diff-index", "diff-tree", "format-patch", "log", "range-diff", "show", "whatchanged":
		return slices.Insert(slices.Clone(argv), 2, "--no-ext-diff", "--no-textconv")
	case "annotate", "blame", "grep":
		return slices.Insert(slices.Clone(argv), 2, "--no-textconv")
	}
	return argv
}
