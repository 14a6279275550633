package format

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gopkg.in/yaml.v3"
)

// value is what of a node decides what a skill is.
type value struct {
	Kind  yaml.Kind
	Null  bool
	Plain bool // how flow writes it
	Text  string
	Line  int
	Parts []value
}

func valueOf(n *yaml.Node) value {
	v := value{Kind: n.Kind, Null: n.Tag == "!!null", Plain: n.Style == 0, Text: n.Value, Line: n.Line}
	for _, c := range n.Content {
		v.Parts = append(v.Parts, valueOf(c))
	}
	return v
}

type entry struct {
	Key   string
	Line  int
	Guess bool
	Value value
}

func entries(fields []field) []entry {
	var out []entry
	for _, f := range fields {
		out = append(out, entry{f.key, f.line, f.repaired, valueOf(f.value)})
	}
	return out
}

// sameAsYAML holds the fast reader against the YAML reader, and reports whether it took front.
func sameAsYAML(t *testing.T, front string) bool {
	t.Helper()
	if checkText([]byte(front)) != nil {
		return false
	}
	fields, ok := plainFields([]byte(front))
	if !ok {
		return false
	}
	var d decoder
	d.decodeYAML([]byte(front))
	if len(d.diags) > 0 {
		t.Errorf("%q: read without a word, YAML says %v", front, d.diags)
	}
	if diff := cmp.Diff(entries(d.fields), entries(fields)); diff != "" {
		t.Errorf("%q (-YAML +fast):\n%s", front, diff)
	}
	return true
}

func TestFastReaderTakesWhatIsPlain(t *testing.T) {
	for front, want := range map[string]bool{
		"name: a\ndescription: b\n":                         true,
		"name: a\r\ndescription: b\r\n":                     true,
		"name: a\n\ndescription: what it does - and when\n": true,
		"name: 'a'\ndescription: \"b: c # d\"\n":            true,
		"name: a\nmetadata:\n  v: 1.0\n  w: \"x\"\nz:\n":    true,
		"name: a\nmetadata:\n\n    v: ~\nlicense: null\n":   true,
		"name: 技能\n":                                        true,
		"name: a\nurl: https://x.example/a#b\n":             true,
		"":                                                  false,
		"name: a\nname: a\n":                                false,
		"name: a\ndescription: b: c\n":                      false,
		"name: a\ndescription: b # c\n":                     false,
		"name: a\ndescription: b:\n":                        false,
		"name: a\ndescription: b\n  c\n":                    false,
		"name: a\ndescription: >\n  b\n":                    false,
		"name: a\ntags: [b]\n":                              false,
		"name: a\ntags:\n- b\n":                             false,
		"name: a\nm:\n  n:\n    o: p\n":                     false,
		"name: a\nm:\n  n: 1\n o: p\n":                      false,
		"name: a\nm:\n  n: 1\n  n: 1\n":                     false,
		"name: a\nm: ~\n  n: 1\n":                           false,
		"name: \"a\\u0041\"\n":                              false,
		"name: 'it''s'\n":                                   false,
		"name: \"a\n":                                       false,
		"name: a\tb\n":                                      false,
		"name: a\u2028b\n":                                  false,
		"name: a\u0085b\n":                                  false,
		"name: a\rb: c\n":                                   false,
		"null: a\n":                                         false,
		"name:a\n":                                          false,
		"# c\nname: a\n":                                    false,
		strings.Repeat("k", maxPlainKey+1) + ": a\n":        false,
		" name: a\n":                                        false,
		"name: &a b\n":                                      false,
		"name: *a\n":                                        false,
		"name: !x b\n":                                      false,
		"name: <<\n":                                        false,
		"...\nname: a\n":                                    false,
		"name: a\n---\n":                                    false,
	} {
		if got := sameAsYAML(t, front); got != want {
			t.Errorf("%q: fast %t, want %t", front, got, want)
		}
	}
}

// TestFastReaderGivesWhatYAMLGives puts front matter together from parts that mean something to
// YAML, many times, and compares.
func TestFastReaderGivesWhatYAMLGives(t *testing.T) {
	parts := []string{
		"name", "description", "metadata", "k", "null", "true", "~", "1.0", "0x1F", "1e3", ".inf", "2026-02-27", "12:30:45", "yes", "a b", "é", "把脉",
		": ", ":", ":\n", "\n", "\n", "\r\n", "\n  ", "\n  ", "\n    ", "\n ", " ", "  ", "\t", "#", " #", "\"", "'", "''", "\\", "\\n", "-", "- ", "--", "---", "...",
		"[", "]", "{", "}", ",", "&a ", "*a", "!x ", "!!str ", "|", ">", ">-", "%", "@", "`", "?", "? ", "<<", "=", "\u2028", "\u0085", "\u00a0", "\ufffd", "(", "/", "$", "_", ".", "+",
	}
	r := rand.New(rand.NewPCG(1, 2))
	taken := 0
	for range 60_000 {
		var b strings.Builder
		for range 1 + r.IntN(4) {
			fmt.Fprintf(&b, "%s%s:%s", []string{"", "", "  "}[r.IntN(3)], parts[r.IntN(9)], []string{" ", "", "  "}[r.IntN(3)])
			for range r.IntN(5) {
				b.WriteString(parts[r.IntN(len(parts))])
			}
			b.WriteString("\n")
		}
		if sameAsYAML(t, b.String()) {
			taken++
		}
		if t.Failed() {
			return
		}
	}
	if taken < 2_000 {
		t.Errorf("only %d of 60000 were read by the fast reader; the test says little", taken)
	}
}

func FuzzTheFastReaderGivesWhatYAMLGives(f *testing.F) {
	for _, s := range []string{"name: a\ndescription: b\n", "name: 'a'\nmetadata:\n  v: \"1.0\"\n", "a: b\r\nc:\r\n", "a: 1:2\n",
		"a: b - c\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, front string) { sameAsYAML(t, front) })
}

// BenchmarkFront compares the two readers on front matter as most skills have it.
func BenchmarkFront(b *testing.B) {
	front := []byte("name: my-skill\ndescription: " + strings.Repeat("what it does ", 12) + "\nlicense: MIT\nmetadata:\n  author: somebody\n  version: \"1.0\"\n")
	b.Run("fast", func(b *testing.B) {
		for b.Loop() {
			if _, ok := plainFields(front); !ok {
				b.Fatal("not plain")
			}
		}
	})
	b.Run("yaml", func(b *testing.B) {
		for b.Loop() {
			var d decoder
			d.decodeYAML(front)
		}
	})
}

func TestBytesOfAPlainKey(t *testing.T) {
	const first, later = "ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz", "0123456789-"
	for c := range 256 {
		isFirst, isLater := strings.IndexByte(first, byte(c)) >= 0, strings.IndexByte(later, byte(c)) >= 0
		if keyByte(byte(c), 0) != isFirst || keyByte(byte(c), 1) != (isFirst || isLater) {
			t.Errorf("%q: %t at the beginning, %t behind it", byte(c), keyByte(byte(c), 0), keyByte(byte(c), 1))
		}
	}
}
