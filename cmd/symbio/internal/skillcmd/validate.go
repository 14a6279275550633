package skillcmd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"symbio/agent/conversation"
	"symbio/agent/node"
	"symbio/cmd/symbio/internal/command"
	"symbio/cmd/symbio/internal/terminal"
	"symbio/internal/security/visible"
	"symbio/internal/skills/lint"
	"symbio/skills"
	"symbio/skills/format"
)

// cmdSkillsValidate returns the command skills validate. Its exit status is 1 if any skill has an
// error, and 4 if a directory does not exist. It needs no running node.
func cmdSkillsValidate(env *command.Env) *cobra.Command {
	var name string
	var strict, lenient bool
	cmd := &cobra.Command{
		Use: "validate [PATH|NAME]...",
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case strict && lenient, (strict || lenient) && cmd.Flags().Changed("level"):
				return command.Usage(errors.New("--level, --strict and --lenient exclude each other"))
			case strict:
				name = "strict"
			case lenient:
				name = "lenient"
			}
			level, err := format.ParseLevel(name)
			if err != nil {
				return command.Usage(err)
			}
			return validateSkills(cmd.Context(), env, validated(cmd.Context(), env, args), level, strict)
		},
	}
	cmd.Flags().StringVar(&name, "level", "standard", "`LEVEL` of the check: strict, standard or lenient")
	cmd.Flags().BoolVar(&strict, "strict", false, "the same as --level strict, and warnings are errors")
	cmd.Flags().BoolVar(&lenient, "lenient", false, "the same as --level lenient")
	return cmd
}

// validated returns the paths that the arguments mean: a path itself, or the directory of a skill
// that this directory has. Without arguments it is the project's directory of skills.
func validated(ctx context.Context, env *command.Env, args []string) (dirs []string) {
	if len(args) == 0 {
		return []string{filepath.Join(".agents", "skills")}
	}
	for _, arg := range args {
		if _, err := os.Stat(arg); err != nil {
			here, _ := loadSkills(env, "", "") // on an error the argument is a path that does not exist
			catalog, _ := skills.Scan(ctx, here.cfg)
			if found, err := catalog.Resolve(arg, here.cfg.Duplicates); err == nil {
				arg = found.Dir
			}
		}
		dirs = append(dirs, arg)
	}
	return dirs
}

// validateSkills checks all skills in dirs and prints each verdict as it is reached. It reads every
// SKILL.md whole and has no limits, unlike a scan. The format judges at level; with strict, warnings and advice for authors make a
// skill not ok, too. It ends early when ctx ends or the output cannot be written.
func validateSkills(ctx context.Context, env *command.Env, dirs []string, level format.Level, strict bool) error {
	// All arguments are checked before the first verdict, so that a typo does not end a long run in
	// the middle.
	for _, dir := range dirs {
		if _, err := os.Stat(dir); err != nil {
			return command.NotFound(err)
		}
	}
	// The level of the command replaces the configured one, so a verdict depends on the machine
	// by its toolsets only. A broken configuration must not fail the check; it has none.
	var here skills.Config
	if all, err := loadSkills(env, "", ""); err == nil {
		here = all.cfg
	}
	policy := format.Policy{Level: level, Toolsets: here.Policy.Toolsets}
	c := skillCheck{env: env, strict: strict, lint: lintConfig(policy)}
	c.depends = dependencyNotes(ctx, here, dirs)
	for _, dir := range dirs {
		// The error is about the walk itself; what is wrong with a skill is in its verdict.
		if err := skills.ValidateTree(ctx, dir, policy, c.report); err != nil {
			c.clear()
			return fmt.Errorf("after %s: %w", c.counted(), err)
		}
		// The progress line must be gone before the next line is written to standard error.
		c.clear()
		if err := printScanNotes(ctx, env, here, dir); err != nil {
			return err
		}
	}
	if c.bad > 0 {
		return fmt.Errorf("%d of %s not ok", c.bad, c.counted())
	}
	if env.OutIsTerminal {
		env.Notef("%s, all ok", c.counted())
	}
	return nil
}

// lintConfig returns what the skills of authors are compared with: the tools of this program.
func lintConfig(policy format.Policy) lint.Config {
	return lint.Config{Policy: policy, Tools: node.Known(nil).Tools, Tokens: conversation.EstimateTokens}
}

