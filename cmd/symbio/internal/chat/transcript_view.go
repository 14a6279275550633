package chat

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"symbio/agent/event"
	"symbio/cmd/symbio/internal/command"
	"symbio/cmd/symbio/internal/terminal"
	"symbio/internal/security/visible"
)

// transcriptView shows the events of a conversation at a terminal: the text of the first agent as
// prose, each tool call as one short line when it has ended, and the lines of sub-agents indented below
// their names. It is for one goroutine.
type transcriptView struct {
	screen *screen
	// prose is true when the answer is to be shown on this terminal, too.
	prose  bool
	agents Agents
	// turnText is what the first agent has said in its latest turn, whose number is turn.
	turnText string
	// turn is the number of the turn that turnText belongs to.
	turn int
	// heldLines are lines about sub-agents that wait until the first agent has finished its line.
	heldLines []string
	calls     Calls
}

// maxHeldLines bounds heldLines; more lines are shown at once.
const maxHeldLines = 50

func newTranscriptView(s *screen, prose bool) *transcriptView {
	return &transcriptView{screen: s, prose: prose}
}

// event shows one event. Every event must be passed to it once, because it learns the tree of agents
// from them.
func (s *transcriptView) event(e event.Event) {
	row := s.agents.Event(e)
	switch e.Type {
	case event.TypeTask:
		if row.Began = e.Time; row.Depth > 0 {
			s.agentLine(row, StyleBold, e.Text)
		}
	case event.TypeText:
		s.text(row, e)
	case event.TypeThought:
	case event.TypeToolCall:
		// A call of the first agent ends its row of prose. Its line is printed when it ends, so that each call takes one
		// line.
		if s.calls.Event(e); e.Agent == s.agents.Root {
			s.screen.finish()
			s.release()
		}
	case event.TypeProgress:
		s.calls.Event(e)
	case event.TypeToolResult:
		s.endCall(e, row)
	case event.TypeTurn:
		if row.Depth == 0 {
			s.screen.finish()
			s.release()
		}
	case event.TypeDone:
		if row.Depth > 0 {
			s.agentLine(row, styleDim, "is done  "+UsageAndTime(event.PartOf[event.End](e).Spent, e.Time.Sub(row.Began)))
		}
	case event.TypeFailed:
		if row.Depth > 0 {
			s.agentLine(row, styleBad, "failed: "+e.Why+"  "+UsageAndTime(event.PartOf[event.End](e).Spent, e.Time.Sub(row.Began)))
		}
	default:
		style := styleDim
		if e.Type == event.TypeNotice || e.Type == event.TypeWarning {
			style = stylePlain
		}
		if text := NoticeText(e); text != "" {
			s.agentLine(row, style, text)
		}
	}
}

// textOnly shows only the text of the first agent, for a terminal that gets the answer but not the
// events.
func (s *transcriptView) textOnly(e event.Event) {
	row := s.agents.Event(e)
	switch {
	case row.Depth > 0 || e.Agent == "":
	case e.Type == event.TypeText:
		s.text(row, e)
	default:
		s.screen.finish()
	}
}

// NoticeText returns an event that is neither text nor a tool call in a line for people; "" for one that
// they need not see.
func NoticeText(e event.Event) string {
	switch f := e.Part.(type) {
	case event.Retry:
		when := fmt.Sprintf("in %.3gs", f.Wait)
		if f.Wait >= 100 {
			when = "in " + time.Duration(f.Wait*float64(time.Second)).Round(time.Second).String()
		} else if f.Wait == 0 {
			when = "now"
		}
		return fmt.Sprintf("calls %s %s: %s", cmp.Or(f.Next, "the model again"), when, strings.TrimPrefix(e.Why, "model "+f.Next+": "))
	case event.Spawn:
		if f.On != "" && e.Why != "" {
			return "spawns a sub-agent on " + f.On + ": " + e.Why
		}
	case event.Steering:
		if e.Type == event.TypeSteered {
			return f.Outcome + ", from elsewhere: " + e.Text
		}
	case event.Gap:
		return Plural(f.Missed, "event") + " dropped: there were too many at once"
	}
	switch e.Type {
	case event.TypeQueued:
		return e.Text + " waits for a place"
	case event.TypeRepeated:
		return "is started anew: " + e.Why
	case event.TypeSkill:
		return "activates the skill " + e.Text
	case event.TypeNotice, event.TypeWarning:
		return cmp.Or(e.Text, e.Why)
	case event.TypeCompacted:
		return "shortens its context: " + e.Text
	}
	return ""
}

// text shows a piece of streamed text. Text of sub-agents is for their parents, not for the person.
// A new turn number begins a new text. Lines that were held back are shown when a row of prose is
// complete.
func (s *transcriptView) text(row *AgentRow, e event.Event) {
	if row.Depth > 0 {
		return
	}
	if turn := event.PartOf[event.Turn](e).Turn; turn != s.turn {
		s.turn, s.turnText = turn, ""
	}
	text := e.Text
	if s.turnText == "" {
		text = strings.TrimLeft(text, "\n")
	}
	s.turnText += text
	if s.prose {
		s.screen.prose(text)
	}
	if s.screen.partialRow == "" {
		s.release()
	}
}

