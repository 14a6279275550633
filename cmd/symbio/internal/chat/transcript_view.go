package chat

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"symbio/agent/event"
	"symbio/cmd/symbio/internal/command"
	"symbio/cmd/symbio/internal/terminal"
	"symbio/security/visible"
)

// transcriptView makes of a conversation's events what a person at a terminal sees: the first agent's text as prose, each call
// of a tool as one short line when it has ended, and those of sub-agents below their names.
type transcriptView struct {
	screen  *screen
	prose   bool // the terminal is where the answer goes
	root    string
	agents  map[string]*agentRow
	spoken  string         // by the first agent in its latest turn
	turn    int            // which that is
	held    []string       // lines of sub-agents, while the first one is in the middle of a sentence
	running []*runningCall // calls that have not ended, the latest last
}

// agentRow is one agent of the tree.
type agentRow struct {
	name  string
	depth int
	began time.Time
}

// runningCall is a call of a tool that has not ended.
type runningCall struct {
	agent, call string
	what        string // the tool and its telling argument
	progress    string
	began       time.Time
}

// maxHeld is how many lines of sub-agents wait for the end of a sentence.
const maxHeld = 50

// maxRunning bounds the calls that are remembered: of more, the oldest end without a line.
const maxRunning = 1000

func newTranscriptView(s *screen, prose bool) *transcriptView {
	return &transcriptView{screen: s, prose: prose, agents: map[string]*agentRow{}}
}

// event shows one event.
func (s *transcriptView) event(e event.Event) {
	h, _ := e.Fields() // what cannot be read is shown without
	who := s.agent(e, h)
	switch e.Type {
	case "task":
		if who.began = e.Time; who.depth > 0 {
			s.agentLine(who, StyleBold, h.Text)
		}
	case "text":
		s.text(who, h)
	case "tool_call":
		s.begin(e, h)
	case "progress":
		if d := s.find(e.Agent, h.Call); d != nil {
			d.progress = progressText(h)
		}
	case "tool_result":
		s.end(e, who, h)
	case "turn":
		if who.depth == 0 {
			s.screen.finish()
			s.release()
		}
	case "done":
		if who.depth > 0 {
			s.agentLine(who, styleDim, "is done  "+spentAfter(h.Spent, e.Time.Sub(who.began)))
		}
	case "failed":
		if who.depth > 0 {
			s.agentLine(who, styleBad, "failed: "+h.Why+"  "+spentAfter(h.Spent, e.Time.Sub(who.began)))
		}
	default:
		s.aside(e, who, h)
	}
}

// textOnly shows only what the first agent says.
func (s *transcriptView) textOnly(e event.Event) {
	h, _ := e.Fields() // what cannot be read is shown without
	who := s.agent(e, h)
	switch {
	case who.depth > 0 || e.Agent == "":
	case e.Type == "text":
		s.text(who, h)
	default:
		s.screen.finish()
	}
}

// aside shows what is neither text nor a tool.
func (s *transcriptView) aside(e event.Event, who *agentRow, h event.Fields) {
	switch e.Type {
	case "retry":
		s.agentLine(who, styleDim, fmt.Sprintf("%s is asked in %.3gs, because %s", cmp.Or(h.Next, "the model"), h.Wait, h.Why))
	case "skill":
		s.agentLine(who, styleDim, "takes the skill "+h.Text)
	case "notice", "warning":
		s.agentLine(who, stylePlain, cmp.Or(h.Text, h.Why))
	case "compacted":
		s.agentLine(who, styleDim, "makes room in the model's context: "+h.Text)
	case "steered":
		s.agentLine(who, styleDim, h.Outcome+", from elsewhere: "+h.Text)
	case "gap":
		s.agentLine(who, styleDim, fmt.Sprintf("%d events are not shown: there were too many at once", h.Missed))
	}
}

// agent is whose event it is. The first one that is seen is the first agent.
func (s *transcriptView) agent(e event.Event, h event.Fields) *agentRow {
	if e.Agent == "" {
		return &agentRow{}
	}
	a := s.agents[e.Agent]
	if a == nil {
		a = &agentRow{began: e.Time}
		if p := s.agents[h.Parent]; p != nil {
			a.depth = p.depth + 1
		}
		if s.root == "" {
			s.root = e.Agent
		}
		s.agents[e.Agent] = a
	}
	a.name = cmp.Or(h.Name, a.name)
	return a
}

// text adds prose; what sub-agents say is for their parents.
func (s *transcriptView) text(who *agentRow, h event.Fields) {
	if who.depth > 0 {
		return
	}
	if h.Turn != s.turn {
		s.turn, s.spoken = h.Turn, ""
	}
	text := h.Text
	if s.spoken == "" {
		text = strings.TrimLeft(text, "\n")
	}
	s.spoken += text
	if s.prose {
		s.screen.prose(text)
	}
	if s.screen.part == "" {
		s.release()
	}
}

