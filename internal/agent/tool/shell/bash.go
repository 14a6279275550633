package shell

import (
	"context"
	_ "embed"

	"symbio/agent/tool"
	program "symbio/internal/security/permission/shell"
	"symbio/security/permission"
)

//go:embed bash.md
var bashText string

type bashArgs struct {
	Command     string `json:"command" jsonschema:"The script to run."`
	Timeout     int    `json:"timeout,omitempty" jsonschema:"How long it may take, in seconds."`
	Access      string `json:"access,omitempty" jsonschema:"What it needs: look, write or network. Without it a command that nothing allows to write only looks."`
	Description string `json:"description,omitempty" jsonschema:"What it does, in a few words, for the people who watch."`
}

func (r *runner) bash() tool.Tool {
	spec := tool.Spec{Name: "Bash", Description: bashText, Enums: map[string][]string{permission.AccessArg: {"look", "write", "network"}},
		Alone: true, Holds: r.checkSandbox, Keeps: r.sandboxKeeps, HasBox: r.hasBox}
	return tool.New(spec, func(ctx context.Context, a bashArgs) tool.Result {
		limit, err := timeLimit(a.Timeout)
		if err != nil {
			return failed(err.Error())
		}
		plan := tool.Plan(ctx)
		if plan == nil || plan.Script == "" {
			return failed("no permission check has judged it")
		}
		argv := program.Start(plan.Script)
		argv[0] = r.cfg.Bash // not the one that a PATH may lead to
		return r.run(ctx, argv, nil, limit)
	})
}
