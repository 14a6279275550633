package demo

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"symbio/agent/budget"
	"symbio/agent/event"
	"symbio/cmd/symbio/internal/chat"
	"symbio/cmd/symbio/internal/command"
	"symbio/cmd/symbio/internal/terminal"
	"symbio/internal/security/visible"
	"symbio/skills"
)

// view shows the events of both nodes, one line each, with how much of the survey is done; with --json the events. It also
// counts what the result says. Its methods may be called by several goroutines: each node has one that reads its events.
type view struct {
	env *command.Env
	// columns is the width of the terminal; 0 if there is none. color is true when highlights are bold.
	columns int
	color   bool
	// questions are the questions of agents on node a.
	questions chan chat.Question

	// mu guards the fields below.
	mu     sync.Mutex
	peer   peer
	agents agents
	result result
	// begin is the time of the first event, lastLine the line before, which is not repeated.
	begin    time.Time
	lastLine string
	// err is the first error of writing with --json. Later events are dropped.
	err error
}

// peer is what node a knows of node b.
type peer struct {
	// met is closed when a knows b, ready when it knows that b renders reports and lends agents, and lentWorks when the
	// sub-agent on b has answered once.
	met, ready, lentWorks chan struct{}
	// provided has the capabilities of b.
	provided map[string]bool
}

// agents is what the events said about agents.
type agents struct {
	// root is the id of the agent that was given the task, "" until then. homes has the node of each agent.
	root  string
	homes map[string]string
	// parts has for each sub-agent that has not failed the part that it surveys.
	parts map[string]string
	// spawned counts the sub-agents, done those that have ended.
	spawned, done int
	// asked has "AGENT TOOL" of calls that needed approval, until a skill allows them; granted has for each agent the rules
	// that a skill gave it.
	asked   map[string]bool
	granted map[string][]string
}

// newView returns a view on standard error. The width is read once; a window that is resized
// during the tour keeps the first layout.
func newView(env *command.Env) *view {
	v := &view{
		env: env, questions: make(chan chat.Question, 1000), result: result{Type: "result"},
		peer:   peer{met: make(chan struct{}), lentWorks: make(chan struct{}), ready: make(chan struct{}), provided: map[string]bool{}},
		agents: agents{homes: map[string]string{}, parts: map[string]string{}, asked: map[string]bool{}, granted: map[string][]string{}},
	}
	if s := chat.NewScreen(env); s != nil && env.ErrIsTerminal {
		v.columns, v.color = s.Columns(), s.Color
	}
	return v
}

// event counts an event and shows it. It never fails: the tour must end and remove its nodes also without a reader.
func (v *view) event(e event.Event) {
	v.mu.Lock()
	defer v.mu.Unlock()
	line := v.line(e)
	v.count(e)
	if v.env.JSON {
		if v.err == nil {
			v.err = v.env.PrintLine(e)
		}
		return
	}
	if v.begin.IsZero() {
		v.begin = e.Time
	}
	if line = terminal.Printable(line); line == "" || line == v.lastLine {
		return
	}
	v.lastLine = line
	progress := ""
	if v.agents.spawned > 0 {
		progress = fmt.Sprintf("%d/%d", v.agents.done, v.agents.spawned)
	}
	// The clocks of both nodes are one, but events arrive out of order, so the difference can be negative.
	head := fmt.Sprintf("%6.3f %-7s %s | ", max(0, e.Time.Sub(v.begin).Seconds()), progress, terminal.Printable(e.Node))
	fmt.Fprintln(v.env.Err, v.layOut(head, line))
}

// note shows a remark of the tour itself as an event of the node.
func (v *view) note(node, text string) {
	v.event(event.Event{Time: time.Now().UTC(), Type: "note", Node: node, Text: text})
}

// layOut returns a line as it is written. On a terminal a highlight is bold and wraps over several
// rows; any other line is cut to one row. Elsewhere lines are cut to 200 characters. line must be
// safe to print.
func (v *view) layOut(head, line string) string {
	room := v.columns - terminal.Width(head)
	// A highlight begins with a word in capitals and a colon, such as "REFUSED:".
	word, _, highlight := strings.Cut(line, ":")
	highlight = highlight && word != "" && !strings.ContainsFunc(word, func(r rune) bool { return !unicode.IsUpper(r) && r != ' ' })
	switch {
	case v.columns == 0:
		return head + visible.TruncateRunes(line, 200)
	// A narrow terminal wraps by itself.
	case room < 30:
		return head + line
	case !highlight:
		return head + terminal.Clip(line, room-1)
	}
	all := terminal.Rows(line, room-1)
	if v.color {
		// A row is wide enough for the word.
		word, rest, _ := strings.Cut(all[0], ":")
		all[0] = "\x1b[" + chat.StyleBold + "m" + word + ":\x1b[0m" + rest
	}
	return head + strings.Join(all, "\n"+strings.Repeat(" ", terminal.Width(head)))
}

