package skill

import (
	"context"
	"fmt"
	"slices"

	_ "embed"

	"symbio/agent/tool"
	"symbio/internal/security/visible"
	"symbio/skills"
)

//go:embed skill_search.md
var searchText string

//go:embed deactivate_skill.md
var deactivateText string

type searchArgs struct {
	Query string `json:"query" jsonschema:"a name, the beginning of one, a path, or words of what the skill is for"`
	Limit int    `json:"limit,omitempty" jsonschema:"how many to return at most"`
	Scope string `json:"scope,omitempty" jsonschema:"only those of the project (repo means the same), user, config, or bundled"`
}

// hit is a skill in the answer. The field names are a part of the tool's contract.
type hit struct {
	Name        string             `json:"name"`
	Description string             `json:"description"`
	Path        string             `json:"path"`
	Scope       skills.Scope       `json:"scope"`
	Reason      skills.MatchReason `json:"reason"`
	Score       int                `json:"score"`
}

// The tools; each agent has its own. Calls after a deactivation are judged without what
// the skill allowed.
var (
	searchKind     = tool.NewKind[searchArgs](tool.Spec{Name: Search, Description: searchText, ReadOnly: true})
	deactivateKind = tool.NewKind[deactivateArgs](tool.Spec{Name: Deactivate, Description: deactivateText, Alone: true})
)

// searchTool returns skill_search.
func searchTool(cfg Config) tool.Tool {
	scopes := []string{"project", "repo", "user", "config", "bundled"}
	return searchKind.New(func(_ context.Context, a searchArgs) tool.Result {
		if a.Scope != "" && !slices.Contains(scopes, a.Scope) {
			return tool.Result{Text: fmt.Sprintf("There is no scope %q; the scopes are %v.", a.Scope, scopes), IsError: true}
		}
		if a.Query == "" {
			return tool.Result{Text: "The query is empty: say a name or what the skill is for.", IsError: true}
		}
		if a.Limit <= 0 {
			a.Limit = cfg.DefaultLimit
		}
		q := skills.Query{Text: a.Query, Limit: min(a.Limit, cfg.MaxLimit), Scope: skills.Scope(a.Scope), Keep: cfg.shows}
		return answer(cfg.Registry.Now().Search(q))
	})
}

// answer encodes the matches as JSON. HTML escaping is off, because models read the text.
func answer(found skills.SearchResult) tool.Result {
	out := struct {
		Skills    []hit `json:"skills"`
		Count     int   `json:"count"`
		Truncated bool  `json:"truncated"`
	}{[]hit{}, found.Count, found.Truncated}
	for _, m := range found.Matches {
		out.Skills = append(out.Skills, hit{skills.Line(m.Skill.Name), skills.Line(m.Skill.Description), skills.Line(m.Skill.Path), m.Skill.Scope, m.Reason, m.Score})
	}
	text, err := visible.JSON(out)
	if err != nil {
		return tool.Result{Text: err.Error(), IsError: true}
	}
	return tool.Result{Text: string(text)}
}

type deactivateArgs struct {
	SkillName string `json:"skillName" jsonschema:"the name of the skill that you have"`
}

// deactivateTool returns deactivate_skill.
func deactivateTool(cfg Config) tool.Tool {
	return deactivateKind.New(func(ctx context.Context, a deactivateArgs) tool.Result {
		if err := cfg.Registry.Deactivate(ctx, cfg.Agent, a.SkillName); err != nil {
			return tool.Result{Text: err.Error(), IsError: true}
		}
		return tool.Result{Text: fmt.Sprintf("The skill %s is not active any more, and what it allowed is not allowed by it.", a.SkillName)}
	})
}
