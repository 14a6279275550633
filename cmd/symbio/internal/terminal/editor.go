package terminal

import (
	"slices"
	"strings"

	"symbio/security/visible"
)

// Editor is the line that a person types. It knows no terminal: keys go in, a row comes out.
type Editor struct {
	Text    []rune
	At      int // where the cursor stands in it
	pasting bool
}

// What comes of a key.
const (
	editOn   = iota
	EditSend // the line is whole
	EditStop // Ctrl-C
	EditEnd  // Ctrl-D in an empty line
)

// maxTyped bounds a line, in characters: what is larger than a task may be belongs into a file.
const maxTyped = 256 << 10

// Press takes one key. A line break is part of the line when it is pasted, behind a backslash, or typed with Alt.
func (e *Editor) Press(key rune) int {
	if e.pasting {
		return e.paste(key)
	}
	switch key {
	case keyEnter:
		if e.At == len(e.Text) && e.At > 0 && e.Text[e.At-1] == '\\' {
			e.Text[e.At-1] = '\n'
			return editOn
		}
		return EditSend
	case keyStop:
		return EditStop
	case keyEnd:
		if len(e.Text) == 0 {
			return EditEnd
		}
		e.cut(e.At, e.At+1)
	case keyPaste:
		e.pasting = true
	case keyBreak:
		e.insert('\n')
	default:
		e.change(key)
	}
	return editOn
}

func (e *Editor) paste(key rune) int {
	switch key {
	case keyPasted:
		e.pasting = false
	case keyEnter:
		e.insert('\n')
	case keyTab:
		e.insert('\t')
	case keyStop:
		e.pasting = false // whoever sees no end of it
		return EditStop
	default:
		e.insert(key)
	}
	return editOn
}

// change moves the cursor, or takes away, or puts in.
func (e *Editor) change(key rune) {
	switch key {
	case keyLeft:
		e.At = max(0, e.At-1)
	case keyRight:
		e.At = min(len(e.Text), e.At+1)
	case keyFirst:
		e.At = 0
	case keyLast:
		e.At = len(e.Text)
	case keyBackspace:
		e.cut(e.At-1, e.At)
	case keyDelete:
		e.cut(e.At, e.At+1)
	case keyWord:
		before := strings.TrimRight(string(e.Text[:e.At]), " ")
		e.cut(len([]rune(before[:strings.LastIndex(before, " ")+1])), e.At)
	case keyRest:
		e.cut(e.At, len(e.Text))
	case keyClear:
		e.cut(0, e.At)
	default:
		e.insert(key)
	}
}

func (e *Editor) insert(r rune) {
	if r >= keyUp && r <= lastKey || len(e.Text) >= maxTyped {
		return
	}
	e.Text = slices.Insert(e.Text, e.At, r)
	e.At++
}

func (e *Editor) cut(from, to int) {
	from, to = max(0, from), min(len(e.Text), to)
	if from < to {
		e.Text = slices.Delete(e.Text, from, to)
		e.At = from
	}
}

// Take returns what was typed, and begins a new line.
func (e *Editor) Take() string {
	text := string(e.Text)
	e.Text, e.At, e.pasting = nil, 0, false
	return text
}

// Row is the line behind a prompt in a terminal of so many columns, and the column of the cursor. What does not fit
// is to the left and to the right of it.
func (e *Editor) Row(prompt string, columns int) (text string, cursor int) {
	prompt = Fit(prompt, max(3, columns-6))
	room := max(1, columns-1-Width(prompt))
	from, before := e.At, 0
	for from > 0 && before+runeWidth(shownAs(e.Text[from-1])) < room {
		from--
		before += runeWidth(shownAs(e.Text[from]))
	}
	var b strings.Builder
	for _, r := range e.Text[from:min(len(e.Text), from+room)] {
		b.WriteRune(shownAs(r))
	}
	return prompt + Fit(b.String(), room+1), Width(prompt) + before
}

// shownAs is a character that takes room: a break in the line, and what cannot be seen, too.
func shownAs(r rune) rune {
	switch {
	case r == '\n':
		return '↵'
	case !visible.Rune(r):
		return ' '
	}
	return r
}