// lines has the line of each event that has one, by its type and a word that says more about it (see line). In them {KEY} is
// a field of the event.
var lines = map[string]string{
	"note":           "{text}",
	"node connected": "node {name} is connected, which its certificate proves: id {id}",
	"node":           "node {name} {state}: {why}",
	"provides":       "node {on} provides {provides}",
	"joined":         "{name} joins", "left": "{name} leaves",
	"joined lent":                "LENT: {name} lives on this node, a sub-agent of node a's agent, and ends with it",
	"session":                    "INTERRUPTED: the task of {name}: {why}",
	"mcp":                        "MCP: the server {server} is {state}, with {tools}",
	"served":                     "answers {capability} for node {from}",
	"served " + renderCapability: "MCP: the server answers " + renderCapability + " for node {from}",
	"catalog":                    "SKILLS: {name} is shown the catalog: {text}",
	"skill_granted":              "GRANTED: the skill {skill} allows {rules} to {name}",
	"skill_deactivated":          "TAKEN BACK: {name} gives the skill {skill} back, and has no more of {rules}",
	"approval":                   "ASKED: {name} wants to use {tool} {args}. {why}",
	"steered delivered":          "DELIVERED: {name}'s model has read what you added, before its turn {turn}",
	"steered":                    "RETURNED: what you added: {why}",
	"decision unasked":           "REFUSED: {name} may not use {tool}: {why} There is no terminal to ask on.",
	"decision denied":            "REFUSED: {name} may not use {tool}: {why}",
	"decision kept":              "REFUSED: {name} may not use {tool}: {why} What a skill grants does not lift that.",
	"decision lifted":            "ALLOWED: {name} may use {tool} now, which it might not before: {why}",
	"task":                       "{name} begins: {text}",
	"spawned":                    "{name} spawns a sub-agent: {text}",
	"tool_call":                  "{name} asks for {tool} {args}",
	"tool_call wait_agents":      "{name} waits for its sub-agents, which work side by side",
	"progress of b":              "node b tells: {text}",
	"done":                       "{name} is done{spent}",
	"failed":                     "{name} failed: {why}",
}

// line returns an event in words; "" for an event that is not worth a line.
func (v *view) line(e event.Event) string {
	// Of the sub-agents on node a only the end is shown. Before the first task no agent is a sub-agent.
	sub := v.agents.root != "" && e.Agent != v.agents.root
	quiet := sub && e.Node == "a"
	key := e.Type
	switch f := e.Part.(type) {
	case event.Node:
		key += " " + f.State
	case event.Member:
		key = v.memberKey(e, f, sub || e.Type == "updated")
	case event.Call:
		key += " " + f.Capability
	case event.Steering:
		key += " " + f.Outcome
	case event.Decision:
		key += " " + v.verdict(e, f)
	case event.Tool:
		if key += " " + f.Tool; e.Type == event.TypeProgress && f.Tool == "" && e.Parent != "" {
			key += "of " + v.agents.homes[e.Agent]
		}
	}
	switch {
	// The event that the sub-agent joined, and the event of its spawning, have a line of their own.
	case key == "", key == "served "+lendCapability, key == "tool_call replicate_agent", e.Type == "done" && e.Node != "a",
		e.Type == "skill_deactivated" && e.Why != "given back",
		quiet && slices.Contains([]string{"task", "tool_call", "catalog", "skill_granted", "skill_deactivated"}, e.Type),
		sub && (e.Type == "tool_call" || e.Type == "catalog"):
		return ""
	}
	text, ok := lines[key]
	if !ok && !strings.HasPrefix(key, "decision") {
		text = lines[e.Type]
	}
	var fields map[string]any
	if data, err := json.Marshal(e); err != nil || json.Unmarshal(data, &fields) != nil {
		return ""
	}
	return strings.TrimSpace(os.Expand(strings.NewReplacer("$", "", "{", "${").Replace(text), func(key string) string { return v.value(e, fields, key) }))
}

// memberKey returns the key of the line about a member that comes, changes or goes. For a member of another node the line
// names what that node provides.
func (v *view) memberKey(e event.Event, f event.Member, sub bool) string {
	switch {
	case strings.HasPrefix(e.Type, "became "):
	case f.Local && (e.Type == "updated" || sub && e.Node == "a"):
		return ""
	case f.Local && sub && e.Type == "joined":
		return "joined lent"
	case f.Local:
		return e.Type
	case e.Type != "left" && len(own(f.Provides)) > 0:
		return "provides"
	}
	return ""
}

// own returns the capabilities that not every node has.
func own(provides []string) []string {
	return slices.DeleteFunc(slices.Clone(provides), command.IsCommon)
}

