package tui

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"
)

// markdown returns a block of Markdown as rows, and an empty one behind it.
func (k look) markdown(block string) string {
	return strings.Join(Markdown(k.st, block, k.columns, k.links), "\n") + "\n"
}

// Markdown returns foreign Markdown as rows of at most columns cells. Line breaks stay: models mean them. links is true
// if the terminal shows links. The renderer is our own because importing the usual ones costs each start of the program,
// also the start of the sandbox's helper, 10 ms and more.
func Markdown(s Styles, text string, columns int, links bool) []string {
	r := markdownRenderer{s, max(10, columns), links}
	return r.rows(strings.Split(clean(text), "\n"))
}

// markdownRenderer renders Markdown for columns columns. Its input is clean.
type markdownRenderer struct {
	st      Styles
	columns int
	// links is true if the terminal shows links.
	links bool
}

func (r markdownRenderer) rows(lines []string) (rows []string) {
	for i := 0; i < len(lines); i++ {
		line := strings.TrimRight(lines[i], " ")
		trimmed := strings.TrimLeft(line, " ")
		indent := min(len(line)-len(trimmed), 12, r.columns/2)
		switch fence := fenceOf(trimmed); {
		case fence != "":
			end := i + 1
			for end < len(lines) && !strings.HasPrefix(strings.TrimSpace(lines[end]), fence) {
				end++
			}
			rows = append(rows, r.code(lines[i+1:end], strings.Trim(trimmed, "`~ "), indent)...)
			i = end
		case isTable(lines[i:]):
			end := i + 2
			for end < len(lines) && strings.Contains(lines[end], "|") {
				end++
			}
			rows = append(rows, r.table(lines[i:end])...)
			i = end - 1
		default:
			rows = append(rows, r.line(line, trimmed, indent)...)
		}
	}
	return rows
}

// line returns the rows of a line that is no part of code or a table.
func (r markdownRenderer) line(line, trimmed string, indent int) []string {
	if text := strings.TrimLeft(trimmed, "#"); len(text) < len(trimmed) && strings.HasPrefix(text, " ") {
		return Wrap(Paint(r.st.Accent, Paint(r.st.Bold, r.inline(text[1:]))), r.columns)
	}
	if rule := strings.ReplaceAll(trimmed, " ", ""); len(rule) >= 3 && strings.Trim(rule, rule[:1]) == "" && strings.Contains("-*_", rule[:1]) {
		return []string{Paint(r.st.Dim, strings.Repeat("─", min(r.columns, 40)))}
	}
	if text, ok := strings.CutPrefix(trimmed, ">"); ok {
		return r.hanging(Paint(r.st.Dim, "│ "), Paint(r.st.Dim, "│ "), strings.TrimPrefix(text, " "))
	}
	lead := strings.Repeat(" ", indent)
	if isListMarker(trimmed) {
		marker, text, _ := strings.Cut(trimmed, " ")
		if len(marker) == 1 {
			marker = "•"
		}
		for box, sign := range map[string]string{"[ ] ": "☐ ", "[x] ": "☑ "} {
			if rest, ok := strings.CutPrefix(text, box); ok {
				text = sign + rest
			}
		}
		return r.hanging(lead+marker+" ", lead+strings.Repeat(" ", ansi.StringWidth(marker)+1), text)
	}
	return r.hanging(lead, lead, trimmed)
}

// hanging wraps a text behind first in its first row, and behind rest in the others.
func (r markdownRenderer) hanging(first, rest, text string) []string {
	rows := Wrap(r.inline(text), r.columns-ansi.StringWidth(rest))
	for i := range rows {
		if i == 0 {
			rows[i] = first + rows[i]
		} else {
			rows[i] = rest + rows[i]
		}
	}
	return rows
}

// inline renders emphasis, code and links. The target of a link is always shown: its text may lie.
func (r markdownRenderer) inline(text string) string {
	var b strings.Builder
	for text != "" {
		i := strings.IndexAny(text, "`*_~[\\")
		if i < 0 {
			break
		}
		b.WriteString(text[:i])
		wordBefore := i > 0 && text[i-1] != ' ' && text[i-1] != '('
		rendered, n := r.span(text[i:], wordBefore)
		if n == 0 {
			rendered, n = text[i:i+1], 1
		}
		b.WriteString(rendered)
		text = text[i+n:]
	}
	return b.String() + text
}

// span renders the marked text at the beginning of text and returns how long it is there; 0 if there is
// none. wordBefore is true in the middle of a word, where _ marks nothing.
func (r markdownRenderer) span(text string, wordBefore bool) (string, int) {
	if text[0] == '\\' && len(text) > 1 && strings.IndexByte("`*_~[]\\#", text[1]) >= 0 {
		return text[1:2], 2
	}
	if text[0] == '[' {
		return r.link(text)
	}
	for _, mark := range []struct {
		text  string
		style lipgloss.Style
	}{{"``", r.st.Code}, {"`", r.st.Code}, {"**", r.st.Bold}, {"__", r.st.Bold}, {"~~", r.st.Dim}, {"*", r.st.Italic}, {"_", r.st.Italic}} {
		rest, ok := strings.CutPrefix(text, mark.text)
		end := strings.Index(rest, mark.text)
		if !ok || end <= 0 || mark.text[0] == '_' && wordBefore {
			continue
		}
		inner := rest[:end]
		if mark.text[0] == '`' {
			return Paint(mark.style, inner), end + 2*len(mark.text)
		}
		if strings.TrimSpace(inner) == inner {
			return Paint(mark.style, r.inline(inner)), end + 2*len(mark.text)
		}
	}
	return "", 0
}

