package cli

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"symbio/agent/budget"
	"symbio/agent/event"
	"symbio/cmd/symbio/internal/chat"
	"symbio/cmd/symbio/internal/command"
	"symbio/cmd/symbio/internal/demo"
	"symbio/cmd/symbio/internal/terminal"
	"symbio/security/visible"
)

// demoView shows the events of the tour's nodes, one line each, with how much of the survey is
// done. With --json it prints the events. It is called by one goroutine at a time; the observer's
// lock orders the calls of both nodes. It keeps what it needs of earlier events, because a line can
// depend on them.
type demoView struct {
	env *command.Env
	// begin is the time of the first event.
	begin time.Time
	// columns is the width of the terminal; 0 if there is none.
	columns int
	// color is true when highlights are bold.
	color bool
	// parts counts the sub-agents that were spawned, done those that have ended. Each surveys one
	// part.
	parts, done int
	// rootAgent is the id of the agent that was given the task. It is "" until the first task.
	rootAgent string
	// agents are all agents by id. An agent on node b has the same id in the events of both nodes.
	agents map[string]*demoAgent
	// asked has "AGENT TOOL" of calls that needed approval. A call is removed when a skill allows
	// it.
	asked map[string]bool
	// granted has for each agent the rules that skills gave it.
	granted map[string][]string
	// lastLine is the line before, which is not repeated.
	lastLine string
	// err is the first error of writing with --json. Later events are dropped.
	err error
}

// demoAgent is an agent of the tour.
type demoAgent struct {
	// node is the node on which it lives. It is "" until the event that the agent joined.
	node string
	// isSubagent is true for all but the root agent.
	isSubagent bool
}

// newDemoView returns a view on standard error. The width is read once; a window that is resized
// during the tour keeps the first layout.
func newDemoView(a *command.Env) *demoView {
	t := &demoView{env: a, agents: map[string]*demoAgent{}, asked: map[string]bool{}, granted: map[string][]string{}}
	if s := chat.NewScreen(a); s != nil && a.ErrIsTerminal {
		t.columns, t.color = s.Columns(), s.Color
	}
	return t
}

// event shows one event. It never fails: the tour must end and remove its nodes also without a
// reader.
func (t *demoView) event(e event.Event) {
	if t.env.JSON {
		// After the first error of writing there is no reader any more; the tour goes on.
		if t.err == nil {
			t.err = t.env.PrintLine(e)
		}
		return
	}
	if t.begin.IsZero() {
		t.begin = e.Time
	}
	line := terminal.Printable(t.line(e))
	if line == "" || line == t.lastLine {
		return
	}
	t.lastLine = line
	// The columns are seconds since the first event, progress, and node. The clocks of both nodes
	// are one, but events arrive out of order, so the difference can be negative.
	head := fmt.Sprintf("%6.3f %-7s %s | ", max(0, e.Time.Sub(t.begin).Seconds()), t.progress(), terminal.Printable(e.Node))
	fmt.Fprintln(t.env.Err, t.layOut(head, line))
}

// layOut returns a line as it is written. On a terminal a highlight is bold and wraps over several
// rows; any other line is cut to one row. Elsewhere lines are cut to 200 characters. line must be
// safe to print.
func (t *demoView) layOut(head, line string) string {
	room := t.columns - terminal.Width(head)
	switch {
	case t.columns == 0:
		return head + visible.TruncateRunes(line, 200)
	// A narrow terminal wraps by itself.
	case room < 30:
		return head + line
	case !isHighlight(line):
		return head + terminal.Clip(line, room-1)
	}
	all := terminal.Rows(line, room-1)
	if t.color {
		// A highlight begins with its word, and a row is wide enough for it.
		word, rest, _ := strings.Cut(all[0], ":")
		all[0] = "\x1b[" + chat.StyleBold + "m" + word + ":\x1b[0m" + rest
	}
	return head + strings.Join(all, "\n"+strings.Repeat(" ", terminal.Width(head)))
}

// isHighlight reports whether a line begins with a word in capitals and a colon, such as
// "REFUSED:". Those lines show what the tour is about.
func isHighlight(line string) bool {
	word, _, found := strings.Cut(line, ":")
	return found && word != "" && !strings.ContainsFunc(word, func(r rune) bool { return !unicode.IsUpper(r) && r != ' ' })
}

// progress returns "DONE/PARTS" once the number of parts is known.
func (t *demoView) progress() string {
	if t.parts == 0 {
		return ""
	}
	return fmt.Sprintf("%d/%d", t.done, t.parts)
}

