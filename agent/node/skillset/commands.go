package skillset

import (
	"strings"

	"symbio/agent/tool/mcp"
	symbiov1 "symbio/proto/symbio/v1"
	"symbio/security/visible"
	"symbio/skills"
)

// Limits of the skills that are commands: how many, and the characters of a
// description.
const (
	maxSkillCommands  = 2000
	maxCommandComment = 100
)

// commands returns a command for each name of a skill that people may
// start. Names that cannot be typed as one visible word are left out.
func commands(c skills.Catalog) (all []mcp.Prompt) {
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

// Reply converts a catalog to its message. held has the agents of each
// active skill by the id of the skill.
func (Config) Reply(c skills.Catalog, held map[string][]string) *symbiov1.SkillsReply {
	r := &symbiov1.SkillsReply{Errors: problems(c.Errors), Notes: problems(c.Notes), Truncated: c.Truncated}
	for _, s := range c.Skills {
		r.Skills = append(r.Skills, &symbiov1.Skill{Id: s.ID, Name: s.Name, Description: s.Description, Path: s.Path, Scope: string(s.Scope), Enabled: s.Exposure != skills.Off, Active: len(held[s.ID]) > 0})
	}
	return r
}

// problems converts problems to messages.
func problems(all []skills.Problem) (out []*symbiov1.SkillProblem) {
	for _, p := range all {
		out = append(out, &symbiov1.SkillProblem{Path: p.Path, Message: p.Message()})
	}
	return out
}
