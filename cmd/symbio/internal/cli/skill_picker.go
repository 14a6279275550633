package cli

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/width"
)

// picker is a list to look through and to switch on and off. It knows neither a terminal nor a disk: keys go
// in, lines come out.
type picker struct {
	rows    []pickRow
	filter  string
	scope   string // "" = all
	at, top int    // among those that fit
	note    string
}

// pickRow is one skill. A row that is locked is off by what this list does not change.
type pickRow struct {
	name, scope, text string
	on, was           bool
	locked            string
}

// The keys that are no text.
const (
	keyUp = iota + 0xE000 // of the private use area, which no keyboard has
	keyDown
	keyPageUp
	keyPageDown
	keyEnter
	keyEscape
	keyTab
	keyBackspace
	keyLeave
	keyClear
)

// What comes of a key.
const (
	pickOn = iota
	pickKeep
	pickLeave
)

// fits are the rows, by index, that the filter and the scope leave.
func (p *picker) fits() (found []int) {
	words := strings.Fields(strings.ToLower(p.filter))
	for i, r := range p.rows {
		text := strings.ToLower(r.name + " " + r.text)
		if (p.scope == "" || p.scope == r.scope) && !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(text, w) }) {
			found = append(found, i)
		}
	}
	return found
}

// press takes one key; page is how many rows are shown.
func (p *picker) press(key rune, page int) int {
	p.note = ""
	found := p.fits()
	switch key {
	case keyUp:
		p.at--
	case keyDown:
		p.at++
	case keyPageUp:
		p.at -= page
	case keyPageDown:
		p.at += page
	case keyEnter:
		return pickKeep
	case keyLeave:
		return pickLeave
	case keyEscape:
		if p.filter == "" && p.scope == "" {
			return pickLeave
		}
		p.filter, p.scope, p.at = "", "", 0
	case keyClear:
		p.filter, p.at = "", 0
	case keyTab:
		p.scope, p.at = p.nextScope(), 0
	case keyBackspace:
		_, n := utf8.DecodeLastRuneInString(p.filter)
		p.filter, p.at = p.filter[:len(p.filter)-n], 0
	case ' ':
		p.flip(found)
	default:
		if text := printable(string(key)); text != "" && len(p.filter) < 100 {
			p.filter, p.at = p.filter+text, 0
		}
	}
	p.at = max(0, min(p.at, len(p.fits())-1))
	return pickOn
}

func (p *picker) flip(found []int) {
	if len(found) == 0 {
		return
	}
	r := &p.rows[found[p.at]]
	if r.locked != "" {
		p.note = "stays off: " + r.locked
		return
	}
	r.on = !r.on
}

// nextScope goes round through all and the scopes that there are.
func (p *picker) nextScope() string {
	round := []string{""}
	for _, r := range p.rows {
		if !slices.Contains(round, r.scope) {
			round = append(round, r.scope)
		}
	}
	return round[(slices.Index(round, p.scope)+1)%len(round)]
}

func (p *picker) changed() (n int) {
	for _, r := range p.rows {
		if r.on != r.was {
			n++
		}
	}
	return n
}

// frame is how many lines there are besides the rows.
const frame = 4

// view is what a terminal of that size shows, a line each.
func (p *picker) view(columns, lines int, color bool) []string {
	found := p.fits()
	page := max(1, lines-frame)
	p.top = max(0, min(p.top, p.at, len(found)-page))
	if p.at >= p.top+page {
		p.top = p.at - page + 1
	}
	scope := p.scope
	if scope == "" {
		scope = "all scopes"
	}
	out := []string{fit("Skills: "+p.filter+"_", columns), fit(fmt.Sprintf("%d of %d, %s, %d changed", len(found), len(p.rows), scope, p.changed()), columns)}
	for i := p.top; i < min(len(found), p.top+page); i++ {
		out = append(out, p.line(p.rows[found[i]], i == p.at, columns, color))
	}
	if len(found) == 0 {
		out = append(out, "  nothing fits")
	}
	return append(out, fit(p.note, columns), fit("type: filter  space: on/off  tab: scope  enter: keep  esc: back  ctrl-c: leave", columns))
}

func (p *picker) line(r pickRow, here bool, columns int, color bool) string {
	mark, pointer, star := " ", "  ", " "
	if r.on {
		mark = "x"
	}
	if here {
		pointer = "> "
	}
	if r.on != r.was {
		star = "*"
	}
	text := fit(fmt.Sprintf("%s[%s]%s %s %s %s", pointer, mark, star, pad(r.name, 28), pad(r.scope, 8), r.text), columns)
	if here && color {
		return "\x1b[7m" + text + "\x1b[0m"
	}
	return text
}

// cellsOf is how many columns of a terminal a character takes.
func cellsOf(r rune) int {
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	}
	return 1
}

// fit is text that cannot move a cursor, cut to so many columns. The last one stays free: some terminals
// begin a new line when it is written.
func fit(text string, columns int) string {
	text = printable(text)
	used := 0
	for i, r := range text {
		if used += cellsOf(r); used >= columns {
			return text[:i]
		}
	}
	return text
}

func pad(text string, columns int) string {
	text = fit(text, columns+1)
	used := 0
	for _, r := range text {
		used += cellsOf(r)
	}
	return text + strings.Repeat(" ", max(0, columns-used))
}

// keys reads what a terminal sends. What it does not know is nothing.
func keys(data []byte) (found []rune) {
	sequences := []struct {
		text string
		key  rune
	}{
		{"\x1b[A", keyUp}, {"\x1bOA", keyUp}, {"\x1b[B", keyDown}, {"\x1bOB", keyDown}, {"\x1b[5~", keyPageUp}, {"\x1b[6~", keyPageDown},
		{"\r", keyEnter}, {"\n", keyEnter}, {"\t", keyTab}, {"\x7f", keyBackspace}, {"\b", keyBackspace},
		{"\x03", keyLeave}, {"\x04", keyLeave}, {"\x10", keyUp}, {"\x0e", keyDown}, {"\x15", keyClear},
	}
next:
	for len(data) > 0 {
		for _, s := range sequences {
			if rest, ok := strings.CutPrefix(string(data), s.text); ok {
				found, data = append(found, s.key), []byte(rest)
				continue next
			}
		}
		if data[0] == 0x1b {
			n := escapeLength(data)
			if n == 1 {
				found = append(found, keyEscape)
			}
			data = data[n:]
			continue
		}
		r, n := utf8.DecodeRune(data)
		if r != utf8.RuneError && r >= ' ' && (r < keyUp || r > keyClear) {
			found = append(found, r)
		}
		data = data[n:]
	}
	return found
}

// escapeLength is how long an unknown sequence is that begins with an escape; 1 = it is the key alone.
func escapeLength(data []byte) int {
	if len(data) < 2 {
		return 1
	}
	if data[1] != '[' && data[1] != 'O' {
		return 2 // with Alt
	}
	for i := 2; i < len(data); i++ {
		if data[i] >= 0x40 && data[i] <= 0x7e {
			return i + 1
		}
	}
	return len(data)
}
