package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"symbio/cmd/symbio/internal/demo"
)

func (a *App) cmdDemo() *cobra.Command {
	var o demo.Options
	cmd := &cobra.Command{
		Use:   "demo [DIR]",
		Short: "The two-minute tour: two nodes, one community, a survey of a directory",
		Long: `Two nodes start on this machine, find each other by mDNS and prove who they are. An agent on one of
them surveys DIR (default: here): it takes a skill, spawns a sub-agent for each part, one of them on the
other node, which lends it, has an MCP server of that node render the result, and writes a report. It is
asked about, told something in the middle, and held to a budget as by a person at a terminal; here the
tour answers. No key and no network are needed; nothing is written but the report.`,
		Example: `  symbio demo
  symbio demo ~/src/project --report survey.md
  symbio demo --model openai:gpt-x       # the same with a real model`,
		Args: rangeArgs(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			if o.Dir, err = surveyed(args); err != nil {
				return err
			}
			if o.Report != "" {
				if o.Report, err = filepath.Abs(o.Report); err != nil {
					return err
				}
			}
			if o.Self, err = os.Executable(); err != nil {
				return err
			}
			show := newTour(a)
			o.Show = show.event
			if !a.json {
				fmt.Fprintf(a.Err, "Two nodes on this machine, one community. An agent of node a surveys %s.\n\n", o.Dir)
			}
			r, err := demo.Run(cmd.Context(), o)
			if err != nil {
				return err
			}
			if a.json {
				return a.printLine(r)
			}
			return a.printTour(r)
		},
	}
	cmd.Flags().StringVar(&o.Report, "report", "", "where to write the report (default: a new directory for temporary files)")
	cmd.Flags().StringVar(&o.Model, "model", "", "the model of the agents (default: a script, which needs no key)")
	return cmd
}

// surveyed is the directory to survey, absolute and without symbolic links.
func surveyed(args []string) (string, error) {
	dir := strings.Join(args, "")
	if dir == "" {
		dir = "."
	}
	info, err := os.Stat(dir)
	if err != nil {
		return "", notFound(err)
	}
	if !info.IsDir() {
		return "", usage(fmt.Errorf("%s is not a directory", dir))
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return "", err
	}
	return filepath.Abs(dir)
}
