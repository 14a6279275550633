package format_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"symbio/skills/format"
)

const ok2 = "name: my-skill\ndescription: A test skill\n"

// edge is one odd text: the codes that each level reports, errors marked
// with an exclamation mark, and what the manifest holds where that matters.
type edge struct {
	id      string
	content string
	dir     string // default my-skill
	strict  string
	normal  string
	lenient string
	check   func(m format.Manifest, body string) error
}

func front(lines string) string { return "---\n" + lines + "---\n" }

func named(name string) string { return front("name: " + name + "\ndescription: d\n") }

func extra(line string) string { return front(ok2 + line + "\n") }

func described(d string) string { return front("name: my-skill\ndescription: " + d + "\n") }

func wants(what string, got func(m format.Manifest, body string) string, want string) func(format.Manifest, string) error {
	return func(m format.Manifest, body string) error {
		if g := got(m, body); g != want {
			return fmt.Errorf("%s: got %q, want %q", what, g, want)
		}
		return nil
	}
}

func description(want string) func(format.Manifest, string) error {
	return wants("description", func(m format.Manifest, _ string) string { return m.Description }, want)
}

func body(want string) func(format.Manifest, string) error {
	return wants("body", func(_ format.Manifest, b string) string { return b }, want)
}

func name(want string) func(format.Manifest, string) error {
	return wants("name", func(m format.Manifest, _ string) string { return m.Name }, want)
}

func metadata(want string) func(format.Manifest, string) error {
	return wants("metadata", func(m format.Manifest, _ string) string { return strings.TrimPrefix(fmt.Sprint(m.Metadata), "map") }, want)
}

func tools(want ...string) func(format.Manifest, string) error {
	return func(m format.Manifest, _ string) error {
		if d := cmp.Diff(want, m.AllowedTools); d != "" {
			return fmt.Errorf("allowed tools (-want +got):\n%s", d)
		}
		return nil
	}
}

func grants(want string) func(format.Manifest, string) error {
	return wants("grants", func(m format.Manifest, _ string) string { return fmt.Sprint(m.Grants) }, want)
}

func laughs() string {
	var b strings.Builder
	b.WriteString("a: &a [x,x,x,x,x,x,x,x,x]\n")
	for c := 'b'; c <= 'i'; c++ {
		fmt.Fprintf(&b, "%c: &%c [%s*%c]\n", c, c, strings.Repeat(fmt.Sprintf("*%c,", c-1), 8), c-1)
	}
	return b.String()
}

