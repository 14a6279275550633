package tui

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"symbio/agent/budget"
	"symbio/agent/event"
	"symbio/agent/llm"
	"symbio/cmd/symbio/internal/chat"
	symbiov1 "symbio/proto/symbio/v1"
)

// transcript makes rows of the events of a conversation: the text of the first agent as prose, each
// tool call as one line when it has ended, and the lines of sub-agents indented below their names.
type transcript struct {
	agents chat.Agents
	// answer is the text that is being written; turnText all of it in the turn whose number is turn.
	answer   stream
	turnText strings.Builder
	turn     int
	// thought are the thoughts of the model since the latest text or call.
	thought strings.Builder
	// running are the calls that have not ended, the latest last.
	running chat.Calls
	// entries are all that was shown, in full; entryBytes is their size.
	entries    []entry
	entryBytes int
	// waiting is the agent whose model is asked again at waitEnd, and waitFor the model's name.
	waiting, waitFor string
	waitEnd          time.Time
	// members are the agents of all nodes.
	members []*symbiov1.LocatedMember
}

// entry is a part of the conversation in full. diff is the change of an edit.
type entry struct{ head, body, diff string }

// maxEntryBytes bounds what is remembered. The oldest entries go first.
const maxEntryBytes = 8 << 20

func (t *transcript) add(e entry) {
	t.entries = append(t.entries, e)
	for t.entryBytes += e.size(); t.entryBytes > maxEntryBytes && len(t.entries) > 1; t.entries = t.entries[1:] {
		t.entryBytes -= t.entries[0].size()
	}
}

func (e entry) size() int { return len(e.head) + len(e.body) + len(e.diff) }

// event handles an event and returns the texts that are finished.
func (t *transcript) event(m *model, e event.Event) (done []string) {
	row := t.agents.Event(e)
	if t.wait(e) {
		return nil
	}
	switch e.Type {
	case event.TypeTask:
		row.Began, row.Task, row.State = e.Time, e.Text, "working"
		if row.Depth > 0 {
			done = append(done, t.line(m, row, m.st.Bold.Render(OneLine(e.Text))))
		}
	case event.TypeText:
		if row.Depth == 0 && e.Agent != "" {
			done = t.text(m, e)
		}
	case event.TypeThought:
		if row.Depth == 0 {
			t.thought.WriteString(e.Text)
		}
	case event.TypeTurn:
		row.Tokens = cmp.Or(event.PartOf[event.Turn](e).Context, row.Tokens)
		if row.Depth == 0 {
			done = t.flush(m)
		}
	case event.TypeToolCall:
		if e.Agent == t.agents.Root {
			done = t.flush(m)
		}
		t.running.Event(e)
		row.State = t.running[len(t.running)-1].What
	case event.TypeProgress:
		t.running.Event(e)
	case event.TypeToolResult:
		done = t.endCall(m, e, row)
	case event.TypeDone, event.TypeFailed:
		spent := event.PartOf[event.End](e).Spent
		row.State, row.Spent = e.Type, cmp.Or(spent, row.Spent)
		if row.Depth > 0 {
			text, style := "is done", m.st.Dim
			if e.Type == event.TypeFailed {
				text, style = "failed: "+e.Why, m.st.Bad
			}
			done = append(done, t.line(m, row, style.Render(OneLine(text+"  "+chat.UsageAndTime(spent, e.Time.Sub(row.Began))))))
		}
	case event.TypeResult:
		done = t.result(m, e.Text)
	default:
		if text := chat.NoticeText(e); text != "" {
			done = append(done, t.line(m, row, m.st.Dim.Render(OneLine(text))))
		}
	}
	return done
}

// wait notes the wait for a model that an event begins or ends. It reports whether the countdown alone shows it: it follows another one.
func (t *transcript) wait(e event.Event) bool {
	if e.Agent == t.waiting || e.Type == event.TypeResult {
		t.waiting, t.waitEnd = "", time.Time{}
	}
	f := event.PartOf[event.Retry](e)
	if f.Wait <= 0 {
		return false
	}
	t.waiting, t.waitFor = e.Agent, OneLine(f.Next)
	t.waitEnd = time.Now().Add(time.Duration(f.Wait * float64(time.Second)))
	return f.Attempt > 1
}

// Conversation returns the messages of an agent as rows of at most columns cells, as a conversation shows them.
func Conversation(s Styles, messages []llm.Message, columns int, links bool) []string {
	m := &model{config: config{links: links, prose: true}, st: s, width: columns + 1, transcript: transcript{}}
	for _, shown := range chat.Past("agent", messages) {
		switch shown := shown.(type) {
		case chat.Echo:
			m.echo(string(shown))
		case event.Event:
			m.event(shown)
		}
	}
	return m.queue
}

// nameOf returns the name of an agent for people.
func (t *transcript) nameOf(id string) string {
	if a := t.agents.Get(id); a != nil {
		return cmp.Or(OneLine(a.Name), id)
	}
	return id
}

// text adds a piece of the answer and returns the blocks that it completes.
func (t *transcript) text(m *model, e event.Event) (done []string) {
	done = t.flushThought(m)
	if turn := event.PartOf[event.Turn](e).Turn; turn != t.turn {
		t.turn = turn
		t.turnText.Reset()
	}
	text := e.Text
	if t.turnText.Len() == 0 {
		text = strings.TrimLeft(text, "\n")
	}
	t.turnText.WriteString(text)
	if !m.prose {
		return done
	}
	for _, block := range t.answer.add(text) {
		done = append(done, m.markdown(block))
	}
	return done
}

