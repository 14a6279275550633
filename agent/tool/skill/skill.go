// Package skill holds the tool by which a model takes a skill from the node's registry.
package skill

import (
	"context"

	_ "embed"

	"symbio/agent/tool"
	"symbio/skills"
)

//go:embed activate_skill.md
var text string

// Registry is what the tool needs of the registry of skills; *skills.Registry is one.
type Registry interface {
	Activate(ctx context.Context, agent, name string) (skills.Activation, error)
}

type args struct {
	SkillName string `json:"skillName" jsonschema:"the name of the skill, as in <available_skills>"`
}

// Tool returns activate_skill for one agent. activated is told the name of each skill that it took.
func Tool(r Registry, agent string, activated func(name string)) tool.Tool {
	return tool.New(tool.Spec{Name: "activate_skill", Description: text, Alone: true}, func(ctx context.Context, a args) tool.Result {
		activation, err := r.Activate(ctx, agent, a.SkillName)
		if err != nil {
			return tool.Result{Text: err.Error(), IsError: true}
		}
		activated(a.SkillName)
		return tool.Result{Text: activation.Text()}
	})
}
