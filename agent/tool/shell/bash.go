package shell

import (
	"context"
	_ "embed"

	"symbio/agent/tool"
	program "symbio/security/permission/shell"
)

//go:embed bash.md
var bashText string

type bashArgs struct {
	Command     string `json:"command" jsonschema:"The script to run."`
	Timeout     int    `json:"timeout,omitempty" jsonschema:"How long it may take, in seconds."`
	Description string `json:"description,omitempty" jsonschema:"What it does, in a few words, for the people who watch."`
}

func (r *runner) bash() tool.Tool {
	return tool.New(tool.Spec{Name: "Bash", Description: bashText, Alone: true, Holds: r.checkSandbox, Keeps: r.sandboxKeeps}, func(ctx context.Context, a bashArgs) tool.Result {
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
