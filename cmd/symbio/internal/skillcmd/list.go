package skillcmd

import (
	"cmp"
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

	"symbio/agent/node"
	"symbio/agent/node/config"
	"symbio/cmd/symbio/internal/command"
	"symbio/cmd/symbio/internal/terminal"
	"symbio/internal/security/visible"
	"symbio/internal/skills/choice"
	"symbio/internal/skills/trust"
	symbiov1 "symbio/proto/symbio/v1"
	"symbio/skills"
)

// New returns the command `symbio skills` with all commands below it. On a terminal it opens the
// list in which skills are switched on and off.
//
// --node is a flag of those commands only that ask a running node. show, validate and trust read
// the disk.
func New(env *command.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:  "skills",
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if canPick(env) {
				return pickSkills(cmd.Context(), env, "")
			}
			return command.RequireSubcommand(cmd, nil)
		},
	}
	cmd.AddCommand(command.NodeFlag(env, cmdSkillsList(env), cmdSkillsSearch(env), cmdSkillsSwitch(env, "enable", true),
		cmdSkillsSwitch(env, "disable", false), cmdSkillsPrompt(env), cmdSkillsStats(env), cmdSkillsFetch(env))...)
	cmd.AddCommand(cmdSkillsShow(env), cmdSkillsNew(env), cmdSkillsValidate(env), cmdSkillsTest(env), cmdSkillsTrust(env))
	cmd.AddCommand(cmdSkillsInstall(env)...)
	return cmd
}

// cmdSkillsList returns the command skills list. Skills that cannot be used do not fail the
// command; they are on standard error and in the field errors of the JSON.
func cmdSkillsList(env *command.Env) *cobra.Command {
	var file, dir string
	var reload, nodes bool
	cmd := &cobra.Command{
		Use:  "list",
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if nodes {
				return listAllNodes(cmd.Context(), env)
			}
			all, err := listSkills(cmd.Context(), env, skillQuery{file: file, dir: dir, reload: reload})
			if err != nil {
				return err
			}
			printLeftOut(env, all)
			// Skills and errors are [] and not null when there are none. The JSON names are a
			// contract.
			if env.JSON {
				return env.PrintJSON(struct {
					Skills    []*symbiov1.Skill        `json:"skills"`
					Errors    []*symbiov1.SkillProblem `json:"errors"`
					Notes     []*symbiov1.SkillProblem `json:"notes,omitempty"`
					Truncated bool                     `json:"truncated"`
				}{append([]*symbiov1.Skill{}, all.GetSkills()...), append([]*symbiov1.SkillProblem{}, all.GetErrors()...), all.GetNotes(), all.GetTruncated()})
			}
			return command.PrintList(env, all.GetSkills(), []string{"NAME", "SCOPE", "STATE", "PATH", "DESCRIPTION", "OFF BY"}, skillRow)
		},
	}
	cmd.Flags().StringVar(&file, "config", "", "configuration `FILE` to use instead of asking a running node")
	cmd.Flags().StringVar(&dir, "dir", "", "list the skills of `DIR` instead of asking a running node")
	cmd.Flags().BoolVar(&reload, "reload", false, "make the running node look for skills again first")
	cmd.Flags().BoolVar(&nodes, "all-nodes", false, "list those of the running node, and those that the nodes connected to it share")
	for _, other := range []string{"config", "dir", "reload"} {
		cmd.MarkFlagsMutuallyExclusive("all-nodes", other)
	}
	return cmd
}

// skillRow returns the columns of one skill. Its state is off, active (an agent has it now) or
// enabled. Descriptions are cut to 100 characters, because they may have 1024 by the specification;
// --json has all of it.
func skillRow(s *symbiov1.Skill) []string {
	state := "enabled"
	switch {
	case !s.GetEnabled():
		state = "off"
	case s.GetActive():
		state = "active"
	}
	return []string{s.GetName(), s.GetScope(), state, s.GetPath(), visible.TruncateRunes(s.GetDescription(), 100), s.GetOffBy()}
}

