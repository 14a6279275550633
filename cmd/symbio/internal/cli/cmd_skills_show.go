package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"symbio/actor"
	"symbio/skills"
	"symbio/skills/trust"
)

func (a *App) cmdSkillsShow() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "show NAME|PATH",
		Short: "What a skill says, and what an agent that takes it is granted",
		Long: `What a skill of this directory says, who may take it, what an agent that takes it is granted, and what it
asks for in vain. A skill that is switched off, or for people or models alone, is shown all the same.`,
		Example: `  symbio skills show survey-directory
  symbio skills show .agents/skills/notes
  symbio skills show notes --json | jq -r .instructions`,
		Args:              exactArgs(1),
		ValidArgsFunction: a.completeSkills,
		RunE: func(cmd *cobra.Command, args []string) error {
			here, err := a.skillsOf(file, "")
			if err != nil {
				return err
			}
			activation, err := take(cmd.Context(), here.cfg, skillArg(args[0]))
			if errors.Is(err, skills.ErrNotFound) {
				return notFound(fmt.Errorf("%w; `symbio skills list` shows the skills here", err))
			}
			if err != nil {
				return err
			}
			return a.printSkill(here, activation)
		},
	}
	cmd.Flags().StringVar(&file, "config", "", "configuration file")
	return cmd
}

// take takes a skill from a registry of its own, as whoever may: a person who wants to read it may read any,
// also one that is switched off.
func take(ctx context.Context, cfg skills.Config, name string) (_ skills.Activation, err error) {
	system := actor.NewSystem(actor.Config{})
	defer func() { err = errors.Join(err, system.Shutdown(ctx)) }()
	cfg.Choices = skills.Choices{}
	registry, err := skills.NewRegistry(system, cfg)
	if err != nil {
		return skills.Activation{}, err
	}
	found, err := registry.Now().Resolve(name, cfg.Duplicates)
	if err != nil {
		return skills.Activation{}, err
	}
	if found.ModelOnly && found.UserOnly { // nobody may take it, and so it grants nothing
		skill, text, hash, err := skills.Inspect(found.Dir, found.Scope, cfg.Policy)
		return skills.Activation{Skill: skill, Instructions: text, Hash: hash}, err
	}
	want := skills.Want{Agent: "show", Path: found.Path, By: skills.ByPerson}
	if found.ModelOnly {
		want.By = skills.ByModel
	}
	return registry.Take(ctx, want)
}

// state says in words who may take a skill.
func (h skillsHere) state(s skills.Skill) string {
	switch e := h.cfg.Choices.Exposure(s); {
	case e == skills.Off:
		return "off: " + h.offBy(s)
	case s.ModelOnly && s.UserOnly:
		return "for nobody, by its flags"
	case s.ModelOnly:
		return "for models only, by its user-invocable: false"
	case s.UserOnly:
		return "for people only, by its disable-model-invocation: true"
	case e == skills.PeopleOnly:
		return "for people only, by skills.overrides"
	case e == skills.NameOnly:
		return "enabled, shown to models by its name only"
	}
	return "enabled"
}

func (a *App) printSkill(here skillsHere, s skills.Activation) error {
	known, from := a.stateOf(s)
	if a.json {
		return a.printJSON(struct {
			skills.Skill
			State        string            `json:"state"`
			Instructions string            `json:"instructions"`
			Hash         string            `json:"hash"`
			Granted      []string          `json:"granted"`
			Withheld     []skills.Withheld `json:"withheld"`
			Trust        trust.State       `json:"trust"`
			Node         string            `json:"node,omitempty"`      // where a fetched skill came from
			Tree         string            `json:"tree_hash,omitempty"` // its hash, of all files
		}{s.Skill, here.state(s.Skill), s.Instructions, s.Hash, s.Granted, s.Withheld, known, from.Node, from.Hash})
	}
	fmt.Fprintf(a.Out, "name         %s\ndescription  %s\nscope        %s\nstate        %s\npath         %s\nsha256       %s\ntrust        %s\ngrants       %s\n",
		printable(s.Skill.Name), printable(s.Skill.Description), s.Skill.Scope, printable(here.state(s.Skill)), printable(s.Skill.Path), s.Hash, trustLine(known, from), printable(strings.Join(s.Granted, " ")))
	for _, w := range s.Withheld {
		fmt.Fprintf(a.Out, "withheld     %s: %s\n", printable(w.Rule), printable(w.Why))
	}
	fmt.Fprintln(a.Out)
	return a.printAnswer([]byte(s.Instructions))
}
