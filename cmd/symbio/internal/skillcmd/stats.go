package skillcmd

import (
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"symbio/agent/event"
	"symbio/agent/node/config"
	"symbio/cmd/symbio/internal/command"
	"symbio/internal/agent/session/sqlite"
	"symbio/internal/agent/skilluse"
	"symbio/internal/security/visible"
)

// oftenShown is how often a skill was shown, and not taken, before stats suggests to switch it off: by
// then it has had a fair chance.
const oftenShown = 20

// cmdSkillsStats returns the command skills stats. It reads the files of the nodes of this machine,
// whether they run or not, and asks no other node.
func cmdSkillsStats(env *command.Env) *cobra.Command {
	since := config.Age(30 * 24 * time.Hour)
	cmd := &cobra.Command{
		Use:  "stats",
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			begin := time.Now().Add(-time.Duration(since))
			var events []event.Event
			err := env.Sessions().Each(func(_ string, s *sqlite.Store) error {
				found, err := s.EventsOf(cmd.Context(), begin, skilluse.Types()...)
				events = append(events, found...)
				return err
			})
			if err != nil {
				return err
			}
			all, err := listSkills(cmd.Context(), env, skillQuery{})
			if err != nil { // the figures do not depend on it
				env.Notef("note: no suggestions: %s", err.Error())
			}
			return printStats(env, begin, skilluse.Count(events), all)
		},
	}
	cmd.Flags().TextVar(&since, "since", since, "count what happened in the last `AGE`, such as 7d or 12h")
	return cmd
}

// suggestion is a skill that is in the way, and the command that switches it off. Its JSON is a contract.
type suggestion struct {
	Skill   string `json:"skill"`
	Shown   int    `json:"shown"`
	Command string `json:"command"`
}

// suggest returns the skills that are often shown and never taken, of those that are here and on.
func suggest(uses []skilluse.Use, all skillList) []suggestion {
	on := map[string]bool{}
	for _, s := range all.GetSkills() {
		on[s.GetName()] = on[s.GetName()] || s.GetEnabled()
	}
	out := []suggestion{}
	for _, u := range uses {
		if u.Shown >= oftenShown && u.Taken == 0 && on[u.Skill] {
			out = append(out, suggestion{u.Skill, u.Shown, "symbio skills disable " + u.Skill})
		}
	}
	return out
}

// printStats prints the use of skills, and on standard error what to switch off.
func printStats(env *command.Env, since time.Time, uses []skilluse.Use, all skillList) error {
	tips := suggest(uses, all)
	if env.JSON {
		return env.PrintJSON(struct {
			Since    time.Time      `json:"since"`
			Skills   []skilluse.Use `json:"skills"`
			Suggests []suggestion   `json:"suggestions"`
		}{since.UTC(), uses, tips})
	}
	err := command.PrintList(env, uses, []string{"NAME", "SHOWN", "TAKEN", "FINISHED", "DENIED", "LAST TAKEN"}, func(u skilluse.Use) []string {
		last := "never"
		if !u.LastTaken.IsZero() {
			last = u.LastTaken.Local().Format(time.DateOnly)
		}
		return []string{u.Skill, strconv.Itoa(u.Shown), strconv.Itoa(u.Taken), strconv.Itoa(u.Finished), strconv.Itoa(u.Denied), last}
	})
	for _, t := range tips {
		env.Notef("note: %s was shown %s and never taken; switch it off: %s", t.Skill, visible.Plural(t.Shown, "time"), t.Command)
	}
	return err
}
