package acpcmd

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"

	acp "github.com/coder/acp-go-sdk"

	"symbio/agent/event"
	"symbio/cmd/symbio/internal/chat"
	"symbio/cmd/symbio/internal/command"
	"symbio/cmd/symbio/internal/terminal"
)

// view turns the events of a conversation into the updates of a session. It is for one goroutine.
type view struct {
	// dir is the directory of the session, to which relative paths belong.
	dir        string
	transcript chat.Transcript
	// ids are the ids of the calls that run, by agent and the model's id. A model may use an id again, the editor's ids are unique.
	ids   map[[2]string]acp.ToolCallId
	calls int
	mode  acp.SessionModeId
}

// updates returns the updates of the next event. Of sub-agents an editor shows the calls and notices, with their names.
func (v *view) updates(e event.Event) []acp.SessionUpdate {
	n := v.transcript.Event(e)
	f := event.PartOf[event.Tool](e)
	switch {
	case e.Type == event.TypeToolCall:
		return v.begin(e, n.Row)
	case e.Type == event.TypeProgress:
		return v.change(e, acp.WithUpdateStatus(acp.ToolCallStatusInProgress), acp.WithUpdateContent(textContent(chat.ProgressText(e))))
	case e.Type == event.TypeToolResult && f.Failed:
		return v.change(e, acp.WithUpdateStatus(acp.ToolCallStatusFailed), acp.WithUpdateContent(textContent(e.Text)))
	case e.Type == event.TypeToolResult:
		content := v.diffContent(f.Diff)
		if content == nil {
			content = textContent(e.Text)
		}
		return v.change(e, acp.WithUpdateStatus(acp.ToolCallStatusCompleted), acp.WithUpdateContent(content))
	case e.Type == event.TypeSettings:
		return v.modeChanged(e)
	case n.Kind == chat.KindProse, n.Kind == chat.KindAnswer && n.Text != "":
		return []acp.SessionUpdate{acp.UpdateAgentMessageText(n.Text)}
	case n.Kind == chat.KindThought:
		return []acp.SessionUpdate{acp.UpdateAgentThoughtText(n.Text)}
	case n.Kind == chat.KindNotice, n.Kind == chat.KindWarning:
		return []acp.SessionUpdate{acp.UpdateAgentThoughtText("\n" + prefix(n.Row) + terminal.Printable(n.Text) + "\n")}
	}
	return nil
}

// past returns the updates of an Echo or event of chat.Past.
func (v *view) past(shown any) []acp.SessionUpdate {
	if text, ok := shown.(chat.Echo); ok {
		v.transcript.End("")
		return []acp.SessionUpdate{acp.UpdateUserMessageText(string(text))}
	}
	return v.updates(shown.(event.Event))
}

// prefix is the name of a sub-agent before a text about it; "" for the first agent.
func prefix(row *chat.AgentRow) string {
	if row.Depth == 0 {
		return ""
	}
	return terminal.Printable(row.Name) + ": "
}

// kinds are the kinds of tools for the icons of an editor. It is never written to.
var kinds = map[string]acp.ToolKind{
	"Read": acp.ToolKindRead, "Write": acp.ToolKindEdit, "Edit": acp.ToolKindEdit, "MultiEdit": acp.ToolKindEdit,
	"Glob": acp.ToolKindSearch, "Grep": acp.ToolKindSearch, "WebSearch": acp.ToolKindSearch, "ToolSearch": acp.ToolKindSearch,
	"find_members": acp.ToolKindSearch, "Bash": acp.ToolKindExecute, "Git": acp.ToolKindExecute, "WebFetch": acp.ToolKindFetch,
}

func kindOf(tool string) acp.ToolKind {
	if kind, ok := kinds[tool]; ok {
		return kind
	}
	return acp.ToolKindOther
}

// begin returns the update of a call that begins. The plan of the first agent is shown as a plan.
func (v *view) begin(e event.Event, row *chat.AgentRow) []acp.SessionUpdate {
	f := event.PartOf[event.Tool](e)
	var plan event.Plan
	if f.Tool == "Plan" && row.Depth == 0 && json.Unmarshal(f.Args, &plan) == nil {
		return []acp.SessionUpdate{acp.UpdatePlan(command.Map(plan.Steps, planEntry)...)}
	}
	if v.ids == nil || len(v.ids) > maxCalls {
		v.ids = map[[2]string]acp.ToolCallId{}
	}
	v.calls++
	id := acp.ToolCallId(fmt.Sprintf("%s-%d", f.Call, v.calls))
	v.ids[[2]string{e.Agent, f.Call}] = id
	title := v.transcript.Calls[len(v.transcript.Calls)-1].What
	args := argsOf(f.Args)
	return []acp.SessionUpdate{{ToolCall: &acp.SessionUpdateToolCall{ToolCallId: id, Title: prefix(row) + title, Kind: kindOf(f.Tool),
		Status: acp.ToolCallStatusInProgress, RawInput: f.Args, Locations: v.locations(args), Content: v.intended(args)}}}
}

// maxCalls is how many calls may run at once before ids are forgotten: results of forgotten calls are not shown.
const maxCalls = 1000

// change returns the update of a call that runs; none for one that is not known.
func (v *view) change(e event.Event, with ...acp.ToolCallUpdateOpt) []acp.SessionUpdate {
	key := [2]string{e.Agent, event.PartOf[event.Tool](e).Call}
	id, ok := v.ids[key]
	if !ok {
		return nil
	}
	if e.Type == event.TypeToolResult {
		delete(v.ids, key)
	}
	return []acp.SessionUpdate{acp.UpdateToolCall(id, with...)}
}

