package format

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"gopkg.in/yaml.v3"

	"symbio/internal/security/lazyregexp"
)

// maxBlocks bounds the repair: each block costs a YAML reader of its own. Real front matter has
// fewer than fifty fields.
const maxBlocks = 1000

var (
	// blockStart is a key at the start of a line, also in quotes, and its colon.
	blockStart = lazyregexp.New(`^["']?([A-Za-z0-9_][A-Za-z0-9_.-]*)["']?[ \t]*:(?:[ \t\r\n]|$)`)
	// blockScalar is the mark of a text on the following lines, such as | or >-.
	blockScalar = lazyregexp.New(`^[|>][0-9+-]{0,2}[ \t]*$`)
	// docMark is a line that begins or ends a YAML document.
	docMark = lazyregexp.New(`^(?:---|\.\.\.)(?:[ \t\r\n]|$)`)
)

// block is a top-level `key:` line and the lines up to the next one.
type block struct {
	key string
	// line is the line of the key in the file, from 1.
	line int
	// text is the key's line and its continuation, a part of the front matter.
	text []byte
}

// repair reads front matter that is not YAML, field by field, so that an unquoted colon in one
// description does not lose a skill. A field that is YAML is read as it is. Any other value becomes
// plain text, with a warning. It never repairs the name, because a guess would be a wrong identity,
// and never text that cannot be split into fields. At level strict it repairs nothing and only
// finds the wrong field.
func (d *decoder) repair(front []byte, cause error) {
	line, message := yamlError(cause)
	whole := Diagnostic{CodeYAML, Error, "", firstLine - 1 + max(line, 1), withRemedy("", message)}
	blocks, ok := blocksOf(front)
	if !ok {
		d.diags = append(d.diags, whole)
		return
	}
	before := len(d.diags)
	for _, b := range blocks {
		if !d.repairBlock(b) {
			break
		}
	}
	if len(d.diags) == before { // each field alone is YAML, all together are not
		d.diags = append(d.diags, whole)
	}
}

// repairBlock reads one block. It returns false if the rest cannot be read.
func (d *decoder) repairBlock(b block) bool {
	// A block of its own is one field, so this costs the size of the block, not of the file.
	root, err := d.parse(b.text)
	if err == nil {
		before := len(d.diags)
		d.appendFields(root, b.line-1, false)
		return len(d.diags) == before
	}
	line, message := yamlError(err)
	at := b.line - 1 + max(line, 1)
	switch {
	case strings.HasPrefix(message, "unknown anchor"):
		return d.fail(CodeYAMLFeature, b.key, b.line, "anchors and aliases are not allowed; write the value out")
	case errors.Is(err, errSecondDocument), errors.Is(err, io.EOF):
		return d.fail(CodeYAML, b.key, b.line, err.Error())
	case d.policy.Level == Strict, b.key == "name":
		return d.fail(CodeYAML, b.key, at, withRemedy(b.key, message))
	}
	// The text of a map is no map, so there is nothing to keep.
	if b.key == "metadata" {
		d.warn(CodeYAMLRepaired, b.key, at, fmt.Sprintf("%s is not YAML (%s); it is left out", b.key, message))
		return true
	}
	d.warn(CodeYAMLRepaired, b.key, at, fmt.Sprintf("%s is not YAML (%s); its text was taken as it stands: quote it", b.key, message))
	value := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Style: yaml.DoubleQuotedStyle, Value: blockText(b.text), Line: 1}
	d.fields = append(d.fields, field{key: b.key, line: b.line, value: value, repaired: true})
	return true
}

// withRemedy adds to a YAML reader's message what to do.
func withRemedy(key, message string) string {
	switch {
	case strings.Contains(message, "tab character"):
		return message + ": indent with spaces"
	case key == "":
		return message + ": begin each field at the start of its line, and put its value in quotes"
	}
	return fmt.Sprintf("%s: put the value in quotes, as in %s: \"…\"", message, key)
}

// warn adds a warning.
func (d *decoder) warn(c Code, field string, line int, message string) {
	d.diags = append(d.diags, Diagnostic{c, Warning, field, line, message})
}

// blocksOf cuts front matter at its top-level keys. ok is false for text before the first key and
// for a line that ends the document.
func blocksOf(front []byte) ([]block, bool) {
	var blocks []block
	start := 0
	line := firstLine
	for at := 0; at < len(front); line++ {
		next := len(front)
		if i := bytes.IndexByte(front[at:], '\n'); i >= 0 {
			next = at + i + 1
		}
		text := front[at:next]
		if docMark().Match(text) {
			return nil, false
		}
		if m := blockStart().FindSubmatch(text); m != nil {
			if len(blocks) > 0 {
				blocks[len(blocks)-1].text = front[start:at]
			}
			if len(blocks) == maxBlocks {
				return nil, false
			}
			blocks = append(blocks, block{key: string(m[1]), line: line})
			start = at
		} else if len(blocks) == 0 {
			if t := bytes.TrimSpace(text); len(t) > 0 && t[0] != '#' {
				return nil, false
			}
		}
		at = next
	}
	if len(blocks) == 0 {
		return nil, false
	}
	blocks[len(blocks)-1].text = front[start:]
	return blocks, true
}

// QuoteField returns front matter with the value of a field in quotes, as it stands, in the same line. Other lines keep their
// numbers. front begins with the line that opens it.
func QuoteField(front []byte, key string) []byte {
	head, text, _ := bytes.Cut(front, []byte("---\n"))
	blocks, _ := blocksOf(text)
	for _, b := range blocks {
		if b.key == key {
			quoted := key + ": '" + strings.ReplaceAll(blockText(b.text), "'", "''") + "'" + strings.Repeat("\n", bytes.Count(b.text, []byte("\n")))
			start := len(head) + len("---\n")
			for range b.line - firstLine {
				start += 1 + bytes.IndexByte(front[start:], '\n')
			}
			return slices.Concat(front[:start], []byte(quoted), front[start+len(b.text):])
		}
	}
	return front
}

// blockText returns the text of a block's value: its lines joined as YAML joins them, without the
// quotes around the whole.
func blockText(text []byte) string {
	_, value, _ := strings.Cut(string(text), ":")
	lines := strings.Split(value, "\n")
	sep := " "
	if blockScalar().MatchString(strings.TrimSpace(lines[0])) {
		if strings.TrimSpace(lines[0])[0] == '|' {
			sep = "\n"
		}
		lines = lines[1:]
	}
	kept := lines[:0]
	for _, l := range lines {
		if l = strings.TrimSpace(l); l != "" {
			kept = append(kept, l)
		}
	}
	return unquote(strings.Join(kept, sep))
}

// unquote removes the quotes around the whole of s. Quotes inside decide whether the first and the
// last belong together: in `"say "x", y"` the second one opens another quotation, in `"x" — or "y"`
// it closes the first.
func unquote(s string) string {
	if len(s) < 2 || s[0] != '"' && s[0] != '\'' || s[len(s)-1] != s[0] {
		return s
	}
	inner := s[1 : len(s)-1]
	if i := strings.IndexByte(inner, s[0]); i >= 0 {
		before, _ := utf8.DecodeLastRuneInString(inner[:i])
		if i > 0 && !unicode.IsSpace(before) && before != '(' && before != '\\' {
			return s
		}
	}
	if s[0] == '"' {
		inner = strings.ReplaceAll(inner, `\"`, `"`)
	}
	return inner
}
