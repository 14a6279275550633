package skillcmd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"symbio/cmd/symbio/internal/command"
	"symbio/cmd/symbio/internal/terminal"
	"symbio/cmd/symbio/internal/tui"
	"symbio/internal/security/visible"
	"symbio/internal/skills/choice"
	symbiov1 "symbio/proto/symbio/v1"
)

// cmdSkillsSwitch returns the command skills enable (on is true) or skills disable.
func cmdSkillsSwitch(env *command.Env, name string, on bool) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:               name + " [NAME|PATH...]",
		ValidArgsFunction: CompleteSkills(env),
		RunE:              func(cmd *cobra.Command, args []string) error { return switchSkills(cmd.Context(), env, file, args, on) },
	}
	cmd.Flags().StringVar(&file, "config", "", "configuration `FILE` to use instead of asking a running node")
	return cmd
}

// switchSkills switches the skills of args on or off, or opens the list when there are none and a
// person is there.
//
// Its errors have exit status 4 for a skill that is not here, 2 for an argument that would have no
// effect, and 1 for a skill that stays off by a configuration.
func switchSkills(ctx context.Context, env *command.Env, file string, args []string, on bool) error {
	if len(args) == 0 {
		if !canPick(env) {
			// A script must name the skills: it cannot choose from a list.
			return command.Usage(errors.New("name a skill by its name or path; `symbio skills list` shows those here"))
		}
		return pickSkills(ctx, env, file)
	}
	all, err := listSkills(ctx, env, skillQuery{file: file})
	if err != nil {
		return err
	}
	s := newSwitch(env, all)
	// All arguments are checked before anything is written, so that a mistake changes nothing.
	for _, arg := range args {
		if err := s.check(skillArg(arg), on); err != nil {
			return err
		}
	}
	// A failure of the disk can still leave some skills switched and others not.
	for _, arg := range args {
		if err := s.set(skillArg(arg), on); err != nil {
			return err
		}
	}
	return reportSwitched(ctx, env, file, s.wanted)
}

// skillSwitch is a choice.Switch that notes the skills that it has switched.
type skillSwitch struct {
	choice.Switch[*symbiov1.Skill]
	// wanted has the skills that were switched, by path, and whether on.
	wanted map[string]bool
}

// newSwitch returns a skillSwitch for the skills in all. It reads the book once.
func newSwitch(env *command.Env, all skillList) *skillSwitch {
	return &skillSwitch{choice.Switch[*symbiov1.Skill]{Book: env.State().SkillsOff(), Off: switchedOff(env), All: all.GetSkills()}, map[string]bool{}}
}

// check returns an error if set would have no effect: there is no such skill, or it is off by its
// name and was named by its path. It writes nothing. arg is a result of skillArg.
func (s *skillSwitch) check(arg string, on bool) error {
	found := s.Matching(arg)
	// A choice can outlive its skill. It can be undone without the skill, else it would stay in the
	// book for good.
	if len(found) == 0 && !(on && s.IsOff(arg)) {
		names := command.Map(s.All, (*symbiov1.Skill).GetName)
		return command.NotFound(fmt.Errorf("no skill %q here%s; `symbio skills list` shows the skills here", terminal.Printable(arg), terminal.Printable(visible.Suggest(arg, names))))
	}
	if on && len(found) == 1 && arg != found[0].GetName() && s.IsOff(found[0].GetName()) {
		return command.Usage(fmt.Errorf("%s is off by its name, which holds for every skill of that name\nSwitch them all on with: symbio skills enable %s", terminal.Printable(found[0].GetName()), terminal.Printable(found[0].GetName())))
	}
	return nil
}

// set switches the skills that an argument names on or off. arg is a result of skillArg.
func (s *skillSwitch) set(arg string, on bool) error {
	for _, k := range s.Matching(arg) {
		s.wanted[k.GetPath()] = on
	}
	return s.Set(arg, on)
}

