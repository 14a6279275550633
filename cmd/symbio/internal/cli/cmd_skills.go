package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"symbio/cmd/symbio/internal/config"
	"symbio/cmd/symbio/internal/node"
	symbiov1 "symbio/proto/symbio/v1"
	"symbio/skills"
	"symbio/skills/choice"
)

func (a *App) cmdSkills() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "skills",
		Short: "The skills that agents can take",
		Long: `The skills that agents can take. On a terminal, without a command: all of them, to look through and to
switch on and off.`,
		Example: `  symbio skills                              # on a terminal: look through them, switch them on and off
  symbio skills list
  symbio skills search "write a changelog"
  symbio skills show survey-directory
  symbio skills disable deploy
  symbio skills validate .agents/skills`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if a.canPick() {
				return a.pickSkills(cmd.Context(), "")
			}
			return cmd.Help()
		},
	}
	cmd.AddCommand(a.cmdSkillsList(), a.cmdSkillsSearch(), a.cmdSkillsShow(), a.cmdSkillsPrompt(), a.cmdSkillsValidate(),
		a.cmdSkillsEnable(), a.cmdSkillsDisable(), a.cmdSkillsTrust(), a.cmdSkillsFetch())
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
	OffBy       string `json:"off_by,omitempty"` // what switched it off
}

// is says whether an argument means the skill: its name, its path, or its directory.
func (s skillJSON) is(arg string) bool {
	return arg == s.Name || s.at(arg)
}

func (s skillJSON) at(path string) bool {
	return path == s.Path || path+string(filepath.Separator)+"SKILL.md" == s.Path
}

func (a *App) cmdSkillsList() *cobra.Command {
	var file, dir string
	var reload bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the skills of the running node, or of this directory when none is running",
		Long: `List the skills of the running node, or of this directory when none is running. The state is enabled,
active (an agent has it now) or off; the last column says what switched a skill off. What was left out, and
why, is on standard error; symbio skills validate says all of it.`,
		Example: `  symbio skills list
  symbio skills list --json
  symbio skills list --dir ~/src/shop        # as a node there would have them
  symbio skills list --reload                # have the node look at the disk again`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			all, err := a.listSkills(cmd.Context(), skillQuery{file: file, dir: dir, reload: reload})
			if err != nil {
				return err
			}
			a.printLeftOut(all)
			if a.json {
				return a.printJSON(all.skills)
			}
			rows := make([][]string, len(all.skills))
			for i, s := range all.skills {
				state := "enabled"
				switch {
				case !s.Enabled:
					state = "off"
				case s.Active:
					state = "active"
				}
				rows[i] = []string{s.Name, s.Scope, state, s.Path, clip(s.Description, 100), s.OffBy}
			}
			return a.table([]string{"NAME", "SCOPE", "STATE", "PATH", "DESCRIPTION", "OFF BY"}, rows)
		},
	}
	cmd.Flags().StringVar(&file, "config", "", "configuration file, when no node is running")
	cmd.Flags().StringVar(&dir, "dir", "", "list the skills of this directory, whatever is running")
	cmd.Flags().BoolVar(&reload, "reload", false, "have the running node look for skills again first")
	return cmd
}

func (a *App) printLeftOut(all skillList) {
	if all.disabled {
		fmt.Fprintln(a.Err, "note: skills are switched off as a whole: skills.enabled is false, from", printable(all.from))
	}
	for i, p := range all.problems {
		if more := len(all.problems) - i; i == mostLeftOut && more > 1 && a.ErrIsTerminal {
			fmt.Fprintf(a.Err, "left out: %d more; symbio skills validate says why\n", more)
			return
		}
		fmt.Fprintln(a.Err, "left out:", printable(p))
	}
}

// mostLeftOut is how many reasons a person is shown before what they have asked for.
const mostLeftOut = 5

// completeSkills offers the names of skills to a shell; paths it completes itself.
func (a *App) completeSkills(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
	all, err := a.listSkills(cmd.Context(), skillQuery{})
	if err != nil {
		return nil, cobra.ShellCompDirectiveDefault
	}
	var names []cobra.Completion
	for _, s := range all.skills {
		if strings.HasPrefix(s.Name, begun) && !slices.Contains(args, s.Name) {
			names = append(names, cobra.CompletionWithDesc(s.Name, clip(s.Description, 80)))
		}
	}
	return names, cobra.ShellCompDirectiveDefault
}

// skillQuery says which skills are meant.
type skillQuery struct {
	file   string // configuration, when no node is running
	dir    string // of that directory, whatever is running; "" = of the node, else of this directory
	reload bool
}

// skillList are skills of a node, or of a directory.
type skillList struct {
	skills   []skillJSON
	problems []string
	disabled bool   // the configuration has no skills at all
	from     string // where it says so
}

