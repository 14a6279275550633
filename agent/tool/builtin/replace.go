package builtin

import (
	"errors"
	"fmt"
	"sort"
	"strings"
)

// maxEdited limits a file that is edited, before and after, in bytes. The text is kept in memory
// several times over.
const maxEdited = 16 << 20

// edit is one replacement in a text. It is also the JSON form of an edit in MultiEdit.
type edit struct {
	// OldString is the text to replace. It must not be empty or equal to NewString.
	OldString string `json:"old_string" jsonschema:"The text to replace, exactly as it stands in the file."`
	// NewString replaces it; "" deletes the text.
	NewString string `json:"new_string" jsonschema:"What to put in its place."`
	// ReplaceAll allows several occurrences and replaces each. Without it several are an error,
	// because the model may mean another one than the first.
	ReplaceAll bool `json:"replace_all,omitempty" jsonschema:"Replace every occurrence. Default: false, there has to be exactly one."`
}

// span is a part of a text: byte offsets, to exclusive.
type span struct{ from, to int }

// apply replaces the text that the edit names and nothing else. spans are the new parts of the
// changed text, in order. The error tells the model what to correct: an empty or equal text, no
// occurrence (with the closest text), or several without ReplaceAll (with their lines).
func (e edit) apply(text string) (changed string, spans []span, err error) {
	switch {
	case e.OldString == "":
		return "", nil, errors.New("old_string is empty; to make a file or to replace all of it, use Write")
	case e.OldString == e.NewString:
		return "", nil, errors.New("old_string and new_string are the same, so nothing would change")
	}
	found := e.find(text)
	switch {
	case len(found) == 0:
		return "", nil, fmt.Errorf("old_string does not occur in the file. %s", closest(text, e.OldString))
	case len(found) > 1 && !e.ReplaceAll:
		return "", nil, fmt.Errorf("old_string occurs %d times, in %s; give more of the lines around the one that you mean, or set replace_all", len(found), linesOf(text, found))
	}
	// The new text takes the line ends of the text that it replaces, because models write LF only.
	ending := endingOf(text)
	var b strings.Builder
	last := 0
	for _, at := range found {
		b.WriteString(text[last:at.from])
		from := b.Len()
		b.WriteString(ending.put(e.NewString, text[at.from:at.to]))
		spans = append(spans, span{from, b.Len()})
		last = at.to
		// It is checked in the loop: many occurrences of a short text can make a file grow without
		// bounds.
		if b.Len() > maxEdited {
			return "", nil, fmt.Errorf("the file would become longer than %d MiB", maxEdited>>20)
		}
	}
	b.WriteString(text[last:])
	return b.String(), spans, nil
}

// find returns the occurrences of OldString, which do not overlap. A line break in OldString
// matches LF and CR LF, because Read shows both alike. It searches a copy of the text without CRs
// (view) and converts the offsets back.
func (e edit) find(text string) []span {
	old := e.OldString
	// returns are the offsets in view at which text has one more CR, in ascending order.
	var returns []int
	view := text
	if strings.Contains(text, "\r\n") {
		view, returns = withoutReturns(text)
		old = strings.ReplaceAll(old, "\r\n", "\n")
	}
	// at converts an offset in view to one in text: it adds the CRs that were removed before it.
	at := func(i int) int { return i + sort.SearchInts(returns, i) }
	var found []span
	for from := 0; ; {
		i := strings.Index(view[from:], old)
		if i < 0 {
			return found
		}
		found = append(found, span{at(from + i), at(from + i + len(old))})
		from += i + len(old)
	}
}

// withoutReturns returns text with LF in place of CR LF, and the offsets in the result at which a
// CR was removed. A CR that is not followed by LF stays.
func withoutReturns(text string) (view string, at []int) {
	var b strings.Builder
	b.Grow(len(text))
	for {
		i := strings.Index(text, "\r\n")
		if i < 0 {
			b.WriteString(text)
			return b.String(), at
		}
		b.WriteString(text[:i])
		at = append(at, b.Len())
		b.WriteByte('\n')
		text = text[i+2:]
	}
}

// newlines describes the line ends of a file.
type newlines struct {
	// mixed is true if at least one line ends with CR LF.
	mixed bool
	// crlf is true if most lines do.
	crlf bool
}

// endingOf determines the line ends of text.
func endingOf(text string) newlines {
	crlf := strings.Count(text, "\r\n")
	return newlines{mixed: crlf > 0, crlf: crlf > strings.Count(text, "\n")-crlf}
}

// put returns text with the line ends of old, which it replaces, or with the ends of most lines of the
// file if old has no line break. Models write LF; without this an edit would mix line ends in a
// file with CR LF. A file without CR LF gets the text as it is.
func (n newlines) put(text, old string) string {
	if !n.mixed {
		return text
	}
	crlf := n.crlf
	// The first line break of old decides for the whole text.
	if i := strings.IndexByte(old, '\n'); i >= 0 {
		crlf = i > 0 && old[i-1] == '\r'
	}
	// To LF first, so that a CR LF in text does not become CR CR LF.
	text = strings.ReplaceAll(text, "\r\n", "\n")
	if crlf {
		text = strings.ReplaceAll(text, "\n", "\r\n")
	}
	return text
}

// lineAt returns the number of the line at byte offset at, counted from 1. Its cost is linear in
// at.
func lineAt(text string, at int) int { return 1 + strings.Count(text[:at], "\n") }

// linesOf lists the line numbers of the first ten occurrences, for an error message. found must be
// in ascending order, because it counts lines in one pass.
func linesOf(text string, found []span) string {
	const most = 10
	var numbers []string
	line, last := 1, 0
	for i, at := range found {
		if i == most {
			numbers = append(numbers, "…")
			break
		}
		line += strings.Count(text[last:at.from], "\n")
		last = at.from
		numbers = append(numbers, fmt.Sprint(line))
	}
	word := "line "
	if len(numbers) > 1 {
		word = "lines "
	}
	return word + strings.Join(numbers, ", ")
}