// reportSwitched makes the running nodes take the change up and prints the new states. A skill that
// stays off is an error that says why. wanted is the field of a skillSwitch.
func reportSwitched(ctx context.Context, env *command.Env, file string, wanted map[string]bool) error {
	// The nodes scan before the list is read, so that it shows their new state.
	nodes := rescan(ctx, env)
	all, err := listSkills(ctx, env, skillQuery{file: file})
	if err != nil {
		return err
	}
	now := []*symbiov1.Skill{}
	var still []string
	for _, s := range all.GetSkills() {
		// A skill that is gone from the disk meanwhile is not reported.
		on, touched := wanted[s.GetPath()]
		if !touched {
			continue
		}
		now = append(now, s)
		if on && !s.GetEnabled() {
			still = append(still, fmt.Sprintf("%s is still off: %s", terminal.Printable(s.GetPath()), terminal.Printable(s.GetOffBy())))
		}
	}
	if env.JSON {
		err = env.PrintJSON(struct {
			Skills []*symbiov1.Skill `json:"skills"`
			Nodes  []string          `json:"nodes"`
		}{now, append([]string{}, nodes...)})
	} else {
		err = printSwitched(env, now, nodes)
	}
	if len(still) > 0 {
		err = errors.Join(err, errors.New(strings.Join(still, "\n")))
	}
	return err
}

// printSwitched prints the new state of each skill, and which nodes have taken it up. The nodes are
// named on standard error; a script gets them with --json.
func printSwitched(env *command.Env, now []*symbiov1.Skill, nodes []string) error {
	for _, s := range now {
		state := "on"
		if !s.GetEnabled() {
			state = "off"
		}
		if err := env.Printf("%s\t%s\t%s\n", state, s.GetName(), s.GetPath()); err != nil {
			return err
		}
	}
	switch len(nodes) {
	case 0:
	case 1:
		env.Notef("node %s follows", nodes[0])
	default:
		env.Notef("nodes %s follow", strings.Join(nodes, ", "))
	}
	return nil
}

// canPick reports whether a person is there to choose from a list: input and output are a terminal
// with raw mode. A dumb terminal cannot move its cursor, so it gets no list.
func canPick(env *command.Env) bool {
	_, ok := env.In.(*os.File)
	return ok && !env.JSON && env.InIsTerminal && env.OutIsTerminal && env.Getenv("TERM") != "dumb"
}

// pickSkills lets a person look through the skills and switch them on and off. Nothing is written
// before the list is confirmed. It blocks until the person confirms or leaves.
func pickSkills(ctx context.Context, env *command.Env, file string) error {
	all, err := listSkills(ctx, env, skillQuery{file: file})
	if err != nil {
		return err
	}
	printLeftOut(env, all)
	if len(all.GetSkills()) == 0 {
		env.Notef("There are no skills here. A skill is a directory with a SKILL.md, in .agents/skills or ~/.agents/skills.")
		return nil
	}
	s := newSwitch(env, all)
	p := s.picker()
	in, _ := env.In.(*os.File) // canPick has seen that it is one
	// The list is drawn on the alternate screen and the terminal is restored before Show returns,
	// so the report below is printed as usual.
	keep, err := p.Show(ctx, in, env.Out, env.Getenv("NO_COLOR") == "")
	if err != nil {
		return err
	}
	// Leaving the list with Escape changes nothing.
	if !keep || p.Changed() == 0 {
		return env.Printf("Nothing changed.\n")
	}
	for i, r := range p.Rows {
		if r.On == r.WasOn {
			continue
		}
		// The rows are in the order of the skills; picker adds one for each.
		if err := s.set(all.GetSkills()[i].GetPath(), r.On); err != nil {
			return err
		}
	}
	return reportSwitched(ctx, env, file, s.wanted)
}

// picker returns the list. A skill that a configuration or a choice by name keeps off is locked:
// switching it on would change more than the selected row. A skill that is on is never locked.
func (s *skillSwitch) picker() *tui.Picker {
	p := &tui.Picker{}
	for _, k := range s.All {
		row := tui.PickerRow{Name: k.GetName(), Scope: k.GetScope(), Text: visible.TruncateRunes(k.GetDescription(), 200), On: k.GetEnabled(), WasOn: k.GetEnabled()}
		switch {
		case k.GetEnabled():
		case s.IsOff(k.GetName()) && len(s.Matching(k.GetName())) > 1:
			row.Locked = "by its name, with others: symbio skills enable " + k.GetName()
		case disabledBy(s.Off, k) == "":
			row.Locked = k.GetOffBy()
		}
		p.Rows = append(p.Rows, row)
	}
	return p
}
