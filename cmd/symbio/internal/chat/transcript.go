package chat

import (
	"cmp"
	"strings"

	"symbio/agent/event"
	"symbio/cmd/symbio/internal/terminal"
)

// Transcript follows the events of a conversation and says what a person sees of each. A transcriptView prints that from top
// to bottom, package tui draws it. It is for one goroutine.
type Transcript struct {
	Agents Agents
	Calls  Calls
	// turnText is what the first agent has said in its latest turn, whose number is turn.
	turnText strings.Builder
	turn     int
}

// Kind says what is shown of an event.
type Kind int

// The kinds. Those from KindTask on are lines about an agent.
const (
	KindNothing Kind = iota
	KindProse        // a piece of the text of the first agent
	KindThought      // a piece of its thoughts
	KindBreak        // its text is complete so far
	KindAnswer       // its task has ended; the text is the answer if it was not prose
	KindTask         // the task of a sub-agent
	KindCall         // a call that has ended; the text is its result in a few words
	KindEnd          // the end of the task of a sub-agent
	KindNotice       // something that the person may want to know
	KindWarning      // something that the person needs to know
)

// Item is what a person sees of an event. Bad is true for a failure. Call has ended for KindCall, after the time Took.
type Item struct {
	Kind Kind
	Row  *AgentRow
	Text string
	Bad  bool
	Call RunningCall
	Took string
}

// Event follows an event. Every event must be passed to it once, because it learns the tree of agents from them.
func (t *Transcript) Event(e event.Event) Item {
	row := t.Agents.Event(e)
	n, first := Item{Kind: KindNotice, Row: row, Text: e.Text}, row.Depth == 0 && e.Agent != ""
	switch e.Type {
	case event.TypeTask:
		n.Kind, row.Began, row.Task, row.State = KindTask, e.Time, e.Text, "working"
	case event.TypeText:
		if n.Kind = KindProse; first {
			n.Text = t.piece(e)
		}
	case event.TypeThought:
		n.Kind = KindThought
	case event.TypeTurn:
		n.Kind, row.Tokens = KindBreak, cmp.Or(event.PartOf[event.Turn](e).Context, row.Tokens)
	case event.TypeToolCall: // it is shown when it ends, so that it takes one line
		t.Calls.Event(e)
		n.Kind, row.State = KindBreak, t.Calls[len(t.Calls)-1].What
	case event.TypeToolResult:
		n.Kind, n.Text, n.Bad, row.State = KindCall, ResultSummary(e.Text), event.PartOf[event.Tool](e).Failed, "working"
		if n.Call, n.Took = t.Calls.Event(e); n.Bad {
			n.Text = "failed: " + FirstLine(e.Text)
		}
	case event.TypeDone, event.TypeFailed:
		spent := event.PartOf[event.End](e).Spent
		row.State, row.Spent = e.Type, cmp.Or(spent, row.Spent)
		if n.Kind, n.Text, n.Bad = KindEnd, "is done", e.Type == event.TypeFailed; n.Bad {
			n.Text = "failed: " + e.Why
		}
		n.Text += "  " + UsageAndTime(spent, e.Time.Sub(row.Began))
	case event.TypeResult:
		n.Kind, n.Text = KindAnswer, t.End(e.Text)
	case event.TypeNotice, event.TypeWarning:
		n.Kind, n.Text = KindWarning, cmp.Or(e.Text, e.Why)
	default:
		t.Calls.Event(e) // its progress
		n.Text = noticeText(e)
	}
	if n.Kind <= KindBreak && !first || (n.Kind == KindTask || n.Kind == KindEnd) && row.Depth == 0 || n.Kind >= KindNotice && n.Text == "" {
		n.Kind = KindNothing
	}
	return n
}

// piece returns a piece of the text of the first agent without the empty lines that a turn begins with.
func (t *Transcript) piece(e event.Event) string {
	if turn := event.PartOf[event.Turn](e).Turn; turn != t.turn {
		t.turn = turn
		t.turnText.Reset()
	}
	text := e.Text
	if t.turnText.Len() == 0 {
		text = strings.TrimLeft(text, "\n")
	}
	t.turnText.WriteString(text)
	return text
}

// End ends a task. It returns the answer if it differs from the text that was streamed, else "". Calls without a result are
// forgotten.
func (t *Transcript) End(answer string) string {
	if strings.TrimSpace(answer) == strings.TrimSpace(t.turnText.String()) {
		answer = ""
	}
	t.Calls, t.turn = nil, 0
	t.turnText.Reset()
	return answer
}

// Line returns the text of a line. That of a call takes at most so many columns; the result gets at most half of them when the
// call is long. A result without a known call has the name of the tool and no time.
func (n Item) Line(columns int) string {
	if n.Kind != KindCall {
		return terminal.Printable(n.Text)
	}
	room := columns - terminal.Width(n.Took) - 4 // between the three parts
	what := terminal.Clip(n.Call.What, max(room-terminal.Width(n.Text), room/2))
	return strings.TrimRight(what+"  "+terminal.Clip(n.Text, room-terminal.Width(what))+"  "+n.Took, " ")
}

// Prefix returns the indentation of a line about an agent and, for a sub-agent, its name. A name takes at most 24 columns.
func (a *AgentRow) Prefix() string {
	if a.Depth == 0 {
		return "  "
	}
	return strings.Repeat("  ", min(a.Depth, 10)+1) + terminal.Clip(a.Name, 24) + "  "
}
