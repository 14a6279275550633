package skills_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"symbio/internal/skills/bundled"
	"symbio/skills"
	"symbio/skills/format"
)

func TestValidateReportsOnEverySkillFile(t *testing.T) {
	root := real(t)
	skill(t, filepath.Join(root, "good"))
	skill(t, filepath.Join(root, ".hidden", "node_modules", "x"))
	skill(t, filepath.Join(root, "good", "references", "template"))
	skill(t, filepath.Join(root, "1", "2", "3", "4", "5", "6", "7", "8", "deep"))
	skill(t, filepath.Join(root, "wrong", "Name"))
	write(t, filepath.Join(root, "broken", "SKILL.md"), "x")
	pipe(t, filepath.Join(root, "pipe", "SKILL.md"))
	outside := skill(t, filepath.Join(real(t), "linked"))
	link(t, outside, filepath.Join(root, "linked"))
	link(t, outside, filepath.Join(root, "linked-again"))
	link(t, "good", filepath.Join(root, "latest"))
	link(t, "/", filepath.Join(root, "everything"))

	got := map[string]bool{}
	for _, r := range skills.Validate(root, format.Standard) {
		rel, err := filepath.Rel(root, r.Path)
		if err != nil {
			t.Fatal(err)
		}
		if r.OK == (len(r.Diagnostics) > 0) {
			t.Errorf("%s: ok %t with %v", rel, r.OK, r.Diagnostics)
		}
		got[filepath.ToSlash(rel)] = r.OK
	}
	want := map[string]bool{
		"good/SKILL.md": true, ".hidden/node_modules/x/SKILL.md": true, "good/references/template/SKILL.md": true,
		"1/2/3/4/5/6/7/8/deep/SKILL.md": true, "wrong/Name/SKILL.md": false, "broken/SKILL.md": false, "pipe/SKILL.md": false,
		"linked/SKILL.md": true,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("reports (-want +got):\n%s", d)
	}
}

func TestValidateTakesOneSkill(t *testing.T) {
	dir := skill(t, filepath.Join(real(t), "one"), "version: 1.0.0")
	for level, want := range map[format.Level]bool{format.Strict: false, format.Standard: true, format.Lenient: true} {
		if got := skills.Validate(dir, level); len(got) != 1 || got[0].OK != want || got[0].Name != "one" {
			t.Errorf("%s: got %+v, want one report, ok %t", level, got, want)
		}
	}
}

func TestValidateIsNeverSilent(t *testing.T) {
	dir := real(t)
	for about, path := range map[string]string{"an empty directory": dir, "no directory": filepath.Join(dir, "gone"),
		"a file": filepath.Join(dir, "file")} {
		if about == "a file" {
			write(t, path, "x")
		}
		if got := skills.Validate(path, format.Lenient); len(got) != 1 || got[0].OK || len(got[0].Diagnostics) == 0 {
			t.Errorf("%s: got %+v, want a report that says why", about, got)
		}
	}
}

func TestReportAsJSON(t *testing.T) {
	dir := filepath.Join(real(t), "one")
	write(t, filepath.Join(dir, "SKILL.md"), "---\nname: one\ndescription: a: b\n---\n")
	got, err := json.Marshal(skills.Validate(dir, format.Standard)[0])
	if err != nil {
		t.Fatal(err)
	}
	path, err := json.Marshal(filepath.Join(dir, "SKILL.md"))
	if err != nil {
		t.Fatal(err)
	}
	want := `{"path":` + string(path) + `,"name":"one","ok":true,"diagnostics":[{"code":"yaml-repaired","severity":"warning","field":"description","line":3,` +
		`"message":"description is not YAML (mapping values are not allowed in this context); its text was taken as it stands: quote it"}]}`
	if d := cmp.Diff(want, string(got)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	dir = skill(t, filepath.Join(real(t), "two"))
	if got, err := json.Marshal(skills.Validate(dir, format.Standard)[0].Diagnostics); err != nil || string(got) != "[]" {
		t.Errorf("no diagnostics: got %s, %v; want an empty list", got, err)
	}
}

func TestBundledSkillsAreValidAndGrantReadingAlone(t *testing.T) {
	c := scan(t, skills.Config{Bundled: bundled.FS(), Policy: format.Policy{Level: format.Strict}})
	if len(c.Errors)+len(c.Notes) != 0 || len(c.Skills) == 0 {
		t.Fatalf("got %d skills, errors %v, notes %v", len(c.Skills), c.Errors, c.Notes)
	}
	for _, s := range c.Skills {
		if len(s.Diagnostics) != 0 {
			t.Errorf("%s: %v", s.Name, s.Diagnostics)
		}
	}
	s, err := c.Find("survey-directory")
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"Read", "Glob", "Grep"}, s.AllowedTools); d != "" {
		t.Errorf("allowed tools (-want +got):\n%s", d)
	}
}

func TestValidateReportsDirectoriesItCannotRead(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root reads every directory")
	}
	root := real(t)
	closed := filepath.Dir(skill(t, filepath.Join(root, "closed", "a")))
	if err := os.Chmod(closed, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Chmod(closed, 0o700) })
	if got := skills.Validate(root, format.Standard); len(got) != 1 || got[0].OK {
		t.Errorf("got %+v", got)
	}
}
