package format_test

import (
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"

	"symbio/skills/format"
)

// planned is the part of a manifest that the specifications plan.
type planned struct {
	Version  string
	Triggers format.Triggers
	Auto     bool
	Depends  []format.Dependency
	Toolsets []string
	Grants   string
}

func plannedOf(m format.Manifest) planned {
	return planned{m.Version, m.Triggers, m.Auto, m.Depends, m.Toolsets, strings.Trim(fmt.Sprint(m.Grants), "[]")}
}

func keywords(words ...string) planned { return planned{Triggers: format.Triggers{Keywords: words}} }

func toolsets() map[string][]string {
	return map[string][]string{"git": {"Bash(git status:*)", "Bash(git log:*)"}, "wide": {"Bash", "Read"}}
}

func numberedList(item string, n int) string {
	items := make([]string, n)
	for i := range items {
		items[i] = fmt.Sprintf(item, i)
	}
	return "[" + strings.Join(items, ", ") + "]"
}

// TestPlannedFieldsAreReadAtAllLevels is the table of design note 0039: codes at level strict, where
// they differ, and at the others.
func TestPlannedFieldsAreReadAtAllLevels(t *testing.T) {
	const unknown = "!unknown-field"
	tests := []struct {
		about, lines, strict, normal string
		want                         planned
	}{
		{"triggers", "triggers: {keywords: [hello, greet], verbs: [say, wave], patterns: ['greet\\s+\\w+']}", unknown, "",
			planned{Triggers: format.Triggers{Keywords: []string{"hello", "greet"}, Verbs: []string{"say", "wave"},
				Patterns: []string{`greet\s+\w+`}}}},
		{"triggers list", "triggers: [pull request, ' pr ', pr, '']", unknown, "", keywords("pull request", "pr")},
		{"triggers text", "triggers: pull request, pr", unknown, "", keywords("pull request", "pr")},
		{"triggers in metadata", "metadata: {triggers: {keywords: [hello]}}", "!metadata-value", "", keywords("hello")},
		{"triggers text in metadata", "metadata:\n  triggers: hello, greet\n  auto: \"true\"", "", "", planned{Triggers: format.Triggers{Keywords: []string{"hello", "greet"}}, Auto: true}},
		{"triggers twice", "metadata: {triggers: inner}\ntriggers: outer", unknown, "", keywords("outer")},
		{"triggers null", "triggers:", unknown, "", planned{}},
		{"triggers key", "triggers: {keyword: [a], keywords: [b]}", "list-entry " + unknown, "list-entry", keywords("b")},
		{"triggers nested", "triggers: [[a], b, {c: d}]", "list-entry " + unknown, "list-entry", keywords("b")},
		{"triggers of wrong type", "triggers: {keywords: {a: b}}", "list-entry " + unknown, "list-entry", planned{}},
		{"triggers too long", "triggers: [" + strings.Repeat("x", 65) + ", " + strings.Repeat("é", 64) + "]", "list-entry " + unknown, "list-entry", keywords(strings.Repeat("é", 64))},
		{"pattern broken", "triggers: {patterns: ['(open', 'close']}", "pattern " + unknown, "pattern", planned{Triggers: format.Triggers{Patterns: []string{"close"}}}},
		{"pattern text", "triggers: {patterns: 'a{1,3}bc'}", unknown, "", planned{Triggers: format.Triggers{Patterns: []string{"a{1,3}bc"}}}},
		{"pattern that is no RE2", "triggers: {patterns: ['(?=ahead)', '(a+)+\\1']}", "pattern pattern " + unknown, "pattern pattern", planned{}},
		{"pattern of anything", "triggers: {patterns: ['.*', 'word|\\d+', '(long word)?', 'x']}", "pattern pattern pattern pattern " + unknown, "pattern pattern pattern pattern", planned{}},
		{"pattern that grows", "triggers: {patterns: ['((word{50}){50}){50}', '(?:word){1000}']}", "pattern pattern " + unknown, "pattern pattern", planned{}},
		{"pattern too long", "triggers: {patterns: [" + strings.Repeat("x", 201) + "]}", "list-entry " + unknown, "list-entry", planned{}},
		{"auto", "auto: yes", unknown, "", planned{Auto: true}},
		{"auto of doubt", "auto: perhaps", "flag-value " + unknown, "flag-value", planned{}},
		{"auto list", "auto: [true]", "flag-value " + unknown, "flag-value", planned{}},
		{"depends", "depends: [one, 'two >=1.2 <2', three@^1, 'four>1']", unknown, "",
			planned{Depends: []format.Dependency{{"one", ""}, {"two", ">=1.2 <2"}, {"three", "^1"}, {"four", ">1"}}}},
		{"depends text in metadata", "metadata:\n  depends: one >=1.2, <2, two", "", "", planned{Depends: []format.Dependency{{"one", ">=1.2 <2"}, {"two", ""}}}},
		{"depends broken", "depends: ['../one', 'one >=one', two, two >1, '>1']", "dependency dependency dependency dependency " + unknown, "dependency dependency dependency dependency", planned{Depends: []format.Dependency{{"two", ""}}}},
		{"version", "metadata:\n  version: 1.2\nlicense: MIT", "", "", planned{Version: "1.2"}},
		{"version twice", "version: 1\nmetadata: {version: \"2\"}", unknown, "unknown-fields", planned{Version: "2"}},
		{"version of days", "metadata: {version: 2026-02-27}", "", "", planned{Version: "2026-02-27"}},
		{"version of words", "metadata: {version: latest}", "version", "version", planned{Version: "latest"}},
		{"toolset", "toolsets: [git]", unknown, "", planned{Toolsets: []string{"git"}, Grants: "Bash(git status:*) Bash(git log:*)"}},
		{"toolset in metadata", "allowed-tools: Read\nmetadata:\n  toolsets: git", "", "", planned{Toolsets: []string{"git"}, Grants: "Read Bash(git status:*) Bash(git log:*)"}},
		{"toolset of too much", "toolsets: [wide]", "grant-refused " + unknown, "grant-refused", planned{Toolsets: []string{"wide"}, Grants: "Read"}},
		{"toolset unknown", "toolsets: [gti]", "toolset-unknown " + unknown, "toolset-unknown", planned{Toolsets: []string{"gti"}}},
		{"toolset beside an equal rule", "allowed-tools: Bash(git log:*)\nmetadata: {toolsets: git}", "", "", planned{Toolsets: []string{"git"}, Grants: "Bash(git log:*) Bash(git status:*)"}},
	}
	for _, test := range tests {
		for _, level := range []format.Level{format.Strict, format.Standard, format.Lenient} {
			m, _, diags := format.Parse([]byte(extra(test.lines)), "my-skill", format.Policy{Level: level, Toolsets: toolsets()})
			want := test.normal
			switch level {
			case format.Strict:
				want = test.strict
			case format.Lenient: // which keeps unknown fields silently
				want = strings.TrimPrefix(want, "unknown-fields")
			}
			if got := codes(diags); got != want {
				t.Errorf("%s at %s: got %q, want %q: %v", test.about, level, got, want, diags)
			}
			if d := cmp.Diff(test.want, plannedOf(m)); d != "" && level != format.Strict {
				t.Errorf("%s at %s (-want +got):\n%s", test.about, level, d)
			}
		}
	}
}

