package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"symbio/cmd/symbio/internal/node"
	"symbio/skills"
	"symbio/skills/format"
)

// foundJSON is a skill that was found; the names are a contract.
type foundJSON struct {
	skillJSON
	Reason skills.Reason `json:"reason"`
	Score  int           `json:"score"`
}

var scopes = []string{string(skills.ScopeProject), string(skills.ScopeUser), string(skills.ScopeConfig), string(skills.ScopeBundled), string(skills.ScopePeer)}

func (a *App) cmdSkillsSearch() *cobra.Command {
	var file, scope string
	var limit int
	cmd := &cobra.Command{
		Use:   "search QUERY...",
		Short: "Find skills by path, name, beginning of a name, or words",
		Long: `Find skills as an agent's skill_search does, of the running node or of this directory when none is running:
by path, name, beginning of a name, or words of name and description, the best first. Those that are switched
off are found, too. The exit status is 4 when there is none.`,
		Example: `  symbio skills search changelog
  symbio skills search "write release notes" --scope user
  symbio skills search pdf --json | jq -r '.skills[].path'`,
		Args: minArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			query := strings.TrimSpace(strings.Join(args, " "))
			switch {
			case query == "":
				return usage(errors.New("what to look for? `symbio skills list` shows all"))
			case limit < 1 || limit > 50:
				return usage(fmt.Errorf("--limit %d: between 1 and 50", limit))
			case scope != "" && scope != "repo" && !slices.Contains(scopes, scope):
				return usage(fmt.Errorf("--scope %q is none of %s", scope, strings.Join(scopes, ", ")))
			}
			if _, err := os.Stat(query); err == nil { // else a / is a part of the words
				query = skillArg(query)
			}
			all, err := a.listSkills(cmd.Context(), skillQuery{file: file})
			if err != nil {
				return err
			}
			return a.searchSkills(all, skills.Query{Text: query, Limit: limit, Scope: skills.Scope(scope)})
		},
	}
	cmd.Flags().StringVar(&file, "config", "", "configuration file, when no node is running")
	cmd.Flags().StringVar(&scope, "scope", "", "only of this scope: "+strings.Join(scopes, ", "))
	cmd.Flags().IntVar(&limit, "limit", 8, "how many, at most 50")
	return cmd
}

func (a *App) searchSkills(all skillList, q skills.Query) error {
	byPath := map[string]skillJSON{}
	var catalog skills.Catalog
	for _, s := range all.skills {
		byPath[s.Path] = s
		catalog.Skills = append(catalog.Skills, skills.Skill{
			Manifest: format.Manifest{Name: s.Name, Description: s.Description}, Path: s.Path, Dir: strings.TrimSuffix(s.Path, "/SKILL.md"), Scope: skills.Scope(s.Scope),
		})
	}
	found := catalog.Search(q)
	list, rows := []foundJSON{}, [][]string{}
	for _, m := range found.Matches {
		s := byPath[m.Skill.Path]
		list = append(list, foundJSON{s, m.Reason, m.Score})
		rows = append(rows, []string{s.Name, s.Scope, string(m.Reason), s.Path, clip(s.Description, 100)})
	}
	if a.json {
		if err := a.printJSON(struct {
			Skills    []foundJSON `json:"skills"`
			Count     int         `json:"count"`
			Truncated bool        `json:"truncated"`
		}{list, found.Count, found.Truncated}); err != nil {
			return err
		}
	} else if err := a.table([]string{"NAME", "SCOPE", "FOUND BY", "PATH", "DESCRIPTION"}, rows); len(rows) > 0 && err != nil {
		return err
	}
	if found.Count == 0 {
		return notFound(fmt.Errorf("no skill fits %q; `symbio skills list` shows all", printable(q.Text)))
	}
	if found.Truncated {
		fmt.Fprintf(a.Err, "%d of %d; --limit shows more\n", len(found.Matches), found.Count)
	}
	return nil
}

