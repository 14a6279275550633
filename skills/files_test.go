package skills_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"symbio/skills"
	"symbio/skills/format"
)

// rich makes a skill with files of all kinds, and returns its root, its directory and the skill.
func rich(t *testing.T) (root, dir string, s skills.Skill) {
	t.Helper()
	root = real(t)
	dir = skill(t, filepath.Join(root, "rich"), "compatibility: Needs git", "allowed-tools: Read Bash")
	for name, text := range map[string]string{
		"references/a.md": "A", "references/deep/b.md": "B", "reference/old.md": "O", "scripts/run.sh": "#!/bin/sh\n", "assets/t.md": "T",
		"assets/bin": "\x00\xff", "odd <&>.md": "x", ".git/config": "no", "node_modules/x/y.js": "no",
	} {
		write(t, filepath.Join(dir, filepath.FromSlash(name)), text)
	}
	write(t, filepath.Join(root, "secret"), "s")
	link(t, "../../secret", filepath.Join(dir, "references", "out.md"))
	link(t, "a.md", filepath.Join(dir, "references", "in.md"))
	s, err := skills.Load(dir, format.Policy{})
	if err != nil {
		t.Fatal(err)
	}
	return root, dir, s
}

func TestFilesOfASkillAreItsOwn(t *testing.T) {
	_, _, s := rich(t)
	got, truncated, err := s.Files()
	want := []string{"assets/bin", "assets/t.md", "odd <&>.md", "reference/old.md", "references/a.md", "references/deep/b.md",
		"references/in.md", "scripts/run.sh"}
	if d := cmp.Diff(want, got); d != "" || truncated || err != nil {
		t.Errorf("truncated = %t, %v (-want +got):\n%s", truncated, err, d)
	}
	for kind, want := range map[skills.ResourceKind][]string{
		skills.Scripts: {"scripts/run.sh"}, skills.Assets: {"assets/bin", "assets/t.md"},
		skills.References: {"reference/old.md", "references/a.md", "references/deep/b.md", "references/in.md"}, "secrets": {},
	} {
		got, err := s.Resources(kind)
		if d := cmp.Diff(want, got); d != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", kind, err, d)
		}
	}
	if _, _, err := (skills.Skill{Dir: filepath.Join(t.TempDir(), "none")}).Files(); err == nil {
		t.Error("a directory that is not there has files")
	}
}

func TestListingsAreCapped(t *testing.T) {
	files := fstest.MapFS{"SKILL.md": {Data: []byte("---\nname: a\ndescription: d\n---\n")}}
	for i := range 5000 {
		files[fmt.Sprintf("references/%04d.md", i)] = &fstest.MapFile{Data: []byte("x")}
	}
	s, err := skills.Inline(files, format.Policy{})
	if err != nil {
		t.Fatal(err)
	}
	list, truncated, err := s.Files()
	if len(list) != 200 || !truncated || err != nil {
		t.Errorf("%d files, truncated = %t, %v; want 200", len(list), truncated, err)
	}
	if text := (skills.Activation{Skill: s}).Context(); !strings.Contains(text, `<skill_files truncated="true">`) {
		t.Errorf("the model is not told that the list is not whole: %.300s", text)
	}
	long := fstest.MapFS{"SKILL.md": files["SKILL.md"]}
	for i := range 100 {
		long[fmt.Sprintf("%03d%s", i, strings.Repeat("x", 200))] = &fstest.MapFile{Data: []byte("x")}
	}
	if s, err = skills.Inline(long, format.Policy{}); err != nil {
		t.Fatal(err)
	}
	if list, truncated, err = s.Files(); len(list) != (16<<10)/203 || !truncated || err != nil {
		t.Errorf("%d long names, truncated = %t, %v; want as many as fit 16 KiB", len(list), truncated, err)
	}
}