// dependencyNotes returns by the path of a SKILL.md what a scan says of its dependencies: among the skills
// of the configuration and the ones in dirs. An error of the scan leaves out some; a scan reports it.
func dependencyNotes(ctx context.Context, here skills.Config, dirs []string) map[string][]format.Diagnostic {
	for _, dir := range dirs {
		if abs, err := filepath.Abs(dir); err == nil && !slices.ContainsFunc(here.Roots, func(r skills.Root) bool { return r.Path == abs }) {
			here.Roots = append(slices.Clip(here.Roots), skills.Root{Path: abs, Scope: skills.ScopeConfig})
		}
	}
	catalog, _ := skills.Scan(ctx, here)
	notes := map[string][]format.Diagnostic{}
	for _, p := range catalog.Notes {
		for _, d := range p.Diagnostics {
			if d.Field == "depends" {
				notes[p.Path] = append(notes[p.Path], d)
			}
		}
	}
	return notes
}

// printScanNotes prints what a node would note of dir as a whole: links that it does not follow,
// limits, equal names. A directory that is one of this project's own is scanned with its own scope,
// because there fewer links are followed. It prints nothing for a file, and returns only errors of
// the scan.
func printScanNotes(ctx context.Context, env *command.Env, here skills.Config, dir string) error {
	root := skills.Root{Path: dir, Scope: skills.ScopeConfig}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return nil
	}
	// The separator at the end makes skillArg treat a bare name as a path.
	if i := slices.IndexFunc(here.Roots, func(r skills.Root) bool { return r.Path == skillArg(dir+string(filepath.Separator)) }); i >= 0 {
		root = here.Roots[i]
	}
	c, err := skills.Scan(ctx, skills.Config{Roots: []skills.Root{root}})
	for _, p := range c.Notes {
		if slices.ContainsFunc(p.Diagnostics, func(d format.Diagnostic) bool { return d.Field == "depends" }) {
			continue // it was reported with the skill
		}
		env.Notef("note: %s", p.Path+": "+p.Message())
	}
	return err
}

// skillCheck prints verdicts and counts them. When the verdicts go to a file or a pipe, it shows
// the progress to a person on standard error. It is for one goroutine: ValidateTree calls report
// for one skill at a time.
type skillCheck struct {
	env *command.Env
	// all counts the skills, bad those with errors. A skill with warnings only is ok.
	all, bad int
	// strict makes warnings errors. lint finds what an author should know.
	strict bool
	lint   lint.Config
	// depends are the diagnostics of dependencies by the path of the SKILL.md.
	depends map[string][]format.Diagnostic
	// lastProgress is when the progress line was last written. The zero time makes the first
	// verdict draw it.
	lastProgress time.Time
	// showing is true while that line stands on the terminal.
	showing bool
}

// counted returns how many skills were checked.
func (c *skillCheck) counted() string { return visible.Plural(c.all, "skill") }

// report prints one verdict. Its error is one of writing, and ends ValidateTree.
func (c *skillCheck) report(r skills.Report) error {
	c.all++
	if r.OK {
		r.Diagnostics = append(append(r.Diagnostics, lint.Check(filepath.Dir(r.Path), c.lint)...), c.depends[r.Path]...)
		r.OK = !c.strict || !slices.ContainsFunc(r.Diagnostics, func(d format.Diagnostic) bool { return d.Severity == format.Warning })
	}
	if !r.OK {
		c.bad++
	}
	if err := printReport(c.env, r); err != nil {
		return err
	}
	// Ten times a second is often enough to see, and does not slow the check down.
	if now := time.Now(); c.env.ErrIsTerminal && !c.env.OutIsTerminal && now.Sub(c.lastProgress) > 100*time.Millisecond {
		c.lastProgress, c.showing = now, true
		fmt.Fprintf(c.env.Err, "\r%s, %d not ok  %s\x1b[K", c.counted(), c.bad, visible.TruncateRunes(terminal.Printable(r.Path), 60))
	}
	return nil
}

// clear removes the progress line. It may be called when there is none.
func (c *skillCheck) clear() {
	if c.showing {
		fmt.Fprint(c.env.Err, "\r\x1b[K")
		c.showing = false
	}
}

// printReport prints the verdict on one skill and its diagnostics. With --json it is one object on
// a line, whose names are a contract; see `symbio skills validate --help`.
func printReport(env *command.Env, r skills.Report) error {
	if env.JSON {
		return env.PrintLine(r)
	}
	verdict := "ok"
	if !r.OK {
		verdict = "not ok"
	}
	if err := env.Printf("%s\t%s\t%s\n", verdict, r.Name, r.Path); err != nil {
		return err
	}
	for _, d := range r.Diagnostics {
		place := r.Path
		if d.Line > 0 {
			place += ":" + strconv.Itoa(d.Line)
		}
		if err := env.Printf("\t%s: %s: %s [%s]\n", place, d.Severity, d.Message, d.Code); err != nil {
			return err
		}
	}
	return nil
}