func (a *App) listSkills(ctx context.Context, q skillQuery) (all skillList, err error) {
	if q.dir == "" {
		all, err = a.nodeSkills(ctx, q.reload)
		if !errors.Is(err, errNoNode) {
			return all, err
		}
	}
	here, err := a.skillsOf(q.file, q.dir)
	if err != nil {
		return all, err
	}
	all.skills, all.disabled, all.from = []skillJSON{}, !here.opts.Config.Skills.Enabled, here.from.Of("skills.enabled")
	catalog, err := skills.Scan(ctx, here.cfg)
	for _, s := range catalog.Skills {
		one := skillJSON{s.ID, s.Name, s.Description, s.Path, string(s.Scope), s.Exposure != skills.Off, false, ""}
		if !one.Enabled {
			one.OffBy = here.offBy(s)
		}
		all.skills = append(all.skills, one)
	}
	for _, p := range catalog.Errors {
		all.problems = append(all.problems, p.Path+": "+p.Message())
	}
	return all, err
}

// nodeSkills asks the running node. errNoNode: there is none.
func (a *App) nodeSkills(ctx context.Context, reload bool) (all skillList, err error) {
	client, conn, err := a.dial()
	if err != nil {
		return all, err
	}
	defer conn.Close()
	off, err := a.switchedOff()
	if err != nil {
		return all, err
	}
	reply, err := client.Skills(ctx, &symbiov1.SkillsRequest{Rescan: reload})
	all.skills, all.problems = []skillJSON{}, reply.GetErrors()
	for _, s := range reply.GetSkills() {
		one := skillJSON{s.GetId(), s.GetName(), s.GetDescription(), s.GetPath(), s.GetScope(), s.GetEnabled(), s.GetActive(), ""}
		if !one.Enabled {
			one.OffBy = by(off, one)
			if one.OffBy == "" {
				one.OffBy = "the node's configuration"
			}
		}
		all.skills = append(all.skills, one)
	}
	return all, err
}

// switchedOff lists what `symbio skills disable` has switched off. What cannot be read is mentioned.
func (a *App) switchedOff() ([]choice.Off, error) {
	state, err := a.state()
	if err != nil {
		return nil, err
	}
	off, err := state.SkillsOff().All()
	if err != nil {
		fmt.Fprintln(a.Err, "note:", printable(err.Error()))
	}
	return off, nil
}

// by says which of the choices switches a skill off; "" when none does.
func by(off []choice.Off, s skillJSON) string {
	for _, o := range off {
		if s.is(o.Skill) {
			return "symbio skills disable, " + o.Time.Local().Format(time.DateOnly)
		}
	}
	return ""
}

// skillsHere is what a node that is started here knows of skills.
type skillsHere struct {
	opts node.Options
	from config.Origins
	cfg  skills.Config
	off  []choice.Off
}

// skillsOf says where the skills of a node would be that is started in dir; "" = here.
func (a *App) skillsOf(file, dir string) (h skillsHere, err error) {
	c, from, err := a.loadConfig(file)
	if err != nil {
		return h, err
	}
	opts, err := a.nodeOptions(c)
	if err != nil {
		return h, err
	}
	off, err := a.switchedOff()
	if err != nil {
		return h, err
	}
	h = skillsHere{opts, from, node.SkillsConfig(opts), off}
	if dir != "" && h.cfg.RootsFor != nil {
		if dir, err = existingDir(dir); err != nil {
			return h, err
		}
		h.cfg.Roots = h.cfg.RootsFor(dir)
	}
	return h, nil
}

// skillsConfig says where the skills of a node that is started here would be.
func (a *App) skillsConfig(file string) (skills.Config, error) {
	h, err := a.skillsOf(file, "")
	return h.cfg, err
}

// offBy says what has switched a skill off.
func (h skillsHere) offBy(s skills.Skill) string {
	one := skillJSON{Name: s.Name, Path: s.Path}
	if who := by(h.off, one); who != "" {
		return who
	}
	use := h.opts.Config.Skills
	if i := slices.IndexFunc(use.Disabled, one.is); i >= 0 {
		return "skills.disabled, " + h.from.Of("skills.disabled."+strconv.Itoa(i))
	}
	for key, e := range use.Overrides {
		if one.is(key) && e == skills.Off {
			return "skills.overrides, " + h.from.Of("skills.overrides."+key)
		}
	}
	return "the configuration"
}

// existingDir is a directory's absolute path.
func existingDir(dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	info, err := os.Stat(abs)
	if err != nil {
		return "", notFound(fmt.Errorf("the directory %s cannot be looked at: %w", printable(dir), err))
	}
	if !info.IsDir() {
		return "", usage(fmt.Errorf("%s is not a directory", printable(dir)))
	}
	return abs, nil
}
