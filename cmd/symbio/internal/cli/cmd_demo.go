package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"symbio/cmd/symbio/internal/command"
	"symbio/cmd/symbio/internal/demo"
)

// cmdDemo returns the command demo, the two-minute tour. Events go to standard error as they come,
// the result to standard output. With --json both are lines on standard output.
//
// It starts two nodes as processes of this program, with their state in temporary directories, and
// needs no configuration.
func cmdDemo(env *command.Env) *cobra.Command {
	var o demo.Options
	cmd := &cobra.Command{
		Use:  "demo [DIR]",
		Args: command.RangeArgs(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.Crash && o.Model != "" {
				return command.Usage(errors.New("--crash needs the built-in model, which waits to be interrupted; leave out --model"))
			}
			var err error
			if o.Dir, err = surveyDir(args); err != nil {
				return err
			}
			if o.Report != "" {
				// The nodes are processes with other working directories.
				if o.Report, err = filepath.Abs(o.Report); err != nil {
					return err
				}
			}
			// The nodes must be of the same version as the tour.
			if o.Self, err = os.Executable(); err != nil {
				return err
			}
			// The view is called by the tour's observer, one event at a time.
			show := newDemoView(env)
			o.Show = show.event
			if !env.JSON {
				fmt.Fprintf(env.Err, "Two nodes on this machine, one community. An agent of node a surveys %s.\n\n", o.Dir)
			}
			// Run blocks until both nodes have ended. An interrupt ends them.
			r, err := demo.Run(cmd.Context(), o)
			if err != nil {
				return err
			}
			if env.JSON {
				return env.PrintLine(r)
			}
			return printDemoResult(env, o, r)
		},
	}
	cmd.Flags().StringVar(&o.Report, "report", "", "`FILE` for the report (default in a new temporary directory)")
	cmd.Flags().BoolVar(&o.Crash, "crash", false, "kill node b in the middle and start it again")
	cmd.Flags().StringVar(&o.Model, "model", "", "`MODEL` of the agents (default a built-in function, which needs no key)")
	return cmd
}

// surveyDir returns the directory to survey, absolute and without symbolic links: the rules of the
// tour are about real paths. args has at most one element; without one it is the current directory.
func surveyDir(args []string) (string, error) {
	dir := strings.Join(args, "")
	if dir == "" {
		dir = "."
	}
	info, err := os.Stat(dir)
	if err != nil {
		return "", command.NotFound(fmt.Errorf("%w; name a directory that is there, or none for the current one", err))
	}
	if !info.IsDir() {
		return "", command.Usage(fmt.Errorf("%s is not a directory", dir))
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return "", err
	}
	return filepath.Abs(dir)
}