func TestPlannedFieldsAreBounded(t *testing.T) {
	lines := "triggers: {keywords: " + numberedList("k%d", 2000) + ", verbs: " + numberedList("[v%d]", 900) + ", patterns: " +
		numberedList("pattern%d", 900) + "}\n" +
		"depends: " + numberedList("s%d", 900) + "\ntoolsets: " + numberedList("t%d", 900)
	m, _, diags := format.Parse([]byte(extra(lines)), "my-skill", format.Policy{})
	got := []int{len(m.Triggers.Keywords), len(m.Triggers.Verbs), len(m.Triggers.Patterns), len(m.Depends), len(m.Toolsets)}
	if want := []int{32, 0, 32, 16, 16}; !reflect.DeepEqual(got, want) || format.Failed(diags) {
		t.Errorf("got %v, want %v: %v", got, want, diags)
	}
	if len(diags) > 5+16 {
		t.Errorf("%d diagnostics; want one for each list and each unknown toolset", len(diags))
	}
}

func TestGuessedValueOfPlannedFieldWidensNothing(t *testing.T) {
	m, _, diags := format.Parse([]byte(front("name: my-skill\ndescription: d\nauto: true: x\ntoolsets: git: x\n")), "my-skill", format.Policy{Toolsets: toolsets()})
	if m.Auto || len(m.AllowedTools)+len(m.Grants) > 0 || codes(diags) != "yaml-repaired yaml-repaired flag-value grant-refused" {
		t.Errorf("got %+v, %v", plannedOf(m), diags)
	}
}

func FuzzPattern(f *testing.F) {
	for _, s := range []string{`greet\s+\w+`, `PR\s*#?\d+`, `(hello|help)+ me`, `(?i:word){2,5}`, `ſtraße K`, `a{0}bc|cd`, `[Kk]elvin`,
		`(?s).+end$`} {
		f.Add(s, "please Greet the KELVIN; PR #12, help help me")
	}
	f.Fuzz(func(t *testing.T, text, task string) {
		p, err := format.ParsePattern(text)
		if err != nil {
			return
		}
		re, err := p.Compile()
		if err != nil {
			t.Fatalf("%q was accepted, and is not compiled: %v", text, err)
		}
		match := re.FindString(format.Fold(task))
		if same, err := regexp.Compile("(?i)" + text); err != nil ||
			ascii(text+task) && same.MatchString(task) != re.MatchString(format.Fold(task)) {
			t.Errorf("%q and %q: the folded pattern gives another answer (%v)", text, task, err)
		}
		if match == "" {
			return
		}
		for _, l := range p.Literals {
			if strings.Contains(match, l) {
				return
			}
		}
		t.Errorf("%q matches %q, which has none of %q", text, match, p.Literals)
	})
}

func ascii(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r > unicode.MaxASCII })
}
