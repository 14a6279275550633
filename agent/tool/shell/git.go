package shell

import (
	"context"
	_ "embed"
	"strings"

	"symbio/agent/tool"
)

//go:embed git.md
var gitText string

type gitArgs struct {
	Command string   `json:"command" jsonschema:"The subcommand, such as status."`
	Args    []string `json:"args,omitempty" jsonschema:"Its arguments, one string each."`
	Timeout int      `json:"timeout,omitempty" jsonschema:"How long it may take, in seconds."`
}

// quiet are variables that keep git from asking for input and from optional writes. The sandbox
// enforces the rest.
var quiet = []string{"PAGER=cat", "GIT_TERMINAL_PROMPT=0", "GIT_OPTIONAL_LOCKS=0"}

func (r *runner) git() tool.Tool {
	return tool.New(tool.Spec{Name: "Git", Description: gitText, Alone: true, Holds: r.checkSandbox, Keeps: r.sandboxKeeps}, func(ctx context.Context, a gitArgs) tool.Result {
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
		return r.run(ctx, plan.Argv, quiet, limit)
	})
}
