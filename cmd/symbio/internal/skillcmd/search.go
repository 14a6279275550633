package skillcmd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"symbio/cmd/symbio/internal/command"
	"symbio/cmd/symbio/internal/terminal"
	"symbio/internal/security/visible"
	symbiov1 "symbio/proto/symbio/v1"
	"symbio/skills"
	"symbio/skills/format"
)

// scopes are the values of --scope. "repo" is accepted for "project", as in other tools. They are
// in the order of precedence.
var scopes = []string{string(skills.ScopeProject), string(skills.ScopeUser), string(skills.ScopeConfig), string(skills.ScopeBundled), string(skills.ScopePeer)}

// cmdSkillsSearch returns the command skills search. Its exit status is 4 when nothing is found. It
// searches the skills of the running node of this directory, or those on the disk without one; see
// listSkills.
func cmdSkillsSearch(env *command.Env) *cobra.Command {
	var file, scope string
	var limit int
	cmd := &cobra.Command{
		Use:  "search QUERY...",
		Args: command.MinArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			query := strings.TrimSpace(strings.Join(args, " "))
			switch {
			case query == "":
				return command.Usage(errors.New("the query is empty; `symbio skills list` shows all skills"))
			// The bounds are as in skills.Query. The default of 8 is the default of the tool
			// skill_search.
			case limit < 1 || limit > 50:
				return command.Usage(fmt.Errorf("--limit %d: between 1 and 50", limit))
			case scope != "" && scope != "repo" && !slices.Contains(scopes, scope):
				return command.Usage(fmt.Errorf("--scope %q is none of %s", scope, strings.Join(scopes, ", ")))
			}
			// A query that is a path finds the skill there; else a slash is a part of the words.
			if _, err := os.Stat(query); err == nil {
				query = skillArg(query)
			}
			all, err := listSkills(cmd.Context(), env, skillQuery{file: file})
			if err != nil {
				return err
			}
			return searchSkills(env, all, skills.Query{Text: query, Limit: limit, Scope: skills.Scope(scope)})
		},
	}
	cmd.Flags().StringVar(&file, "config", "", "configuration `FILE` to use instead of asking a running node")
	cmd.Flags().StringVar(&scope, "scope", "", "only skills of this `SCOPE`: "+strings.Join(scopes, ", "))
	cmd.Flags().IntVar(&limit, "limit", 8, "at most `N` results, 1 to 50")
	return cmd
}

// searchSkills prints the best matches of a query, as the tool skill_search would find them, and
// returns an error with exit status 4 if there is none. With --json the empty list is printed, too.
// It searches by exact path, exact name, beginning of the name, then
// words. Skills that are off are found, too.
func searchSkills(env *command.Env, all skillList, q skills.Query) error {
	// The search runs on the list that the node sent, so that it finds what `symbio skills list`
	// shows.
	byPath := map[string]*symbiov1.Skill{}
	var catalog skills.Catalog
	for _, s := range all.GetSkills() {
		byPath[s.GetPath()] = s
		catalog.Skills = append(catalog.Skills, skills.Skill{
			// A reply has no more of the manifest than the search needs: name and description.
			Manifest: format.Manifest{Name: s.GetName(), Description: s.GetDescription()}, Path: s.GetPath(),
			Dir: filepath.Dir(s.GetPath()), Scope: skills.Scope(s.GetScope()),
		})
	}
	found := catalog.Search(q)
	// Reason and score are set on the messages of the reply itself; all is not used after that.
	list := command.Map(found.Matches, func(m skills.Match) *symbiov1.Skill {
		s := byPath[m.Skill.Path]
		s.Reason, s.Score = new(string(m.Reason)), new(uint32(m.Score))
		return s
	})
	var err error
	if env.JSON {
		err = env.PrintJSON(struct {
			Skills    []*symbiov1.Skill `json:"skills"`
			Count     int               `json:"count"`
			Truncated bool              `json:"truncated"`
		}{list, found.Count, found.Truncated})
	} else if len(list) > 0 {
		err = command.PrintList(env, list, []string{"NAME", "SCOPE", "FOUND BY", "PATH", "DESCRIPTION"}, func(s *symbiov1.Skill) []string {
			return []string{s.GetName(), s.GetScope(), s.GetReason(), s.GetPath(), visible.TruncateRunes(s.GetDescription(), 100)}
		})
	}
	if err == nil && found.Count == 0 {
		err = command.NotFound(fmt.Errorf("no skill fits %q; `symbio skills list` shows all", terminal.Printable(q.Text)))
	}
	// The note goes to standard error after the list, so that a script reads only results.
	if found.Truncated {
		env.Notef("%d of %d; --limit shows more", len(found.Matches), found.Count)
	}
	return err
}