// printLeftOut prints on standard error which skills were left out and why, and other notes. On a
// terminal at most maxLeftOut are shown. A file or a pipe gets all of them. The last one is shown
// even if it is one too many, because a line that counts it would be as long.
func printLeftOut(env *command.Env, all skillList) {
	// from contains a path, which is made safe to print.
	if all.disabled {
		fmt.Fprintln(env.Err, "note: all skills are switched off: skills.enabled is false in", terminal.Printable(all.from))
	}
	for i, p := range all.GetErrors() {
		if more := len(all.GetErrors()) - i; i == maxLeftOut && more > 1 && env.ErrIsTerminal {
			env.Notef("left out: %d more; symbio skills validate says why", more)
			break
		}
		env.Notef("left out: %s", p.GetPath()+": "+p.GetMessage())
	}
	for _, p := range all.GetNotes() {
		env.Notef("note: %s", p.GetPath()+": "+p.GetMessage())
	}
}

// maxLeftOut is how many problems a person is shown before the list that they asked for.
const maxLeftOut = 5

// CompleteSkills returns a function that completes the names of skills in a shell. The shell itself
// completes paths. It stays silent on errors. It runs at each press of Tab, so it asks the running
// node if there is one and scans the disk only otherwise. Names that are on the line already are
// left out.
func CompleteSkills(env *command.Env) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begun string) (names []cobra.Completion, _ cobra.ShellCompDirective) {
		all, err := listSkills(cmd.Context(), env, skillQuery{})
		if err != nil {
			return nil, cobra.ShellCompDirectiveDefault
		}
		for _, s := range all.GetSkills() {
			if strings.HasPrefix(s.GetName(), begun) && !slices.Contains(args, s.GetName()) {
				names = append(names, cobra.CompletionWithDesc(s.GetName(), visible.TruncateRunes(s.GetDescription(), 80)))
			}
		}
		return names, cobra.ShellCompDirectiveDefault
	}
}

// skillQuery says which skills to list. The zero value asks the running node of this directory.
// file and dir cannot be combined with --node or reload.
type skillQuery struct {
	// file is a configuration file; it excludes asking a running node.
	file string
	// dir is a directory whose skills are scanned; it excludes asking a running node. "" means the
	// current one.
	dir string
	// reload makes the running node scan again first.
	reload bool
}

// skillList is a list of skills, and whether the configuration switches all of them off. The reply
// comes from a node, or has the same form after a scan of the disk.
type skillList struct {
	*symbiov1.SkillsReply
	// disabled: skills.enabled is false. It is set only after a scan: a node does not report it.
	disabled bool
	// from is where the configuration says so. It is FILE:LINE, or "default".
	from string
}

// listSkills returns the skills of the running node of this directory. Without one, or when the
// query names a file or a directory, it scans the disk as a node started here would.
//
// The error is a usage error when the flags contradict each other, ErrNoNode or ErrOtherWorkspace
// when --reload finds no node, and else the error of the node or of the scan. It blocks while the disk
// is scanned.
func listSkills(ctx context.Context, env *command.Env, q skillQuery) (all skillList, err error) {
	// --node names a running node, which has its own configuration and directory.
	offline := q.dir != "" || q.file != ""
	if offline && (env.Node != "" || q.reload) {
		return all, command.Usage(errors.New("--node and --reload ask a running node, on which --config and --dir have no effect; leave out one or the other"))
	}
	if !offline {
		all, err = nodeSkills(ctx, env, q.reload)
		// Without a node the disk is scanned, which is a reload in itself, except if --reload asked
		// for a node.
		if q.reload || !errors.Is(err, command.ErrNoNode) && !errors.Is(err, command.ErrOtherWorkspace) {
			return all, err
		}
	}
	here, err := loadSkills(env, q.file, q.dir)
	if err != nil {
		return all, err
	}
	catalog, err := skills.Scan(ctx, here.cfg)
	all = skillList{withOffBy(here.opts.Skills().Reply(catalog, nil), here.offBy), !here.opts.Settings.Skills.Enabled, here.from.Of("skills.enabled")}
	return all, err
}

