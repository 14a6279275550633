package cli

import (
	"slices"
	"strings"
	"unicode"
)

// editor is the line that a person types. It knows no terminal: keys go in, a row comes out.
type editor struct {
	text    []rune
	at      int // where the cursor stands in it
	pasting bool
}

// What comes of a key.
const (
	editOn   = iota
	editSend // the line is whole
	editStop // Ctrl-C
	editEnd  // Ctrl-D in an empty line
)

// maxTyped bounds a line, in characters: what is larger than a task may be belongs into a file.
const maxTyped = 256 << 10

// press takes one key. A line break is part of the line when it is pasted, behind a backslash, or typed with Alt.
func (e *editor) press(key rune) int {
	if e.pasting {
		return e.paste(key)
	}
	switch key {
	case keyEnter:
		if e.at == len(e.text) && e.at > 0 && e.text[e.at-1] == '\\' {
			e.text[e.at-1] = '\n'
			return editOn
		}
		return editSend
	case keyStop:
		return editStop
	case keyEnd:
		if len(e.text) == 0 {
			return editEnd
		}
		e.cut(e.at, e.at+1)
	case keyPaste:
		e.pasting = true
	case keyBreak:
		e.insert('\n')
	default:
		e.change(key)
	}
	return editOn
}

func (e *editor) paste(key rune) int {
	switch key {
	case keyPasted:
		e.pasting = false
	case keyEnter:
		e.insert('\n')
	case keyTab:
		e.insert('\t')
	case keyStop:
		e.pasting = false // whoever sees no end of it
		return editStop
	default:
		e.insert(key)
	}
	return editOn
}

// change moves the cursor, or takes away, or puts in.
func (e *editor) change(key rune) {
	switch key {
	case keyLeft:
		e.at = max(0, e.at-1)
	case keyRight:
		e.at = min(len(e.text), e.at+1)
	case keyFirst:
		e.at = 0
	case keyLast:
		e.at = len(e.text)
	case keyBackspace:
		e.cut(e.at-1, e.at)
	case keyDelete:
		e.cut(e.at, e.at+1)
	case keyWord:
		before := strings.TrimRight(string(e.text[:e.at]), " ")
		e.cut(len([]rune(before[:strings.LastIndex(before, " ")+1])), e.at)
	case keyRest:
		e.cut(e.at, len(e.text))
	case keyClear:
		e.cut(0, e.at)
	default:
		e.insert(key)
	}
}

func (e *editor) insert(r rune) {
	if r >= keyUp && r <= lastKey || len(e.text) >= maxTyped {
		return
	}
	e.text = slices.Insert(e.text, e.at, r)
	e.at++
}

func (e *editor) cut(from, to int) {
	from, to = max(0, from), min(len(e.text), to)
	if from < to {
		e.text = slices.Delete(e.text, from, to)
		e.at = from
	}
}

// take returns what was typed, and begins a new line.
func (e *editor) take() string {
	text := string(e.text)
	e.text, e.at, e.pasting = nil, 0, false
	return text
}

// row is the line behind a prompt in a terminal of so many columns, and the column of the cursor. What does not fit
// is to the left and to the right of it.
func (e *editor) row(prompt string, columns int) (text string, cursor int) {
	prompt = fit(prompt, max(3, columns-6))
	room := max(1, columns-1-cellsIn(prompt))
	from, before := e.at, 0
	for from > 0 && before+cellsOf(shownAs(e.text[from-1])) < room {
		from--
		before += cellsOf(shownAs(e.text[from]))
	}
	var b strings.Builder
	for _, r := range e.text[from:min(len(e.text), from+room)] {
		b.WriteRune(shownAs(r))
	}
	return prompt + fit(b.String(), room+1), cellsIn(prompt) + before
}

// shownAs is a character that takes room: a break in the line, and what cannot be seen, too.
func shownAs(r rune) rune {
	switch {
	case r == '\n':
		return '↵'
	case !unicode.IsPrint(r):
		return ' '
	}
	return r
}
