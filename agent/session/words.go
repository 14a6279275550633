package session

import (
	"cmp"
	"fmt"
	"strings"

	"symbio/internal/security/visible"
)

// Words returns the text of an entry by which a search finds it; "" = it is not searched.
func (e Entry) Words() string {
	switch e.Kind {
	case Task, Answer:
		if e.Message != nil {
			return e.Message.Text
		}
	case Text, Steering:
		return e.Text
	case Artifact: // what a search finds is kept
		if e.Artifact != nil {
			return e.Artifact.Hash + " " + e.Artifact.Name
		}
	}
	return ""
}

// Note returns an entry that is no message, no call and no result in a few words; "" = it is not
// shown to people.
func (e Entry) Note() string {
	switch e.Kind {
	case Steering:
		return fmt.Sprintf("steered (%s): %s", e.Status, e.Text)
	case Approval:
		return fmt.Sprintf("asked a person about %s: %s", e.Call.Name, e.Text)
	case Decision:
		return map[bool]string{true: "allowed", false: "denied"}[e.Status == Done] + " by " + cmp.Or(e.Text, "a person")
	case Child:
		return fmt.Sprintf("spawned %s: %s", e.Child.Name, cmp.Or(e.Child.Session, "on node "+cmp.Or(e.Child.On, e.Child.Node)))
	case Skill:
		return "skill " + e.Text
	case Compaction:
		return fmt.Sprintf("the history was shortened to %d messages", len(e.Messages))
	case Edit:
		return map[bool]string{true: "put back ", false: "changed "}[e.Edit.IsUndo()] + e.Edit.Path
	case Resume:
		return "the node had stopped, and the task went on"
	case End:
		if e.Status != Done {
			return strings.TrimSuffix(string(e.Status)+": "+e.Text, ": ")
		}
	}
	return ""
}

// Around returns some of a text around the first of the words, on one line.
func Around(text, words string) string {
	const before, most = 40, 160
	lower, at := strings.ToLower(text), -1
	for _, w := range strings.Fields(strings.ToLower(words)) {
		if i := strings.Index(lower, w); i >= 0 && (at < 0 || i < at) {
			at = i
		}
	}
	// The lower-case form may have another length, so the offset may lie behind the end.
	if at = min(at, len(text)); at > before {
		from := at - before
		for from < at && text[from] != ' ' {
			from++
		}
		text = "…" + text[from:]
	}
	return visible.TruncateRunes(visible.Line(text, 8*most), most)
}

// CanGoOn reports whether the latest exchange has no end and is not lost.
func (i Info) CanGoOn() bool { return i.Exchange.Open && i.State != Lost }

// Recovered returns the state of a Working session whose node has ended.
func (i Info) Recovered() State {
	if i.Requester != "" || i.Item {
		return Lost
	}
	return Interrupted
}
