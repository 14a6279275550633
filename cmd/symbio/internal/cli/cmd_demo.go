package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"symbio/cmd/symbio/internal/demo"
	"symbio/cmd/symbio/internal/node"
)

func (a *App) cmdDemo() *cobra.Command {
	var o demo.Options
	cmd := &cobra.Command{
		Use:   "demo [DIR]",
		Short: "The two-minute tour: two nodes, one community, a survey of a directory",
		Long: `Two nodes start on this machine, find each other by mDNS and prove who they are. An agent on one of
them surveys DIR (default: here): it spawns a sub-agent for each part, takes a skill, has the other
node render the result, and writes a report. No key and no network are needed; nothing is written but
the report.`,
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
			show := &tour{app: a, asked: map[string]bool{}, granted: map[string][]string{}}
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
			_, err = fmt.Fprintf(a.Out, `
%s

Members: %d, on %d nodes. Sub-agents: %d. Calls between nodes: %d. Refused: %d.
Skills: shown %s; taken %d times; calls that a grant let through unasked: %d; denied all the same: %d; given back: %d; to be asked about again: %d.
The report: %s
`, strings.TrimSpace(r.Summary), r.Members, r.Nodes, r.Subagents, r.RemoteCalls, r.Denied,
				strings.Join(r.Skills.Catalog, ", "), r.Skills.Activations, r.Skills.Lifted, r.Skills.StillDenied, r.Skills.GivenBack, r.Skills.AskedAgain, r.Report)
			return err
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

// tour shows the nodes' events, and how far the survey is.
type tour struct {
	app         *App
	parts, done int
	asked       map[string]bool     // agent and tool that nobody was there to be asked about
	granted     map[string][]string // by agent, what skills grant it
	err         error
}

func (t *tour) event(e node.Event) {
	if t.app.json {
		if t.err == nil {
			t.err = t.app.printLine(e)
		}
		return
	}
	if line := t.line(e); line != "" {
		fmt.Fprintf(t.app.Err, "%s %-7s %s | %s\n", e.Time.Local().Format("15:04:05.000"), t.progress(), printable(e.Node), clip(printable(line), 150))
	}
}

// progress is how many of the parts are done, once it is known how many there are.
func (t *tour) progress() string {
	if t.parts == 0 {
		return ""
	}
	return fmt.Sprintf("%d/%d", t.done, t.parts)
}

// line says an event in words; "" for one that is only noise here.
func (t *tour) line(e node.Event) string {
	var f struct {
		ID, Name, State, Text, Tool, Why, On, Capability, From, Parent, Verdict, Source, Skill string

		Args            json.RawMessage
		Local, Approved bool
		Provides, Rules []string
	}
	if err := json.Unmarshal(e.Data, &f); err != nil {
		return ""
	}
	switch e.Type {
	case "note":
		return f.Text
	case "node":
		if f.State == "connected" {
			return fmt.Sprintf("node %s is connected: id %s, by its certificate", f.Name, f.ID)
		}
		return fmt.Sprintf("node %s %s: %s", f.Name, f.State, f.Why)
	case "joined", "left":
		verb := map[string]string{"joined": "joins", "left": "leaves"}[e.Type]
		switch {
		case f.Local:
			return f.Name + " " + verb
		case len(f.Provides) > 0 && e.Type == "joined":
			return fmt.Sprintf("node %s provides %s", f.On, strings.Join(f.Provides, ", "))
		}
	case "spawned":
		t.parts++
		return fmt.Sprintf("%s spawns a sub-agent: %s", f.Name, f.Text)
	case "skill":
		return fmt.Sprintf("%s takes the skill %s", f.Name, f.Text)
	case "task":
		return fmt.Sprintf("%s begins: %s", f.Name, f.Text)
	case "tool_call":
		return fmt.Sprintf("%s asks for %s %s", f.Name, f.Tool, clip(string(f.Args), 80))
	case "catalog":
		if f.Parent == "" {
			return fmt.Sprintf("SKILLS: %s is shown the catalog: %s", f.Name, f.Text)
		}
	case "skill_granted":
		t.granted[e.Agent] = f.Rules
		return fmt.Sprintf("GRANTED: the skill %s allows %s to %s", f.Skill, strings.Join(f.Rules, ", "), f.Name)
	case "skill_deactivated":
		delete(t.granted, e.Agent)
		if f.Why == "given back" {
			return fmt.Sprintf("TAKEN BACK: %s gives the skill %s back, and has no more of %s", f.Name, f.Skill, strings.Join(f.Rules, ", "))
		}
	case "decision":
		return t.decision(e.Agent, f.Name, f.Tool, f.Verdict, f.Source, f.Why, f.Approved)
	case "served":
		return fmt.Sprintf("answers %s for node %s", f.Capability, f.From)
	case "done":
		if f.Parent != "" {
			t.done++
		}
		return f.Name + " is done"
	case "failed":
		return fmt.Sprintf("%s failed: %s", f.Name, f.Why)
	}
	return ""
}

// decision says what was refused, and the first time that a grant allows what was to be asked about.
func (t *tour) decision(agent, name, tool, verdict, source, why string, approved bool) string {
	call := agent + " " + tool
	switch {
	case verdict == "ask" && !approved:
		t.asked[call] = true
		return fmt.Sprintf("REFUSED: %s may not use %s: %s Nobody is here to say.", name, tool, why)
	case !approved && source == "config" && slices.Contains(t.granted[agent], tool):
		return fmt.Sprintf("REFUSED: %s may not use %s: %s What a skill grants does not lift that.", name, tool, why)
	case !approved:
		return fmt.Sprintf("REFUSED: %s may not use %s: %s", name, tool, why)
	case t.asked[call] && strings.HasPrefix(source, "skill:"):
		delete(t.asked, call)
		return fmt.Sprintf("ALLOWED: %s may use %s now, which it might not before: %s", name, tool, why)
	}
	return ""
}