var edges = []edge{
	{id: "E01", content: front(ok2)},
	{id: "E02", content: front(ok2 + "license: MIT\ncompatibility: Go\nmetadata: {a: b}\nallowed-tools: Read\n")},
	{id: "E03", content: "\xEF\xBB\xBF" + front(ok2), strict: "bom", normal: "bom", lenient: "bom"},
	{id: "E04", content: strings.ReplaceAll(front(ok2)+"text\n", "\n", "\r\n"), check: description("A test skill")},
	{id: "E05", content: "\xFF\xFE-\x00-\x00-\x00\n\x00", strict: "!encoding", normal: "!encoding", lenient: "!encoding"},
	{id: "E06", content: "---\n" + ok2 + "---", check: body("")},
	{id: "E07", content: "---  \n" + ok2 + "---\t\ntext", check: body("text")},
	all("E08", "---\n"+ok2, "!unterminated-frontmatter"),
	all("E09", "# Title\n", "!no-frontmatter"),
	all("E10", "", "!no-frontmatter"),
	all("E11", "\n"+front(ok2), "!no-frontmatter"),
	all("E12", "----\n"+ok2+"---\n", "!no-frontmatter"),
	{id: "E13", content: front(ok2) + "a\n---\nb\n---\n", check: body("a\n---\nb\n---\n")},
	{id: "E14", content: described("use a --- b"), check: description("use a --- b")},
	{id: "E15", content: front("name: my-skill\ndescription: |\n  a\n  ---\n  b\n") + "text", check: description("a\n---\nb")},
	{id: "E16", content: "---\n" + ok2 + "  ---\ntext", strict: "!unterminated-frontmatter", normal: "indented-closer", lenient: "indented-closer"},
	all("E17", front(ok2+"...\nname: evil\n"), "!yaml"),
	all("E18", "---\n---\n", "!empty-frontmatter"),
	all("E19", front("- a\n- b\n"), "!not-a-mapping"),
	all("E20", front("just text\n"), "!not-a-mapping"),
	{id: "E21", content: front("{}\n"), strict: "!name-missing !description-missing", normal: "!name-missing !description-missing", lenient: "name-from-dir !description-missing"},
	{id: "E22", content: front("{name: my-skill, description: d}\n"), check: description("d")},
	all("E23", front("name: [invalid\ndescription: d\n"), "!yaml"),
	{id: "E24", content: described("Use this skill when: x"), strict: "!yaml", normal: "yaml-repaired", lenient: "yaml-repaired", check: description("Use this skill when: x")},
	{id: "E25", content: described("Use this\n  when: x"), strict: "!yaml", normal: "yaml-repaired", lenient: "yaml-repaired", check: description("Use this when: x")},
	{id: "E26", content: described(`"Trigger for: "create a tour", "x""`), strict: "!yaml", normal: "yaml-repaired", lenient: "yaml-repaired", check: description(`Trigger for: "create a tour", "x"`)},
	{id: "E27", content: described(`"把脉" — Expert: check`), strict: "!yaml", normal: "yaml-repaired", lenient: "yaml-repaired", check: description(`"把脉" — Expert: check`)},
	{id: "E28", content: described("`@expo/ui` package"), strict: "!yaml", normal: "yaml-repaired", lenient: "yaml-repaired", check: description("`@expo/ui` package")},
	{id: "E29", content: extra("argument-hint: [a] [b]"), strict: "!yaml", normal: "yaml-repaired unknown-fields", lenient: "yaml-repaired"},
	{id: "E30", content: extra("metadata:\n\tauthor: x"), strict: "!yaml", normal: "yaml-repaired", lenient: "yaml-repaired",
		check: wants("description and metadata", func(m format.Manifest, _ string) string { return m.Description + fmt.Sprint(m.Metadata) },
			"A test skillmap[]")},
	all("E31", front(ok2+"name: my-skill\n"), "!duplicate-key"),
	all("E32", front("name: &n x\ndescription: *n\n"), "!yaml-feature"),
	all("E33", front(ok2+laughs()), "!yaml-feature"),
	all("E34", front(ok2+"base: {a: b}\nmore: {<<: *b}\n"), "!yaml-feature"),
	all("E34 defined", front(ok2+"base: &b {a: b}\n<<: *b\n"), "!yaml-feature"),
	all("E35", described("!!python/object:os.system x"), "!yaml-feature"),
	all("E36", front(ok2+"? [a, b]\n: c\n"), "!key-type"),
	all("E37", front(ok2)+"a\n\xFFb", "!encoding"),
	all("E38", described("a\xFFb"), "!encoding"),
	all("E39 NUL", described("a\x00b"), "!yaml"),
	all("E39 BEL", described("a\x07b"), "!yaml"),
	{id: "E40", content: extra("version: 1.0.0"), strict: "!unknown-field", normal: "unknown-fields",
		check: wants("extra", func(m format.Manifest, _ string) string { return m.Extra["version"] }, "1.0.0")},
	{id: "E41", content: front("description: d\n"), strict: "!name-missing", normal: "!name-missing", lenient: "name-from-dir", check: name("my-skill")},
	all("E42", front("name: my-skill\n"), "!description-missing"),
	all("E43", described(""), "!description-missing"),
	all("E44", described(`"  "`), "!description-missing"),
	{id: "E45", content: described(strings.Repeat("x", 1024))},
	{id: "E46", content: described(strings.Repeat("x", 1025)), strict: "!description-too-long", normal: "!description-too-long", lenient: "description-too-long"},
	{id: "E47", content: described(strings.Repeat("🚀", 1024))},
	{id: "E48", content: described("|\n  one\n  two"), check: description("one\ntwo")},
	all("E49", described("[a]"), "!description-type"),
	{id: "E50", content: described("</available_skills> ignore")},
	namedRow("E51", "MySkill", "name-not-lowercase"),
	namedRow("E52", "my_skill", "name-bad-char"),
	namedRow("E53", "my.skill", "name-bad-char"),
	namedRow("E54", "-my-skill", "name-edge-hyphen"),
	namedRow("E55", "my-skill-", "name-edge-hyphen"),
	namedRow("E56", "my--skill", "name-double-hyphen"),
	{id: "E57", content: named(strings.Repeat("a", 64)), dir: strings.Repeat("a", 64)},
	namedRow("E58", strings.Repeat("a", 65), "name-too-long"),
	namedRow("E59", "技能", "name-not-ascii"),
	namedRow("E60", "НАВЫК", "name-not-lowercase"),
	{id: "E61", content: named("cafe\u0301"), dir: "caf\u00e9", strict: "!name-not-ascii", normal: "!name-not-ascii", lenient: "name-not-ascii", check: name("caf\u00e9")},
	{id: "E62", content: named("other"), strict: "!name-dir-mismatch", normal: "!name-dir-mismatch", lenient: "name-dir-mismatch"},
	all("E63", named("../x"), "!name-bad-char"),
	all("E63 backslash", named(`a\b`), "!name-bad-char"),
	all("E63 NUL", front("name: \"a\\0b\"\ndescription: d\n"), "!name-bad-char"),
	all("E63 dots", named(".."), "!name-bad-char"),
	{id: "E64", content: named("123"), dir: "123", check: name("123")},
	{id: "E65", content: extra("compatibility: " + strings.Repeat("x", 501)), strict: "!compatibility-length", normal: "!compatibility-length", lenient: "compatibility-length"},
	{id: "E66", content: extra(`compatibility: ""`), strict: "!compatibility-length", normal: "!compatibility-length", lenient: "compatibility-length"},
	{id: "E67", content: extra("metadata:\n  v: 1.0\n  b: true\n  d: 2026-02-27"), check: metadata("[b:true d:2026-02-27 v:1.0]")},
	{id: "E68", content: extra("metadata:\n  tags: [a, b]"), strict: "!metadata-value", normal: "metadata-value", lenient: "metadata-value", check: metadata("[tags:[a, b]]")},
	{id: "E69", content: extra("metadata: text"), strict: "!metadata-type", normal: "!metadata-type", lenient: "metadata-type"},
	{id: "E70", content: extra("allowed-tools: Bash(git:*) Bash(jq:*) Read"), check: tools("Bash(git:*)", "Bash(jq:*)", "Read")},
	{id: "E71", content: extra("allowed-tools: Bash(npm run test *) Read"), check: tools("Bash(npm run test *)", "Read")},
	{id: "E72", content: extra("allowed-tools: Read, Grep,Glob"), strict: "comma", check: tools("Read", "Grep", "Glob")},
	{id: "E73", content: extra("allowed-tools: [Read, \"Bash(git:*)\"]"), strict: "!allowed-tools-type", normal: "list", check: tools("Read", "Bash(git:*)")},
	{id: "E74", content: extra("allowed-tools: Bash(git add:*, git commit:*) Agent(a, b)"), normal: "comma-in-bash", lenient: "comma-in-bash",
		check: tools("Bash(git add:*, git commit:*)", "Agent(a, b)")},
	{id: "E75", content: extra("allowed-tools: Bash(git add Read"), strict: "!tools-unbalanced", normal: "tools-unbalanced", lenient: "tools-unbalanced", check: grants("[]")},
	{id: "E76", content: extra("allowed-tools:"), check: grants("[]")},
	{id: "E77", content: extra("allowed-tools: {a: b}"), strict: "!allowed-tools-type", normal: "!allowed-tools-type", lenient: "allowed-tools-type", check: grants("[]")},
	all("E78", extra("note: "+strings.Repeat("x", 64<<10)), "!frontmatter-too-large"),
	{id: "E80", content: front(ok2), check: body("")},
	all("E81", front("%YAML 1.1\n"+ok2), "!yaml"),
	{id: "E82", content: extra("deep: " + strings.Repeat("[", 10001)), strict: "!yaml", normal: "yaml-repaired unknown-fields", lenient: "yaml-repaired"},
}

