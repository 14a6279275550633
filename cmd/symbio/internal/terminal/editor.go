package terminal

import (
	"slices"
	"strings"

	"symbio/security/visible"
)

// Editor is the line that a person types. It knows no terminal: keys go in, a row comes out.
type Editor struct {
	Text    []rune
	Cursor      int // where the cursor stands in it
	pasting bool
}

// What comes of a key.
const (
	editContinue   = iota
	EditSubmit // the line is whole
	EditInterrupt // Ctrl-C
	EditEOF  // Ctrl-D in an empty line
)

// maxEditorRunes bounds a line, in characters: what is larger than a task may be belongs into a file.
const maxEditorRunes = 256 << 10

// Press takes one key. A line break is part of the line when it is pasted, behind a backslash, or typed with Alt.
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

func (e *Editor) paste(key rune) int {
	switch key {
	case keyPasteEnd:
		e.pasting = false
	case keyEnter:
		e.insert('\n')
	case keyTab:
		e.insert('\t')
	case keyInterrupt:
		e.pasting = false // whoever sees no end of it
		return EditInterrupt
	default:
		e.insert(key)
	}
	return editContinue
}

// change moves the cursor, or takes away, or puts in.
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

func (e *Editor) insert(r rune) {
	if r >= keyUp && r <= lastKey || len(e.Text) >= maxEditorRunes {
		return
	}
	e.Text = slices.Insert(e.Text, e.Cursor, r)
	e.Cursor++
}

func (e *Editor) cut(from, to int) {
	from, to = max(0, from), min(len(e.Text), to)
	if from < to {
		e.Text = slices.Delete(e.Text, from, to)
		e.Cursor = from
	}
}

// Clear returns what was typed, and begins a new line.
func (e *Editor) Clear() string {
	text := string(e.Text)
	e.Text, e.Cursor, e.pasting = nil, 0, false
	return text
}

// Row is the line behind a prompt in a terminal of so many columns, and the column of the cursor. What does not fit
// is to the left and to the right of it.
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

// displayRune is a character that takes room: a break in the line, and what cannot be seen, too.
func displayRune(r rune) rune {
	switch {
	case r == '\n':
		return '↵'
	case !visible.Rune(r):
		return ' '
	}
	return r
}
