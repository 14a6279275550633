package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

	"unicode"
)

// printJSON prints one value, for a person with line breaks, for a script on one line.
func (a *App) printJSON(v any) error {
	enc := json.NewEncoder(a.Out)
	enc.SetEscapeHTML(false)
	if a.OutIsTerminal {
		enc.SetIndent("", "  ")
	}
	return enc.Encode(v)
}

// printLine prints one value of a stream, always on one line.
func (a *App) printLine(v any) error {
	enc := json.NewEncoder(a.Out)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// table prints rows: aligned and under a heading for a person, separated by tabs and without a
// heading for a script.
func (a *App) table(heading []string, rows [][]string) error {
	if !a.OutIsTerminal {
		for _, row := range rows {
			if _, err := fmt.Fprintln(a.Out, strings.Join(cells(row), "\t")); err != nil {
				return err
			}
		}
		return nil
	}
	w := tabwriter.NewWriter(a.Out, 0, 0, 2, ' ', 0)
	for _, row := range append([][]string{heading}, rows...) {
		fmt.Fprintln(w, strings.Join(cells(row), "\t"))
	}
	return w.Flush()
}

func cells(row []string) []string {
	out := make([]string, len(row))
	for i, c := range row {
		if out[i] = printable(c); out[i] == "" {
			out[i] = "-"
		}
	}
	return out
}

// printable is text from elsewhere with everything removed that could move a terminal's cursor.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return ' '
		}
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, s)
}

// payload is a command's DATA argument as JSON: JSON as it stands, other text as a JSON string, "-"
// the whole of standard input.
func (a *App) payload(arg string) ([]byte, error) {
	data := []byte(arg)
	if arg == "-" {
		var err error
		if data, err = io.ReadAll(a.In); err != nil {
			return nil, fmt.Errorf("reading standard input: %w", err)
		}
	}
	if len(data) == 0 {
		return []byte("null"), nil
	}
	if json.Valid(data) {
		return data, nil
	}
	return json.Marshal(string(data))
}

// asJSON is an answer as it may stand in JSON: as it is when it is JSON, else a string.
func asJSON(data []byte) json.RawMessage {
	if json.Valid(data) {
		return data
	}
	quoted, err := json.Marshal(string(data))
	if err != nil {
		return json.RawMessage("null")
	}
	return quoted
}

// plainJSON is JSON on one line for people who decide by it: < > & as they are, and what cannot be seen as
// its escape.
func plainJSON(raw json.RawMessage) string {
	var v any
	var b strings.Builder
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber() // as they are, however long
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if !json.Valid(raw) || d.Decode(&v) != nil || e.Encode(v) != nil {
		return visible(string(raw))
	}
	return visible(strings.TrimSpace(b.String()))
}

// visible writes what cannot be seen as its escape, so that nothing hides from who decides.
func visible(s string) string {
	var b strings.Builder
	for _, r := range s {
		if unicode.IsPrint(r) {
			b.WriteRune(r)
		} else {
			b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
		}
	}
	return b.String()
}

// printAnswer prints an answer for a person or a pipe: text as it is, with one line break at its end.
func (a *App) printAnswer(data []byte) error {
	var text string
	if json.Unmarshal(data, &text) != nil {
		text = string(data)
	}
	return a.printText(text)
}

// printText prints text of several lines, with one line break at its end.
func (a *App) printText(text string) error {
	if a.OutIsTerminal {
		lines := strings.Split(text, "\n")
		for i := range lines {
			lines[i] = printable(lines[i])
		}
		text = strings.Join(lines, "\n")
	}
	_, err := fmt.Fprintln(a.Out, strings.TrimSuffix(text, "\n"))
	return err
}
