package chat

import (
	"fmt"
	"strings"
	"testing"
	"unicode"

	"pgregory.net/rapid"

	"symbio/cmd/symbio/internal/terminal"
)

// glass is what a terminal shows of what is written to it, of as many columns. A row that grows over its edge is a
// fault of the program: the terminal would begin a new one, of which the program knows nothing.
type glass struct {
	columns     int
	rows        [][]rune // with a 0 behind a wide character
	row, column int
	fault       string
	pending     string // of a sequence
}

func (g *glass) Write(data []byte) (int, error) {
	text := []rune(g.pending + string(data))
	g.pending = ""
	for i := 0; i < len(text); i++ {
		switch r := text[i]; r {
		case '\n':
			g.row, g.column = g.row+1, 0 // as a terminal does that was not told otherwise
		case '\r':
			g.column = 0
		case 0x1b:
			end := i + 2
			for end < len(text) && !unicode.IsLetter(text[end]) {
				end++
			}
			g.escape(string(text[i+2:end]), text[end])
			i = end
		default:
			g.put(r)
		}
	}
	return len(data), nil
}

func (g *glass) escape(number string, letter rune) {
	n := 0
	fmt.Sscan(number, &n)
	switch letter {
	case 'A':
		if g.row -= n; g.row < 0 {
			g.fault = "the cursor is above the first row"
			g.row = 0
		}
	case 'C':
		g.column += n
	case 'J':
		g.reach()
		g.rows = g.rows[:g.row+1]
		g.rows[g.row] = g.rows[g.row][:min(g.column, len(g.rows[g.row]))]
	case 'm':
	default:
		g.fault = fmt.Sprintf("an unknown sequence ends in %q", letter)
	}
}

func (g *glass) reach() {
	for len(g.rows) <= g.row {
		g.rows = append(g.rows, nil)
	}
}

func (g *glass) put(r rune) {
	g.reach()
	row := g.rows[g.row]
	for len(row) < g.column+terminal.Width(string(r)) {
		row = append(row, 0)
	}
	row[g.column] = r
	g.rows[g.row] = row
	if g.column += terminal.Width(string(r)); g.column >= g.columns {
		g.fault = fmt.Sprintf("row %d is too wide: %q", g.row, string(row))
	}
}

func (g *glass) lines() (out []string) {
	for _, row := range g.rows {
		out = append(out, strings.TrimRight(strings.ReplaceAll(string(row), "\x00", ""), " "))
	}
	return out
}

// solid is text without the spaces at which it may be broken.
func solid(text string) string {
	return strings.Join(strings.Fields(text), "")
}

func TestScreenKeepsOutputAboveInputRow(t *testing.T) {
	piece := rapid.StringOfN(rapid.SampledFrom([]rune("ab cde 日本\n\t\x1b[31m…é\r\u202e")), 0, 60, -1)
	rapid.Check(t, func(t *rapid.T) {
		g := &glass{columns: rapid.IntRange(8, 40).Draw(t, "columns")}
		s := &screen{w: g, Columns: func() int { return g.columns }, Color: rapid.Bool().Draw(t, "color")}
		e := &terminal.Editor{}
		var said strings.Builder
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			switch rapid.IntRange(0, 4).Draw(t, "what") {
			case 0:
				text := piece.Draw(t, "prose")
				s.prose(text)
				said.WriteString(printableLines(text))
			case 1:
				text := piece.Draw(t, "lines")
				s.lines(styleDim, text)
				said.WriteString(printableLines(text))
			case 2:
				s.finish()
			case 3:
				for _, key := range piece.Draw(t, "typed") {
					e.Press(key)
				}
				s.setInput(e.Row("> ", g.columns))
			case 4:
				s.setInput("", 0)
			}
			rows := g.lines()
			if s.inputRow != "" {
				if last := rows[len(rows)-1]; last != strings.TrimRight(s.inputRow, " ") || g.row != len(rows)-1 || g.column != s.cursor {
					t.Fatalf("the last row is %q with the cursor in row %d at %d, want %q at %d", last, g.row, g.column, s.inputRow, s.cursor)
				}
				rows = rows[:len(rows)-1]
			}
			if got, want := solid(strings.Join(rows, " ")), solid(said.String()); got != want {
				t.Fatalf("shown is %q, want %q", got, want)
			}
			if g.fault != "" {
				t.Fatal(g.fault)
			}
		}
	})
}

func TestScreenOnDumbTerminal(t *testing.T) {
	var b strings.Builder
	s := &screen{w: &b, Columns: func() int { return 20 }, dumb: true}
	s.prose("a sentence that is ")
	s.setInput("> typed", 2)
	s.prose("longer than a row")
	s.lines(styleDim, terminal.Fit("  a line that is cut where the row ends", s.Columns()))
	s.prose("\x1b[2Jmore\n")
	s.finish()
	if got, want := b.String(), "a sentence that is longer than a row\n  a line that is cu\n[2Jmore\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
