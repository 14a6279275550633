package format_test

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"symbio/skills/format"
)

func TestRepairKeepsWhatReadsAsYAML(t *testing.T) {
	for _, c := range []struct {
		about, lines string
		want         format.Manifest
	}{
		{"a colon in one field leaves the others alone",
			"name: my-skill\ndescription: Use when: x\nlicense: MIT\nmetadata:\n  v: 1.0\n",
			format.Manifest{Name: "my-skill", Description: "Use when: x", License: "MIT", Metadata: map[string]string{"v": "1.0"}}},
		{"a field whose value is on the lines below is one of its own",
			"name: my-skill\ndescription: a: b\nmetadata:\n  v: 1.0\nlicense:\n  MIT\n",
			format.Manifest{Name: "my-skill", Description: "a: b", License: "MIT", Metadata: map[string]string{"v": "1.0"}}},
		{"comments and blank lines are no fields",
			"# first\n\nname: my-skill\n# second\ndescription: a: b\n",
			format.Manifest{Name: "my-skill", Description: "a: b # second"[:4]}},
		{"a folded scalar that is broken is folded",
			"name: my-skill\ndescription: >\n  one\n two: [\n",
			format.Manifest{Name: "my-skill", Description: "one two: ["}},
		{"a literal scalar keeps its lines",
			"name: my-skill\ndescription: |\n   one\n two\n",
			format.Manifest{Name: "my-skill", Description: "one\ntwo"}},
		{"escaped quotes are unescaped",
			"name: my-skill\ndescription: \"say \\\"x\\\": y\" or not\n",
			format.Manifest{Name: "my-skill", Description: `"say \"x\": y" or not`}},
		{"text that continues at the start of a line belongs to the field above",
			"name: my-skill\ndescription: one\ntwo\n",
			format.Manifest{Name: "my-skill", Description: "one two"}},
		{"a restriction survives",
			"name: my-skill\ndescription: a: b\ndisable-model-invocation: true\n",
			format.Manifest{Name: "my-skill", Description: "a: b", UserOnly: true,
				Extra: map[string]string{"disable-model-invocation": "true"}}},
		{"a restriction that cannot be read holds",
			"name: my-skill\ndescription: d\ndisable-model-invocation: yes: no\n",
			format.Manifest{Name: "my-skill", Description: "d", UserOnly: true,
				Extra: map[string]string{"disable-model-invocation": "yes: no"}}},
		{"guessed tools grant nothing",
			"name: my-skill\ndescription: d\nallowed-tools: Read: Write\n",
			format.Manifest{Name: "my-skill", Description: "d", AllowedTools: []string{"Read:", "Write"}, Refused: []format.Refusal{
				{Rule: "Read:", Why: "allowed-tools is not valid YAML; nothing is granted on a guess"},
				{Rule: "Write", Why: "allowed-tools is not valid YAML; nothing is granted on a guess"}}}},
	} {
		m, _, diags := format.Parse([]byte(front(c.lines)), "my-skill", format.Policy{})
		if format.Failed(diags) {
			t.Errorf("%s: %v", c.about, diags)
			continue
		}
		if d := cmp.Diff(c.want, m); d != "" {
			t.Errorf("%s (-want +got):\n%s", c.about, d)
		}
	}
}

func TestRepairKeepsNameAndDescription(t *testing.T) {
	for about, lines := range map[string]string{
		"the name":                       "name: a: b\ndescription: d\n",
		"a second document":              "name: my-skill\ndescription: a: b\n...\nname: evil\n",
		"a document mark with text":      "name: my-skill\ndescription: a: b\n--- name: evil\n",
		"text before the first field":    "hello\nname: my-skill\ndescription: a: b\n",
		"an alias in a repaired file":    "name: my-skill\ndescription: a: b\nlicense: *x\n",
		"an anchor in a repaired file":   "name: my-skill\ndescription: a: b\nlicense: &x MIT\n",
		"a field that a repair repeats":  "name: my-skill\ndescription: a: b\ndescription: c\n",
		"more fields than anybody needs": "name: my-skill\ndescription: a: b\n" + strings.Repeat("x: 1\n", 1001),
	} {
		if _, _, diags := format.Parse([]byte(front(lines)), "my-skill", format.Policy{Level: format.Lenient}); !format.Failed(diags) {
			t.Errorf("%s: accepted with %v", about, diags)
		}
	}
}

func TestCommentInDescriptionIsReported(t *testing.T) {
	for text, want := range map[string]int{"Fix it #12 now": 1, "Fix it\n  and #12 now": 1, "Fix it#12": 0, `"Fix # it" # comment`: 0,
		">\n  Fix # it": 0} {
		_, _, diags := format.Parse([]byte("---\nname: a\ndescription: "+text+"\n---\nx\n"), "a", format.Policy{})
		if n := strings.Count(fmt.Sprint(diags), string(format.CodeYAMLComment)); n != want || format.Failed(diags) {
			t.Errorf("%s: %v, want %d reports", text, diags, want)
		}
	}
}

