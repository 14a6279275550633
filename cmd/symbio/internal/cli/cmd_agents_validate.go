package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"symbio/agent"
	"symbio/cmd/symbio/internal/node"
	"symbio/skills"
)

// definitionJSON is a verdict on a definition in the output; the names are a contract.
type definitionJSON struct {
	Path     string        `json:"path"`
	Name     string        `json:"name"`
	OK       bool          `json:"ok"`
	Problems []problemJSON `json:"problems"`
}

type problemJSON struct {
	Line    int    `json:"line"` // from 1
	Message string `json:"message"`
}

func (a *App) cmdAgentsValidate() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "validate [FILE|DIR...]",
		Short: "Check definitions of agents",
		Long: `Check definitions of agents: files, or all NAME.md in directories; without any, the directory of the
configuration. Everything that is wrong with one is said, each on a line of its own, PATH:LINE: MESSAGE: unknown keys,
tools, presets, models, skills and MCP servers, rules that cannot be read, and values that are out of their range. Skills
and MCP servers are those that a node started here would have.

--json prints one object a line:

  {"path": "…/reviewer.md", "name": "reviewer",
   "ok": true,                                  false if there are problems
   "problems": [{"line": 3, "message": "…"}]}   lines from 1

The exit status is 1 if any is not ok, 4 if a FILE or DIR is not there.`,
		Example: `  symbio agents validate
  symbio agents validate agents
  symbio agents validate --json agents/reviewer.md`,
		RunE: func(cmd *cobra.Command, args []string) error {
			opts, err := a.agentOptions(file)
			if err != nil {
				return err
			}
			if len(args) == 0 {
				if opts.Config.Agents == "" {
					return usage(errors.New("the configuration names no directory of agents; name files or directories"))
				}
				args = []string{opts.Config.Agents}
			}
			return a.validateAgents(cmd.Context(), opts, args)
		},
	}
	cmd.Flags().StringVar(&file, "config", "", "configuration file")
	return cmd
}

func (a *App) validateAgents(ctx context.Context, opts node.Options, args []string) error {
	files, err := definitionFiles(args)
	if err != nil {
		return err
	}
	var catalog *skills.Catalog
	if opts.Config.Skills.Enabled {
		found, err := skills.Scan(ctx, node.SkillsConfig(opts))
		if err != nil {
			return err
		}
		catalog = &found
	}
	known, err := opts.KnownHere(catalog)
	if err != nil {
		return err
	}
	bad := 0
	for _, file := range files {
		d, problems := known.Read(file)
		if len(problems) > 0 {
			bad++
		}
		if err := a.printVerdict(file, d, problems); err != nil {
			return err
		}
	}
	counted := fmt.Sprintf("%d definitions", len(files))
	if len(files) == 1 {
		counted = "1 definition"
	}
	if bad > 0 {
		return fmt.Errorf("%d of %s not ok", bad, counted)
	}
	if a.OutIsTerminal {
		fmt.Fprintf(a.Err, "%s, all ok\n", counted)
	}
	return nil
}

// definitionFiles are the files that the arguments mean, each once.
func definitionFiles(args []string) (files []string, err error) {
	for _, arg := range args {
		info, err := os.Stat(arg)
		if err != nil {
			return nil, notFound(err)
		}
		if !info.IsDir() {
			files = append(files, arg)
			continue
		}
		entries, err := os.ReadDir(arg)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if !e.IsDir() && filepath.Ext(e.Name()) == ".md" {
				files = append(files, filepath.Join(arg, e.Name()))
			}
		}
	}
	seen := map[string]bool{}
	files = slices.DeleteFunc(files, func(f string) bool {
		before := seen[f]
		seen[f] = true
		return before
	})
	if len(files) == 0 {
		return nil, errors.New("there is no NAME.md in it")
	}
	return files, nil
}

func (a *App) printVerdict(file string, d agent.Definition, problems []agent.Problem) error {
	if a.json {
		out := definitionJSON{Path: file, Name: d.Name, OK: len(problems) == 0, Problems: []problemJSON{}}
		for _, p := range problems {
			out.Problems = append(out.Problems, problemJSON{p.Line, p.Reason})
		}
		return a.printLine(out)
	}
	for _, p := range problems {
		if _, err := fmt.Fprintln(a.Out, printable(p.Error())); err != nil {
			return err
		}
	}
	return nil
}
