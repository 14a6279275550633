package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"symbio/actor"
	"symbio/cmd/symbio/internal/node"
	symbiov1 "symbio/proto/symbio/v1"
	"symbio/skills"
	"symbio/skills/trust"
)

func (a *App) cmdSkills() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "skills",
		Short: "The skills that agents can take",
		Example: `  symbio skills list
  symbio skills show survey-directory
  symbio skills validate .agents/skills`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.cmdSkillsList(), a.cmdSkillsShow(), a.cmdSkillsValidate(), a.cmdSkillsTrust(), a.cmdSkillsFetch())
	return cmd
}

// skillJSON is a skill in the output; the names are a contract.
type skillJSON struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	Description string `json:"description"`
	Path        string `json:"path"`
	Scope       string `json:"scope"`
	Enabled     bool   `json:"enabled"`
	Active      bool   `json:"active"`
}

func (a *App) cmdSkillsList() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the skills of the running node, or of this directory when none is running",
		Example: `  symbio skills list
  symbio skills list --json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			list, problems, err := a.listSkills(cmd.Context(), file)
			if err != nil {
				return err
			}
			for _, p := range problems {
				fmt.Fprintln(a.Err, "left out:", printable(p))
			}
			if a.json {
				return a.printJSON(list)
			}
			rows := make([][]string, len(list))
			for i, s := range list {
				state := "enabled"
				switch {
				case !s.Enabled:
					state = "off"
				case s.Active:
					state = "active"
				}
				rows[i] = []string{s.Name, s.Scope, state, s.Path, clip(s.Description, 100)}
			}
			return a.table([]string{"NAME", "SCOPE", "STATE", "PATH", "DESCRIPTION"}, rows)
		},
	}
	cmd.Flags().StringVar(&file, "config", "", "configuration file, when no node is running")
	return cmd
}

func (a *App) listSkills(ctx context.Context, file string) (list []skillJSON, problems []string, err error) {
	list = []skillJSON{}
	client, conn, err := a.dial()
	if err == nil {
		defer conn.Close()
		reply, err := client.Skills(ctx, &symbiov1.SkillsRequest{})
		for _, s := range reply.GetSkills() {
			list = append(list, skillJSON{s.GetId(), s.GetName(), s.GetDescription(), s.GetPath(), s.GetScope(), s.GetEnabled(), s.GetActive()})
		}
		return list, reply.GetErrors(), err
	}
	if !errors.Is(err, errNoNode) {
		return nil, nil, err
	}
	cfg, err := a.skillsConfig(file)
	if err != nil {
		return nil, nil, err
	}
	catalog, err := skills.Scan(ctx, cfg)
	for _, s := range catalog.Skills {
		list = append(list, skillJSON{s.ID, s.Name, s.Description, s.Path, string(s.Scope), s.Exposure != skills.Off, false})
	}
	for _, p := range catalog.Errors {
		problems = append(problems, p.Path+": "+p.Message())
	}
	return list, problems, err
}

// skillsConfig says where the skills of a node that is started here would be.
func (a *App) skillsConfig(file string) (skills.Config, error) {
	c, _, err := a.loadConfig(file)
	if err != nil {
		return skills.Config{}, err
	}
	opts, err := a.nodeOptions(c)
	if err != nil {
		return skills.Config{}, err
	}
	return node.SkillsConfig(opts), nil
}

func (a *App) cmdSkillsShow() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:     "show NAME",
		Short:   "What a skill says, and what an agent that activates it is granted",
		Example: "  symbio skills show survey-directory",
		Args:    exactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := a.skillsConfig(file)
			if err != nil {
				return err
			}
			activation, err := activate(cmd.Context(), cfg, skillArg(args[0]))
			if errors.Is(err, skills.ErrNotFound) {
				return notFound(err)
			}
			if err != nil {
				return err
			}
			return a.printSkill(activation)
		},
	}
	cmd.Flags().StringVar(&file, "config", "", "configuration file")
	return cmd
}

// activate takes a skill as an agent would, from a registry of its own.
func activate(ctx context.Context, cfg skills.Config, name string) (_ skills.Activation, err error) {
	system := actor.NewSystem(actor.Config{})
	defer func() { err = errors.Join(err, system.Shutdown(ctx)) }()
	registry, err := skills.NewRegistry(system, cfg)
	if err != nil {
		return skills.Activation{}, err
	}
	return registry.Activate(ctx, "show", name)
}

func (a *App) printSkill(s skills.Activation) error {
	known, from := a.stateOf(s)
	if a.json {
		return a.printJSON(struct {
			skills.Skill
			Instructions string            `json:"instructions"`
			Hash         string            `json:"hash"`
			Granted      []string          `json:"granted"`
			Withheld     []skills.Withheld `json:"withheld"`
			Trust        trust.State       `json:"trust"`
			Node         string            `json:"node,omitempty"`      // where a fetched skill came from
			Tree         string            `json:"tree_hash,omitempty"` // its hash, of all files
		}{s.Skill, s.Instructions, s.Hash, s.Granted, s.Withheld, known, from.Node, from.Hash})
	}
	fmt.Fprintf(a.Out, "name         %s\ndescription  %s\nscope        %s\npath         %s\nsha256       %s\ntrust        %s\ngrants       %s\n",
		printable(s.Skill.Name), printable(s.Skill.Description), s.Skill.Scope, printable(s.Skill.Path), s.Hash, trustLine(known, from), printable(strings.Join(s.Granted, " ")))
	for _, w := range s.Withheld {
		fmt.Fprintf(a.Out, "withheld     %s: %s\n", printable(w.Rule), printable(w.Why))
	}
	fmt.Fprintln(a.Out)
	return a.printAnswer([]byte(s.Instructions))
}
