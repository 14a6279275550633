package tui

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"

	"symbio/cmd/symbio/internal/terminal"
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
	// scroll is about the rows that match.
	scroll Scroll
	// note is a message below the list, until the next key.
	note string
	// keep is true after the person has confirmed.
	keep bool
	st   Styles
	// columns and lines are the size of the terminal.
	columns, lines int
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

// press handles one key. It returns true when the person is done: p.keep says whether the changes are
// kept. page is the number of rows on the screen, for the page keys. Escape clears the filter first, and
// leaves only an unfiltered list.
func (p *Picker) press(k tea.KeyPressMsg, page int) (done bool) {
	p.note = ""
	p.scroll.List = true
	p.scroll.Fit(len(p.matching()), page)
	if k.Text == "" { // a letter is of the filter
		p.scroll.Key(k.String())
	}
	switch k.String() {
	case "enter":
		p.keep = true
		return true
	case "ctrl+c", "ctrl+d":
		return true
	case "esc":
		if p.filter == "" && p.scope == "" {
			return true
		}
		p.filter, p.scope, p.scroll.Chosen = "", "", 0
	case "ctrl+u":
		p.filter, p.scroll.Chosen = "", 0
	case "tab":
		p.scope, p.scroll.Chosen = p.nextScope(), 0
	case "backspace":
		_, n := utf8.DecodeLastRuneInString(p.filter)
		p.filter, p.scroll.Chosen = p.filter[:len(p.filter)-n], 0
	case "space":
		p.toggle(p.matching())
	default:
		// 100 bytes: a longer filter would fill the row and match nothing.
		if text := terminal.Printable(k.Text); text != "" && len(p.filter) < 100 {
			p.filter, p.scroll.Chosen = p.filter+text, 0
		}
	}
	return false
}

// toggle switches the selected row. found are the rows that match. A locked row stays as it is, and
// the note says why.
func (p *Picker) toggle(found []int) {
	if len(found) == 0 {
		return
	}
	r := &p.Rows[found[p.scroll.Chosen]]
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

// rows returns the rows for a terminal of that size, and scrolls so that the selected row is visible.
func (p *Picker) rows(columns, lines int) []string {
	found := p.matching()
	p.scroll.List = true
	from, to := p.scroll.Fit(len(found), lines-frameLines)
	out := []string{Cut("Skills: "+p.filter+"_", columns),
		Cut(fmt.Sprintf("%d of %d, %s, %d changed", len(found), len(p.Rows), cmp.Or(p.scope, "all scopes"), p.Changed()), columns)}
	for i := from; i < to; i++ {
		out = append(out, p.line(p.Rows[found[i]], i == p.scroll.Chosen, columns))
	}
	if len(found) == 0 {
		out = append(out, "  nothing fits")
	}
	return append(out, Cut(p.note, columns), Cut("type: filter  space: on/off  tab: scope  enter: keep  esc: back  ctrl-c: leave", columns))
}

// line returns one row: "> " before the selected one, "[x]" for on, "*" for changed.
func (p *Picker) line(r PickerRow, here bool, columns int) string {
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
	text := Cut(fmt.Sprintf("%s[%s]%s %s %s %s", pointer, mark, star, Pad(r.Name, 28), Pad(r.Scope, 8), clean(r.Text)), columns)
	if here {
		return Paint(p.st.Selected, text)
	}
	return text
}

// Init, Update and View implement tea.Model.
func (p *Picker) Init() tea.Cmd { return nil }

// Update handles keys and the size of the terminal.
func (p *Picker) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		p.columns, p.lines = msg.Width, msg.Height
	case tea.KeyPressMsg:
		if p.press(msg, max(1, p.lines-frameLines)) {
			return p, tea.Quit
		}
	}
	return p, nil
}

// View shows the list on the alternate screen.
func (p *Picker) View() tea.View {
	v := tea.NewView(strings.Join(p.rows(p.columns-1, p.lines), "\n"))
	v.AltScreen = true
	return v
}

// Show shows the list until the person confirms (keep is true) or leaves, ctx ends, or the terminal is
// gone. It blocks, and restores the terminal before it returns. in must be a terminal.
func (p *Picker) Show(ctx context.Context, in *os.File, out io.Writer, color bool) (keep bool, err error) {
	p.st, p.columns, p.lines = NewStyles(color), 80, 24
	_, err = tea.NewProgram(p, tea.WithContext(ctx), tea.WithInput(in), tea.WithOutput(out), tea.WithoutSignalHandler()).Run()
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return p.keep && err == nil, err
}

// frameLines is the number of lines around the rows: two above, two below.
const frameLines = 4
