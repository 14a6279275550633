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
	Transcript
	screen *screen
	// prose is true when the answer is to be shown on this terminal, too; lines when the events are.
	prose, lines bool
	// heldLines are lines about sub-agents that wait until the first agent has finished its line.
	heldLines []string
}

// maxHeldLines bounds heldLines; more lines are shown at once.
const maxHeldLines = 50

func newTranscriptView(v *view) *transcriptView {
	return &transcriptView{screen: v.screen, prose: v.env.OutIsTerminal, lines: v.pretty}
}

// event shows one event. Lines that were held back are shown when a row of prose is complete.
func (s *transcriptView) event(e event.Event) {
	switch n := s.Event(e); {
	case n.Kind == KindNothing, n.Kind == KindThought:
	case n.Kind == KindProse:
		if s.prose {
			s.screen.prose(n.Text)
		}
		if s.screen.partialRow == "" {
			s.release()
		}
	case n.Kind == KindBreak, !s.lines && n.Row.Depth == 0:
		s.screen.finish()
		s.release()
	case s.lines:
		s.agentLine(n)
	}
}

// noticeText returns an event that is neither text nor a tool call in a line for people; "" for one that
// they need not see.
func noticeText(e event.Event) string {
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
		return visible.Plural(f.Missed, "event") + " dropped: there were too many at once"
	}
	switch e.Type {
	case event.TypeQueued:
		return e.Text + " waits for a place"
	case event.TypeRepeated:
		return "is started anew: " + e.Why
	case event.TypeSkill:
		return "activates the skill " + e.Text
	case event.TypeCompacted:
		return "shortens its context: " + e.Text
	}
	return ""
}

// agentLine shows a line about an agent, cut to the terminal. A line about a sub-agent waits while the first agent is in the
// middle of a line.
func (s *transcriptView) agentLine(n Item) {
	style := styleDim
	switch {
	case n.Bad:
		style = styleBad
	case n.Kind == KindTask:
		style = StyleBold
	case n.Kind == KindWarning:
		style = stylePlain
	}
	prefix, columns := n.Row.Prefix(), s.screen.Columns()
	line := s.screen.styled(style, terminal.Fit(prefix+n.Line(columns-1-terminal.Width(prefix)), columns))
	if n.Row.Depth > 0 && s.screen.partialRow != "" && len(s.heldLines) < maxHeldLines {
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

// finish ends a turn. The answer is shown when it differs from the text that was streamed.
func (s *transcriptView) finish(answer string) {
	s.screen.finish()
	s.release()
	if answer = s.End(answer); s.prose && answer != "" {
		s.screen.lines(stylePlain, answer)
	}
}

// argSummaryKeys are the arguments of our tools that describe a call best, the best first.
var argSummaryKeys = [...]string{"command", "pattern", "query", "url", "file_path", "path", "skillName", "capability", "task", "text",
	"message", "member", "name", "reason", "action"}

// ArgSummary returns the most telling argument of a tool call on one line: the first of
// argSummaryKeys that is there, else all arguments, cut to 80 characters.
func ArgSummary(args json.RawMessage) string {
	var of map[string]any
	if json.Unmarshal(args, &of) != nil || len(of) == 0 {
		return strings.Trim(command.PlainJSON(bytes.TrimSpace(args)), `{}"`)
	}
	if input, ok := of["input"].(map[string]any); ok && of["kind"] == "execute" { // of a step of a program
		of["command"] = input["command"]
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
		return "of " + visible.Plural(len(steps), "step")
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
		return visible.Plural(len(made.Agents), "agent")
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
