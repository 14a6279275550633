package command

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"symbio/agent/tool"
	"symbio/cmd/symbio/internal/terminal"
	"symbio/community"
	"symbio/internal/security/visible"
)

// PrintJSON prints one value as JSON to standard output: indented on a terminal, on one line
// elsewhere. <, > and & are not escaped.
func (env *Env) PrintJSON(v any) error {
	enc := json.NewEncoder(env.Out)
	enc.SetEscapeHTML(false)
	if env.OutIsTerminal {
		enc.SetIndent("", "  ")
	}
	return enc.Encode(v)
}

// PrintLine prints one value of a stream as JSON, always on one line.
func (env *Env) PrintLine(v any) error {
	enc := json.NewEncoder(env.Out)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// Table prints rows to standard output. On a terminal the columns are aligned under the heading and
// fit its width; elsewhere they are separated by tabs, without a heading, and nothing is cut. The
// first screen is there before all rows are read.
func (env *Env) Table(heading []string, rows iter.Seq[[]string]) error {
	w := bufio.NewWriter(env.Out) // Flush returns the error of a write
	if env.OutIsTerminal {
		all := func(yield func([]string) bool) {
			if yield(heading) {
				rows(yield)
			}
		}
		for row := range terminal.Align(all, terminal.Columns(env.Out)) {
			fmt.Fprintln(w, row)
		}
		return w.Flush()
	}
	for row := range rows {
		fmt.Fprintln(w, strings.Join(terminal.Cells(row), "\t"))
	}
	return w.Flush()
}

// PrintList prints all elements: with --json as one JSON array, which is [] and not null when there
// are none, else as a table with one row for each. A column ID or HASH has ids, which are short on a terminal.
func PrintList[T any](env *Env, all []T, heading []string, row func(T) []string) error {
	if env.JSON {
		return env.PrintJSON(append([]T{}, all...))
	}
	rows := Map(all, row)
	if at := slices.IndexFunc(heading, func(h string) bool { return h == "ID" || h == "HASH" }); at >= 0 && env.OutIsTerminal {
		ShortenIDs(rows, at)
	}
	return env.Table(heading, slices.Values(rows))
}

// shownID is how many characters of an id are shown on a terminal.
const shownID = 8

// ShortenIDs cuts the ids in one column of a table to their first characters: 8, or as many as tell all
// apart. Commands take the beginning of an id for the id (visible.IsID).
func ShortenIDs(rows [][]string, at int) {
	n := shownID
	for ids := slices.Sorted(slices.Values(Map(rows, func(r []string) string { return r[at] }))); len(ids) > 1; ids = ids[1:] {
		for a, b := ids[0], ids[1]; a != b && n < len(a) && strings.HasPrefix(b, a[:n]); {
			n++
		}
	}
	for _, r := range rows {
		r[at] = r[at][:min(n, len(r[at]))]
	}
}

// Printf prints to standard output. String arguments are made safe for a terminal: they cannot move
// the cursor or change colors. The format is trusted.
func (env *Env) Printf(format string, args ...any) error {
	_, err := fmt.Fprintf(env.Out, format, printable(args)...)
	return err
}

// Notef prints one line to standard error, with the same safety as Printf.
func (env *Env) Notef(format string, args ...any) {
	fmt.Fprintf(env.Err, format+"\n", printable(args)...)
}

// printable makes the string arguments safe for a terminal. Other types, such as errors, stay as
// they are.
func printable(args []any) []any {
	for i, a := range args {
		if s, ok := a.(string); ok {
			args[i] = terminal.Printable(s)
		}
	}
	return args
}

// PayloadJSON returns a reply's payload as JSON for the output: unchanged when it is JSON, else as
// a JSON string.
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

// PlainJSON returns JSON on one line for a person who has to decide about it: <, > and & are not
// escaped, numbers keep all digits, and invisible characters are shown as escapes, so that they
// cannot hide a part of the call.
func PlainJSON(raw json.RawMessage) string {
	var v any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if !json.Valid(raw) || d.Decode(&v) != nil {
		return visible.Escape(string(raw))
	}
	text, err := visible.JSON(v)
	if err != nil {
		text = raw
	}
	return visible.Escape(string(text))
}

// NoteProgress prints the progress of a call on standard error. The units are the tool's own.
func NoteProgress(env *Env, p community.Progress) {
	text := terminal.Printable(p.Message)
	if p.Total > 0 {
		text = fmt.Sprintf("%g of %g %s", p.Done, p.Total, text)
	} else if text == "" {
		text = fmt.Sprintf("%g", p.Done)
	}
	env.Notef("progress: %s", text)
}

// PrintPayload prints the payload of a reply: a JSON string as its text, anything else as it is,
// with one line break at the end.
func (env *Env) PrintPayload(data []byte) error {
	var text string
	if json.Unmarshal(data, &text) != nil {
		text = string(data)
	}
	return env.PrintText(text)
}

// PrintText prints text of several lines with one line break at the end. On a terminal each line is
// made safe; a file or a pipe gets the text unchanged.
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

// Chain returns the name of an agent and the requesters on whose behalf it acts, as "NAME <-
// REQUESTER <- …", safe for a terminal.
func Chain(name string, behalf []string) string {
	for _, n := range behalf {
		name += " <- " + n
	}
	return visible.Escape(name)
}

// PairsText returns the entries of a map in one line, KEY=VALUE, sorted.
func PairsText(m map[string]string) string {
	var all []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		all = append(all, k+"="+m[k])
	}
	return strings.Join(all, " ")
}

