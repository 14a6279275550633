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

// Picker is a list to look through and to switch entries on and off. Keys go in, lines come out; it
// writes nothing to a disk. The caller reads the result from Rows after Show.
type Picker struct {
	// Rows are all entries, in their order. Show changes their On fields.
	Rows []PickerRow
	// filter holds the words that a row must contain to be shown.
	filter string
	// scope limits the list to rows of one scope; "" shows all.
	scope string
	// cursor and top are positions among the rows that match: the selected row, and the first one
	// on the screen.
	cursor, top int
	// note is a message below the list, until the next key.
	note string
}

// PickerRow is one entry.
type PickerRow struct {
	// Name, Scope and Text are the columns. Name and Text are searched by the filter.
	Name, Scope, Text string
	// On is the current choice, WasOn the one before Show.
	On, WasOn bool
	// Locked, if not "", says why the row cannot be switched here: something else keeps it off.
	Locked string
}

// What the caller of press does next: read another key, keep the changes, or drop them.
const (
	pickContinue = iota
	pickConfirm
	pickCancel
)

// matching returns the indexes of the rows that match the filter and the scope. All words of the
// filter must occur in the name or the text, in any order and case.
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

// press handles one key and returns what to do next. page is the number of rows on the screen, for
// the page keys. Escape clears the filter first, and leaves only an unfiltered list.
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
		// 100 bytes: a longer filter would fill the row and match nothing.
		if text := Printable(string(key)); text != "" && len(p.filter) < 100 {
			p.filter, p.cursor = p.filter+text, 0
		}
	}
	p.cursor = max(0, min(p.cursor, len(p.matching())-1))
	return pickContinue
}

// toggle switches the selected row. found are the rows that match. A locked row stays as it is, and
// the note says why.
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

// nextScope returns the scope after the current one: all, then each scope of the rows in order,
// then all again.
func (p *Picker) nextScope() string {
	round := []string{""}
	for _, r := range p.Rows {
		if !slices.Contains(round, r.Scope) {
			round = append(round, r.Scope)
		}
	}
	return round[(slices.Index(round, p.scope)+1)%len(round)]
}

// Changed returns how many rows differ from what they were before Show.
func (p *Picker) Changed() (n int) {
	for _, r := range p.Rows {
		if r.On != r.WasOn {
			n++
		}
	}
	return n
}

// frameLines is the number of lines around the rows: two above, two below.
const frameLines = 4

// view returns the lines for a terminal of that size, and scrolls so that the selected row is
// visible.
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

// line returns one row: "> " before the selected one, "[x]" for on, "*" for changed.
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

// pad cuts text to so many columns or fills it up with spaces. It counts columns and not
// characters, because wide characters take two.
func pad(text string, columns int) string {
	text = Fit(text, columns+1)
	used := 0
	for _, r := range text {
		used += runeWidth(r)
	}
	return text + strings.Repeat(" ", max(0, columns-used))
}

// Show shows the list until the person confirms (keep is true) or leaves, ctx ends, or the terminal
// is gone. It blocks, uses the alternate screen, and restores the terminal before it returns. in
// must be a terminal; MakeRaw fails for anything else.
func (p *Picker) Show(ctx context.Context, in *os.File, out io.Writer, color bool) (keep bool, err error) {
	restore, err := MakeRaw(in)
	if err != nil {
		return false, fmt.Errorf("the terminal: %w", err)
	}
	// Switch to the alternate screen and hide the cursor: what was on the screen is back
	// afterwards.
	fmt.Fprint(out, "\x1b[?1049h\x1b[?25l")
	defer func() {
		fmt.Fprint(out, "\x1b[?25h\x1b[?1049l")
		err = errors.Join(err, restore())
	}()
	var shown []byte
	typed := KeyReader{In: in}
	for {
		columns, lines := size(in)
		// KeyReader returns at least every readTimeout, so a new window size is noticed without a
		// signal.
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

// screenBytes returns the bytes that write lines from the upper left corner and erase what was
// there before. It overwrites instead of clearing first, which would flicker.
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
