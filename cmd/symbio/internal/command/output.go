package command

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"symbio/cmd/symbio/internal/terminal"
	"symbio/security/visible"
)

// PrintJSON prints one value, for a person with line breaks, for a script on one line.
func (env *Env) PrintJSON(v any) error {
	enc := json.NewEncoder(env.Out)
	enc.SetEscapeHTML(false)
	if env.OutIsTerminal {
		enc.SetIndent("", "  ")
	}
	return enc.Encode(v)
}

// PrintLine prints one value of a stream, always on one line.
func (env *Env) PrintLine(v any) error {
	enc := json.NewEncoder(env.Out)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// Table prints rows: aligned and under a heading for a person, separated by tabs and without a
// heading for a script.
func (env *Env) Table(heading []string, rows [][]string) error {
	if !env.OutIsTerminal {
		for _, row := range rows {
			if _, err := fmt.Fprintln(env.Out, strings.Join(terminal.Cells(row), "\t")); err != nil {
				return err
			}
		}
		return nil
	}
	_, err := io.WriteString(env.Out, terminal.Align(append([][]string{heading}, rows...), terminal.Columns(env.Out)))
	return err
}

// PrintList prints all: for a script as one list of JSON, for a person as a table with a row for each.
func PrintList[T any](env *Env, all []T, heading []string, row func(T) []string) error {
	if env.JSON {
		return env.PrintJSON(append([]T{}, all...)) // an empty list, not null
	}
	rows := make([][]string, len(all))
	for i, one := range all {
		rows[i] = row(one)
	}
	return env.Table(heading, rows)
}

// Printf prints to standard output. Strings among args cannot move a terminal's cursor.
func (env *Env) Printf(format string, args ...any) error {
	_, err := fmt.Fprintf(env.Out, format, printable(args)...)
	return err
}

// Notef prints a line to standard error. Strings among args cannot move a terminal's cursor.
func (env *Env) Notef(format string, args ...any) {
	fmt.Fprintf(env.Err, format+"\n", printable(args)...)
}

func printable(args []any) []any {
	for i, a := range args {
		if s, ok := a.(string); ok {
			args[i] = terminal.Printable(s)
		}
	}
	return args
}

// PayloadJSON is an answer as it may stand in JSON: as it is when it is JSON, else a string.
func PayloadJSON(data []byte) json.RawMessage {
	if json.Valid(data) {
		return data
	}
	quoted, err := json.Marshal(string(data))
	if err != nil {
		return json.RawMessage("null")
	}
	return quoted
}

// PlainJSON is JSON on one line for people who decide by it: < > & as they are, and what cannot be seen as
// its escape.
func PlainJSON(raw json.RawMessage) string {
	var v any
	var b strings.Builder
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber() // as they are, however long
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if !json.Valid(raw) || d.Decode(&v) != nil || e.Encode(v) != nil {
		return visible.Escape(string(raw))
	}
	return visible.Escape(strings.TrimSpace(b.String()))
}

// PrintPayload prints an answer for a person or a pipe: text as it is, with one line break at its end.
func (env *Env) PrintPayload(data []byte) error {
	var text string
	if json.Unmarshal(data, &text) != nil {
		text = string(data)
	}
	return env.PrintText(text)
}

// PrintText prints text of several lines, with one line break at its end.
func (env *Env) PrintText(text string) error {
	if env.OutIsTerminal {
		lines := strings.Split(text, "\n")
		for i := range lines {
			lines[i] = terminal.Printable(lines[i])
		}
		text = strings.Join(lines, "\n")
	}
	_, err := fmt.Fprintln(env.Out, strings.TrimSuffix(text, "\n"))
	return err
}

// Chain returns a name and the requesters that it acts for, as NAME <- REQUESTER <- …, fit for a terminal.
func Chain(name string, behalf []string) string {
	for _, n := range behalf {
		name += " <- " + n
	}
	return visible.Escape(name)
}

// CallText shows the arguments of a call: a command line by line, anything else as JSON.
func CallText(args json.RawMessage) string {
	var of map[string]any
	if json.Unmarshal(args, &of) != nil {
		return "  " + visible.Escape(string(args))
	}
	command, ok := of["command"].(string)
	if !ok || of["args"] != nil {
		return "  " + PlainJSON(args)
	}
	var out []string
	for line := range strings.SplitSeq(command, "\n") {
		out = append(out, "  "+visible.Escape(line))
	}
	return strings.Join(out, "\n")
}

// Map returns the results of f for all elements of list.
func Map[From, To any](list []From, f func(From) To) []To {
	out := make([]To, len(list))
	for i, one := range list {
		out[i] = f(one)
	}
	return out
}