// cmdSkillsPrompt returns the command skills prompt, which prints what a system prompt would say of
// skills. Its exit status is 4 if a name is unknown. No request is sent to a model.
func cmdSkillsPrompt(env *command.Env) *cobra.Command {
	var file, form, dir string
	cmd := &cobra.Command{
		Use:               "prompt [NAME|PATH...]",
		ValidArgsFunction: CompleteSkills(env),
		RunE: func(cmd *cobra.Command, args []string) error {
			p, err := skillPrompt(cmd.Context(), env, file, dir, form, args)
			if err != nil {
				return notHere(err)
			}
			return printPrompt(env, p)
		},
	}
	command.ConfigFlag(cmd, &file)
	cmd.Flags().StringVar(&dir, "dir", "", "use the skills of `DIR` (default the current directory)")
	cmd.Flags().StringVar(&form, "format", "", "`FORM` of the text: available_skills or skills_context (default as configured)")
	return cmd
}

// skillPrompt returns the text from the node that --node names, else from the skills of a node that
// is started here. It is a usage error to give --config or --dir together with --node. An unknown
// name is ErrNotFound of package skills, or NotFound of the node.
func skillPrompt(ctx context.Context, env *command.Env, file, dir, form string, names []string) (*symbiov1.SkillPromptReply, error) {
	if form != "" && form != string(skills.AvailableSkills) && form != string(skills.SkillsContext) {
		return nil, command.Usage(fmt.Errorf("--format %q is neither %s nor %s", form, skills.AvailableSkills, skills.SkillsContext))
	}
	// A path is relative to this directory, not to the node's. The slice belongs to the
	// command line of this run, so it is changed in place.
	for i := range names {
		names[i] = skillArg(names[i])
	}
	if env.Node == "" {
		here, err := loadSkills(env, file, dir)
		if err != nil {
			return nil, err
		}
		return here.opts.Skills().PromptText(ctx, form, names)
	}
	if file != "" || dir != "" {
		return nil, command.Usage(errors.New("--node asks a running node, which has its own configuration and directory: leave out --config and --dir"))
	}
	client, conn, err := env.Nodes().Dial()
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	return client.SkillPrompt(ctx, &symbiov1.SkillPromptRequest{Format: form, Names: names})
}

// printPrompt prints the text, and on standard error what was shortened or left out for lack of
// room. The text is unchanged in a pipe, as a model gets it, with one line break at the end.
func printPrompt(env *command.Env, r *symbiov1.SkillPromptReply) error {
	for note := range strings.Lines(r.GetNotes()) {
		env.Notef("note: %s", strings.TrimSuffix(note, "\n"))
	}
	if env.JSON {
		// The notes are on standard error already.
		r.Notes = nil
		return env.PrintJSON(r)
	}
	// Agents then get no paragraph about skills at all, which is no error.
	if r.GetText() == "" {
		env.Notef("note: models are shown nothing: no skill here is for them")
		return nil
	}
	if n := len(r.GetShortened()); n > 0 {
		env.Notef("note: shortened (skills.initial.max_bytes): %s", visible.Plural(n, "description"))
	}
	if n := len(r.GetDropped()); n > 0 {
		env.Notef("note: not listed (skills.initial.max_bytes, max_entries): %s", visible.Plural(n, "skill"))
	}
	return env.PrintText(r.GetText())
}