// verdict returns which line a decision has: refused ones, those that a skill granted and a rule denied all the same, and the
// first call that a skill allows although it needed approval before. The order of the cases matters.
func (v *view) verdict(e event.Event, f event.Decision) string {
	call := e.Agent + " " + f.Tool
	switch {
	case f.Verdict == "ask":
		v.agents.asked[call] = true
		if f.By == "" {
			return "unasked"
		}
		// The answer has a line of its own.
	case !f.Approved && f.Source == "config" && slices.Contains(v.agents.granted[e.Agent], f.Tool):
		return "kept"
	case !f.Approved:
		return "denied"
	case v.agents.asked[call] && strings.HasPrefix(f.Source, "skill:"):
		delete(v.agents.asked, call)
		return "lifted"
	}
	return ""
}

// value returns what stands for {KEY} in a line.
func (v *view) value(e event.Event, fields map[string]any, key string) string {
	switch key {
	case "args":
		return chat.ArgSummary(append(event.PartOf[event.Tool](e).Args, event.PartOf[event.Approval](e).Args...)) // it has one of them
	case "name":
		return cmp.Or(e.Name, "an agent")
	case "provides":
		return strings.Join(own(event.PartOf[event.Member](e).Provides), ", ")
	case "rules":
		return strings.Join(event.PartOf[skills.Event](e).Rules, ", ")
	case "spent":
		text := ""
		if home := v.agents.homes[e.Agent]; e.Parent != "" && home != "" && home != "a" {
			text = " on node " + home
		}
		if spent := event.PartOf[event.End](e).Spent; spent != nil {
			text += fmt.Sprintf(": %s, %s tokens", visible.Plural(spent.ModelCalls, "model call"), budget.Rounded(spent.Tokens))
		}
		if e.Parent == "" {
			text += ", with all sub-agents"
		}
		return text
	case "tools":
		return visible.Plural(event.PartOf[event.Server](e).Tools, "tool")
	}
	return fmt.Sprint(fields[key])
}

// count keeps what the result and later lines need of an event. The caller holds mu.
func (v *view) count(e event.Event) {
	r := &v.result
	switch e.Type {
	case event.TypeTask:
		v.agents.root = cmp.Or(v.agents.root, e.Agent)
	case event.TypeDone, event.TypeFailed:
		if e.Node == "a" && e.Parent != "" {
			v.agents.done++
		}
		if e.Type == event.TypeFailed {
			delete(v.agents.parts, e.Agent)
		}
	case event.TypeTurn:
		if e.Node == "b" {
			closeOnce(v.peer.lentWorks)
		}
	case event.TypeRefused:
		r.Denied++
	case event.TypeSession:
		r.Interrupted++
	}
	switch f := e.Part.(type) {
	case event.Member:
		if e.Type != "left" && e.Type != "became unavailable" {
			v.meet(e, f)
		}
	case event.Spawn:
		v.agents.spawned++
		v.agents.parts[f.Member] = strings.TrimPrefix(e.Text, "survey ")
	case skills.Event:
		switch e.Type {
		case string(skills.EventGranted):
			v.agents.granted[e.Agent] = f.Rules
		case string(skills.EventDeactivated):
			delete(v.agents.granted, e.Agent)
		}
	case event.Call:
		if e.Type == event.TypeServed && f.Capability == renderCapability && f.Error == "" {
			r.MCPCalls++
		}
	case event.Decision:
		// A refused call of another node has an event "refused" as well, which is counted above.
		if !f.Approved && f.Kind == "" {
			r.Denied++
		}
	case event.Approval:
		r.Approvals.Asked++
		if e.Node == "a" {
			v.questions <- chat.Question{Event: e, Approval: f}
		}
	case event.Answer:
		if f.Allow {
			r.Approvals.Allowed++
		} else {
			r.Approvals.Denied++
		}
	}
}

// meet records where a member lives, and what a knows of b. The caller holds mu.
func (v *view) meet(e event.Event, f event.Member) {
	if f.On != "" {
		v.agents.homes[e.Agent] = f.On
	}
	if f.Local || e.Node != "a" || len(f.Provides) == 0 {
		return
	}
	for _, name := range f.Provides {
		v.peer.provided[name] = true
	}
	closeOnce(v.peer.met)
	if v.peer.provided[renderCapability] && v.peer.provided[lendCapability] {
		closeOnce(v.peer.ready)
	}
}

// offered returns a channel that is closed when node a knows that b renders reports and lends agents.
func (v *view) offered() <-chan struct{} {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.peer.ready
}

// killed forgets what node b offered.
func (v *view) killed() {
	v.mu.Lock()
	defer v.mu.Unlock()
	clear(v.peer.provided)
	v.peer.ready = make(chan struct{})
}

// closeOnce closes a channel that may be closed already. The caller holds mu; without it two
// goroutines could both find it open.
func closeOnce(c chan struct{}) {
	select {
	case <-c:
	default:
		close(c)
	}
}

// finish completes the result when both nodes have ended.
func (v *view) finish() result {
	r := v.result
	r.Parts = map[string][]string{"a": {}, "b": {}}
	for id, part := range v.agents.parts {
		home := cmp.Or(v.agents.homes[id], "a")
		r.Parts[home] = append(r.Parts[home], part)
		slices.Sort(r.Parts[home])
	}
	return r
}
