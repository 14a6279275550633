package format

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// field is one top-level entry of front matter.
type field struct {
	key      string
	line     int // in the file
	value    *yaml.Node
	repaired bool // the value is a guess at what was meant
}

// decoder reads front matter into fields. It counts its work, so that a test can hold it to be
// linear in the input.
type decoder struct {
	policy Policy
	fields []field
	diags  []Diagnostic

	fed   int // bytes given to the YAML reader
	nodes int // nodes looked at
}

var errSecondDocument = errors.New("more than one document; remove the ... or --- line")

// decode reads front. Fields are complete only when no diagnostic is an error.
//
// Values are never decoded into Go maps or structs: that checks the uniqueness of keys in quadratic
// time and expands aliases, while a node tree does neither.
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
		d.take(root, firstLine-1, false)
	}
	d.refuseDuplicates()
}

// parse reads one document of YAML, and nothing after it.
func (d *decoder) parse(text []byte) (*yaml.Node, error) {
	d.fed += len(text)
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

// take appends the entries of root, whose line 1 is the file's line offset+1.
func (d *decoder) take(root *yaml.Node, offset int, repaired bool) {
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

// plain checks n and all below it for what no skill needs: anchors, aliases, merge keys, explicit
// tags (none occur in tens of thousands of public skills, and they are what YAML attacks are made
// of), keys that are not text, and keys that occur twice.
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
	for _, c := range n.Content {
		if !d.plain(c, offset) {
			return false
		}
	}
	return true
}

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

// refuseDuplicates finds fields that occur twice once the parts of repaired front matter are put
// together.
func (d *decoder) refuseDuplicates() {
	seen := make(map[string]bool, len(d.fields))
	for _, f := range d.fields {
		if seen[f.key] {
			d.fail(CodeDuplicateKey, f.key, f.line, fmt.Sprintf("%q occurs twice", f.key))
		}
		seen[f.key] = true
	}
}

// docMarkLine is the file's line on which a second document begins, or the first of the front matter if
// the YAML reader saw a mark that is none to us.
func docMarkLine(front []byte) int {
	line := firstLine
	for text := range bytes.Lines(front) {
		if docMark.Match(text) {
			return line
		}
		line++
	}
	return firstLine
}

func (d *decoder) fail(c Code, field string, line int, message string) bool {
	d.diags = append(d.diags, Diagnostic{c, Error, field, line, message})
	return false
}

var yamlLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?`)

// yamlError takes a YAML reader's error apart: the line within what it read, 0 if it names none,
// and the message alone.
func yamlError(err error) (line int, message string) {
	s := err.Error()
	m := yamlLine.FindStringSubmatch(s)
	if m == nil {
		return 0, s
	}
	line, _ = strconv.Atoi(m[1])
	return line, s[len(m[0]):]
}

// flow writes n as YAML on one line. Ours instead of the library's, whose indentation of deeply
// nested values makes its output quadratic.
func flow(n *yaml.Node) string {
	var b strings.Builder
	writeFlow(&b, n)
	return b.String()
}

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