// endCall shows a call that has ended: the tool, the result in a few words, and how long it took.
// The row is cut to the terminal; the result gets at most half of it when the call is long. A
// result without a known call is shown with the name of the tool and without a time.
func (s *transcriptView) endCall(e event.Event, row *AgentRow) {
	call, time := s.calls.Event(e)
	style, summary := styleDim, ResultSummary(e.Text)
	if event.PartOf[event.Tool](e).Failed {
		style, summary = styleBad, "failed: "+FirstLine(e.Text)
	}
	// 4 columns separate the three parts of the row.
	room := s.screen.Columns() - 1 - terminal.Width(prefix(row)+time) - 4
	what := terminal.Clip(call.What, max(room-terminal.Width(summary), room/2))
	s.agentLine(row, style, strings.TrimRight(what+"  "+terminal.Clip(summary, room-terminal.Width(what))+"  "+time, " "))
}

// prefix returns the indentation of a line about an agent and, for a sub-agent, its name. A name
// takes at most 24 columns.
func prefix(row *AgentRow) string {
	if row.Depth == 0 {
		return "  "
	}
	return strings.Repeat("  ", row.Depth+1) + terminal.Clip(terminal.Printable(row.Name), 24) + "  "
}

// agentLine shows a line about an agent. A line about a sub-agent waits while the first agent is in
// the middle of a line.
func (s *transcriptView) agentLine(row *AgentRow, style, text string) {
	line := s.screen.styled(style, terminal.Fit(prefix(row)+text, s.screen.Columns()))
	if row.Depth > 0 && s.screen.partialRow != "" && len(s.heldLines) < maxHeldLines {
		s.heldLines = append(s.heldLines, line)
		return
	}
	s.release()
	s.screen.styledLine(line)
}

// release shows the lines that were held back.
func (s *transcriptView) release() {
	held := s.heldLines
	s.heldLines = nil
	for _, line := range held {
		s.screen.styledLine(line)
	}
}

// finish ends a turn. The answer is shown when it differs from the text that was streamed. Calls
// without a result are forgotten.
func (s *transcriptView) finish(text string) {
	s.screen.finish()
	s.release()
	s.calls, s.turn = nil, 0
	if s.prose && text != "" && strings.TrimSpace(text) != strings.TrimSpace(s.turnText) {
		s.screen.lines(stylePlain, text)
	}
	s.turnText = ""
}

// argSummaryKeys are the arguments of our tools that describe a call best, the best first.
var argSummaryKeys = [...]string{"command", "pattern", "query", "url", "file_path", "path", "skillName", "capability", "task", "text",
	"message", "member", "name", "reason"}

// ArgSummary returns the most telling argument of a tool call on one line: the first of
// argSummaryKeys that is there, else all arguments, cut to 80 characters.
func ArgSummary(args json.RawMessage) string {
	var of map[string]any
	if json.Unmarshal(args, &of) != nil || len(of) == 0 {
		return strings.Trim(command.PlainJSON(bytes.TrimSpace(args)), `{}"`)
	}
	for _, key := range argSummaryKeys {
		if text, ok := of[key].(string); ok && text != "" {
			text = FirstLine(text)
			if node, ok := of["node"].(string); ok && node != "" { // of a sub-agent
				text += " on " + terminal.Printable(node)
			}
			return text
		}
	}
	if steps, ok := of["steps"].([]any); ok { // of the tool Plan, whose steps are shown beside
		return "of " + Plural(len(steps), "step")
	}
	return visible.TruncateRunes(strings.Trim(command.PlainJSON(args), "{}"), 80)
}

// ResultSummary returns a tool's result on one line: the number of lines if there are several, the names of new sub-agents.
func ResultSummary(text string) string {
	text = strings.TrimSpace(text)
	var made struct {
		ID     string `json:"agent_id"`
		Name   string
		Agents []json.RawMessage
	}
	if json.Unmarshal([]byte(text), &made) == nil && made.ID != "" {
		return "as " + terminal.Printable(made.Name)
	} else if len(made.Agents) > 0 {
		return Plural(len(made.Agents), "agent")
	}
	if n := strings.Count(text, "\n") + 1; n > 1 {
		return fmt.Sprintf("%d lines", n)
	}
	return terminal.Printable(text)
}

// FirstLine returns the first line of text, safe to print, with "…" if there are more.
func FirstLine(text string) string {
	line, rest, _ := strings.Cut(strings.TrimSpace(text), "\n")
	if strings.TrimSpace(rest) != "" {
		line += " …"
	}
	return terminal.Printable(line)
}

// ProgressText returns progress in words, with a percentage when the total is known. Done and Total
// are in units of the tool.
func ProgressText(e event.Event) string {
	if f := event.PartOf[event.Tool](e); f.Total > 0 {
		return fmt.Sprintf("%.0f%% %s", 100*f.Done/f.Total, terminal.Printable(e.Text))
	}
	return terminal.Printable(e.Text)
}

// DurationText returns a duration rounded for people; "" for a negative one, which clocks of two
// machines can give.
func DurationText(d time.Duration) string {
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
