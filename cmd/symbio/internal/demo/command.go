package demo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"symbio/agent/budget"
	"symbio/cmd/symbio/internal/chat"
	"symbio/cmd/symbio/internal/command"
	"symbio/cmd/symbio/internal/terminal"
	"symbio/internal/security/visible"
)

// New returns the command demo, the two-minute tour. Events go to standard error as they come,
// the result to standard output. With --json both are lines on standard output.
func New(env *command.Env) *cobra.Command {
	t := &tour{nodes: map[string]*process{}}
	cmd := &cobra.Command{
		Use:  "demo [DIR]",
		Args: command.RangeArgs(0, 1),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if t.crash && t.model != "" {
				return command.Usage(errors.New("--crash needs the built-in model, which waits to be interrupted; leave out --model"))
			}
			if t.dir, err = surveyDir(args); err != nil {
				return err
			}
			if t.report != "" {
				// The nodes are processes with other working directories.
				if t.report, err = filepath.Abs(t.report); err != nil {
					return err
				}
			}
			// The nodes must be of the same version as the tour.
			if t.self, err = os.Executable(); err != nil {
				return err
			}
			if !env.JSON {
				fmt.Fprintf(env.Err, "Two nodes on this machine, one community. An agent of node a surveys %s.\n\n", t.dir)
			}
			// run blocks until both nodes have ended. An interrupt ends them.
			t.view = newView(env)
			if err := t.run(cmd.Context()); err != nil {
				return err
			}
			if r := t.view.finish(); env.JSON {
				return env.PrintLine(r)
			} else {
				return r.print(env, t.model == "")
			}
		},
	}
	cmd.Flags().StringVar(&t.report, "report", "", "`FILE` for the report (default in a new temporary directory)")
	cmd.Flags().BoolVar(&t.crash, "crash", false, "kill node b in the middle and start it again")
	cmd.Flags().StringVar(&t.model, "model", "", "`MODEL` of the agents (default a built-in function, which needs no key)")
	return cmd
}

// Reports returns the hidden command serve-reports, the MCP server that node b of the tour
// starts. It ends with its standard input, and an interrupt is no error: that is how the node stops
// it. Standard output carries the protocol, so the command prints nothing else there.
func Reports(env *command.Env) *cobra.Command {
	return &cobra.Command{
		Use:    "serve-reports",
		Hidden: true,
		Args:   command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			err := Serve(cmd.Context(), env.In, env.Out, command.Version().Version)
			if errors.Is(err, context.Canceled) {
				return nil
			}
			return err
		},
	}
}

// surveyDir returns the directory to survey, absolute and without symbolic links: the rules of the
// tour are about real paths. args has at most one element; without one it is the current directory.
func surveyDir(args []string) (string, error) {
	dir := strings.Join(args, "")
	dir = cmp.Or(dir, ".")
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

// result is what the tour counted. The JSON names are a contract.
type result struct {
	// Type is always "result".
	Type string `json:"type"`
	// Report is the path of the report.
	Report string `json:"report"`
	// Denied counts refused calls, those between nodes included.
	Denied int `json:"denied"`
	// Parts has for each node the parts that agents there have surveyed.
	Parts map[string][]string `json:"parts"`
	// Map is what symbio map did; nil in a tour that kills node b.
	Map *mapResult `json:"map,omitempty"`
	// MCPCalls counts calls of the MCP server's tool for the other node.
	MCPCalls int `json:"mcp_calls"`
	// Approvals counts the decisions that the tour was asked for.
	Approvals struct {
		Asked   int `json:"asked"`
		Allowed int `json:"allowed"`
		Denied  int `json:"denied"`
	} `json:"approvals"`
	// Interrupted counts tasks that the end of a node interrupted.
	Interrupted int `json:"interrupted,omitempty"`
	// Spent is what the agents used on both nodes, as the account of the first agent has it.
	Spent budget.Spent `json:"spent"`
	// Summary is the agent's final answer.
	Summary string `json:"summary"`
}

// mapResult says how long symbio map took for the same items with node a alone, and with both nodes. The JSON names are a contract.
type mapResult struct {
	Items int `json:"items"`
	// Alone and Both are in seconds.
	Alone float64 `json:"alone"`
	Both  float64 `json:"both"`
	// Nodes counts the items by node, when both worked.
	Nodes map[string]int `json:"nodes"`
}

// maxSummaryRows limits each paragraph of the result on a terminal, so that all of it fits 24 rows.
const maxSummaryRows = 6

// print prints the result of the tour for people: the agent's answer, and in five lines what two nodes gave. On a
// terminal all but the path of the report is wrapped. Elsewhere each paragraph is one line of any length.
func (r result) print(env *command.Env, ownModel bool) error {
	lines := []string{
		strings.TrimSpace(r.Summary), "",
		r.where(), r.time(ownModel),
		fmt.Sprintf("Rules: they held on both nodes. %s refused; of %s at one terminal %d got a yes and %d a no.",
			visible.Plural(r.Denied, "call")+" were", visible.Plural(r.Approvals.Asked, "question"), r.Approvals.Allowed, r.Approvals.Denied),
		"Budget: one for the agents of both nodes, which spent " + chat.SpentText(r.Spent) + ".",
		"The report: " + r.Report,
	}
	if s := chat.NewScreen(env); s != nil && env.OutIsTerminal {
		for i, line := range lines[:len(lines)-1] {
			shown := terminal.Rows(line, s.Columns()-1)
			if len(shown) > maxSummaryRows {
				shown = append(shown[:maxSummaryRows], "… the report has the rest")
			}
			lines[i] = strings.Join(shown, "\n")
		}
	}
	_, err := fmt.Fprintf(env.Out, "\n%s\n", strings.Join(lines, "\n"))
	return err
}

// where says which work ran on which node.
func (r result) where() string {
	text := fmt.Sprintf("Where: node a surveyed %s, node b %s", visible.Plural(len(r.Parts["a"]), "part"), visible.Plural(len(r.Parts["b"]), "part"))
	if there := r.Parts["b"]; len(there) > 0 && len(there) <= 5 {
		text += " (" + strings.Join(there, ", ") + ")"
	}
	if r.MCPCalls > 0 {
		text += "; an MCP server of node b made the report of all"
	}
	return text + ". On a machine of its own node b would work the same."
}

// time says what the second node gained in time, or what happened when it was lost.
func (r result) time(ownModel bool) string {
	m := r.Map
	if m == nil {
		return fmt.Sprintf("Time: node b was killed, with %s interrupted, and node a did its part again. Without --crash the tour measures one node and two.", visible.Plural(r.Interrupted, "task"))
	}
	text := fmt.Sprintf("Time: symbio map did %s in %.1f s on node a alone, and in %.1f s on both (a %d, b %d).", visible.Plural(m.Items, "item"), m.Alone, m.Both, m.Nodes["a"], m.Nodes["b"])
	if ownModel {
		text += fmt.Sprintf(" For this the model of the tour took %v an item, %d at a time on a node.", mapPause, mapPlaces)
	}
	return text
}
