package terminal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"unicode/utf8"
)

// Picker is a list to look through and to switch on and off. It knows neither a terminal nor a disk: keys go
// in, lines come out.
type Picker struct {
	Rows    []PickerRow
	filter  string
	scope   string // "" = all
	cursor, top int    // among those that fit
	note    string
}

// PickerRow is one skill. A row that is locked is off by what this list does not change.
type PickerRow struct {
	Name, Scope, Text string
	On, WasOn           bool
	Locked            string
}

// What comes of a key.
const (
	pickContinue = iota
	pickConfirm
	pickCancel
)

// matching are the rows, by index, that the filter and the scope leave.
func (p *Picker) matching() (found []int) {
	words := strings.Fields(strings.ToLower(p.filter))
	for i, r := range p.Rows {
		text := strings.ToLower(r.Name + " " + r.Text)
		if (p.scope == "" || p.scope == r.Scope) && !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(text, w) }) {
			found = append(found, i)
		}
	}
	return found
}

// press takes one key; page is how many rows are shown.
func (p *Picker) press(key rune, page int) int {
	p.note = ""
	found := p.matching()
	switch key {
	case keyUp:
		p.cursor--
	case keyDown:
		p.cursor++
	case keyPageUp:
		p.cursor -= page
	case keyPageDown:
		p.cursor += page
	case keyEnter:
		return pickConfirm
	case keyInterrupt, keyEOF:
		return pickCancel
	case keyEscape:
		if p.filter == "" && p.scope == "" {
			return pickCancel
		}
		p.filter, p.scope, p.cursor = "", "", 0
	case keyDeleteToStart:
		p.filter, p.cursor = "", 0
	case keyTab:
		p.scope, p.cursor = p.nextScope(), 0
	case keyBackspace:
		_, n := utf8.DecodeLastRuneInString(p.filter)
		p.filter, p.cursor = p.filter[:len(p.filter)-n], 0
	case ' ':
		p.toggle(found)
	default:
		if text := Printable(string(key)); text != "" && len(p.filter) < 100 {
			p.filter, p.cursor = p.filter+text, 0
		}
	}
	p.cursor = max(0, min(p.cursor, len(p.matching())-1))
	return pickContinue
}

func (p *Picker) toggle(found []int) {
	if len(found) == 0 {
		return
	}
	r := &p.Rows[found[p.cursor]]
	if r.Locked != "" {
		p.note = "stays off: " + r.Locked
		return
	}
	r.On = !r.On
}

// nextScope goes round through all and the scopes that there are.
func (p *Picker) nextScope() string {
	round := []string{""}
	for _, r := range p.Rows {
		if !slices.Contains(round, r.Scope) {
			round = append(round, r.Scope)
		}
	}
	return round[(slices.Index(round, p.scope)+1)%len(round)]
}

// Changed is how many rows are not as they were.
func (p *Picker) Changed() (n int) {
	for _, r := range p.Rows {
		if r.On != r.WasOn {
			n++
		}
	}
	return n
}

// frameLines is how many lines there are besides the rows.
const frameLines = 4

// view is what a terminal of that size shows, a line each.
func (p *Picker) view(columns, lines int, color bool) []string {
	found := p.matching()
	page := max(1, lines-frameLines)
	p.top = max(0, min(p.top, p.cursor, len(found)-page))
	if p.cursor >= p.top+page {
		p.top = p.cursor - page + 1
	}
	scope := p.scope
	if scope == "" {
		scope = "all scopes"
	}
	out := []string{Fit("Skills: "+p.filter+"_", columns), Fit(fmt.Sprintf("%d of %d, %s, %d changed", len(found), len(p.Rows), scope, p.Changed()), columns)}
	for i := p.top; i < min(len(found), p.top+page); i++ {
		out = append(out, p.line(p.Rows[found[i]], i == p.cursor, columns, color))
	}
	if len(found) == 0 {
		out = append(out, "  nothing fits")
	}
	return append(out, Fit(p.note, columns), Fit("type: filter  space: on/off  tab: scope  enter: keep  esc: back  ctrl-c: leave", columns))
}

func (p *Picker) line(r PickerRow, here bool, columns int, color bool) string {
	mark, pointer, star := " ", "  ", " "
	if r.On {
		mark = "x"
	}
	if here {
		pointer = "> "
	}
	if r.On != r.WasOn {
		star = "*"
	}
	text := Fit(fmt.Sprintf("%s[%s]%s %s %s %s", pointer, mark, star, pad(r.Name, 28), pad(r.Scope, 8), r.Text), columns)
	if here && color {
		return "\x1b[7m" + text + "\x1b[0m"
	}
	return text
}

func pad(text string, columns int) string {
	text = Fit(text, columns+1)
	used := 0
	for _, r := range text {
		used += runeWidth(r)
	}
	return text + strings.Repeat(" ", max(0, columns-used))
}

// Show shows the list until a person keeps or leaves what they chose, ctx ends or the terminal is gone. It leaves the
// terminal as it was.
func (p *Picker) Show(ctx context.Context, in *os.File, out io.Writer, color bool) (keep bool, err error) {
	restore, err := MakeRaw(in)
	if err != nil {
		return false, fmt.Errorf("the terminal: %w", err)
	}
	fmt.Fprint(out, "\x1b[?1049h\x1b[?25l") // a screen of its own, without a cursor
	defer func() {
		fmt.Fprint(out, "\x1b[?25h\x1b[?1049l")
		err = errors.Join(err, restore())
	}()
	var shown []byte
	typed := KeyReader{In: in}
	for {
		columns, lines := size(in)
		if screen := screenBytes(p.view(columns, lines, color)); !bytes.Equal(screen, shown) {
			shown = screen
			if _, err := out.Write(screen); err != nil {
				return false, err
			}
		}
		pressed, err := typed.Next()
		if ctx.Err() != nil {
			return false, context.Cause(ctx)
		}
		if errors.Is(err, io.EOF) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		for _, key := range pressed {
			switch p.press(key, max(1, lines-frameLines)) {
			case pickConfirm:
				return true, nil
			case pickCancel:
				return false, nil
			}
		}
	}
}

// screenBytes writes lines from the upper left corner, and takes away what was there.
func screenBytes(lines []string) []byte {
	var b bytes.Buffer
	b.WriteString("\x1b[H")
	for i, line := range lines {
		if i > 0 {
			b.WriteString("\r\n")
		}
		b.WriteString(line + "\x1b[K")
	}
	b.WriteString("\x1b[J")
	return b.Bytes()
}
