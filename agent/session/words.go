package session

import (
	"strings"

	"symbio/security/visible"
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

// Recovered returns the state of a Working session whose node has ended.
func (i Info) Recovered() State {
	if i.Requester != "" {
		return Lost
	}
	return Interrupted
}
