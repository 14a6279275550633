package cli

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
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
	case keyStop, keyEnd:
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

func pad(text string, columns int) string {
	text = fit(text, columns+1)
	used := 0
	for _, r := range text {
		used += cellsOf(r)
	}
	return text + strings.Repeat(" ", max(0, columns-used))
}
