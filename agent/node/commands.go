package node

import (
	"context"
	"strings"

	"symbio/agent/node/control"
	"symbio/agent/tool/mcp"
	"symbio/security/visible"
	"symbio/skills"
)

// Limits of the skills that are commands: how many, and the characters of a
// description.
const (
	maxSkillCommands  = 2000
	maxCommandComment = 100
)

// slashCommands are the commands of people's conversations beside the built-in
// ones: the prompts of MCP servers, and the skills that people may start. A
// skill has no server, and its command is its name.
type slashCommands struct {
	control.MCP
	skills *skills.Registry // nil = off
}

// Prompts returns the commands, skills first. The error is about MCP servers
// that did not answer.
func (s slashCommands) Prompts(ctx context.Context) ([]mcp.Prompt, error) {
	prompts, err := s.MCP.Prompts(ctx)
	if s.skills == nil {
		return prompts, err
	}
	return append(skillCommands(s.skills.Now().Catalog), prompts...), err
}

// skillCommands returns a command for each name of a skill that people may
// start. Names that cannot be typed as one visible word are left out.
func skillCommands(c skills.Catalog) (all []mcp.Prompt) {
	seen := map[string]bool{}
	for _, one := range c.Skills {
		name := one.Name
		if one.Exposure == skills.Off || one.ModelOnly || seen[name] || visible.Escape(name) != name || strings.ContainsAny(name, " /") {
			continue
		}
		seen[name] = true
		p := mcp.Prompt{Command: name, Name: name, Description: visible.TruncateRunes(skills.Line(one.Description), maxCommandComment)}
		if one.ArgumentHint != "" {
			p.Arguments = []mcp.Argument{{Name: one.ArgumentHint}}
		}
		if all = append(all, p); len(all) == maxSkillCommands {
			break
		}
	}
	return all
}
