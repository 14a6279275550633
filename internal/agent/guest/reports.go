package guest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/coder/acp-go-sdk"

	"symbio/internal/security/visible"
)

// The limits of reports.
const (
	maxReported = 256       // calls that have not ended
	maxKept     = 16 << 20  // bytes of the messages that reported them
	maxTitle    = 300       // bytes
	maxOutput   = 256 << 10 // bytes of the output of one
)

// report is a call of the program's own tools, as it reports it.
type report struct {
	title   string
	kind    acp.ToolKind
	input   any
	content []acp.ToolCallContent
	output  any
	places  []acp.ToolCallLocation
	ended   bool
	failed  bool
	bytes   int    // of the messages that reported it
	key     string // the id of the call that shows it; "" = it has not begun
	begins  bool   // by this message
}

// reports are the reported calls that have not ended. They are usable by many goroutines.
type reports struct {
	life string // begins the ids of calls, which are unique in a conversation of many programs

	mu    sync.Mutex
	all   map[acp.ToolCallId]report // guarded by mu
	count int                       // of calls that have begun; guarded by mu
	bytes int                       // of all; guarded by mu
}

// known returns a call with what was reported of it before and now.
func (r *reports) known(u acp.ToolCallUpdate, bytes int) report {
	return r.update(bytes, acp.SessionToolCallUpdate{ToolCallId: u.ToolCallId, Title: u.Title, Kind: u.Kind, RawInput: u.RawInput, RawOutput: u.RawOutput,
		Content: u.Content, Locations: u.Locations, Status: u.Status})
}

// begin keeps a new call.
func (r *reports) begin(c *acp.SessionUpdateToolCall, bytes int) report {
	return r.update(bytes, acp.SessionToolCallUpdate{ToolCallId: c.ToolCallId, Title: &c.Title, Kind: &c.Kind, RawInput: c.RawInput, RawOutput: c.RawOutput,
		Content: c.Content, Locations: c.Locations, Status: &c.Status})
}

// update returns a call with what has changed by a message, and keeps it unless it has ended or too much is kept.
func (r *reports) update(bytes int, u acp.SessionToolCallUpdate) report {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.all[u.ToolCallId]
	if u.Title != nil && *u.Title != "" {
		t.title = visible.Line(*u.Title, maxTitle)
	}
	if u.Kind != nil && *u.Kind != "" {
		t.kind = *u.Kind
	}
	if u.RawInput != nil {
		t.input = u.RawInput
	}
	if u.RawOutput != nil {
		t.output = u.RawOutput
	}
	if len(u.Content) > 0 {
		t.content = u.Content
	}
	if len(u.Locations) > 0 {
		t.places = u.Locations
	}
	r.bytes -= t.bytes
	t.bytes += bytes
	status := acp.ToolCallStatusPending
	if u.Status != nil {
		status = *u.Status
	}
	t.failed = status == acp.ToolCallStatusFailed
	t.ended = t.failed || status == acp.ToolCallStatusCompleted
	t.begins = false
	switch {
	case t.ended || r.bytes+t.bytes > maxKept:
		delete(r.all, u.ToolCallId)
	case len(r.all) < maxReported || r.all[u.ToolCallId].bytes > 0:
		if r.all == nil {
			r.all = map[acp.ToolCallId]report{}
		}
		if t.begins = t.key == "" && (status != acp.ToolCallStatusPending || t.isTelling()); t.begins {
			r.count++
			t.key = fmt.Sprintf("%s-%d", r.life, r.count)
		}
		r.all[u.ToolCallId] = t
		r.bytes += t.bytes
	}
	return t
}

// isTelling reports whether its arguments say what it does: some programs send them a moment later.
func (t report) isTelling() bool {
	return t.text("command") != "" || t.text("url") != "" || len(t.paths()) > 0
}

// text returns an argument of the call; "" = it has none, or it is no text. A command may be a list of words.
func (t report) text(name string) string {
	args, _ := t.input.(map[string]any)
	switch v := args[name].(type) {
	case string:
		return v
	case []any:
		words := make([]string, 0, len(v))
		for _, one := range v {
			word, _ := one.(string)
			words = append(words, quote(word))
		}
		return strings.Join(words, " ")
	}
	return ""
}

// paths returns the files that the call is about, as its diffs, its places and its arguments name them.
func (t report) paths() (all []string) {
	for _, c := range t.content {
		if c.Diff != nil {
			all = append(all, c.Diff.Path)
		}
	}
	for _, l := range t.places {
		all = append(all, l.Path)
	}
	for _, name := range []string{"file_path", "filePath", "filepath", "path", "abs_path", "notebook_path", "destination", "source"} {
		if path := t.text(name); path != "" {
			all = append(all, path)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// said returns the output of the call as text.
func (t report) said() string {
	var b strings.Builder
	for _, c := range t.content {
		if c.Content != nil && c.Content.Content.Text != nil {
			b.WriteString(c.Content.Content.Text.Text + "\n")
		}
	}
	if b.Len() == 0 && t.output != nil {
		if text, is := t.output.(string); is {
			b.WriteString(text)
		} else if raw, err := json.Marshal(t.output); err == nil {
			b.Write(raw)
		}
	}
	text := strings.TrimSpace(b.String())
	return strings.ToValidUTF8(text[:min(len(text), maxOutput)], "")
}
