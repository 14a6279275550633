package skills_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"symbio/skills"
	"symbio/skills/format"
)

func codeOf(t *testing.T, err error) format.Code {
	t.Helper()
	var e *skills.LoadError
	if !errors.As(err, &e) {
		t.Fatalf("got %v, want a LoadError", err)
	}
	for _, d := range e.Diagnostics {
		if d.Severity == format.Error {
			return d.Code
		}
	}
	t.Fatalf("got %v without an error among its diagnostics", err)
	return ""
}

func TestHostileDirectoriesAreRefusedAtAllLevels(t *testing.T) {
	for _, row := range []struct {
		id   string
		make func(t *testing.T, dir string)
		code format.Code
		err  error
	}{
		{"F01 directory", func(t *testing.T, dir string) {
			if err := os.MkdirAll(filepath.Join(dir, "SKILL.md"), 0o700); err != nil {
				t.Fatal(err)
			}
		}, format.CodeNotRegular, skills.ErrUnreadable},
		{"F02 named pipe", func(t *testing.T, dir string) { pipe(t, filepath.Join(dir, "SKILL.md")) }, format.CodeNotRegular, skills.ErrUnreadable},
		{"F03 link to a device", func(t *testing.T, dir string) { link(t, "/dev/zero", filepath.Join(dir, "SKILL.md")) }, format.CodeEscape, skills.ErrUnreadable},
		{"F04 link out", func(t *testing.T, dir string) {
			skill(t, filepath.Join(dir, "..", "other"))
			link(t, "../other/SKILL.md", filepath.Join(dir, "SKILL.md"))
		}, format.CodeEscape, skills.ErrUnreadable},
		{"F05 no permission", func(t *testing.T, dir string) {
			if os.Geteuid() == 0 {
				t.Skip("root reads every file")
			}
			skill(t, dir)
			if err := os.Chmod(filepath.Join(dir, "SKILL.md"), 0); err != nil {
				t.Fatal(err)
			}
		}, format.CodeFileRead, skills.ErrUnreadable},
		{"F21 100 MB", func(t *testing.T, dir string) {
			skill(t, dir)
			if err := os.Truncate(filepath.Join(dir, "SKILL.md"), 100<<20); err != nil {
				t.Fatal(err)
			}
		}, format.CodeFileTooLarge, skills.ErrUnreadable},
		{"no file", func(t *testing.T, dir string) { write(t, filepath.Join(dir, "README.md"), "x") }, format.CodeNoFile, skills.ErrNoFile},
		{"no directory", func(*testing.T, string) {}, format.CodeNoDirectory, skills.ErrNoDirectory},
		{"dangling link", func(t *testing.T, dir string) { link(t, "gone.md", filepath.Join(dir, "SKILL.md")) }, format.CodeNoFile, skills.ErrNoFile},
	} {
		t.Run(row.id, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "my-skill")
			row.make(t, dir)
			for _, level := range []format.Level{format.Strict, format.Standard, format.Lenient} {
				_, err := skills.Load(dir, format.Policy{Level: level})
				if got := codeOf(t, err); got != row.code || !errors.Is(err, row.err) {
					t.Errorf("%s: got %s (%v), want %s (%v)", level, got, err, row.code, row.err)
				}
				if _, _, _, err := skills.LoadFull(dir, format.Policy{Level: level}); !errors.Is(err, row.err) {
					t.Errorf("%s, whole: got %v, want %v", level, err, row.err)
				}
			}
		})
	}
}

func TestFileOfOneMebibyteLoadsAndOneByteMoreDoesNot(t *testing.T) {
	dir := skill(t, filepath.Join(t.TempDir(), "my-skill"))
	file := filepath.Join(dir, "SKILL.md")
	head, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	write(t, file, string(head)+strings.Repeat("x", 1<<20-len(head)))
	if _, text, _, err := skills.LoadFull(dir, format.Policy{}); err != nil || len(text) < 1<<20-len(head) {
		t.Errorf("1 MiB: got %d bytes, %v", len(text), err)
	}
	write(t, file, string(head)+strings.Repeat("x", 1<<20-len(head)+1))
	if _, _, _, err := skills.LoadFull(dir, format.Policy{}); codeOf(t, err) != format.CodeFileTooLarge {
		t.Errorf("1 MiB and a byte: got %v", err)
	}
}

func TestLinkWithinTheSkillIsFollowed(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "my-skill")
	write(t, filepath.Join(dir, "docs", "real.md"), "---\nname: my-skill\ndescription: d\n---\n")
	link(t, "docs/real.md", filepath.Join(dir, "SKILL.md"))
	if _, err := skills.Load(dir, format.Policy{}); err != nil {
		t.Error(err)
	}
}

