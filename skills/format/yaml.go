package format

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"symbio/internal/security/lazyregexp"
)

// field is one top-level entry of front matter.
type field struct {
	key string
	// line is the line of the key in the file, from 1.
	line  int
	value *yaml.Node
	// repaired reports that the value is a guess at what was meant.
	repaired bool
}

// decoder reads front matter into fields. It counts its work, so that a test can check that the
// work grows linearly with the input.
type decoder struct {
	policy Policy
	fields []field
	diags  []Diagnostic

	// parsedBytes is the number of bytes given to the YAML reader.
	parsedBytes int
	// nodes is the number of nodes that plain has looked at.
	nodes int
}

// errSecondDocument is the error of parse for text with a line that begins another document.
var errSecondDocument = errors.New("more than one document; remove the ... or --- line")

// decode reads front. The fields are complete only if no diagnostic is an error.
//
// It never decodes values into Go maps or structs: the YAML library then checks the uniqueness of
// keys in quadratic time and expands aliases. A tree of nodes does neither.
func (d *decoder) decode(front []byte) {
	if bad := checkText(front); bad != nil {
		d.diags = append(d.diags, *bad)
		return
	}
	if fields, ok := plainFields(front); ok {
		d.fields = fields
		return
	}
	d.decodeYAML(front)
}

// decodeYAML reads front matter that plainFields cannot read.
func (d *decoder) decodeYAML(front []byte) {
	root, err := d.parse(front)
	switch {
	case errors.Is(err, io.EOF):
		d.fail(CodeEmpty, "", 1, "the front matter is empty")
	case errors.Is(err, errSecondDocument):
		d.fail(CodeYAML, "", docMarkLine(front), err.Error())
	case err != nil:
		d.repair(front, err)
	default:
		d.appendFields(root, firstLine-1, false)
	}
	d.refuseDuplicates()
}

// parse reads one YAML document. io.EOF: it is empty. errSecondDocument: another one follows. Other
// errors come from the YAML reader, whose lines count from the start of text.
func (d *decoder) parse(text []byte) (*yaml.Node, error) {
	d.parsedBytes += len(text)
	dec := yaml.NewDecoder(bytes.NewReader(text))
	var doc yaml.Node
	if err := dec.Decode(&doc); err != nil {
		return nil, err
	}
	if doc.Kind != yaml.DocumentNode || len(doc.Content) != 1 {
		return nil, io.EOF
	}
	var second yaml.Node
	if err := dec.Decode(&second); !errors.Is(err, io.EOF) {
		return nil, errSecondDocument
	}
	return doc.Content[0], nil
}

// appendFields adds the entries of root. Line 1 of root is line offset+1 of the file.
func (d *decoder) appendFields(root *yaml.Node, offset int, repaired bool) {
	if !d.plain(root, offset) {
		return
	}
	if root.Kind != yaml.MappingNode {
		d.fail(CodeNotMapping, "", offset+root.Line, "the front matter is not a list of `field: value` lines")
		return
	}
	for i := 0; i+1 < len(root.Content); i += 2 {
		k := root.Content[i]
		d.fields = append(d.fields, field{key: k.Value, line: offset + k.Line, value: root.Content[i+1], repaired: repaired})
	}
}

// plain checks n and all nodes below it, and refuses what no skill needs: anchors, aliases, merge
// keys and explicit tags, which YAML attacks use and which no one of tens of thousands of public
// skills has; keys that are not text; and duplicate keys.
func (d *decoder) plain(n *yaml.Node, offset int) bool {
	d.nodes++
	line := offset + n.Line
	switch {
	case n.Kind == yaml.AliasNode, n.Anchor != "":
		return d.fail(CodeYAMLFeature, "", line, "anchors and aliases are not allowed; write the value out")
	case n.Style&yaml.TaggedStyle != 0:
		return d.fail(CodeYAMLFeature, "", line, fmt.Sprintf("the tag %s is not allowed; quote the value if the ! belongs to it", n.Tag))
	}
	if n.Kind == yaml.MappingNode && !d.plainKeys(n, offset) {
		return false
	}
	return !slices.ContainsFunc(n.Content, func(c *yaml.Node) bool { return !d.plain(c, offset) })
}

