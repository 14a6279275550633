package definition

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"gopkg.in/yaml.v3"

	"symbio/internal/security/lazyregexp"
	"symbio/internal/security/visible"
	"symbio/skills/format"
)

// reader reads YAML mappings and collects everything that is wrong with them. It works on nodes
// instead of decoding into structs, because a node has its line.
type reader struct {
	// lines is the number of lines of the whole text; no problem has a higher line.
	lines int
	// problems are in the order in which they were found, and so are warnings.
	problems, warnings []Problem
}

// addProblem adds a problem. YAML's own messages may name a line that the text does not have; it
// becomes the nearest existing one.
func (r *reader) addProblem(line int, format string, args ...any) {
	r.problems = append(r.problems, Problem{Line: max(1, min(line, r.lines)), Reason: fmt.Sprintf(format, args...)})
}

// warn adds a warning: something is read otherwise than its author may think, and the agent has no more by that.
func (r *reader) warn(line int, format string, args ...any) {
	r.warnings = append(r.warnings, Problem{Line: max(1, min(line, r.lines)), Reason: fmt.Sprintf(format, args...)})
}

// sortedProblems returns the problems, sorted by line. Problems of one line stay in the order in
// which they were found.
func (r *reader) sortedProblems() []Problem {
	slices.SortStableFunc(r.problems, func(a, b Problem) int { return cmp.Compare(a.Line, b.Line) })
	return r.problems
}

// root returns the mapping of the front matter. It returns nil if the front matter is empty or if
// it is invalid; then there are problems.
func (r *reader) root(text []byte) *yaml.Node {
	var doc yaml.Node
	dec := yaml.NewDecoder(bytes.NewReader(text))
	err := dec.Decode(&doc)
	if quoted := format.QuoteField(text, "description"); err != nil && yaml.Unmarshal(quoted, &doc) == nil {
		r.warn(1, "the description has to be in quotes; its text was taken as it stands (%s)", strings.TrimPrefix(err.Error(), "yaml: "))
		dec, err = yaml.NewDecoder(bytes.NewReader(quoted)), nil
		_ = dec.Decode(&doc)
	}
	switch {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		r.syntaxError(text, err)
		return nil
	}
	// The decoder stops after one document, so a second one has to be looked for.
	var more yaml.Node
	switch err := dec.Decode(&more); {
	case err == nil:
		r.addProblem(more.Line, "a second YAML document begins; front matter is one")
		return nil
	case !errors.Is(err, io.EOF):
		r.syntaxError(text, err)
		return nil
	}
	if len(doc.Content) == 0 || isNull(doc.Content[0]) {
		return nil
	}
	return doc.Content[0]
}

var (
	// yamlLine is the beginning of a message of the YAML decoder.
	yamlLine = lazyregexp.New(`^(?:yaml: )?line (\d+): `)
	// bareStar is a line whose value is a * without quotes, which YAML reads as an alias.
	bareStar = lazyregexp.New(`^\s*([A-Za-z_]+:|-)\s*\*\s*(#.*)?$`)
)

// syntaxError adds an error of the YAML decoder as a problem. A * without quotes gets a message of
// its own, because YAML's, about an alias, does not help.
func (r *reader) syntaxError(text []byte, err error) {
	for i, line := range strings.Split(string(text), "\n") {
		if bareStar().MatchString(line) {
			r.addProblem(i+1, `YAML reads a * that stands alone as something else; write it in quotes: "*"`)
			return
		}
	}
	line, reason := splitLine(1, err.Error())
	r.addProblem(line, "%s", reason)
}

// splitLine splits the line number off a message of the YAML decoder. line is the number for a
// message without one.
func splitLine(line int, text string) (int, string) {
	if m := yamlLine().FindStringSubmatch(text); m != nil {
		if n, err := strconv.Atoi(m[1]); err == nil {
			line, text = n, strings.TrimPrefix(text, m[0])
		}
	}
	return line, strings.TrimPrefix(text, "yaml: ")
}

// isNull reports whether a key has no value.
func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

