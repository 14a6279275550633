package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"symbio/skills/choice"
)

func (a *App) cmdSkillsDisable() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "disable [NAME|PATH...]",
		Short: "Switch skills off, for all of your nodes",
		Long: `Switch skills off: no agent is shown them, none takes them, and those that have them lose them and what they
grant. A name holds wherever a skill of that name lies, a path for that one alone. It is kept in your own state
directory, never in a project, and running nodes take it up at once.

Without a name, on a terminal: choose from a list.`,
		Example: `  symbio skills disable deploy
  symbio skills disable .agents/skills/deploy
  symbio skills disable                       # on a terminal: choose`,
		ValidArgsFunction: a.completeSkills,
		RunE:              func(cmd *cobra.Command, args []string) error { return a.switchSkills(cmd.Context(), file, args, false) },
	}
	cmd.Flags().StringVar(&file, "config", "", "configuration file, when no node is running")
	return cmd
}

func (a *App) cmdSkillsEnable() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "enable [NAME|PATH...]",
		Short: "Switch skills on again",
		Long: `Take back what symbio skills disable has done. What a configuration has switched off stays off: the error says
where. Running nodes take it up at once.

Without a name, on a terminal: choose from a list.`,
		Example: `  symbio skills enable deploy
  symbio skills enable                        # on a terminal: choose`,
		ValidArgsFunction: a.completeSkills,
		RunE:              func(cmd *cobra.Command, args []string) error { return a.switchSkills(cmd.Context(), file, args, true) },
	}
	cmd.Flags().StringVar(&file, "config", "", "configuration file, when no node is running")
	return cmd
}

func (a *App) switchSkills(ctx context.Context, file string, args []string, on bool) error {
	if len(args) == 0 {
		if !a.canPick() {
			return usage(errors.New("which skill? Give its name or its path; `symbio skills list` shows those here"))
		}
		return a.pickSkills(ctx, file)
	}
	all, err := a.listSkills(ctx, skillQuery{file: file})
	if err != nil {
		return err
	}
	s, err := a.newSwitch(all)
	if err != nil {
		return err
	}
	for _, arg := range args { // all of them, before anything is changed
		if err := s.check(skillArg(arg), on); err != nil {
			return err
		}
	}
	for _, arg := range args {
		if err := s.flip(skillArg(arg), on); err != nil {
			return err
		}
	}
	return a.reportSwitched(ctx, file, s.wanted)
}

// skillSwitch writes what a person chooses of the skills that they see.
type skillSwitch struct {
	book   choice.Book
	off    []choice.Off
	all    []skillJSON
	wanted map[string]bool // what was switched, by path, and whether on
}

func (a *App) newSwitch(all skillList) (*skillSwitch, error) {
	state, err := a.state()
	if err != nil {
		return nil, err
	}
	off, err := a.switchedOff()
	return &skillSwitch{book: state.SkillsOff(), off: off, all: all.skills, wanted: map[string]bool{}}, err
}

func (s *skillSwitch) chosen(key string) bool {
	return slices.ContainsFunc(s.off, func(o choice.Off) bool { return o.Skill == key })
}

// meant are the skills that an argument names.
func (s *skillSwitch) meant(arg string) (found []skillJSON) {
	for _, k := range s.all {
		if k.is(arg) {
			found = append(found, k)
		}
	}
	return found
}

func (s *skillSwitch) check(arg string, on bool) error {
	found := s.meant(arg)
	if len(found) == 0 && !(on && s.chosen(arg)) {
		return notFound(fmt.Errorf("there is no skill %q here; `symbio skills list` shows those that are", printable(arg)))
	}
	if on && len(found) == 1 && arg != found[0].Name && s.chosen(found[0].Name) {
		return usage(fmt.Errorf("%s is off by its name, which holds for every skill of that name\nSwitch them all on with: symbio skills enable %s", printable(arg), printable(found[0].Name)))
	}
	return nil
}

// flip switches the skills that an argument names on or off.
func (s *skillSwitch) flip(arg string, on bool) error {
	found := s.meant(arg)
	for _, k := range found {
		s.wanted[k.Path] = on
	}
	if !on {
		if len(found) == 1 && arg != found[0].Name {
			arg = found[0].Path
		}
		return s.book.Disable(arg)
	}
	keys := []string{arg}
	for _, k := range found {
		keys = append(keys, k.Path)
		if len(s.meant(k.Name)) == 1 { // from the list, where the row is all that there is of the name
			keys = append(keys, k.Name)
		}
	}
	for _, key := range keys {
		if err := s.book.Enable(key); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("switch %s on: %w", printable(key), err)
		}
	}
	return nil
}

// reportSwitched has the running nodes take a change up, and says what has come of it.
func (a *App) reportSwitched(ctx context.Context, file string, wanted map[string]bool) error {
	nodes := a.rescan(ctx)
	all, err := a.listSkills(ctx, skillQuery{file: file})
	if err != nil {
		return err
	}
	now := []skillJSON{}
	var still []string
	for _, s := range all.skills {
		on, touched := wanted[s.Path]
		if !touched {
			continue
		}
		now = append(now, s)
		if on && !s.Enabled {
			still = append(still, fmt.Sprintf("%s is still off: %s", printable(s.Path), printable(s.OffBy)))
		}
	}
	if a.json {
		err = a.printJSON(struct {
			Skills []skillJSON `json:"skills"`
			Nodes  []string    `json:"nodes"`
		}{now, append([]string{}, nodes...)})
	} else {
		err = a.printSwitched(now, nodes)
	}
	if len(still) > 0 {
		err = errors.Join(err, errors.New(strings.Join(still, "\n")))
	}
	return err
}

func (a *App) printSwitched(now []skillJSON, nodes []string) error {
	for _, s := range now {
		state := "on"
		if !s.Enabled {
			state = "off"
		}
		if _, err := fmt.Fprintf(a.Out, "%s\t%s\t%s\n", state, printable(s.Name), printable(s.Path)); err != nil {
			return err
		}
	}
	switch len(nodes) {
	case 0:
	case 1:
		fmt.Fprintf(a.Err, "node %s has taken it up\n", nodes[0])
	default:
		fmt.Fprintf(a.Err, "nodes %s have taken it up\n", strings.Join(nodes, ", "))
	}
	return nil
}