// withOffBy sets for each skill that is off what switched it off. It changes r and returns it. The
// node does not fill in OffBy, because the choices and the origins of the configuration are read by
// the command line.
func withOffBy(r *symbiov1.SkillsReply, offBy func(*symbiov1.Skill) string) *symbiov1.SkillsReply {
	for _, s := range r.GetSkills() {
		if !s.GetEnabled() {
			s.OffBy = new(offBy(s))
		}
	}
	return r
}

// nodeSkills asks the running node of this directory, or the node of --node. It returns ErrNoNode or
// ErrOtherWorkspace when there is none.
func nodeSkills(ctx context.Context, env *command.Env, reload bool) (all skillList, err error) {
	client, conn, err := env.Nodes().DialWorkspace(ctx)
	if err != nil {
		return all, err
	}
	defer conn.Close()
	off := switchedOff(env)
	reply, err := client.Skills(ctx, &symbiov1.SkillsRequest{Rescan: reload})
	all.SkillsReply = withOffBy(reply, func(s *symbiov1.Skill) string { return cmp.Or(disabledBy(off, s), "the node's configuration") })
	return all, err
}

// switchedOff returns what `symbio skills disable` has switched off. Unreadable entries are noted
// and left out.
func switchedOff(env *command.Env) []choice.Choice {
	off, err := env.State().SkillsOff().All()
	if err != nil {
		env.Notef("note: %s", err.Error())
	}
	return off
}

// disabledBy returns which choice switches a skill off; "" if none does. The text has the local
// date on which the choice was made.
func disabledBy(off []choice.Choice, s *symbiov1.Skill) string {
	for _, o := range off {
		if choice.Matches(s, o.Skill) {
			return "symbio skills disable, " + o.Time.Local().Format(time.DateOnly)
		}
	}
	return ""
}

// localSkills is what a node that is started here would know of skills.
type localSkills struct {
	// opts is the configuration of the node, from has the origin of each value. from is needed to
	// say which file or flag switches a skill off.
	opts node.Config
	from config.Origins
	// cfg says where skills are searched. It is the zero value when skills.enabled is false, and
	// then no skill is found.
	cfg skills.Config
	// off are the choices of the user. They hold in every directory.
	off []choice.Choice
}

// loadSkills returns what a node with the configuration file would know of the skills of dir; "" is
// the current directory. It scans nothing yet. It returns an error for a configuration that cannot
// be read, and for a dir that does not exist.
func loadSkills(env *command.Env, file, dir string) (h localSkills, err error) {
	c, from, err := env.LoadConfig(file)
	if err != nil {
		return h, err
	}
	opts, err := env.NodeOptions(c)
	if err != nil {
		return h, err
	}
	// The configuration stays this directory's; only the workspace is another one.
	there := opts
	if dir != "" && opts.Settings.Skills.Enabled {
		if there.Settings.Workspace, err = existingDir(dir); err != nil {
			return h, err
		}
	}
	return localSkills{opts, from, there.Skills().Registry(), switchedOff(env)}, nil
}

// offBy returns what switches a skill off: a choice of the user, or a key of the configuration with
// its origin. The first reason found is returned. A skill can have several, and switching it on
// then takes more than one step.
func (h localSkills) offBy(one *symbiov1.Skill) string {
	if choice := disabledBy(h.off, one); choice != "" {
		return choice
	}
	use := h.opts.Settings.Skills
	if i := slices.IndexFunc(use.Disabled, func(arg string) bool { return choice.Matches(one, arg) }); i >= 0 {
		return "skills.disabled, " + h.from.Of("skills.disabled."+strconv.Itoa(i))
	}
	for key, e := range use.Overrides {
		if choice.Matches(one, key) && e == skills.Off {
			return "skills.overrides, " + h.from.Of("skills.overrides."+key)
		}
	}
	// The skill is off by a key that names no single skill.
	return "the configuration"
}