// flushThought returns the line that stands for the thoughts, which are over.
func (t *transcript) flushThought(m *model) []string {
	text := strings.TrimSpace(t.thought.String())
	t.thought.Reset()
	if text == "" {
		return nil
	}
	t.add(entry{head: "thought", body: text})
	return []string{Paint(m.st.Dim, Cut("  ∴ "+OneLine(text), m.width-10)+" Ctrl-O")}
}

// flush returns the rest of the answer, which is complete.
func (t *transcript) flush(m *model) (done []string) {
	done = t.flushThought(m)
	if block := t.answer.flush(); block != "" {
		done = append(done, m.markdown(block))
	}
	if text := strings.TrimSpace(t.turnText.String()); text != "" && t.turn > 0 {
		t.add(entry{head: "answer", body: text})
		t.turn = -t.turn // the text stays for result, and is added once
	}
	return done
}

// endCall returns the line of a call that has ended, and the change that it made.
func (t *transcript) endCall(m *model, e event.Event, row *chat.AgentRow) []string {
	call, took := t.running.Event(e)
	f := event.PartOf[event.Tool](e)
	row.State = "working"
	style, mark, summary := m.st.Dim, m.st.Good.Render("✓ "), chat.ResultSummary(e.Text)
	if f.Failed {
		style, mark, summary = m.st.Bad, m.st.Bad.Render("✗ "), "failed: "+chat.FirstLine(e.Text)
	}
	t.add(entry{head: strings.TrimSpace(row.Name + " " + call.What), body: strings.TrimSpace(call.Args + "\n" + e.Text), diff: f.Diff})
	// The summary gets at most half of the row when the call is long.
	room := m.width - 12 - 2*row.Depth - ansi.StringWidth(took)
	what := Cut(OneLine(call.What), max(room-ansi.StringWidth(summary), room/2))
	summary = Cut(OneLine(summary), max(0, room-ansi.StringWidth(what)))
	done := []string{t.line(m, row, mark+style.Render(strings.TrimRight(what+"  "+summary+"  "+took, " ")))}
	if f.Diff != "" {
		done = append(done, strings.Join(DiffRows(m.st, f.Diff, m.width-1, maxDiffRows), "\n"))
	}
	return done
}

// result returns the answer if it was not streamed. Calls without a result are forgotten.
func (t *transcript) result(m *model, text string) (done []string) {
	done = t.flush(m)
	t.running, t.turn = nil, 0
	if m.prose && text != "" && strings.TrimSpace(text) != strings.TrimSpace(t.turnText.String()) {
		t.add(entry{head: "answer", body: text})
		done = append(done, m.markdown(text))
	}
	t.turnText.Reset()
	return done
}

// line returns a line about an agent: behind its indentation and, for a sub-agent, its name.
func (t *transcript) line(m *model, row *chat.AgentRow, text string) string {
	indent := "  "
	if row.Depth > 0 {
		indent = strings.Repeat("  ", min(row.Depth, 10)+1) + Cut(OneLine(row.Name), 24) + "  "
	}
	return Cut(indent+text, m.width-1)
}

// The limits of the live rows.
const (
	maxRunningRows = 5
	maxAgentRows   = 6
)

// live returns the rows of unfinished parts: the text that is being written, the thoughts, the
// running calls and the sub-agents at work. room is how many rows there are.
func (t *transcript) live(m *model, columns, room int) (rows []string) {
	if thought := strings.TrimSpace(t.thought.String()[max(0, t.thought.Len()-4*columns):]); thought != "" {
		last := thought[strings.LastIndexByte(thought, '\n')+1:]
		rows = append(rows, Paint(m.st.Dim, Cut("  ∴ "+clean(last), columns)))
	}
	for _, c := range t.running[max(0, len(t.running)-maxRunningRows):] {
		text := strings.TrimSpace(c.What + " " + c.Progress)
		if a := t.agents.Get(c.Agent); a != nil && a.Depth > 0 {
			text = a.Name + ": " + text
		}
		rows = append(rows, Cut("  "+m.st.Accent.Render("● ")+OneLine(text)+" "+
			m.st.Dim.Render(chat.DurationText(time.Since(c.Began).Truncate(time.Second))), columns))
	}
	agents := 0
	for _, id := range t.agents.Order {
		if a := t.agents.Get(id); a.Depth > 0 && a.State != "done" && a.State != "failed" && agents < maxAgentRows {
			agents++
			rows = append(rows, agentText(m.st, a, columns))
		}
	}
	return append(t.answer.live(columns, max(0, room-len(rows))), rows...)
}

// agentText returns the row of an agent of the tree.
func agentText(s Styles, a *chat.AgentRow, columns int) string {
	used := ""
	switch {
	case a.Spent != nil:
		used = chat.UsageText(*a.Spent)
	case a.Tokens > 0:
		used = budget.Rounded(int64(a.Tokens)) + " tokens"
	}
	row := strings.Repeat("  ", min(a.Depth, 10)) + "└ " + OneLine(cmp.Or(a.Name, a.ID)) +
		s.Dim.Render(fmt.Sprintf(" on %s  %s  %s", OneLine(cmp.Or(a.Node, "?")), OneLine(cmp.Or(a.State, "idle")), used))
	return Cut(row, columns)
}

// activity returns what is happening now and for how long. Of several calls it names the latest.
func (t *transcript) activity(now, since time.Time) string {
	text := "working"
	if t.thought.Len() > 0 {
		text = "thinking"
	}
	if left := t.waitEnd.Sub(now); left > 0 {
		return fmt.Sprintf("asks %s again in %v", t.waitFor, (left + time.Second - 1).Truncate(time.Second))
	}
	if waits := now.Sub(since).Truncate(time.Second); waits >= time.Second {
		text += " " + waits.String()
	}
	return text
}
