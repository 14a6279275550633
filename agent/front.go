package agent

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// front reads front matter, and collects everything that is wrong with it.
type front struct {
	known    Known
	lines    int // of the whole text
	problems []Problem
}

// bad notes a problem. A line that the text does not have, as YAML's own messages may name, is the nearest that it has.
func (f *front) bad(line int, format string, args ...any) {
	f.problems = append(f.problems, Problem{Line: max(1, min(line, f.lines)), Reason: fmt.Sprintf(format, args...)})
}

// found are the problems in the order of their lines.
func (f *front) found() []Problem {
	slices.SortStableFunc(f.problems, func(a, b Problem) int { return cmp.Compare(a.Line, b.Line) })
	return f.problems
}

// splitFrontMatter parts a text into what stands between its first two --- lines, with the first of them, and the rest.
func splitFrontMatter(text []byte) (front, body []byte, err error) {
	text = bytes.TrimPrefix(text, []byte("\uFEFF"))
	text = bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n"))
	rest, ok := bytes.CutPrefix(text, []byte("---\n"))
	if !ok {
		return nil, nil, errors.New("want ---, the start of the front matter")
	}
	if body, ok = bytes.CutPrefix(rest, []byte("---\n")); ok {
		return nil, body, nil
	}
	between, body, ok := bytes.Cut(append(slices.Clip(rest), '\n'), []byte("\n---\n"))
	if !ok {
		return nil, nil, errors.New("no second ---, the end of the front matter")
	}
	return append([]byte("---\n"), between...), body, nil
}

// root is the mapping that front matter is; nil with problems, or when there is nothing in it.
func (f *front) root(text []byte) *yaml.Node {
	var doc yaml.Node
	dec := yaml.NewDecoder(bytes.NewReader(text))
	err := dec.Decode(&doc)
	switch {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		f.syntax(text, err)
		return nil
	}
	var more yaml.Node
	switch err := dec.Decode(&more); {
	case err == nil:
		f.bad(more.Line, "a second YAML document begins; front matter is one")
		return nil
	case !errors.Is(err, io.EOF):
		f.syntax(text, err)
		return nil
	}
	if len(doc.Content) == 0 || null(doc.Content[0]) {
		return nil
	}
	return doc.Content[0]
}

var (
	yamlLine = regexp.MustCompile(`^(?:yaml: )?line (\d+): `)
	// bareStar is a value that YAML takes for an alias.
	bareStar = regexp.MustCompile(`^\s*([A-Za-z_]+:|-)\s*\*\s*(#.*)?$`)
)

// syntax notes what YAML itself does not like.
func (f *front) syntax(text []byte, err error) {
	for i, line := range strings.Split(string(text), "\n") {
		if bareStar.MatchString(line) {
			f.bad(i+1, `YAML reads a * that stands alone as something else; write it in quotes: "*"`)
			return
		}
	}
	line, reason := placeOf(1, err.Error())
	f.bad(line, "%s", reason)
}

// placeOf is a message of YAML's without the line that it begins with, and that line.
func placeOf(line int, text string) (int, string) {
	if m := yamlLine.FindStringSubmatch(text); m != nil {
		if n, err := strconv.Atoi(m[1]); err == nil {
			line, text = n, strings.TrimPrefix(text, m[0])
		}
	}
	return line, strings.TrimPrefix(text, "yaml: ")
}

// null says that a key is there and has no value.
func null(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

// meaning is what a node stands for; an alias that leads nowhere stands for nothing.
func meaning(n *yaml.Node) *yaml.Node {
	for range 8 { // aliases of aliases
		if n.Kind != yaml.AliasNode || n.Alias == nil {
			return n
		}
		n = n.Alias
	}
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Line: n.Line}
}

// pair is a key of a mapping with its value. The line is that of the value as it is written.
type pair struct {
	key   *yaml.Node
	value *yaml.Node
}

