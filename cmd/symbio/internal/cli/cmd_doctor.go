package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"symbio/agent/node/config"
	"symbio/cmd/symbio/internal/command"
	"symbio/internal/agent/node/doctor"
	"symbio/internal/security/visible"
)

// cmdDoctor returns the command doctor, which checks this machine and its nodes. Its exit status is
// 1 if a check fails; a warning is no failure. It changes nothing and works without a node. The
// checks run at the same time and take six seconds at most.
func cmdDoctor(env *command.Env) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:  "doctor",
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			world, err := newWorld(cmd.Context(), env, file)
			if err != nil {
				return err
			}
			found, err := doctor.Examine(cmd.Context(), world)
			if err != nil {
				return err
			}
			// The findings are the output; the error only adds the exit status and a summary line.
			if err := printFindings(env, found); err != nil {
				return err
			}
			if n := countStatus(found, doctor.Fail); n > 0 {
				return fmt.Errorf("%d of %s failed", n, visible.Plural(len(found), "check"))
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&file, "config", "", "configuration `FILE` to check (default symbio/symbio.yaml in your configuration directory)")
	return cmd
}

// newWorld returns what the checks look at: this machine, with the nodes that run on it. A wrong
// configuration is a finding of the checks, which then use the defaults. It returns an error only
// if the working or home directory cannot be found.
func newWorld(ctx context.Context, env *command.Env, file string) (*doctor.World, error) {
	c, _, bad := env.LoadConfig(file)
	if bad != nil {
		// The checks report bad as a finding.
		c = config.Default()
	}
	// --node wins over the name in the configuration, as in other commands.
	if env.Node != "" {
		c.Node.Name = env.Node
	}
	opts, err := env.NodeOptions(c)
	if err != nil {
		return nil, err
	}
	w := doctor.RealWorld(ctx, opts, env.Node)
	w.BadConfig = bad
	return w, nil
}

// countStatus counts the findings with status s. It counts findings and not checks: a check can
// have several.
func countStatus(found []doctor.Finding, s doctor.Status) (n int) {
	for _, f := range found {
		if f.Status == s {
			n++
		}
	}
	return n
}

// printFindings prints one line for each finding. On a terminal the fix stands on a line below it,
// and a summary at the end. Elsewhere the four columns are status, check, detail and fix, separated
// by tabs.
func printFindings(env *command.Env, found []doctor.Finding) error {
	if env.JSON || !env.OutIsTerminal {
		return command.PrintList(env, found, nil, func(f doctor.Finding) []string { return []string{string(f.Status), f.Check, f.Detail, f.Fix} })
	}
	for _, f := range found {
		if err := env.Printf("%-4s  %-13s  %s\n", f.Status, f.Check, f.Detail); err != nil {
			return err
		}
		if f.Fix != "" {
			if err := env.Printf("%21s  fix: %s\n", "", f.Fix); err != nil {
				return err
			}
		}
	}
	return env.Printf("\n%d ok, %s, %d failed\n", countStatus(found, doctor.OK), visible.Plural(countStatus(found, doctor.Warn), "warning"),
		countStatus(found, doctor.Fail))
}