// agent returns the agent of an event, and creates it at the first event. It also records where the
// agent lives and whether it is the root.
func (t *demoView) agent(e event.Event, f event.Fields) *demoAgent {
	a := t.agents[e.Agent]
	if a == nil {
		a = &demoAgent{}
		t.agents[e.Agent] = a
	}
	if e.Type == "joined" {
		a.node = f.On
	}
	if e.Type == "task" && t.rootAgent == "" {
		t.rootAgent = e.Agent
	}
	// Before the first task no agent is a sub-agent.
	a.isSubagent = t.rootAgent != "" && e.Agent != t.rootAgent
	return a
}

// line returns an event in words; "" for an event that is not worth a line. It updates the state of
// the view, so it must be called once for each event. An event that cannot be decoded has no line.
func (t *demoView) line(e event.Event) string {
	f, err := e.Fields()
	if err != nil {
		return ""
	}
	a := t.agent(e, f)
	switch e.Type {
	case "note":
		return f.Text
	case "node":
		if f.State == "connected" {
			return fmt.Sprintf("node %s is connected, which its certificate proves: id %s", f.Name, f.ID)
		}
		return fmt.Sprintf("node %s %s: %s", f.Name, f.State, f.Why)
	case "joined", "updated", "left":
		return t.memberLine(e, f, a)
	case "session":
		return fmt.Sprintf("INTERRUPTED: the task of %s: %s", f.Name, f.Why)
	case "mcp":
		return fmt.Sprintf("MCP: the server %s is %s, with %s", f.Server, f.State, chat.Plural(f.Tools, "tool"))
	case "served":
		switch f.Capability {
		// The event that the sub-agent joined has a line of its own.
		case "agents.spawn":
			return ""
		case "report.render":
			return "MCP: the server answers report.render for node " + f.From
		}
		return fmt.Sprintf("answers %s for node %s", f.Capability, f.From)
	case "approval", "answered", "steered", "decision":
		return t.decisionLine(e, f)
	case "catalog", "skill", "skill_granted", "skill_deactivated":
		return t.skillLine(e, f, a)
	}
	return t.workLine(e, f, a)
}

// memberLine describes members that come, change and go. Sub-agents of node a are left out: their
// spawning has a line. For a member of another node the line names what that node provides.
func (t *demoView) memberLine(e event.Event, f event.Fields, a *demoAgent) string {
	verb := map[string]string{"joined": "joins", "left": "leaves"}[e.Type]
	switch {
	case f.Local && (verb == "" || a.isSubagent && e.Node == "a"):
	case f.Local && a.isSubagent && e.Type == "joined":
		return fmt.Sprintf("LENT: %s lives on this node, a sub-agent of node a's agent, and ends with it", f.Name)
	case f.Local:
		return f.Name + " " + verb
	case e.Type != "left":
		if provides := slices.DeleteFunc(f.Provides, isCommon); len(provides) > 0 {
			return fmt.Sprintf("node %s provides %s", f.On, strings.Join(provides, ", "))
		}
	}
	return ""
}

// workLine describes what agents do: the root agent in full, of sub-agents only the end. It counts
// parts and calls.
func (t *demoView) workLine(e event.Event, f event.Fields, a *demoAgent) string {
	switch e.Type {
	case "task":
		if a.isSubagent && e.Node == "a" {
			// The line of its spawning has said it.
			return ""
		}
		return fmt.Sprintf("%s begins: %s", f.Name, f.Text)
	case "spawned":
		t.parts++
		return fmt.Sprintf("%s spawns a sub-agent: %s", f.Name, f.Text)
	case "tool_call":
		switch {
		case a.isSubagent, f.Tool == "replicate_agent":
			return ""
		case f.Tool == "wait_agents":
			return f.Name + " waits for its sub-agents, which work side by side"
		}
		return strings.TrimSpace(fmt.Sprintf("%s asks for %s %s", f.Name, f.Tool, chat.ArgSummary(f.Args)))
	case "progress":
		if f.Tool == "" && f.Parent != "" {
			return fmt.Sprintf("node %s tells: %s", a.node, f.Text)
		}
	case "done":
		if e.Node != "a" {
			// Node a reports the end of its sub-agent on node b itself.
			return ""
		}
		where, spent := "", ""
		if f.Parent != "" {
			t.done++
			if a.node != "" && a.node != "a" {
				where = " on node " + a.node
			}
		}
		if f.Spent != nil {
			spent = fmt.Sprintf(": %s, %s tokens", chat.Plural(f.Spent.ModelCalls, "model call"), budget.Rounded(f.Spent.Tokens))
		}
		if f.Parent == "" {
			spent += ", with all sub-agents"
		}
		return f.Name + " is done" + where + spent
	case "failed":
		if f.Parent != "" {
			t.done++
		}
		return fmt.Sprintf("%s failed: %s", f.Name, f.Why)
	}
	return ""
}