// pairs are the keys of a mapping, those that it merges in (<<) behind its own.
func (f *front) pairs(n *yaml.Node, deep int) (own []pair) {
	var merged []pair
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], meaning(n.Content[i+1])
		if key.Kind == yaml.ScalarNode && key.Tag == "!!merge" && deep < 4 {
			of := []*yaml.Node{value}
			if value.Kind == yaml.SequenceNode {
				of = value.Content
			}
			for _, m := range of {
				if m = meaning(m); m.Kind == yaml.MappingNode {
					merged = append(merged, f.pairs(m, deep+1)...)
				}
			}
			continue
		}
		if at, twice := seen[key.Value]; twice && key.Kind == yaml.ScalarNode {
			f.bad(key.Line, "%s is there twice; it is on line %d already", key.Value, at)
			continue
		}
		seen[key.Value] = key.Line
		own = append(own, pair{key, value})
	}
	for _, p := range merged {
		if _, there := seen[p.key.Value]; !there {
			seen[p.key.Value] = p.key.Line
			own = append(own, p)
		}
	}
	return own
}

// fields reads the keys of a mapping. what it is, for people; "" = the front matter itself. A key without a value
// counts as absent. It returns the line of each key.
func (f *front) fields(what string, n *yaml.Node, read map[string]func(at pair)) map[string]int {
	lines := map[string]int{}
	in := ""
	if what != "" {
		in = " in " + what
	}
	if n.Kind != yaml.MappingNode {
		f.bad(n.Line, "%s is keys with values, such as %s", cmp.Or(what, "front matter"), slices.Min(slices.Collect(maps.Keys(read)))+": …")
		return lines
	}
	for _, p := range f.pairs(n, 0) {
		name := p.key.Value
		if p.key.Kind != yaml.ScalarNode {
			f.bad(p.key.Line, "a key%s is a word", in)
			continue
		}
		do, ok := read[name]
		if !ok {
			f.bad(p.key.Line, "unknown key %q%s%s", name, in, meant(name, slices.Collect(maps.Keys(read))))
			continue
		}
		lines[name] = p.key.Line
		if !null(p.value) {
			do(p)
		}
	}
	return lines
}

// text reads a text, a number too.
func (f *front) text(name string, to *string) func(pair) {
	return func(p pair) {
		if p.value.Kind != yaml.ScalarNode || p.value.Decode(to) != nil {
			f.bad(p.value.Line, "%s is a text", name)
		}
	}
}

// item is a text of a list, and where it stands.
type item struct {
	text string
	line int
}

// list reads a list of texts.
func (f *front) list(name, example string, each func([]item)) func(pair) {
	return func(p pair) {
		if p.value.Kind != yaml.SequenceNode {
			f.bad(p.value.Line, "%s is a list, such as %s", name, example)
			return
		}
		all := make([]item, 0, len(p.value.Content))
		for _, n := range p.value.Content {
			var one item
			line := n.Line
			n = meaning(n)
			if n.Kind != yaml.ScalarNode || null(n) || n.Decode(&one.text) != nil || one.text == "" {
				f.bad(line, "%s is a list of words, such as %s", name, example)
				continue
			}
			one.line = line
			all = append(all, one)
		}
		each(all)
	}
}

func texts(items []item) []string {
	all := make([]string, len(items))
	for i, one := range items {
		all[i] = one.text
	}
	return all
}

// number reads a whole number of at least least.
func (f *front) number(name string, least int, to *int) func(pair) {
	return func(p pair) {
		if p.value.Kind != yaml.ScalarNode || p.value.Decode(to) != nil {
			f.bad(p.value.Line, "%s is a whole number", name)
			return
		}
		switch {
		case *to < 0:
			f.bad(p.value.Line, "%s %d is negative", name, *to)
		case *to < least:
			f.bad(p.value.Line, "%s %d is too small; the least is %d", name, *to, least)
		}
	}
}

// word reads one of a few words; others is what else it may be, and does the same as one of them.
func (f *front) word(name string, of []string, to *string) func(pair) {
	return func(p pair) {
		if p.value.Kind != yaml.ScalarNode || p.value.Decode(to) != nil || !slices.Contains(of, *to) {
			f.bad(p.value.Line, "%s %q: it is one of %s%s", name, p.value.Value, strings.Join(of, ", "), onlyNear(p.value.Value, of))
		}
	}
}

// onlyNear is meant without the list of all.
func onlyNear(name string, of []string) string {
	if said := meant(name, of); strings.Contains(said, "did you mean") {
		return said
	}
	return ""
}