// resolveAlias returns the node that an alias refers to, or a null node if there is none. It
// follows at most 8 aliases: an alias of an alias is possible, and a cycle must end.
func resolveAlias(n *yaml.Node) *yaml.Node {
	for range 8 {
		if n.Kind != yaml.AliasNode || n.Alias == nil {
			return n
		}
		n = n.Alias
	}
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Line: n.Line}
}

// pair is a key of a mapping and its value.
type pair struct {
	key   *yaml.Node
	value *yaml.Node
}

// pairs returns the keys of a mapping with their values: its own first, then those that it merges
// in (<<), as far as it does not have them itself. A duplicate key is a problem. deep counts nested
// merges: below the fourth, << is an ordinary key, so that a cycle ends.
func (r *reader) pairs(n *yaml.Node, deep int) (own []pair) {
	var merged []pair
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], resolveAlias(n.Content[i+1])
		if key.Kind == yaml.ScalarNode && key.Tag == "!!merge" && deep < 4 {
			// A merge is of one mapping or of a list of mappings.
			of := []*yaml.Node{value}
			if value.Kind == yaml.SequenceNode {
				of = value.Content
			}
			for _, m := range of {
				if m = resolveAlias(m); m.Kind == yaml.MappingNode {
					merged = append(merged, r.pairs(m, deep+1)...)
				}
			}
			continue
		}
		if at, twice := seen[key.Value]; twice && key.Kind == yaml.ScalarNode {
			r.addProblem(key.Line, "%s is there twice; it is on line %d already", key.Value, at)
			continue
		}
		seen[key.Value] = key.Line
		own = append(own, pair{key, value})
	}
	// For the same key in two merged mappings, the first counts (YAML merge key, draft of 2005).
	for _, p := range merged {
		if _, there := seen[p.key.Value]; !there {
			seen[p.key.Value] = p.key.Line
			own = append(own, p)
		}
	}
	return own
}

// field says how the value of a key is read, and which values it may have.
type field struct {
	read   func(pair)
	schema *jsonschema.Schema
}

// fields reads the keys of a mapping n with the functions of known. what names the mapping in
// messages; "" means the front matter itself. A key without a value counts as absent: its function
// is not called. An unknown key is a problem, because a misspelled restriction must not be ignored; one of the front matter
// itself that is like no known key is a warning.
// fields returns the line of each known key.
func (r *reader) fields(what string, n *yaml.Node, known map[string]field) map[string]int {
	lines := map[string]int{}
	in := ""
	if what != "" {
		in = " in " + what
	}
	if n.Kind != yaml.MappingNode {
		r.addProblem(n.Line, "%s is keys with values, such as %s", cmp.Or(what, "front matter"), slices.Min(slices.Collect(maps.Keys(known)))+": …")
		return lines
	}
	for _, p := range r.pairs(n, 0) {
		name := p.key.Value
		if p.key.Kind != yaml.ScalarNode {
			r.addProblem(p.key.Line, "a key%s is a word", in)
			continue
		}
		f, ok := known[name]
		if !ok && what == "" && !misspelled(name, slices.Collect(maps.Keys(known))) {
			r.warn(p.key.Line, "unknown key %q is ignored", name)
			continue
		}
		if !ok {
			r.addProblem(p.key.Line, "unknown key %q%s%s", name, in, suggest(name, slices.Collect(maps.Keys(known))))
			continue
		}
		lines[name] = p.key.Line
		if !isNull(p.value) {
			f.read(p)
		}
	}
	return lines
}

// text returns a function that reads a scalar into to. A number or a date counts as its text.
func (r *reader) text(name string, to *string) field {
	read := func(p pair) {
		if p.value.Kind != yaml.ScalarNode || p.value.Decode(to) != nil {
			r.addProblem(p.value.Line, "%s is a text", name)
		}
	}
	return field{read, textSchema()}
}

// item is a text of a list, with its line.
type item struct {
	text string
	line int
}

