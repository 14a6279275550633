package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"symbio/skills"
	"symbio/skills/format"
)

func (a *App) cmdSkillsValidate() *cobra.Command {
	var name string
	var strict, lenient bool
	cmd := &cobra.Command{
		Use:   "validate DIR...",
		Short: "Check skill directories, or directories of them",
		Long: `Check every SKILL.md in the directories and below, whatever its depth and whatever the directories are
called: one verdict each, as it is reached, in the order of the names. A file called skill.md has a verdict
too, which says why it is not found; so has a directory that cannot be read. Links to directories are
followed one step, and never out of a skill. DIR may be a SKILL.md.

Levels: strict is the specification to the letter; standard, what agents here load, also mends values that
are not quite YAML and keeps unknown fields; lenient loads whatever has a description and a harmless name.

--json prints one object a line:

  {"path": "…/SKILL.md",       the file, or the directory that cannot be read
   "name": "…",                "" when it could not be read
   "ok": true,                 false if any diagnostic is an error
   "diagnostics": [{"code": "yaml-repaired", "severity": "error", "warning" or "note",
     "field": "description",   "" when it is about none
     "line": 3,                of the file, from 1; 0 when it is about none
     "message": "…"}]}

Codes are stable, messages are not. The exit status is 1 if any is not ok, 4 if a DIR is not there.`,
		Example: `  symbio skills validate .agents/skills
  symbio skills validate --strict my-skill
  symbio skills validate --json ~/skills | jq -r 'select(.ok | not) | .path'`,
		Args: minArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case strict && lenient, (strict || lenient) && cmd.Flags().Changed("level"):
				return usage(errors.New("--level, --strict and --lenient exclude each other"))
			case strict:
				name = "strict"
			case lenient:
				name = "lenient"
			}
			level, err := format.ParseLevel(name)
			if err != nil {
				return usage(err)
			}
			return a.validateSkills(cmd.Context(), args, level)
		},
	}
	cmd.Flags().StringVar(&name, "level", "standard", "how strictly: strict, standard or lenient")
	cmd.Flags().BoolVar(&strict, "strict", false, "the same as --level strict")
	cmd.Flags().BoolVar(&lenient, "lenient", false, "the same as --level lenient")
	return cmd
}

func (a *App) validateSkills(ctx context.Context, dirs []string, level format.Level) error {
	for _, dir := range dirs {
		if _, err := os.Stat(dir); err != nil {
			return notFound(err)
		}
	}
	c := skillCheck{app: a}
	policy := format.Policy{Level: level}
	for i, dir := range dirs {
		if outer, ok := coveredBy(dir, dirs, i); ok {
			fmt.Fprintf(a.Err, "%s: checked with %s\n", printable(dir), printable(outer))
			continue
		}
		if err := skills.ValidateTree(ctx, dir, policy, c.report); err != nil {
			c.clear()
			return fmt.Errorf("after %s: %w", c.counted(), err)
		}
	}
	c.clear()
	if c.bad > 0 {
		return fmt.Errorf("%d of %s not ok", c.bad, c.counted())
	}
	if a.OutIsTerminal {
		fmt.Fprintf(a.Err, "%s, all ok\n", c.counted())
	}
	return nil
}

// coveredBy finds the directory among dirs that holds dirs[i], so that no file has two verdicts. Of equal
// ones the first counts.
func coveredBy(dir string, dirs []string, i int) (outer string, ok bool) {
	inner, err := filepath.EvalSymlinks(dir)
	if err == nil {
		inner, err = filepath.Abs(inner)
	}
	if err != nil {
		return "", false
	}
	for j, d := range dirs {
		real, err := filepath.EvalSymlinks(d)
		if err == nil {
			real, err = filepath.Abs(real)
		}
		if j == i || err != nil {
			continue
		}
		rel, err := filepath.Rel(real, inner)
		if err == nil && filepath.IsLocal(rel) && (rel != "." || j < i) {
			return d, true
		}
	}
	return "", false
}

// skillCheck prints verdicts, and how far it is to a person who does not see them.
type skillCheck struct {
	app      *App
	all, bad int
	told     time.Time
	showing  bool
}

func (c *skillCheck) counted() string {
	if c.all == 1 {
		return "1 skill"
	}
	return fmt.Sprintf("%d skills", c.all)
}

func (c *skillCheck) report(r skills.Report) error {
	c.all++
	if !r.OK {
		c.bad++
	}
	if err := c.app.printReport(r); err != nil {
		return err
	}
	if now := time.Now(); c.app.ErrIsTerminal && !c.app.OutIsTerminal && now.Sub(c.told) > 100*time.Millisecond {
		c.told, c.showing = now, true
		fmt.Fprintf(c.app.Err, "\r%s, %d not ok  %s\x1b[K", c.counted(), c.bad, clip(printable(r.Path), 60))
	}
	return nil
}

// clear takes the line about how far it is away.
func (c *skillCheck) clear() {
	if c.showing {
		fmt.Fprint(c.app.Err, "\r\x1b[K")
		c.showing = false
	}
}

func (a *App) printReport(r skills.Report) error {
	if a.json {
		return a.printLine(r)
	}
	verdict := "ok"
	if !r.OK {
		verdict = "not ok"
	}
	if _, err := fmt.Fprintf(a.Out, "%s\t%s\t%s\n", verdict, printable(r.Name), printable(r.Path)); err != nil {
		return err
	}
	for _, d := range r.Diagnostics {
		if _, err := fmt.Fprintf(a.Out, "\t%s\n", printable(d.String())); err != nil {
			return err
		}
	}
	return nil
}
