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
	chat.Transcript
	// answer is the text that is being written, and written all of it since it was last complete.
	answer  stream
	written strings.Builder
	// thought are the thoughts of the model since the latest text or call.
	thought strings.Builder
	// entries are all that was shown, in full; entryBytes is their size.
	entries    []entry
	entryBytes int
	// waiting is the agent whose model is asked again at waitEnd, and waitFor the model's name.
	waiting, waitFor string
	waitEnd          time.Time
	// members are the agents of all nodes.
	members []*symbiov1.LocatedMember
}

// look is how a conversation is drawn: in which styles, and in how many columns. links is true if the terminal shows links.
// prose is false if the answer goes elsewhere, through a pipe.
type look struct {
	st           Styles
	columns      int
	links, prose bool
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
func (t *transcript) event(k look, e event.Event) []string {
	n := t.Event(e)
	if t.wait(e) {
		return nil
	}
	switch n.Kind {
	case chat.KindNothing:
		return nil
	case chat.KindProse:
		return t.text(k, n.Text)
	case chat.KindThought:
		t.thought.WriteString(n.Text)
		return nil
	case chat.KindBreak:
		return t.flush(k)
	case chat.KindAnswer:
		return t.result(k, n.Text)
	}
	return t.line(k, n, e)
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
func Conversation(s Styles, messages []llm.Message, columns int, links bool) (rows []string) {
	k, t := look{st: s, columns: columns, links: links, prose: true}, transcript{}
	for _, shown := range chat.Past("agent", messages) {
		done := []string(nil)
		switch shown := shown.(type) {
		case chat.Echo:
			done = t.echo(k, string(shown))
		case event.Event:
			done = t.event(k, shown)
		}
		for _, text := range done {
			rows = append(rows, strings.Split(text, "\n")...)
		}
	}
	return rows
}

// nameOf returns the name of an agent for people.
func (t *transcript) nameOf(id string) string {
	if a := t.Agents.Get(id); a != nil {
		return cmp.Or(OneLine(a.Name), id)
	}
	return id
}

// maxEchoRows is how many lines of a message are shown. Of a longer one, which was pasted, the first and the last are.
const maxEchoRows = 12

// echo returns a message of the person, behind the text that is complete with it.
func (t *transcript) echo(k look, text string) []string {
	done := t.flush(k)
	t.add(entry{head: "you", body: text})
	rows := strings.Split(clean(text), "\n")
	if more := len(rows) - maxEchoRows; more > 0 {
		rows = append(rows[:1:1], fmt.Sprintf("[%d lines; Ctrl-O shows all]", len(rows)), rows[len(rows)-1])
	}
	return append(done, "\n"+Paint(k.st.Bold, k.wrapped("> "+strings.Join(rows, "\n"), "")))
}

// wrapped wraps text to the terminal behind an indent.
func (k look) wrapped(text, indent string) string {
	rows := Wrap(text, k.columns-len(indent))
	return indent + strings.Join(rows, "\n"+indent)
}

// text adds a piece of the answer and returns the blocks that it completes.
func (t *transcript) text(k look, text string) []string {
	done := t.flushThought(k)
	t.written.WriteString(text)
	if !k.prose {
		return done
	}
	for _, block := range t.answer.add(text) {
		done = append(done, k.markdown(block))
	}
	return done
}

// flushThought returns the line that stands for the thoughts, which are over.
func (t *transcript) flushThought(k look) []string {
	text := strings.TrimSpace(t.thought.String())
	t.thought.Reset()
	if text == "" {
		return nil
	}
	t.add(entry{head: "thought", body: text})
	return []string{Paint(k.st.Dim, Cut("  ∴ "+OneLine(text), k.columns-9)+" Ctrl-O")}
}

// flush returns the rest of the text, which is complete.
func (t *transcript) flush(k look) []string {
	done := t.flushThought(k)
	if block := t.answer.flush(); block != "" {
		done = append(done, k.markdown(block))
	}
	if text := strings.TrimSpace(t.written.String()); text != "" {
		t.add(entry{head: "answer", body: text})
	}
	t.written.Reset()
	return done
}

// result returns what is left of an answer that has ended; text is the answer if it was not streamed.
func (t *transcript) result(k look, text string) []string {
	done := t.flush(k)
	if k.prose && text != "" {
		t.add(entry{head: "answer", body: text})
		done = append(done, k.markdown(text))
	}
	return done
}

// line returns a line about an agent: behind its indentation and, for a sub-agent, its name. Below a call is the change that
// it made.
func (t *transcript) line(k look, n chat.Item, e event.Event) []string {
	mark, style, prefix := "", k.st.Dim, n.Row.Prefix()
	switch {
	case n.Kind == chat.KindCall && n.Bad:
		mark, style = k.st.Bad.Render("✗ "), k.st.Bad
	case n.Kind == chat.KindCall:
		mark = k.st.Good.Render("✓ ")
	case n.Bad:
		style = k.st.Bad
	case n.Kind == chat.KindTask:
		style = k.st.Bold
	}
	done := []string{Cut(prefix+mark+style.Render(n.Line(k.columns-ansi.StringWidth(prefix+mark))), k.columns)}
	if n.Kind != chat.KindCall {
		return done
	}
	diff := event.PartOf[event.Tool](e).Diff
	t.add(entry{head: strings.TrimSpace(n.Row.Name + " " + n.Call.What), body: strings.TrimSpace(n.Call.Args + "\n" + e.Text), diff: diff})
	if diff != "" {
		done = append(done, strings.Join(DiffRows(k.st, diff, k.columns, maxDiffRows), "\n"))
	}
	return done
}

// The limits of the live rows.
const (
	maxRunningRows = 5
	maxAgentRows   = 6
)

// live returns the rows of unfinished parts: the text that is being written, the thoughts, the
// running calls and the sub-agents at work. room is how many rows there are.
func (t *transcript) live(s Styles, columns, room int) (rows []string) {
	if thought := strings.TrimSpace(t.thought.String()[max(0, t.thought.Len()-4*columns):]); thought != "" {
		last := thought[strings.LastIndexByte(thought, '\n')+1:]
		rows = append(rows, Paint(s.Dim, Cut("  ∴ "+clean(last), columns)))
	}
	for _, c := range t.Calls[max(0, len(t.Calls)-maxRunningRows):] {
		text := strings.TrimSpace(c.What + " " + c.Progress)
		if a := t.Agents.Get(c.Agent); a != nil && a.Depth > 0 {
			text = a.Name + ": " + text
		}
		rows = append(rows, Cut("  "+s.Accent.Render("● ")+OneLine(text)+" "+
			s.Dim.Render(chat.DurationText(time.Since(c.Began).Truncate(time.Second))), columns))
	}
	agents := 0
	for _, id := range t.Agents.Order {
		if a := t.Agents.Get(id); a.Depth > 0 && a.State != "done" && a.State != "failed" && agents < maxAgentRows {
			agents++
			rows = append(rows, agentText(s, a, columns))
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