func TestLowerCaseFileNameIsReadOutsideStrict(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "my-skill")
	write(t, filepath.Join(dir, "skill.md"), "---\nname: my-skill\ndescription: lower\n---\n")
	if _, err := os.Stat(filepath.Join(dir, "SKILL.md")); err == nil {
		t.Skip("this file system does not tell upper from lower case")
	}
	if _, err := skills.Load(dir, format.Policy{Level: format.Strict}); !errors.Is(err, skills.ErrNoFile) {
		t.Errorf("strict: got %v, want ErrNoFile", err)
	}
	for _, level := range []format.Level{format.Standard, format.Lenient} {
		s, err := skills.Load(dir, format.Policy{Level: level})
		if err != nil || len(s.Diagnostics) != 1 || s.Diagnostics[0].Code != format.CodeFileNameCase {
			t.Errorf("%s: got %v, %v; want file-name-case", level, s.Diagnostics, err)
		}
	}
	if c := scan(t, user(filepath.Dir(dir))); len(c.Skills) != 0 {
		t.Errorf("a scan found %v", names(c))
	}
	write(t, filepath.Join(dir, "SKILL.md"), "---\nname: my-skill\ndescription: upper\n---\n")
	if s, err := skills.Load(dir, format.Policy{}); err != nil || s.Description != "upper" {
		t.Errorf("both files: got %q, %v", s.Description, err)
	}
}

func TestResourcesStayInTheSkill(t *testing.T) {
	base := t.TempDir()
	dir := skill(t, filepath.Join(base, "my-skill"))
	write(t, filepath.Join(dir, "references", "a.md"), "good")
	write(t, filepath.Join(dir, "references", "binary"), "a\x00b")
	write(t, filepath.Join(dir, "references", "latin"), "a\xFFb")
	write(t, filepath.Join(dir, "references", "large"), strings.Repeat("x", 1<<20+1))
	write(t, filepath.Join(base, "secret"), "secret")
	skill(t, filepath.Join(base, "a"))
	link(t, "../../secret", filepath.Join(dir, "references", "out"))
	link(t, "a.md", filepath.Join(dir, "references", "in"))
	if err := os.Link(filepath.Join(base, "secret"), filepath.Join(dir, "references", "hard")); err != nil {
		t.Fatal(err)
	}
	s, err := skills.Load(dir, format.Policy{})
	if err != nil {
		t.Fatal(err)
	}
	if !s.HasReferences || s.HasScripts || s.HasAssets {
		t.Errorf("resources: got %t %t %t, want references alone", s.HasScripts, s.HasReferences, s.HasAssets)
	}
	for rel, want := range map[string]string{
		"references/a.md": "good", "./references/a.md": "good", "references/in": "good",
		"references/hard": "secret", // F09: a hard link cannot be told from a file; a known limit
	} {
		if got, err := s.Resource(rel); err != nil || got != want {
			t.Errorf("%q: got %q, %v; want %q", rel, got, err, want)
		}
	}
	for _, rel := range []string{
		"references/out", "../a/SKILL.md", "/etc/passwd", "", ".", "references", "a\x00b", "references/../SKILL.md",
		"references/binary", "references/latin", "references/large", "gone",
	} {
		if got, err := s.Resource(rel); !errors.Is(err, skills.ErrResource) {
			t.Errorf("%q: got %d bytes, %v; want ErrResource", rel, len(got), err)
		}
	}
}

func TestErrorsNameEveryIssue(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "my-skill")
	_, err := skills.Load(dir, format.Policy{})
	if err == nil || !strings.HasPrefix(err.Error(), "Failed to load skill from "+dir+": ") {
		t.Errorf("no directory: got %v", err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := skills.Load(dir, format.Policy{}); err == nil || err.Error() != "No SKILL.md found in "+dir {
		t.Errorf("no file: got %v", err)
	}
	write(t, filepath.Join(dir, "SKILL.md"), "---\nname: My_Skill\n---\n")
	_, err = skills.Load(dir, format.Policy{})
	want := "Failed to load skill from " + dir + ": Invalid skill frontmatter:\n" +
		"  - name: name \"My_Skill\" must be lower case\n" +
		"  - name: name \"My_Skill\" may hold only a-z, 0-9 and hyphens\n" +
		"  - description: description is missing; say what the skill does and when to use it"
	if !errors.Is(err, skills.ErrInvalid) || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	for content, want := range map[string]error{
		"# Title": skills.ErrFormat, "---\nname: [\n---\n": skills.ErrYAML, "---\n- a\n---\n": skills.ErrYAML,
	} {
		write(t, filepath.Join(dir, "SKILL.md"), content)
		if _, err := skills.Load(dir, format.Policy{}); !errors.Is(err, want) {
			t.Errorf("%q: got %v, want %v", content, err, want)
		}
	}
}

func TestBundledSkillIsReadFromTheProgram(t *testing.T) {
	files := fstest.MapFS{
		"a/SKILL.md":        {Data: []byte("---\nname: a\ndescription: d\nallowed-tools: Read\n---\ntext")},
		"a/references/x.md": {Data: []byte("more")},
		"b/SKILL.md":        {Data: []byte("# none")},
		"c/d/SKILL.md":      {Data: []byte("---\nname: d\ndescription: d\n---\n")},
	}
	c := scan(t, skills.Config{Bundled: files})
	if len(c.Skills) != 1 || len(c.Errors) != 1 {
		t.Fatalf("got %v and errors %v, want a and an error for b", names(c), c.Errors)
	}
	s := c.Skills[0]
	if s.Path != "bundled:a/SKILL.md" || s.Scope != skills.ScopeBundled || !s.HasReferences {
		t.Errorf("got %+v", s)
	}
	if got, err := s.Resource("references/x.md"); err != nil || got != "more" {
		t.Errorf("resource: got %q, %v", got, err)
	}
	if _, err := s.Resource("../b/SKILL.md"); !errors.Is(err, skills.ErrResource) {
		t.Errorf("resource of another skill: got %v", err)
	}
}
