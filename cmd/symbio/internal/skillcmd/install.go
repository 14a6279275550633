package skillcmd

import (
	"cmp"
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
	"symbio/internal/skills/install"
	"symbio/internal/skills/trust"
)

// installation is one run of a command about installed skills.
type installation struct {
	env     *command.Env
	place   *install.Place
	fetcher install.Fetcher
	// The flags; not every command has all.
	project, yes, grants, dryRun, force, all, offline bool
	names                                             []string
}

// installCommand returns a command that works on the skills of the user, or with --project on those
// of the directory in which it is typed. writes adds the flags of commands that install.
func installCommand(env *command.Env, use string, args cobra.PositionalArgs, writes bool,
	run func(in *installation, ctx context.Context, args []string) error) (*cobra.Command, *installation) {
	in := &installation{env: env}
	cmd := &cobra.Command{Use: use, Args: args, RunE: func(cmd *cobra.Command, args []string) error {
		base, err := os.UserHomeDir()
		if in.project {
			base, err = os.Getwd()
		}
		if err == nil {
			in.place, err = install.Open(base)
		}
		if err != nil {
			return err
		}
		err = run(in, cmd.Context(), args)
		if errors.Is(err, install.ErrNotInstalled) || errors.Is(err, install.ErrNoSkill) || errors.Is(err, install.ErrNoRef) {
			err = command.NotFound(err)
		}
		return errors.Join(err, in.fetcher.Close(), in.place.Close())
	}}
	cmd.Flags().BoolVar(&in.project, "project", false, "the skills of this directory (.agents/skills) instead of your own (~/.agents/skills)")
	if writes {
		cmd.Flags().BoolVarP(&in.yes, "yes", "y", false, "install without a question, unless rules are new")
		cmd.Flags().BoolVar(&in.grants, "grants", false, "with --yes: also when a skill asks for new rules")
		cmd.Flags().BoolVar(&in.dryRun, "dry-run", false, "show what would be done, and do nothing")
		cmd.Flags().BoolVar(&in.force, "force", false, "overwrite files that were edited")
	}
	return cmd, in
}

// cmdSkillsInstall returns the commands add, update, outdated, remove and check.
func cmdSkillsInstall(env *command.Env) []*cobra.Command {
	add, in := installCommand(env, "add SOURCE", command.ExactArgs(1), true, (*installation).add)
	add.Flags().StringArrayVar(&in.names, "skill", nil, "the `NAME` of a skill in the source (repeatable)")
	add.Flags().BoolVar(&in.all, "all", false, "all skills of the source")
	update, _ := installCommand(env, "update [NAME]...", nil, true, (*installation).update)
	outdated, _ := installCommand(env, "outdated [NAME]...", nil, false, (*installation).outdated)
	check, in := installCommand(env, "check [NAME]...", nil, false, (*installation).check)
	check.Flags().BoolVar(&in.offline, "offline", false, "compare with the lock file alone, without the network")
	remove, in := installCommand(env, "remove NAME...", command.MinArgs(1), false, (*installation).remove)
	remove.Flags().BoolVar(&in.force, "force", false, "also when files were edited, which are lost")
	return append(command.NodeFlag(env, add), update, outdated, check, remove)
}

// add installs skills of a source. A skill of another node has a store and a trust of its own.
func (in *installation) add(ctx context.Context, args []string) error {
	if rest, ok := strings.CutPrefix(args[0], "node:"); ok {
		return in.fetch(ctx, rest)
	}
	s, err := install.ParseSource(args[0])
	if err != nil {
		return command.Usage(err)
	}
	// The lock file of a project has paths that hold where others have the project.
	if abs, err := filepath.Abs(s.Location); err == nil && s.Local() && !in.project {
		s.Location = abs
	}
	changes, err := in.place.PlanAdd(ctx, &in.fetcher, s, in.names, in.all)
	if errors.Is(err, install.ErrChoice) {
		return command.Usage(err)
	}
	return errors.Join(in.install(ctx, changes), err)
}

