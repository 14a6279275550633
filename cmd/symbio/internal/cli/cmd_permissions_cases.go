package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"symbio/cmd/symbio/internal/cases"
	"symbio/cmd/symbio/internal/config"
)

func (a *App) cmdPermissionsTest() *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:   "test FILE...",
		Short: "Judge the cases of a file, and print those that differ",
		Long: `Judge each case of a file against the rules in it, and print the cases whose verdict is not the expected
one. Of an attack a stricter verdict is as right. The status is 1 if any differs.

A file has "version: 1" and "cases", each with an id, a kind (attack or benign), rules (finalDeny, deny,
overrides, allow, default), a tool, its args, and what to expect (allow, ask, deny). A case may also have
setup (cwd, dirs, files, symlinks), resolve, redirects, argsRaw, sessionMemory, skillRules, skillScope,
parentRules, onBehalfOf, os and why. ${WORK}, ${OUTSIDE} and ${HOME} stand for directories that are made
for the test. Nothing is run, and nothing is fetched. - reads standard input.`,
		Example: `  symbio permissions test policy-cases.yaml
  symbio permissions test cases/*.yaml --json`,
		Args: minArgs(1),
		RunE: func(cmd *cobra.Command, files []string) error {
			world, err := cases.NewWorld()
			if err != nil {
				return err
			}
			tally := &tally{app: a, world: world, all: all}
			for _, file := range files {
				if err = tally.file(cmd.Context(), file); err != nil {
					err = fmt.Errorf("%s: %w", file, err)
					break
				}
			}
			return errors.Join(err, world.Close(), tally.end(err))
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "print the cases that are as expected, too")
	return cmd
}

// tally judges files of cases and counts.
type tally struct {
	app   *App
	world *cases.World
	all   bool

	judged, differ, elsewhere int
}

func (t *tally) file(ctx context.Context, name string) error {
	var from io.Reader = t.app.In
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		defer f.Close()
		from = f
	}
	list, err := cases.Read(from)
	if err != nil {
		return errors.New(config.Plain(err))
	}
	for _, c := range list {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if c.Elsewhere() {
			t.elsewhere++
			continue
		}
		r, err := t.world.Judge(c)
		if err != nil {
			return fmt.Errorf("case %s: %w", c.ID, err)
		}
		if err := t.print(c, r); err != nil {
			return err
		}
	}
	return nil
}

func (t *tally) print(c cases.Case, r cases.Result) error {
	t.judged++
	if !r.OK {
		t.differ++
	}
	if t.app.json {
		return t.app.printLine(r)
	}
	if r.OK && !t.all {
		return nil
	}
	mark := "ok"
	if !r.OK {
		mark = "DIFFERS"
	}
	_, err := fmt.Fprintf(t.app.Out, "%s\t%s\twant %s\tgot %s\t%s\n", mark, printable(r.ID), r.Expect, r.Verdict, printable(r.Why))
	if err == nil && !r.OK && c.Why != "" {
		_, err = fmt.Fprintf(t.app.Out, "\t%s\n", printable(c.Why))
	}
	return err
}

func (t *tally) end(broken error) error {
	if broken != nil {
		return nil
	}
	elsewhere := ""
	if t.elsewhere > 0 {
		elsewhere = fmt.Sprintf(", %d for other systems left out", t.elsewhere)
	}
	if t.differ > 0 {
		return fmt.Errorf("%d of %d cases differ%s", t.differ, t.judged, elsewhere)
	}
	fmt.Fprintf(t.app.Err, "%d cases as expected%s\n", t.judged, elsewhere)
	return nil
}