// skillLine describes the skills that the root agent and agents on node b activate and deactivate.
func (t *demoView) skillLine(e event.Event, f event.Fields, a *demoAgent) string {
	mute := a.isSubagent && e.Node == "a"
	switch e.Type {
	case "catalog":
		if !a.isSubagent {
			return fmt.Sprintf("SKILLS: %s is shown the catalog: %s", f.Name, f.Text)
		}
	case "skill_granted":
		t.granted[e.Agent] = f.Rules
		if !mute {
			return fmt.Sprintf("GRANTED: the skill %s allows %s to %s", f.Skill, strings.Join(f.Rules, ", "), f.Name)
		}
	case "skill_deactivated":
		delete(t.granted, e.Agent)
		if f.Why == "given back" {
			return fmt.Sprintf("TAKEN BACK: %s gives the skill %s back, and has no more of %s", f.Name, f.Skill, strings.Join(f.Rules, ", "))
		}
	}
	return ""
}

// decisionLine describes approvals, refusals, and the first call that a skill allows although it
// needed approval before. The order of the cases matters: a refusal in spite of a skill is told
// apart from a plain one. A call is identified by agent and tool.
func (t *demoView) decisionLine(e event.Event, f event.Fields) string {
	call := e.Agent + " " + f.Tool
	switch {
	case e.Type == "approval":
		return fmt.Sprintf("ASKED: %s wants to use %s %s. %s", f.Name, f.Tool, chat.ArgSummary(f.Args), f.Why)
	case e.Type == "answered" && f.Allow:
		return "YOU SAY: yes, this once (the tour says it for you)"
	case e.Type == "answered":
		return "YOU SAY: no (the tour says it for you)"
	case e.Type == "steered":
		if f.Outcome != "delivered" {
			return fmt.Sprintf("%s: what you added: %s", strings.ToUpper(f.Outcome), f.Why)
		}
		return fmt.Sprintf("DELIVERED: %s's model has read what you added, before its turn %d", f.Name, f.Turn)
	case f.Verdict == "ask":
		t.asked[call] = true
		if f.By != "" {
			// The answer has a line of its own.
			return ""
		}
		return fmt.Sprintf("REFUSED: %s may not use %s: %s There is no terminal to ask on.", f.Name, f.Tool, f.Why)
	case !f.Approved:
		if f.Source == "config" && slices.Contains(t.granted[e.Agent], f.Tool) {
			f.Why += " What a skill grants does not lift that."
		}
		return fmt.Sprintf("REFUSED: %s may not use %s: %s", f.Name, f.Tool, f.Why)
	case t.asked[call] && strings.HasPrefix(f.Source, "skill:"):
		delete(t.asked, call)
		return fmt.Sprintf("ALLOWED: %s may use %s now, which it might not before: %s", f.Name, f.Tool, f.Why)
	}
	return ""
}

// maxSummaryRows limits each paragraph of the result on a terminal, so that all of it fits 24 rows.
const maxSummaryRows = 6

// printDemoResult prints the result of the tour for people: the agent's answer, and in five lines what two nodes gave. On a
// terminal all but the path of the report is wrapped. Elsewhere each paragraph is one line of any length.
func printDemoResult(env *command.Env, o demo.Options, r demo.Result) error {
	lines := []string{
		strings.TrimSpace(r.Summary), "",
		demoWhere(r), demoTime(o, r),
		fmt.Sprintf("Rules: they held on both nodes. %s refused; of %s at one terminal %d got a yes and %d a no.",
			chat.Plural(r.Denied, "call")+" were", chat.Plural(r.Approvals.Asked, "question"), r.Approvals.Allowed, r.Approvals.Denied),
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

// demoWhere says which work ran on which node.
func demoWhere(r demo.Result) string {
	text := fmt.Sprintf("Where: node a surveyed %s, node b %s", chat.Plural(len(r.Parts["a"]), "part"), chat.Plural(len(r.Parts["b"]), "part"))
	if there := r.Parts["b"]; len(there) > 0 && len(there) <= 5 {
		text += " (" + strings.Join(there, ", ") + ")"
	}
	if r.MCPCalls > 0 {
		text += "; an MCP server of node b made the report of all"
	}
	return text + ". On a machine of its own node b would work the same."
}

// demoTime says what the second node gained in time, or what happened when it was lost.
func demoTime(o demo.Options, r demo.Result) string {
	m := r.Map
	if m == nil {
		return fmt.Sprintf("Time: node b was killed, with %s interrupted, and node a did its part again. Without --crash the tour measures one node and two.", chat.Plural(r.Interrupted, "task"))
	}
	text := fmt.Sprintf("Time: symbio map did %s in %.1f s on node a alone, and in %.1f s on both (a %d, b %d).", chat.Plural(m.Items, "item"), m.Alone, m.Both, m.Nodes["a"], m.Nodes["b"])
	if o.Model == "" {
		text += fmt.Sprintf(" For this the model of the tour took %v an item, %d at a time on a node.", demo.MapPause, demo.MapPlaces)
	}
	return text
}