// fetch fetches NODE/SKILL as symbio skills fetch does.
func (in *installation) fetch(ctx context.Context, skill string) error {
	on, name, _ := strings.Cut(skill, "/")
	if name == "" || in.project || in.force || in.dryRun || in.all || len(in.names) > 0 {
		return command.Usage(errors.New("write node:NAME/SKILL, without other flags; symbio skills fetch NAME lists what that node shares"))
	}
	return fetchSkill(ctx, in.env, on, name, "")
}

// update brings the named skills, or all, to what their sources have.
func (in *installation) update(ctx context.Context, args []string) error {
	changes, err := in.plan(ctx, args)
	return errors.Join(in.install(ctx, changes), err)
}

// outdated lists what update would change, and skills whose source has a newer tag.
func (in *installation) outdated(ctx context.Context, args []string) error {
	changes, err := in.plan(ctx, args)
	changes = slices.DeleteFunc(changes, func(c install.Change) bool { return c.Current && c.NewerTag == "" })
	return errors.Join(command.PrintList(in.env, changes, []string{"NAME", "INSTALLED", "OFFERED", "SOURCE"}, func(c install.Change) []string {
		return []string{c.Name, label(*c.Old), cmp.Or(c.NewerTag, label(c.LockEntry)), c.Source}
	}), err)
}

// plan plans to update the named skills, or all. An error of one does not keep the others from being
// planned.
func (in *installation) plan(ctx context.Context, names []string) (changes []install.Change, err error) {
	all, err := in.installed(names)
	for _, l := range all {
		c, planErr := in.place.PlanUpdate(ctx, &in.fetcher, l)
		if err = errors.Join(err, planErr); planErr == nil {
			changes = append(changes, c)
		}
	}
	return changes, err
}

// installed returns the named skills of the lock file, or all.
func (in *installation) installed(names []string) (all []install.LockEntry, err error) {
	if len(names) == 0 {
		return in.place.List()
	}
	for _, name := range names {
		l, err := in.place.Find(name)
		if err != nil {
			return nil, err
		}
		all = append(all, l)
	}
	return all, nil
}

// verdict is the result of check for one skill. Its state is ok, differs, or unknown: the source could
// not be read. The JSON names are a contract.
type verdict struct {
	Name  string               `json:"name"`
	OK    bool                 `json:"ok"`
	State string               `json:"state"`
	Edits []install.FileChange `json:"edits,omitempty"`
	Error string               `json:"error,omitempty"`
}

// check compares installed skills with the lock file, and that with the commits that it names. Its exit
// status is 1 if one differs or a commit cannot be fetched.
func (in *installation) check(ctx context.Context, args []string) error {
	list, err := in.installed(args)
	var all []verdict
	bad := 0
	for _, l := range list {
		c := verdict{Name: l.Name, State: "ok"}
		_, edits, checkErr := in.place.Installed(l)
		if c.Edits = edits; len(edits) == 0 && !in.offline {
			checkErr = in.place.CheckCommit(ctx, &in.fetcher, l)
		}
		switch {
		case len(edits) > 0 || errors.Is(checkErr, install.ErrCommit):
			c.State = "differs"
		case checkErr != nil:
			c.State = "unknown"
		}
		if checkErr != nil {
			c.Error = checkErr.Error()
		}
		if c.OK = c.State == "ok"; !c.OK {
			bad++
		}
		all = append(all, c)
	}
	err = errors.Join(err, command.PrintList(in.env, all, []string{"NAME", "STATE", "FILES"}, func(c verdict) []string {
		return []string{c.Name, c.State, cmp.Or(c.Error, fileList(c.Edits))}
	}))
	if bad > 0 {
		err = errors.Join(err, fmt.Errorf("%d of %s differ or could not be compared; symbio skills update --force NAME restores edited files, removing and adding a skill what its commit has; --offline compares without the sources", bad, visible.Plural(len(all), "skill")))
	}
	return err
}

// remove deletes installed skills, and the trust in them.
func (in *installation) remove(ctx context.Context, args []string) error {
	defer rescan(ctx, in.env)
	for _, name := range args {
		if err := in.place.Remove(name, in.force); err != nil {
			return err
		}
		in.env.Notef("%s is removed; agents that have it lose it and its rules", name)
		if err := in.forget(name); err != nil {
			return err
		}
	}
	return nil
}

