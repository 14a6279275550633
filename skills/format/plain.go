package format

import (
	"strings"

	"gopkg.in/yaml.v3"
)

// The bounds of plainFields. Real front matter keeps far within them; what does not is
// read by YAML, whose search for duplicates does not grow with the square of the number of fields.
const (
	// maxPlainFields limits the fields, and the entries of one map.
	maxPlainFields = 64
	// maxPlainKey limits a key, in bytes.
	maxPlainKey = 64
)

// plainFields reads front matter that has only `key: value` lines and maps one level deep, as most
// has. It costs a tenth of the YAML reader and returns the same fields. ok is false for anything
// that could mean something else in YAML: a mark at the start of a value, a colon or # within, an
// escape, a list, a comment, a continued line, a field twice. The text must have passed checkText.
func plainFields(front []byte) (fields []field, ok bool) {
	text := string(front) // one copy, which all values share
	var p plainReader
	for number := firstLine; text != ""; number++ {
		line, rest, _ := strings.Cut(text, "\n")
		text = rest
		line = strings.TrimSuffix(line, "\r")
		// YAML ignores empty lines between fields. One with blanks is not plain (plainEntry).
		if line == "" {
			continue
		}
		if !p.line(line, number) {
			return nil, false
		}
	}
	return p.fields, len(p.fields) > 0
}

// plainReader has the fields that were read so far. Nested entries belong to the last field.
type plainReader struct {
	fields []field
	// indent is the indent of the entries of the last field; 0 = it has no entries.
	indent int
}

// line reads one line. It returns false for anything that is not plain.
func (p *plainReader) line(line string, number int) bool {
	key, value, indent, ok := plainEntry(line)
	if !ok {
		return false
	}
	// Lines of nodes count from the front matter, as the YAML reader counts them.
	n := &yaml.Node{Line: number - firstLine + 1}
	if !plainValue(value, n) {
		return false
	}
	if indent > 0 {
		return p.nested(key, n, indent)
	}
	if len(p.fields) == maxPlainFields {
		return false
	}
	// A second field of the same key is an error that the YAML reader reports with its line.
	for i := range p.fields {
		if p.fields[i].key == key {
			return false
		}
	}
	if p.fields == nil {
		p.fields = make([]field, 0, 8)
	}
	p.fields = append(p.fields, field{key: key, line: number, value: n})
	p.indent = 0
	return true
}

// nested adds an entry to the map that is the value of the last field.
func (p *plainReader) nested(key string, value *yaml.Node, indent int) bool {
	if len(p.fields) == 0 {
		return false
	}
	m := p.fields[len(p.fields)-1].value
	switch {
	case p.indent == 0 && m.Tag == "!!null" && m.Value == "":
		*m = yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Line: value.Line}
		p.indent = indent
	case p.indent != indent: // it goes on with a text, or down another level
		return false
	}
	if len(m.Content) == 2*maxPlainFields {
		return false
	}
	for i := 0; i < len(m.Content); i += 2 {
		if m.Content[i].Value == key {
			return false
		}
	}
	k := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: key, Line: value.Line}
	m.Content = append(m.Content, k, value)
	return true
}

// plainEntry splits `key: value`. A key that YAML reads as null is not plain.
func plainEntry(line string) (key, value string, indent int, ok bool) {
	// Tabs are no indentation in YAML; keyByte refuses them.
	for indent < len(line) && line[indent] == ' ' {
		indent++
	}
	line = line[indent:]
	n := 0
	for n < len(line) && n <= maxPlainKey && keyByte(line[n], n) {
		n++
	}
	if n == 0 || n > maxPlainKey || n == len(line) || line[n] != ':' || isNull(line[:n]) {
		return "", "", 0, false
	}
	key, value = line[:n], line[n+1:]
	if value != "" && value[0] != ' ' {
		return "", "", 0, false
	}
	return key, strings.Trim(value, " "), indent, true
}

// keyByte reports whether c can be at that position of a plain key.
func keyByte(c byte, at int) bool {
	switch {
	case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', c == '_':
		return true
	case '0' <= c && c <= '9', c == '-':
		return at > 0
	}
	return false
}

// plainValue reads a value on one line, quoted or not, into n. It returns false if YAML could read
// the value in another way. Numbers and booleans get the tag !!str, because all fields are read as
// text.
func plainValue(s string, n *yaml.Node) bool {
	n.Kind, n.Tag, n.Value = yaml.ScalarNode, "!!str", s
	if s == "" || isNull(s) {
		n.Tag = "!!null"
		return true
	}
	if strings.ContainsAny(s, "\t\r") || wideBreak(s) {
		return false
	}
	switch c := s[0]; {
	case c == '"' || c == '\'':
		n.Style = yaml.DoubleQuotedStyle
		if c == '\'' {
			n.Style = yaml.SingleQuotedStyle
		}
		if len(s) < 2 || s[len(s)-1] != c {
			return false
		}
		n.Value = s[1 : len(s)-1]
		return strings.IndexByte(n.Value, c) < 0 && strings.IndexByte(n.Value, '\\') < 0
	case c >= 0x80, 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '(', c == '/', c == '_', c == '$':
		return !strings.Contains(s, ": ") && !strings.Contains(s, " #") && s[len(s)-1] != ':'
	}
	return false
}

// isNull reports whether YAML reads s as null.
func isNull(s string) bool { return s == "~" || s == "null" || s == "Null" || s == "NULL" }

// wideBreak reports whether s has a line end that only YAML knows: U+0085, U+2028, U+2029.
func wideBreak(s string) bool {
	for i := 0; i+1 < len(s); i++ {
		switch s[i] {
		case 0xC2:
			if s[i+1] == 0x85 {
				return true
			}
		case 0xE2:
			if s[i+1] == 0x80 && i+2 < len(s) && (s[i+2] == 0xA8 || s[i+2] == 0xA9) {
				return true
			}
		}
	}
	return false
}