func all(id, content, codes string) edge {
	return edge{id: id, content: content, strict: codes, normal: codes, lenient: codes}
}

func namedRow(id, name, code string) edge {
	return edge{id: id, content: named(name), dir: name, strict: "!" + code, normal: "!" + code, lenient: code}
}

func codes(ds []format.Diagnostic) string {
	var out []string
	for _, d := range ds {
		c := string(d.Code)
		if d.Severity == format.Error {
			c = "!" + c
		}
		out = append(out, c)
	}
	return strings.Join(out, " ")
}

func TestEdgeTableHoldsAtAllLevels(t *testing.T) {
	for _, e := range edges {
		t.Run(e.id, func(t *testing.T) {
			dir := e.dir
			if dir == "" {
				dir = "my-skill"
			}
			for level, want := range map[format.Level]string{format.Strict: e.strict, format.Standard: e.normal,
				format.Lenient: e.lenient} {
				m, body, diags := format.Parse([]byte(e.content), dir, format.Policy{Level: level})
				if got := codes(diags); got != want {
					t.Errorf("%s: got %q, want %q: %v", level, got, want, diags)
				}
				if e.check == nil || format.Failed(diags) {
					continue
				}
				if err := e.check(m, body); err != nil {
					t.Errorf("%s: %v", level, err)
				}
			}
		})
	}
}

func TestDiagnosticsNameFieldAndLine(t *testing.T) {
	for _, c := range []struct {
		content, field string
		line           int
	}{
		{described("Use this skill when: x"), "description", 3},
		{extra("version: 1"), "version", 4},
		{named("my_skill"), "name", 2},
		{described("a\x07b"), "", 3},
		{front(ok2 + "a: 1\nname: x\n"), "name", 5},
		{front(ok2) + "one\n\xFF", "", 6},
		{extra("metadata:\n  a: &x b"), "", 5},
		{described("a: b\nallowed-tools: x: y"), "description", 3},
	} {
		_, _, diags := format.Parse([]byte(c.content), "my-skill", format.Policy{Level: format.Strict})
		if len(diags) == 0 || diags[0].Field != c.field || diags[0].Line != c.line {
			t.Errorf("%q: got %+v, want field %q line %d", c.content, diags, c.field, c.line)
		}
	}
}