// DecisionText returns what a decision is about: the call of an agent and its requesters, or what an MCP server asks
// during one. verb stands before a tool's name.
func DecisionText(name string, behalf []string, verb, of string) string {
	agent := Chain(name, behalf)
	if server, sampling := strings.CutPrefix(of, tool.SamplingOf); sampling {
		return fmt.Sprintf("The MCP server %s asks the model of %s", visible.Escape(server), agent)
	}
	if strings.HasPrefix(of, tool.QuestionOf) {
		return fmt.Sprintf("An MCP server has a %s, during a call of %s", visible.Escape(of), agent)
	}
	return agent + verb + visible.Escape(of)
}

// OfferLines returns the rules that an offer allows, and the earlier calls that it would have allowed.
func OfferLines(rules, covers []string) []string {
	lines := []string{"allows " + visible.Escape(strings.Join(rules, ", "))}
	if len(covers) > 0 {
		lines = append(lines, "also covers "+visible.Escape(strings.Join(covers, "; ")))
	}
	return lines
}

// CallText returns the arguments of a call of the tool of, or of a question, for a person who has to decide about it, indented
// by two columns: the fields of a form, or each argument with its name, the command of Bash before all others and without it.
// Texts are shown line by line, other values as JSON.
func CallText(of string, args json.RawMessage) string {
	if form := tool.FormOf(of, args); len(form.Fields) > 0 {
		text := "  " + visible.Escape(form.Message)
		for _, name := range slices.Sorted(maps.Keys(form.Fields)) {
			text += "\n  " + visible.Escape(name+": "+form.Fields[name].String())
		}
		return text
	}
	var given map[string]json.RawMessage
	if json.Unmarshal(args, &given) != nil {
		return "  " + visible.Escape(string(args))
	}
	lines := func(text, indent string) string {
		return strings.Join(Map(strings.Split(text, "\n"), visible.Escape), "\n"+indent)
	}
	var rows, first []string
	for _, name := range slices.Sorted(maps.Keys(given)) {
		var text string
		switch isText := json.Unmarshal(given[name], &text) == nil && given[name][0] == '"'; {
		case isText && name == "command" && of == "Bash":
			first = []string{"  " + lines(text, "  ")}
			continue
		case !isText:
			text = PlainJSON(given[name])
		case strings.Contains(text, "\n"):
			text = "\n    " + lines(text, "    ")
		default:
			text = visible.Escape(text)
		}
		rows = append(rows, "  "+visible.Escape(name)+": "+text)
	}
	return strings.Join(append(first, rows...), "\n")
}

// Map returns the results of f for all elements of list, in their order. The result is never nil.
func Map[From, To any](list []From, f func(From) To) []To {
	out := make([]To, len(list))
	for i, one := range list {
		out[i] = f(one)
	}
	return out
}

// commonCapabilities are prefixes of capabilities that every node has.
var commonCapabilities = []string{"agents.inspect", "agents.interrupt", "agents.state", "agents.steer", "agents.workspace", "approvals.",
	"artifacts.", "fleet.", "node.", "sessions."}

// IsCommon reports whether every node has the capability of that name.
func IsCommon(name string) bool {
	return slices.ContainsFunc(commonCapabilities, func(c string) bool { return strings.HasPrefix(name, c) })
}