// list returns a function that reads a list of texts and calls use once with all valid ones.
// example is shown in the message for another type.
func (r *reader) list(name, example string, use func([]item)) field {
	read := func(p pair) {
		if p.value.Kind != yaml.SequenceNode {
			r.addProblem(p.value.Line, "%s is a list, such as %s", name, example)
			return
		}
		all := make([]item, 0, len(p.value.Content))
		for _, n := range p.value.Content {
			var one item
			// The line belongs to the alias in the list, not of the text that it refers to.
			line := n.Line
			n = resolveAlias(n)
			if n.Kind != yaml.ScalarNode || isNull(n) || n.Decode(&one.text) != nil || one.text == "" {
				r.addProblem(line, "%s is a list of words, such as %s", name, example)
				continue
			}
			one.line = line
			all = append(all, one)
		}
		use(all)
	}
	return field{read, listSchema(textSchema())}
}

// texts returns the items without their lines; not nil, so that an empty list differs from none.
func texts(items []item) []string {
	all := make([]string, len(items))
	for i, one := range items {
		all[i] = one.text
	}
	return all
}

// boolean returns a function that reads true or false.
func (r *reader) boolean(name string, to *bool) field {
	read := func(p pair) {
		if n := p.value; n.Kind != yaml.ScalarNode || n.Tag != "!!bool" || n.Decode(to) != nil {
			r.addProblem(n.Line, "%s is true or false", name)
		}
	}
	return field{read, booleanSchema()}
}

// number returns a function that reads an integer of at least least, which is 0 or more.
func (r *reader) number(name string, least int, to *int) field {
	read := func(p pair) {
		if p.value.Kind != yaml.ScalarNode || p.value.Decode(to) != nil {
			r.addProblem(p.value.Line, "%s is a whole number", name)
			return
		}
		switch {
		case *to < 0:
			r.addProblem(p.value.Line, "%s %d is negative", name, *to)
		case *to < least:
			r.addProblem(p.value.Line, "%s %d is too small; the least is %d", name, *to, least)
		}
	}
	return field{read, &jsonschema.Schema{Type: "integer", Minimum: jsonschema.Ptr(float64(least))}}
}

// word returns a function that reads one of the texts in of. The message suggests the most similar.
func (r *reader) word(name string, of []string, to *string) field {
	read := func(p pair) {
		if p.value.Kind != yaml.ScalarNode || p.value.Decode(to) != nil || !slices.Contains(of, *to) {
			r.addProblem(p.value.Line, "%s %q: it is one of %s%s", name, p.value.Value, strings.Join(of, ", "), visible.Suggest(p.value.Value, of))
		}
	}
	return field{read, wordSchema(of...)}
}

// duration returns a function that reads a positive duration of Go's syntax, such as 30s.
func (r *reader) duration(name string, to *time.Duration) field {
	read := func(p pair) {
		if p.value.Kind != yaml.ScalarNode || p.value.Decode(to) != nil || *to <= 0 {
			r.addProblem(p.value.Line, "%s is how long, such as 30s or 5m", name)
		}
	}
	return field{read, &jsonschema.Schema{Type: "string", Pattern: durationPattern}}
}

// sizeForm is a positive number of at most 18 digits, which fits into an int64, and a unit.
var sizeForm = lazyregexp.New(`^([1-9][0-9]{0,17})\s*(|[KMGT]i?B?)$`)

// size returns a function that reads a number of bytes, also with the units KiB, MiB, GiB and TiB.
// K, KB and KiB all mean 1024.
func (r *reader) size(name string, to *int64) field {
	read := func(p pair) {
		m := sizeForm().FindStringSubmatch(p.value.Value)
		if p.value.Kind != yaml.ScalarNode || m == nil {
			r.addProblem(p.value.Line, "%s is how many bytes, such as 512MiB", name)
			return
		}
		n, err := strconv.ParseInt(m[1], 10, 64)
		// Index is -1 without a unit, as "-" is not in the list: the shift is then 0.
		shift := 10 * (1 + strings.Index("KMGT", (m[2] + "-")[:1]))
		if err != nil || n > (1<<62)>>shift {
			r.addProblem(p.value.Line, "%s %s is too large", name, p.value.Value)
			return
		}
		*to = n << shift
	}
	return field{read, &jsonschema.Schema{Types: []string{"string", "integer"}, Pattern: sizeForm().String(), Minimum: jsonschema.Ptr(1.0)}}
}