func (s *transcriptView) begin(e event.Event, h event.Fields) {
	if e.Agent == s.root {
		s.screen.finish()
		s.release()
	}
	if len(s.running) >= maxRunning {
		s.running = slices.Delete(s.running, 0, maxRunning/2)
	}
	s.running = append(s.running, &runningCall{agent: e.Agent, call: h.Call, what: strings.TrimSpace(h.Tool + " " + ArgSummary(h.Args)), began: e.Time})
}

func (s *transcriptView) find(agent, call string) *runningCall {
	for _, d := range s.running {
		if d.agent == agent && d.call == call {
			return d
		}
	}
	return nil
}

// end shows a call that has ended: what, what came of it, how long it took.
func (s *transcriptView) end(e event.Event, who *agentRow, h event.Fields) {
	what, time := h.Tool, ""
	if d := s.find(e.Agent, h.Call); d != nil {
		what, time = d.what, took(e.Time.Sub(d.began))
		s.running = slices.DeleteFunc(s.running, func(o *runningCall) bool { return o == d })
	}
	look, came := styleDim, outcome(h.Text)
	if h.Failed {
		look, came = styleBad, "failed: "+firstLine(h.Text)
	}
	room := s.screen.Columns() - 1 - terminal.Width(prefix(who)+time) - 4
	what = terminal.Clip(what, max(room-terminal.Width(came), room/2))
	s.agentLine(who, look, strings.TrimRight(what+"  "+terminal.Clip(came, room-terminal.Width(what))+"  "+time, " "))
}

// prefix is what stands before a line about an agent.
func prefix(who *agentRow) string {
	if who.depth == 0 {
		return "  "
	}
	return strings.Repeat("  ", who.depth+1) + terminal.Clip(terminal.Printable(who.name), 24) + "  "
}

// agentLine shows a line about an agent: at once, or when the first one has ended its sentence.
func (s *transcriptView) agentLine(who *agentRow, look, text string) {
	line := s.screen.styled(look, terminal.Fit(prefix(who)+text, s.screen.Columns()))
	if who.depth > 0 && s.screen.part != "" && len(s.held) < maxHeld {
		s.held = append(s.held, line)
		return
	}
	s.release()
	s.screen.styledLine(line)
}

// release shows the lines that were held back.
func (s *transcriptView) release() {
	held := s.held
	s.held = nil
	for _, line := range held {
		s.screen.styledLine(line)
	}
}

// status says what happens now, for the row in which nothing is typed.
func (s *transcriptView) status(now, since time.Time) string {
	text := "working"
	if n := len(s.running); n > 0 {
		d := s.running[n-1]
		text, since = strings.TrimSpace(d.what+" "+d.progress), d.began
		if a := s.agents[d.agent]; a != nil && a.depth > 0 {
			text = a.name + ": " + text
		}
		if n > 1 {
			text = fmt.Sprintf("%d calls, %s", n, text)
		}
	}
	if waits := now.Sub(since).Truncate(time.Second); waits >= time.Second {
		text += " " + waits.String()
	}
	return text
}

// finish ends a turn: with the answer, when it is not what was said last.
func (s *transcriptView) finish(text string) {
	s.screen.finish()
	s.release()
	s.running, s.turn = nil, 0
	if s.prose && text != "" && strings.TrimSpace(text) != strings.TrimSpace(s.spoken) {
		s.screen.lines(stylePlain, text)
	}
	s.spoken = ""
}

// argSummaryKeys are the arguments that say most of a call, the best first.
var argSummaryKeys = [...]string{"command", "pattern", "query", "url", "file_path", "path", "skillName", "capability", "task", "text", "message", "member", "name", "reason"}

// ArgSummary is the argument that says most of a call.
func ArgSummary(args json.RawMessage) string {
	var of map[string]any
	if json.Unmarshal(args, &of) != nil || len(of) == 0 {
		return strings.Trim(command.PlainJSON(bytes.TrimSpace(args)), `{}"`)
	}
	for _, key := range argSummaryKeys {
		if text, ok := of[key].(string); ok && text != "" {
			return firstLine(text)
		}
	}
	return visible.TruncateRunes(strings.Trim(command.PlainJSON(args), "{}"), 80)
}

// outcome is a result in a few words.
func outcome(text string) string {
	text = strings.TrimSpace(text)
	if n := strings.Count(text, "\n") + 1; n > 1 {
		return fmt.Sprintf("%d lines", n)
	}
	return terminal.Printable(text)
}

func firstLine(text string) string {
	line, rest, _ := strings.Cut(strings.TrimSpace(text), "\n")
	if strings.TrimSpace(rest) != "" {
		line += " …"
	}
	return terminal.Printable(line)
}

func progressText(h event.Fields) string {
	if h.Total > 0 {
		return fmt.Sprintf("%.0f%% %s", 100*h.Done/h.Total, terminal.Printable(h.Text))
	}
	return terminal.Printable(h.Text)
}

// took is a duration as people say it.
func took(d time.Duration) string {
	switch {
	case d < 0:
		return ""
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}