// plainKeys checks the keys of one map, and returns false after an error. Its own check of
// duplicates is linear, unlike the YAML library's check.
func (d *decoder) plainKeys(n *yaml.Node, offset int) bool {
	seen := make(map[string]bool, len(n.Content)/2)
	for i := 0; i < len(n.Content); i += 2 {
		k := n.Content[i]
		line := offset + k.Line
		switch {
		case k.Kind == yaml.AliasNode, k.Kind == yaml.ScalarNode && k.Tag == "!!merge":
			return d.fail(CodeYAMLFeature, "", line, "aliases and merge keys are not allowed; write the value out")
		case k.Kind != yaml.ScalarNode, k.Tag == "!!null":
			return d.fail(CodeKeyType, "", line, "a field's name must be text")
		case seen[k.Value]:
			return d.fail(CodeDuplicateKey, k.Value, line, fmt.Sprintf("%q occurs twice", k.Value))
		}
		seen[k.Value] = true
	}
	return true
}

// refuseDuplicates finds top-level fields that occur twice. In repaired front matter each block is
// read alone, so that the check of plainKeys does not see them.
func (d *decoder) refuseDuplicates() {
	seen := make(map[string]bool, len(d.fields))
	for _, f := range d.fields {
		if seen[f.key] {
			d.fail(CodeDuplicateKey, f.key, f.line, fmt.Sprintf("%q occurs twice", f.key))
		}
		seen[f.key] = true
	}
}

// docMarkLine returns the line of the file on which a second document begins. It returns the first
// line if the YAML reader saw a mark that docMark does not match.
func docMarkLine(front []byte) int {
	line := firstLine
	for text := range bytes.Lines(front) {
		if docMark().Match(text) {
			return line
		}
		line++
	}
	return firstLine
}

// fail adds an error and returns false.
func (d *decoder) fail(c Code, field string, line int, message string) bool {
	d.diags = append(d.diags, Diagnostic{c, Error, field, line, message})
	return false
}

var yamlLine = lazyregexp.New(`^yaml: (?:line (\d+): )?`)

// yamlError splits a YAML reader's error into the line within its input, 0 if there is none, and
// the message.
func yamlError(err error) (line int, message string) {
	s := err.Error()
	m := yamlLine().FindStringSubmatch(s)
	if m == nil {
		return 0, s
	}
	line, _ = strconv.Atoi(m[1])
	return line, s[len(m[0]):]
}

// flowYAML writes n as YAML on one line. The library's writer indents deeply nested values, which
// makes its output quadratic.
func flowYAML(n *yaml.Node) string {
	var b strings.Builder
	writeFlow(&b, n)
	return b.String()
}

// writeFlow appends n to b. It quotes a value that would be read differently without quotes.
func writeFlow(b *strings.Builder, n *yaml.Node) {
	switch n.Kind {
	case yaml.SequenceNode:
		b.WriteByte('[')
		for i, c := range n.Content {
			if i > 0 {
				b.WriteString(", ")
			}
			writeFlow(b, c)
		}
		b.WriteByte(']')
	case yaml.MappingNode:
		b.WriteByte('{')
		for i, c := range n.Content {
			switch {
			case i == 0:
			case i%2 == 0:
				b.WriteString(", ")
			default:
				b.WriteString(": ")
			}
			writeFlow(b, c)
		}
		b.WriteByte('}')
	default:
		if n.Style != 0 || strings.ContainsAny(n.Value, ",:#[]{}\n") {
			b.WriteString(strconv.Quote(n.Value))
			return
		}
		b.WriteString(n.Value)
	}
}