// asked returns the call that waits for a permission, as the editor shows it to the person.
func (v *view) asked(q chat.Question) acp.ToolCallUpdate {
	call := acp.ToolCallUpdate{
		ToolCallId: acp.ToolCallId("question-" + q.ID), Title: acp.Ptr(strings.TrimSpace(q.Tool + " " + chat.ArgSummary(q.Args))), Kind: acp.Ptr(kindOf(q.Tool)),
		RawInput: q.Args, Locations: v.locations(argsOf(q.Args)), Status: acp.Ptr(acp.ToolCallStatusPending),
		Content: append(v.diffContent(q.Diff), textContent(chat.QuestionText(q))...),
	}
	for _, c := range v.transcript.Calls { // the latest that is the same
		if id, ok := v.ids[[2]string{c.Agent, c.ID}]; ok && c.Agent == q.Agent && sameJSON(c.Args, string(q.Args)) {
			call.ToolCallId = id
		}
	}
	return call
}

// sameJSON reports whether two texts are the same JSON, in any order of keys.
func sameJSON(a, b string) bool {
	var x, y any
	return json.Unmarshal([]byte(a), &x) == nil && json.Unmarshal([]byte(b), &y) == nil && reflect.DeepEqual(x, y)
}

// modeChanged returns the update of a mode that is not the one that the editor shows.
func (v *view) modeChanged(e event.Event) []acp.SessionUpdate {
	mode := modeID(event.PartOf[event.Settings](e).Mode)
	if mode == v.mode {
		return nil
	}
	v.mode = mode
	return []acp.SessionUpdate{{CurrentModeUpdate: &acp.SessionCurrentModeUpdate{CurrentModeId: mode}}}
}

// planEntry converts a step of a plan.
func planEntry(s event.Step) acp.PlanEntry {
	states := map[string]acp.PlanEntryStatus{"running": acp.PlanEntryStatusInProgress, "done": acp.PlanEntryStatusCompleted}
	entry := acp.PlanEntry{Content: s.Text, Priority: acp.PlanEntryPriorityMedium, Status: acp.PlanEntryStatusPending}
	if state, ok := states[s.State]; ok {
		entry.Status = state
	}
	return entry
}

// arguments are the arguments of our tools that an editor can show.
type arguments struct {
	File    string  `json:"file_path"`
	Path    string  `json:"path"`
	Old     *string `json:"old_string"`
	New     *string `json:"new_string"`
	Content *string `json:"content"`
	Offset  *int    `json:"offset"`
}

// argsOf decodes the arguments of a call. Fields of another shape are left out.
func argsOf(raw json.RawMessage) (a arguments) {
	_ = json.Unmarshal(raw, &a)
	return a
}

// path returns the absolute path of a file of the session; "" for "".
func (v *view) path(name string) string {
	if name == "" || filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(v.dir, name)
}

// locations returns where an editor may follow a call.
func (v *view) locations(a arguments) []acp.ToolCallLocation {
	path := cmp.Or(a.File, a.Path)
	if path == "" || strings.HasPrefix(path, "~") {
		return nil
	}
	return []acp.ToolCallLocation{{Path: v.path(path), Line: a.Offset}}
}

// intended returns the change that a call asks for, before the tool has made it.
func (v *view) intended(a arguments) []acp.ToolCallContent {
	after := cmp.Or(a.New, a.Content)
	if after == nil || a.File == "" {
		return nil
	}
	return []acp.ToolCallContent{{Diff: &acp.ToolCallContentDiff{Path: v.path(a.File), OldText: a.Old, NewText: *after}}}
}

func textContent(text string) []acp.ToolCallContent {
	return []acp.ToolCallContent{acp.ToolContent(acp.TextBlock(text))}
}

// diffContent returns the hunks of a unified diff, each with its text before and after; nil for "". A new file has no text before. Each line ends with a newline, also
// the last one of a file without it.
func (v *view) diffContent(diff string) (all []acp.ToolCallContent) {
	var old, file string
	var before, after strings.Builder
	var minus, plus int // how many lines of the hunk follow
	add := func() {
		if part := (acp.ToolCallContentDiff{Path: v.path(file), NewText: after.String(), OldText: acp.Ptr(before.String())}); *part.OldText != part.NewText {
			if old == "/dev/null" {
				part.OldText = nil
			}
			all = append(all, acp.ToolCallContent{Diff: &part})
		}
		before.Reset()
		after.Reset()
	}
	for line := range strings.Lines(diff) {
		switch {
		case line[0] == '\\': // no line of the file, but a note
		case minus > 0 || plus > 0:
			if line[0] != '+' {
				before.WriteString(line[1:])
				minus--
			}
			if line[0] != '-' {
				after.WriteString(line[1:])
				plus--
			}
		case strings.HasPrefix(line, "--- "):
			add()
			old = strings.TrimSpace(line[4:])
		case strings.HasPrefix(line, "+++ "):
			if file = strings.TrimSpace(line[4:]); file == "/dev/null" {
				file = old
			}
		case strings.HasPrefix(line, "@@ "):
			add()
			minus, plus = hunkLines(line)
		}
	}
	add()
	return all
}

// hunkLines returns the numbers of lines before and after, of the head of a hunk such as "@@ -1,2 +1 @@".
func hunkLines(head string) (minus, plus int) {
	count := func(part string) int {
		_, text, several := strings.Cut(part, ",")
		if !several {
			return 1
		}
		n, _ := strconv.Atoi(text) // the node has written it
		return n
	}
	if parts := strings.Fields(head); len(parts) > 2 {
		return count(parts[1]), count(parts[2])
	}
	return 0, 0
}