func (a *App) cmdSkillsPrompt() *cobra.Command {
	var file, form, dir string
	cmd := &cobra.Command{
		Use:   "prompt [NAME|PATH...]",
		Short: "What models are shown of the skills",
		Long: `Print what is put into an agent's system prompt: without names the catalog, as a node started here would show
it; with names those skills in full, as for an agent whose definition names them. Rules about single skills
are not looked at: they differ from agent to agent.`,
		Example: `  symbio skills prompt
  symbio skills prompt --format skills_context
  symbio skills prompt survey-directory
  symbio skills prompt --json | jq .dropped       # what there was no room for`,
		ValidArgsFunction: a.completeSkills,
		RunE: func(cmd *cobra.Command, args []string) error {
			here, err := a.skillsOf(file, dir)
			if err != nil {
				return err
			}
			options := node.SkillPrompt(here.opts)
			switch f := skills.PromptFormat(form); f {
			case "":
			case skills.AvailableSkills, skills.SkillsContext:
				options.Format = f
			default:
				return usage(fmt.Errorf("--format %q is neither %s nor %s", form, skills.AvailableSkills, skills.SkillsContext))
			}
			if len(args) > 0 {
				return a.printPreload(cmd.Context(), here, args)
			}
			return a.printCatalog(cmd.Context(), here, options)
		},
	}
	cmd.Flags().StringVar(&file, "config", "", "configuration file")
	cmd.Flags().StringVar(&dir, "dir", "", "of the skills of this directory")
	cmd.Flags().StringVar(&form, "format", "", "available_skills or skills_context (default: what the configuration says)")
	return cmd
}

// promptJSON is a part of a system prompt; the names are a contract.
type promptJSON struct {
	Text      string   `json:"text"`
	Bytes     int      `json:"bytes"`
	Listed    []string `json:"listed"`
	Shortened []string `json:"shortened"`
	Dropped   []string `json:"dropped"`
}

func (a *App) printCatalog(ctx context.Context, here skillsHere, o skills.PromptOptions) error {
	catalog, err := skills.Scan(ctx, here.cfg)
	if err != nil {
		return err
	}
	r := skills.Render(catalog, o)
	return a.printPrompt(promptJSON{r.Text, len(r.Text), append([]string{}, r.Listed...), append([]string{}, r.Shortened...), append([]string{}, r.Dropped...)})
}

func (a *App) printPreload(ctx context.Context, here skillsHere, names []string) error {
	var all []skills.Activation
	p := promptJSON{Listed: []string{}, Shortened: []string{}, Dropped: []string{}}
	for _, name := range names {
		one, err := take(ctx, here.cfg, skillArg(name))
		if errors.Is(err, skills.ErrNotFound) {
			return notFound(fmt.Errorf("%w; `symbio skills list` shows the skills here", err))
		}
		if err != nil {
			return err
		}
		if s := one.Skill; s.UserOnly || here.cfg.Choices.Exposure(s) == skills.Off || here.cfg.Choices.Exposure(s) == skills.PeopleOnly {
			fmt.Fprintf(a.Err, "note: no definition can give %s to an agent: %s\n", printable(s.Name), printable(here.state(s)))
		}
		all, p.Listed = append(all, one), append(p.Listed, one.Skill.Name)
	}
	p.Text = skills.PreloadPrompt(all)
	p.Bytes = len(p.Text)
	return a.printPrompt(p)
}

func (a *App) printPrompt(p promptJSON) error {
	if a.json {
		return a.printJSON(p)
	}
	if p.Text == "" {
		fmt.Fprintln(a.Err, "note: models are shown nothing: there is no skill here that they may take")
		return nil
	}
	if n := len(p.Shortened); n > 0 {
		fmt.Fprintf(a.Err, "note: %d descriptions are shortened: skills.initial.max_bytes\n", n)
	}
	if n := len(p.Dropped); n > 0 {
		fmt.Fprintf(a.Err, "note: %d skills are not listed: skills.initial.max_bytes and max_entries\n", n)
	}
	return a.printText(p.Text)
}