// forget ends the trust in a skill: a person trusted what lay there before. A record covers the
// SKILL.md alone, while the scripts may have changed.
func (in *installation) forget(name string) error {
	gone, err := removeTrust(in.env, func(r trust.Record) bool { return r.Dir == in.place.Dir(name) })
	for _, r := range gone {
		in.env.Notef("the trust in %s ends; it had: %s", r.Name, orNone(r.Rules))
	}
	return err
}

// install shows what is planned, asks, and applies it. Without a yes nothing is written: the exit
// status is 3 for a no, 2 without a terminal to ask on.
func (in *installation) install(ctx context.Context, changes []install.Change) (err error) {
	count, rules := 0, 0
	for _, c := range changes {
		if !in.env.JSON {
			printChange(in.env, c)
		}
		if !c.Current {
			count, rules = count+1, rules+len(c.NewGrants)
		}
	}
	if count > 0 && !in.dryRun {
		err = in.confirm(ctx, count, rules)
		for i := 0; err == nil && i < len(changes); i++ {
			if err = in.place.Apply(&changes[i], in.force); changes[i].Done {
				err = in.forget(changes[i].Name)
				in.env.Notef("%s is installed in %s", changes[i].Name, in.place.Dir(changes[i].Name))
			}
		}
		rescan(ctx, in.env)
	}
	if in.env.JSON {
		err = errors.Join(in.env.PrintJSON(append([]install.Change{}, changes...)), err)
	}
	return err
}

// confirm asks for what the flags do not say.
func (in *installation) confirm(ctx context.Context, count, rules int) error {
	if in.yes && (rules == 0 || in.grants) {
		return nil
	}
	if !in.env.InIsTerminal || in.env.JSON {
		why := "there is no terminal to ask on"
		if in.yes {
			why = "it asks for new rules, for which --yes is not enough"
		}
		return command.Usage(errors.New("nothing is installed: " + why + "\n--dry-run shows what would be; --yes installs it, and with --grants also what asks for new rules"))
	}
	question := fmt.Sprintf("Install %s?", visible.Plural(count, "skill"))
	if rules > 0 {
		question = fmt.Sprintf("Install %s, with the %s above?", visible.Plural(count, "skill"), visible.Plural(rules, "new rule"))
	}
	if yes, err := in.env.Confirm(ctx, question); err != nil || !yes {
		return command.Denied(errors.Join(errors.New("nothing is installed: you did not say yes"), err))
	}
	return nil
}

// label returns what a person calls the state of a skill: its version and its commit, or its hash.
func label(l install.LockEntry) string {
	return strings.TrimSpace(fmt.Sprintf("%s %.12s", l.Version, cmp.Or(l.Commit, l.Hash)))
}

// fileList returns files in one line.
func fileList(files []install.FileChange) string {
	var all []string
	for _, f := range files {
		all = append(all, f.Change+" "+f.Path)
	}
	return strings.Join(all, ", ")
}

// printChange prints a change for a person. Empty values are left out.
func printChange(env *command.Env, c install.Change) {
	line := func(key, value string) {
		if value != "" {
			fmt.Fprintf(env.Out, "%-13s%s\n", key, terminal.Printable(value))
		}
	}
	line("name", c.Name)
	if c.Current {
		line("current", label(c.LockEntry))
		return
	}
	line("description", c.Description)
	line("source", fmt.Sprint(c.Source, " ", c.Path, " ", c.Ref))
	if c.Old != nil {
		line("installed", label(*c.Old))
	}
	line("offered", label(c.LockEntry))
	for _, f := range c.Changes {
		text := f.Path + ", " + visible.Plural(int(f.Size), "byte")
		if f.Script {
			text += ", a script"
		}
		line("  "+f.Change, text)
	}
	line("asks for", orNone(c.Grants))
	line("new rules", strings.Join(c.NewGrants, " "))
	line("rules ended", strings.Join(c.OldGrants, " "))
	for _, d := range c.Depends {
		line("depends on", d.String())
	}
	line("triggers", strings.Join(slices.Concat(c.Triggers.Keywords, c.Triggers.Verbs, c.Triggers.Patterns), ", "))
	line("edited here", fileList(c.Edited))
	fmt.Fprintln(env.Out)
}
