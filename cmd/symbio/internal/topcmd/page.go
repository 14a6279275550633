package topcmd

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"

	tea "charm.land/bubbletea/v2"

	"symbio/agent/budget"
	"symbio/agent/llm"
	"symbio/cmd/symbio/internal/chat"
	"symbio/cmd/symbio/internal/command"
	"symbio/cmd/symbio/internal/terminal"
	"symbio/cmd/symbio/internal/tui"
	"symbio/internal/security/visible"
	symbiov1 "symbio/proto/symbio/v1"
)

// help is what ? shows.
//
//go:embed help.txt
var help string

// page is a text that is open above the lists. below, key and changed may be nil.
type page struct {
	tui.Scroll
	// head and below are the rows around the part of rows that fits. They are made anew for each picture.
	head, rows, below func(columns int) []string
	// keys says which there are. key handles the keys of the page itself; false means that a key is none.
	keys string
	key  func(name string) (tea.Cmd, bool)
	// changed is called after a change of the community.
	changed func(*symbiov1.FleetChange) tea.Cmd
	// agent is the id of the agent that the keys of agents are about, and decision the id of the decision; "" = none.
	agent, decision string
	// follow is true if the end stays on the screen while it grows.
	follow bool
}

// view returns the rows of the page for a screen of so many rows.
func (p *page) view(k *look, room int) []string {
	columns := k.width - 1
	head, all, below := p.head(columns), p.rows(columns), []string(nil)
	if p.below != nil {
		below = p.below(columns)
	}
	fits := max(1, room-len(head)-len(below))
	if p.follow && p.AtEnd() {
		p.Top = len(all)
	}
	from, to := p.Fit(len(all), fits)
	head[0] = tui.Paint(k.st.Bold, k.position(terminal.Printable(head[0]), from, to, len(all)))
	rows := append(head, all[from:to]...)
	for len(rows) < room-len(below) {
		rows = append(rows, "")
	}
	return append(rows, below...)
}

// textPage returns a page with a title and a text.
func textPage(title, text string) *page {
	return &page{
		keys: "Esc back  ↑↓ PgUp PgDn",
		head: func(int) []string { return []string{title, ""} },
		rows: func(columns int) []string { return tui.Wrap(terminal.PrintableLines(text), columns) },
	}
}