// existingDir returns the absolute path of a directory. A missing one has exit status 4, a file
// exit status 2. Symbolic links are kept.
func existingDir(dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	info, err := os.Stat(abs)
	if err != nil {
		return "", command.NotFound(fmt.Errorf("read the directory %s: %w", terminal.Printable(dir), err))
	}
	if !info.IsDir() {
		return "", command.Usage(fmt.Errorf("%s is not a directory", terminal.Printable(dir)))
	}
	return abs, nil
}

// cmdSkillsShow returns the command skills show. It shows skills that are off, too. Its exit status
// is 4 when there is no such skill. It never asks a running node: the skill is read from the disk,
// as a node started here would.
func cmdSkillsShow(env *command.Env) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:               "show NAME|PATH",
		Args:              command.ExactArgs(1),
		ValidArgsFunction: CompleteSkills(env),
		RunE: func(cmd *cobra.Command, args []string) error {
			here, err := loadSkills(env, file, "")
			if err != nil {
				return err
			}
			// Take activates the skill in a registry of its own, so that the instructions and
			// the grants are those that an agent would get.
			activation, err := here.opts.Skills().Take(cmd.Context(), here.cfg, skillArg(args[0]))
			if err != nil {
				return notHere(err)
			}
			return printSkill(env, here, activation)
		},
	}
	command.ConfigFlag(cmd, &file)
	return cmd
}

// notHere returns an error of a search for a skill: status 4, with what to do, if there is no such skill.
func notHere(err error) error {
	if errors.Is(err, skills.ErrNotFound) {
		err = command.NotFound(fmt.Errorf("%w; `symbio skills list` shows the skills here", err))
	}
	return err
}

// state returns in words who can use a skill: models, people, both or neither.
func (h localSkills) state(s skills.Skill) string {
	// The order matters: off wins over all, and a flag of the skill itself is named before an
	// override with the same effect.
	switch e := h.cfg.Choices.Exposure(s); {
	case e == skills.Off:
		return "off: " + h.offBy(&symbiov1.Skill{Name: s.Name, Path: s.Path})
	case s.ModelOnly && s.UserOnly:
		return "unusable: its flags exclude models and people"
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

// printSkill prints a skill with its instructions, and the rules that it grants and asks for in
// vain. The anonymous struct is a contract with scripts, as are the JSON names of the types in it.
func printSkill(env *command.Env, here localSkills, s skills.Activation) error {
	known, from := trustOf(env, s)
	if env.JSON {
		return env.PrintJSON(struct {
			skills.Skill
			State        string                `json:"state"`
			Instructions string                `json:"instructions"`
			Hash         string                `json:"hash"`
			Granted      []string              `json:"granted"`
			Withheld     []skills.WithheldRule `json:"withheld"`
			Trust        trust.State           `json:"trust"`
			// Node and Tree are the origin of a fetched skill, and the hash of all its files.
			Node string `json:"node,omitempty"`
			Tree string `json:"tree_hash,omitempty"`
		}{s.Skill, here.state(s.Skill), s.Instructions, s.Hash, s.Granted, s.Withheld, known, from.Node, from.Hash})
	}
	fmt.Fprintf(env.Out, "name         %s\ndescription  %s\nscope        %s\nstate        %s\npath         %s\nsha256       %s\ntrust        %s\ngrants       %s\n",
		terminal.Printable(s.Skill.Name), terminal.Printable(s.Skill.Description), s.Skill.Scope, terminal.Printable(here.state(s.Skill)),
		terminal.Printable(s.Skill.Path), s.Hash, trustLine(known, from), terminal.Printable(strings.Join(s.Granted, " ")))
	// A withheld rule is one that the skill asks for and does not get: its scope needs trust, or
	// the rule is refused.
	for _, w := range s.Withheld {
		fmt.Fprintf(env.Out, "withheld     %s: %s\n", terminal.Printable(w.Rule), terminal.Printable(w.Why))
	}
	// An empty line separates the properties from the instructions, which are Markdown.
	fmt.Fprintln(env.Out)
	return env.PrintPayload([]byte(s.Instructions))
}