// link renders [text](target).
func (r markdownRenderer) link(text string) (string, int) {
	name, rest, ok := strings.Cut(text[1:], "](")
	target, _, closed := strings.Cut(rest, ")")
	if !ok || !closed || strings.ContainsAny(name, "[]") {
		return "", 0
	}
	n := len("[](") + len(name) + len(target) + len(")")
	style := r.st.Accent
	if u, err := url.Parse(target); r.links && err == nil && u.Host != "" && (u.Scheme == "http" || u.Scheme == "https") && strings.Trim(target, urlBytes) == "" {
		style = style.Hyperlink(target)
	}
	if name == target {
		return Paint(style, target), n
	}
	return r.inline(name) + " (" + Paint(style, target) + ")", n
}

// urlBytes are the characters of a target that becomes a link of the terminal. Others could look like these.
const urlBytes = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~:/?#[]@!$&'()*+,;=%"

// ShowsLinks reports whether the terminal is known to show links (OSC 8). Older ones print parts of their codes,
// and tmux and screen pass them on or not by their own settings.
func ShowsLinks(getenv func(string) string) bool {
	if getenv("TMUX") != "" || getenv("STY") != "" {
		return false
	}
	for _, name := range []string{"kitty", "ghostty", "alacritty", "foot", "wezterm"} {
		if strings.Contains(getenv("TERM"), name) {
			return true
		}
	}
	vte, _ := strconv.Atoi(getenv("VTE_VERSION"))
	return vte >= 5000 || getenv("WT_SESSION")+getenv("KONSOLE_VERSION") != "" || slices.Contains([]string{"iTerm.app", "WezTerm", "vscode"}, getenv("TERM_PROGRAM"))
}

// isTable reports whether lines begin with a table: a row of names and one of dashes.
func isTable(lines []string) bool {
	return len(lines) > 1 && strings.Contains(lines[0], "|") && strings.Contains(lines[1], "-") && strings.Contains(lines[1], "|") && strings.Trim(lines[1], "|-: ") == ""
}

// maxTableColumns bounds the columns of a table; more do not fit any terminal.
const maxTableColumns = 40

// table lays a table out. The widest columns are wrapped, all to the same limit.
func (r markdownRenderer) table(lines []string) (rows []string) {
	var all [][]string
	for i, line := range lines {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		cells = cells[:min(len(cells), maxTableColumns)]
		for j := range cells {
			if cells[j] = strings.TrimSpace(cells[j]); i != 1 {
				cells[j] = r.inline(cells[j])
			}
		}
		all = append(all, cells)
	}
	widths, limit := r.columnWidths(all)
	for i, cells := range all {
		if i == 1 {
			var rule []string
			for _, w := range widths {
				rule = append(rule, strings.Repeat("─", min(w, limit)))
			}
			rows = append(rows, Cut(Paint(r.st.Dim, strings.Join(rule, "─┼─")), r.columns))
			continue
		}
		rows = append(rows, r.tableRow(cells, all[1], widths, limit, i == 0)...)
	}
	return rows
}

// columnWidths returns the widest cell of each column, and how wide a column may be so that all fit.
func (r markdownRenderer) columnWidths(all [][]string) (widths []int, limit int) {
	widths = make([]int, len(all[0]))
	for i, cells := range all {
		for j := range min(len(cells), len(widths)) {
			if i != 1 {
				widths[j] = max(widths[j], ansi.StringWidth(cells[j]), 1)
			}
			limit = max(limit, widths[j])
		}
	}
	need := func() (n int) {
		for _, w := range widths {
			n += min(w, limit) + 3
		}
		return n - 3
	}
	for limit > 1 && need() > r.columns {
		limit--
	}
	return widths, max(1, limit)
}

// tableRow returns the rows of one row of a table. A column whose dashes end in a colon is aligned to
// the right.
func (r markdownRenderer) tableRow(cells, dashes []string, widths []int, limit int, head bool) (rows []string) {
	wrapped, height := make([][]string, len(widths)), 1
	for j := range min(len(cells), len(widths)) {
		wrapped[j] = Wrap(cells[j], min(widths[j], limit))
		height = max(height, len(wrapped[j]))
	}
	for y := range height {
		parts := make([]string, len(widths))
		for j, w := range widths {
			text := ""
			if y < len(wrapped[j]) {
				text = wrapped[j][y]
			}
			space := strings.Repeat(" ", max(0, min(w, limit)-ansi.StringWidth(text)))
			if head {
				text = Paint(r.st.Bold, text)
			}
			if j < len(dashes) && strings.HasSuffix(dashes[j], ":") && !strings.HasPrefix(dashes[j], ":") {
				parts[j] = space + text
			} else {
				parts[j] = text + space
			}
		}
		rows = append(rows, strings.TrimRight(Cut(strings.Join(parts, Paint(r.st.Dim, " │ ")), r.columns), " "))
	}
	return rows
}