// indented returns a value as JSON in several lines.
func indented(v any) string {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// question is the page of a decision that waits: the whole call or its change, and the possible answers.
type question struct {
	m        *model
	decision *symbiov1.Approval
	fields   chat.Question
	choices  []tui.Choice
	// chosen is the marked choice.
	chosen int
}

func newQuestion(m *model, d *symbiov1.Approval) *question {
	q := &question{m: m, decision: d, fields: tui.QuestionOf(d)}
	q.choices = tui.Choices(q.fields)
	for i := range q.choices {
		// In the lists a opens the question: pressed twice it must not keep a rule for good.
		if q.choices[i].Key == "a" {
			q.choices[i].Key = "l"
		}
	}
	return q
}

func (q *question) page() *page {
	p := &page{below: q.below, key: q.key, agent: q.decision.GetAgent(), decision: q.decision.GetId(), keys: "Enter answers  ↑↓ choose  PgUp PgDn read  Esc decides later"}
	p.head = func(columns int) []string {
		head, _ := tui.Question(q.m.look.st, q.fields, columns)
		return []string{head + " on " + q.decision.GetNodeName()}
	}
	p.rows = func(columns int) []string {
		_, body := tui.Question(q.m.look.st, q.fields, columns)
		return body
	}
	return p
}

func (q *question) below(columns int) (rows []string) {
	text := visible.Escape(q.decision.GetWhy())
	if left := q.m.look.left(q.decision); left != "" {
		text += "\nIt is denied if it has no answer in " + left
	}
	rows = strings.Split(tui.Paint(q.m.look.st.Dim, strings.Join(tui.Wrap(text, columns), "\n")), "\n")
	for i, c := range q.choices {
		rows = append(rows, q.m.look.row(c.Key+"  "+c.Text, i == q.chosen))
		for _, line := range c.More {
			rows = append(rows, tui.Indented(q.m.look.st, line, columns)...)
		}
	}
	return rows
}

// key handles the keys of the question. a and d mean here what they mean in the lists.
func (q *question) key(name string) (tea.Cmd, bool) {
	switch name {
	case "up", "k", "down", "j":
		step := 1
		if name == "up" || name == "k" {
			step = len(q.choices) - 1
		}
		q.chosen = (q.chosen + step) % len(q.choices)
		return nil, true
	case "enter":
		name = q.choices[q.chosen].Key
	case "a":
		name = "y"
	case "d":
		name = "r"
	}
	for _, c := range q.choices {
		if c.Key == name {
			return q.answer(c), true
		}
	}
	return nil, false
}

// answer sends a choice to the node, or asks for the text that belongs to it first.
func (q *question) answer(c tui.Choice) tea.Cmd {
	r := &symbiov1.AnswerRequest{Id: q.decision.GetId(), Digest: q.decision.GetDigest(), By: "symbio top"}
	send := func(text string) tea.Cmd {
		r.Reason = text
		q.m.page = nil
		return q.m.act(func(ctx context.Context, c symbiov1.ControlClient) (string, error) {
			_, err := c.Answer(ctx, r)
			return fmt.Sprintf("%s: %s of %s", map[bool]string{true: "allowed", false: "denied"}[r.GetAllow()], q.fields.Tool,
				command.Chain(q.fields.Name, q.fields.For)), err
		})
	}
	if c.Set != nil {
		c.Set(r)
		return send("")
	}
	label := "why not? (may be empty) "
	if r.Allow = tui.IsQuestion(q.fields); r.GetAllow() {
		label = "the value, or NAME: VALUE; NAME: VALUE: "
	}
	q.m.ask(label, "", send)
	return nil
}

// agentView is the page of one agent: its limits, and its conversation as it goes on.
type agentView struct {
	m *model
	// last is the agent as it was last; it stays when the agent is gone.
	last     *symbiov1.FleetAgent
	messages []llm.Message
	// remark is what is said above the conversation, or why there is none.
	remark string
	// asking is true while the conversation is asked for, stale if it has changed meanwhile.
	asking, stale bool
	// drawn are the rows of the messages for so many columns; nil = to be made.
	drawn   []string
	columns int
}

// openAgent opens the page of an agent.
func openAgent(m *model, id string) tea.Cmd {
	v := &agentView{m: m, last: m.Agents[id], remark: "…"}
	m.page = &page{head: v.head, rows: v.rows, changed: v.changed, agent: id, follow: true}
	m.page.keys = "Esc back  a/d answer  m steer  i interrupt  x stop  ↑↓ PgUp PgDn"
	return v.ask()
}

// ask asks for the conversation, once at a time.
func (v *agentView) ask() tea.Cmd {
	if v.stale = v.asking; v.asking {
		return nil
	}
	v.asking = true
	return v.m.link.call(func(ctx context.Context, c symbiov1.ControlClient) func() tea.Cmd {
		reply, err := c.Conversation(ctx, &symbiov1.ConversationRequest{Member: v.last.GetId()})
		var messages []llm.Message
		if err == nil {
			err = json.Unmarshal(reply.GetTranscript(), &messages)
		}
		return func() tea.Cmd {
			v.asking, v.drawn, v.remark = false, nil, ""
			if err != nil {
				v.remark = command.ErrorText(ctx, err)
			} else if v.messages = messages; reply.GetOmitted() > 0 {
				v.remark = visible.Plural(int(reply.GetOmitted()), "message") + " before these, not shown"
			}
			if v.stale {
				return v.ask()
			}
			return nil
		}
	})
}

// changed asks again when something of the agent has changed.
func (v *agentView) changed(c *symbiov1.FleetChange) tea.Cmd {
	for _, a := range c.GetAgents() {
		if a.GetId() == v.last.GetId() {
			v.last = a
			return v.ask()
		}
	}
	return nil
}

// head returns what the agent is, does and is held to.
func (v *agentView) head(columns int) []string {
	a, s, of := v.last, v.last.GetSpent(), v.last.GetLimits()
	first := fmt.Sprintf("%s on %s · %s · turn %d · %s", a.GetName(), a.GetNodeName(), a.GetState(), a.GetTurn(), a.GetModel())
	if a.GetWindow() > 0 {
		first += fmt.Sprintf(" · %s of %s", filled(a), budget.Rounded(count(a.GetWindow())))
	}
	if v.m.Agents[a.GetId()] == nil {
		first += " · gone"
	}
	cost := "no limit"
	if of.GetCost() > 0 {
		cost = fmt.Sprintf("$%.2f", of.GetCost())
	}
	held := fmt.Sprintf("held to: %d of %d model calls · %s of %s tokens · $%.4f of %s · %d agents at once, %d deep, %d a minute · %s a task", s.GetModelCalls(), of.GetModelCalls(),
		budget.Rounded(tokens(s)), budget.Rounded(count(of.GetTokens())), s.GetCost(), cost, of.GetAgents(), of.GetDepth(),
		of.GetSpawnsPerMinute(), of.GetWall().AsDuration())
	if a.GetSession() != "" {
		held += " · session " + a.GetSession()
	}
	rows := tui.Wrap(tui.Paint(v.m.look.st.Dim, terminal.Printable(held)), columns)
	return append(append([]string{first}, rows...), "")
}

// rows returns the messages, and what is not finished: the calls that run or wait.
func (v *agentView) rows(columns int) []string {
	if v.drawn == nil || v.columns != columns {
		v.drawn, v.columns = tui.Conversation(v.m.look.st, v.messages, columns, v.m.links), columns
		if v.remark != "" {
			v.drawn = append(tui.Wrap(tui.Paint(v.m.look.st.Dim, terminal.PrintableLines(v.remark)), columns), v.drawn...)
		}
	}
	rows := v.drawn[:len(v.drawn):len(v.drawn)]
	for _, c := range v.last.GetCalls() {
		text, mark := callText(c.GetTool(), c.GetArgs()), v.m.look.st.Accent.Render("● ")
		if c.GetWaiting() {
			text, mark = text+" waits for a person: a shows it", v.m.look.st.Warn.Render("● ")
		}
		rows = append(rows, tui.Cut("  "+mark+terminal.Printable(text)+" "+v.m.look.since(c.GetSince().AsTime()), columns))
	}
	return rows
}