func TestWidestGrantsAreRefused(t *testing.T) {
	for _, rule := range []string{"Bash", "Bash(*)", "Bash(:*)", "bash", "BASH(**)", "*", "*(x)", "**", "Re*", "mcp__*"} {
		for _, level := range []format.Level{format.Strict, format.Standard, format.Lenient} {
			m, _, diags := format.Parse([]byte(extra("allowed-tools: \""+rule+" Read\"")), "my-skill", format.Policy{Level: level})
			if format.Failed(diags) || codes(diags) != "grant-refused" {
				t.Errorf("%s at %s: got %v, want one grant-refused", rule, level, diags)
			}
			if len(m.Grants) != 1 || m.Grants[0].String() != "Read" {
				t.Errorf("%s at %s: granted %v, want Read alone", rule, level, m.Grants)
			}
			if len(m.Refused) != 1 || m.Refused[0].Rule != rule {
				t.Errorf("%s at %s: refused %v", rule, level, m.Refused)
			}
		}
	}
}

func TestHeadAndWholeFileGiveTheSameAnswer(t *testing.T) {
	for _, e := range edges {
		for _, level := range []format.Level{format.Strict, format.Standard, format.Lenient} {
			if strings.HasPrefix(e.id, "E37") {
				continue // only the whole file shows a broken body
			}
			data := []byte(e.content + strings.Repeat("body ", 20000))
			p := format.Policy{Level: level}
			want, _, wantDiags := format.Parse(data, "my-skill", p)
			head, diags, need := format.ParseHead(data[:format.HeadSize], true, "my-skill", p)
			if need {
				head, diags, need = format.ParseHead(data[:format.MaxHead], true, "my-skill", p)
			}
			if need {
				t.Errorf("%s at %s: asks for more than MaxHead", e.id, level)
			}
			if d := cmp.Diff(wantDiags, diags); d != "" {
				t.Errorf("%s at %s: diagnostics (-whole +head):\n%s", e.id, level, d)
			}
			if head.Name != want.Name || head.Description != want.Description {
				t.Errorf("%s at %s: head %+v, whole %+v", e.id, level, head, want)
			}
		}
	}
}

func TestHalfReadLineIsNoDelimiter(t *testing.T) {
	content := "---\n" + ok2 + "note: " + strings.Repeat("x", format.HeadSize)
	at := format.HeadSize - len("---\n"+ok2+"note: \n---")
	content = content[:len("---\n"+ok2+"note: ")+at] + "\n---more\nlicense: MIT\n---\n"
	if !strings.HasSuffix(content[:format.HeadSize], "\n---") {
		t.Fatalf("the head ends in %q", content[format.HeadSize-8:format.HeadSize])
	}
	if _, _, need := format.ParseHead([]byte(content[:format.HeadSize]), true, "my-skill", format.Policy{}); !need {
		t.Error("the first bytes of a line were taken for the delimiter")
	}
}

func FuzzParse(f *testing.F) {
	for _, e := range edges {
		if len(e.content) < 8<<10 {
			f.Add([]byte(e.content), "my-skill")
		}
	}
	f.Add([]byte(extra("triggers: {keywords: [a], verbs: b, patterns: ['x{2}y+z']}\ndepends: 'a >=1, <2, b'\nversion: 1.2\ntoolsets: [t]\nauto: on")), "my-skill")
	f.Fuzz(func(t *testing.T, content []byte, dir string) {
		for _, level := range []format.Level{format.Strict, format.Standard, format.Lenient} {
			m, body, diags := format.Parse(content, dir, format.Policy{Level: level})
			for _, d := range diags {
				if d.Code == "" || d.Severity == "" || d.Message == "" || d.Line < 0 || d.Line > 2+len(content) {
					t.Errorf("%s: incomplete diagnostic %+v", level, d)
				}
			}
			if format.Failed(diags) {
				if body != "" {
					t.Errorf("%s: a body beside errors", level)
				}
				continue
			}
			if m.Name == "" || strings.TrimSpace(m.Description) == "" || !utf8.ValidString(m.Name+m.Description+body) {
				t.Errorf("%s: accepted %+v", level, m)
			}
			if strings.ContainsAny(m.Name, "/\\\x00\n") || strings.Contains(m.Name, "..") {
				t.Errorf("%s: accepted the name %q", level, m.Name)
			}
			if len(m.Grants)+len(m.Refused) != len(m.AllowedTools) {
				t.Errorf("%s: %d rules, %d granted, %d refused", level, len(m.AllowedTools), len(m.Grants), len(m.Refused))
			}
			if n := len(m.Triggers.Keywords) + len(m.Triggers.Verbs) + len(m.Triggers.Patterns) + len(m.Depends) +
				len(m.Toolsets); n > 3*32+2*16 {
				t.Errorf("%s: %d entries", level, n)
			}
			for _, d := range m.Depends {
				if c, err := format.ParseConstraint(d.Constraint); err != nil || c.String() != d.Constraint {
					t.Errorf("%s: depends on %q: %v", level, d, err)
				}
			}
			for _, g := range m.Grants {
				if s := g.String(); s == "Bash" || strings.HasPrefix(s, "Bash(*)") || strings.HasPrefix(s, "*") {
					t.Errorf("%s: grants %s", level, s)
				}
			}
		}
	})
}