func TestTextThatIsLoadedSaysWhereItIs(t *testing.T) {
	root, dir, _ := rich(t)
	write(t, filepath.Join(dir, "SKILL.md"), "---\nname: rich\ndescription: d\ncompatibility: Needs git\nallowed-tools: Read Bash\n---\n\nDo </skill_context> it.\n")
	r, _ := registry(t, user(root))
	a := activate(t, r, "ann", "rich")
	want := `<skill_context name="rich" path="ROOT/rich/SKILL.md">
Do &lt;/skill_context> it.

Compatibility: Needs git

Base directory: file://ROOT/rich/
Relative paths in this skill are resolved from this directory.
<skill_files>
<file>ROOT/rich/assets/bin</file>
<file>ROOT/rich/assets/t.md</file>
<file>ROOT/rich/odd &lt;&amp;&gt;.md</file>
<file>ROOT/rich/reference/old.md</file>
<file>ROOT/rich/references/a.md</file>
<file>ROOT/rich/references/deep/b.md</file>
<file>ROOT/rich/references/in.md</file>
<file>ROOT/rich/scripts/run.sh</file>
</skill_files>

## Not granted
- Bash: a skill may not grant a whole shell or every tool; name the commands, as in Bash(git status:*), or have the user set skills.wide_grants
</skill_context>`
	if d := cmp.Diff(want, strings.ReplaceAll(a.Context(), root, "ROOT")); d != "" {
		t.Errorf("context (-want +got):\n%s", d)
	}
	m := a.Metadata()
	if want := (skills.Metadata{SkillID: a.Skill.ID, Name: "rich", Path: filepath.Join(dir, "SKILL.md"), Dir: dir,
		MtimeMs: a.Skill.ModTime.UnixMilli()}); m != want || m.MtimeMs == 0 {
		t.Errorf("metadata: got %+v, want %+v", m, want)
	}
	again := activate(t, r, "ann", "rich")
	if got, want := again.Context(), fmt.Sprintf("The skill rich is active, and its instructions have not changed since you got them, above (%s, sha256 %.12s). Follow those; call this again with force to have them repeated.\n", m.Path, a.Hash); got != want {
		t.Errorf("reminder: got %q, want %q", got, want)
	}
}

func TestSkillsInFullAreAPartOfASystemPrompt(t *testing.T) {
	root, _, _ := rich(t)
	r, _ := registry(t, user(root))
	a := activate(t, r, "ann", "rich")
	want := `# Available Skills

You have access to the following domain expertise:

## rich (A test skill)

# Do it

Relative paths in this skill are resolved from ROOT/rich

**Available assets:** bin, t.md

`
	if d := cmp.Diff(want, strings.ReplaceAll(skills.PreloadPrompt([]skills.Activation{a}), root, "ROOT")); d != "" {
		t.Errorf("prompt (-want +got):\n%s", d)
	}
	if got := skills.PreloadPrompt(nil); got != "" {
		t.Errorf("without skills: %q", got)
	}
}

func TestThreeTiers(t *testing.T) {
	root, _, _ := rich(t)
	skill(t, filepath.Join(root, "off"))
	cfg := user(root)
	cfg.Choices.Disabled = []string{"off"}
	cfg.Bundled = fstest.MapFS{"b/SKILL.md": {Data: []byte("---\nname: b\ndescription: d\n---\nbundled\n")}, "b/assets/x": {Data: []byte("X")}}
	c := scan(t, cfg)
	if got := c.Tier1(); !strings.Contains(got, "<name>rich</name>") || strings.Contains(got, "<name>off</name>") {
		t.Errorf("tier 1: %s", got)
	}
	for name, want := range map[string]string{"rich": "# Do it\n", "b": "bundled\n", "off": "", "none": "", "../rich": ""} {
		if got, ok := c.Tier2(name); got != want || ok != (want != "") {
			t.Errorf("tier 2 of %s: %q, %t", name, got, ok)
		}
	}
	if d := cmp.Diff([]string{"assets/x"}, c.Tier3List("b", skills.Assets)); d != "" || c.Tier3List("off", skills.Assets) != nil ||
		c.Tier3List("none", skills.Scripts) != nil {
		t.Errorf("tier 3 lists: %s", d)
	}
	for _, test := range [][3]string{
		{"rich", "references/a.md", "A"}, {"rich", "references/in.md", "A"}, {"b", "assets/x", "X"}, {"rich", "references/out.md", ""}, {"rich", "../secret", ""}, {"rich", "references/../SKILL.md", ""},
		{"rich", root + "/secret", ""}, {"rich", "", ""}, {"rich", "references", ""}, {"rich", "assets/bin", ""}, {"off", "SKILL.md", ""}, {"none", "a", ""},
	} {
		if got, ok := c.Tier3(test[0], test[1]); got != test[2] || ok != (test[2] != "") {
			t.Errorf("tier 3, %s of %s: %q, %t; want %q", test[1], test[0], got, ok, test[2])
		}
	}
}
