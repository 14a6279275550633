package terminal

import (
	"slices"
	"strings"

	"symbio/security/visible"
)

// Editor is the line that a person types. Keys go in through Press, the visible row comes out of
// Row. The zero value is an empty line. It is for one goroutine.
type Editor struct {
	// Text is the line, which may contain line breaks.
	Text []rune
	// Cursor is the position in Text, in characters.
	Cursor int
	// pasting is true between keyPasteStart and keyPasteEnd: then Enter is a part of the text.
	pasting bool
}

// What the caller of Press does next.
const (
	editContinue = iota
	// EditSubmit: the line is complete.
	EditSubmit
	// EditInterrupt: Ctrl-C was pressed.
	EditInterrupt
	// EditEOF: Ctrl-D was pressed in an empty line.
	EditEOF
)

// maxEditorRunes bounds the line, in characters, so that pasting cannot fill the memory. Larger
// inputs belong into a file.
const maxEditorRunes = 256 << 10

// Press handles one key and returns what the caller does next. Enter completes the line, unless the
// text is being pasted or the character before it is a backslash, which it replaces by a line
// break. Alt-Enter is always a line break.
func (e *Editor) Press(key rune) int {
	if e.pasting {
		return e.paste(key)
	}
	switch key {
	case keyEnter:
		if e.Cursor == len(e.Text) && e.Cursor > 0 && e.Text[e.Cursor-1] == '\\' {
			e.Text[e.Cursor-1] = '\n'
			return editContinue
		}
		return EditSubmit
	case keyInterrupt:
		return EditInterrupt
	case keyEOF:
		if len(e.Text) == 0 {
			return EditEOF
		}
		e.cut(e.Cursor, e.Cursor+1)
	case keyPasteStart:
		e.pasting = true
	case keyLineBreak:
		e.insert('\n')
	default:
		e.change(key)
	}
	return editContinue
}

// paste handles one key of pasted text. Only Ctrl-C ends it early, for a terminal that never sends
// the end marker.
func (e *Editor) paste(key rune) int {
	switch key {
	case keyPasteEnd:
		e.pasting = false
	case keyEnter:
		e.insert('\n')
	case keyTab:
		e.insert('\t')
	case keyInterrupt:
		e.pasting = false
		return EditInterrupt
	default:
		e.insert(key)
	}
	return editContinue
}

// change handles the keys that move the cursor, delete text or insert a character.
func (e *Editor) change(key rune) {
	switch key {
	case keyLeft:
		e.Cursor = max(0, e.Cursor-1)
	case keyRight:
		e.Cursor = min(len(e.Text), e.Cursor+1)
	case keyHome:
		e.Cursor = 0
	case keyEndOfLine:
		e.Cursor = len(e.Text)
	case keyBackspace:
		e.cut(e.Cursor-1, e.Cursor)
	case keyDelete:
		e.cut(e.Cursor, e.Cursor+1)
	case keyDeleteWord:
		before := strings.TrimRight(string(e.Text[:e.Cursor]), " ")
		e.cut(len([]rune(before[:strings.LastIndex(before, " ")+1])), e.Cursor)
	case keyDeleteToEnd:
		e.cut(e.Cursor, len(e.Text))
	case keyDeleteToStart:
		e.cut(0, e.Cursor)
	default:
		e.insert(key)
	}
}

// insert inserts one character at the cursor. Key codes and characters over maxEditorRunes are
// ignored.
func (e *Editor) insert(r rune) {
	if r >= keyUp && r <= lastKey || len(e.Text) >= maxEditorRunes {
		return
	}
	e.Text = slices.Insert(e.Text, e.Cursor, r)
	e.Cursor++
}

// cut removes the characters from index from up to to; indexes outside of the text are clamped.
func (e *Editor) cut(from, to int) {
	from, to = max(0, from), min(len(e.Text), to)
	if from < to {
		e.Text = slices.Delete(e.Text, from, to)
		e.Cursor = from
	}
}

// Clear returns the text and starts an empty line.
func (e *Editor) Clear() string {
	text := string(e.Text)
	e.Text, e.Cursor, e.pasting = nil, 0, false
	return text
}

// Row returns the prompt and the part of the line around the cursor that fits a terminal of so many
// columns, and the column of the cursor. The text scrolls sideways; it never takes a second row.
func (e *Editor) Row(prompt string, columns int) (text string, cursor int) {
	prompt = Fit(prompt, max(3, columns-6))
	room := max(1, columns-1-Width(prompt))
	from, before := e.Cursor, 0
	for from > 0 && before+runeWidth(displayRune(e.Text[from-1])) < room {
		from--
		before += runeWidth(displayRune(e.Text[from]))
	}
	var b strings.Builder
	for _, r := range e.Text[from:min(len(e.Text), from+room)] {
		b.WriteRune(displayRune(r))
	}
	return prompt + Fit(b.String(), room+1), Width(prompt) + before
}

// displayRune returns how a character is shown in the row: a line break as an arrow, an invisible
// character as a space, so that each takes a column and the cursor stands where it seems to.
func displayRune(r rune) rune {
	switch {
	case r == '\n':
		return '↵'
	case !visible.Rune(r):
		return ' '
	}
	return r
}
