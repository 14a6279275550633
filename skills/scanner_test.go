package skills_test

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"symbio/skills"
)

// old makes everything below dir an hour old: what changed a moment ago may change again unseen.
func old(t *testing.T, dir string) {
	t.Helper()
	before := time.Now().Add(-time.Hour)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Type()&fs.ModeSymlink != 0 {
			return err
		}
		return os.Chtimes(path, before, before)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// catalog is a scan in one line: skills, a ~ for stale ones; errors; notes.
func summary(base string, c skills.Catalog) string {
	var parts []string
	for _, s := range c.Skills {
		name := s.Name
		if s.Stale {
			name = "~" + name
		}
		for _, d := range s.Diagnostics {
			name += "[" + string(d.Code) + "]"
		}
		parts = append(parts, name)
	}
	for _, p := range c.Errors {
		parts = append(parts, "!"+at(base, p))
	}
	for _, p := range c.Notes {
		parts = append(parts, "?"+at(base, p))
	}
	return strings.Join(parts, " ")
}

func at(base string, p skills.Problem) string {
	rel, err := filepath.Rel(base, p.Path)
	if err != nil {
		rel = p.Path
	}
	codes := ""
	for _, d := range p.Diagnostics {
		codes += fmt.Sprintf(":%s", d.Code)
		if d.Line > 0 {
			codes += fmt.Sprintf("@%d", d.Line)
		}
	}
	return filepath.ToSlash(rel) + codes
}

func TestOnlyWhatChangedIsReadAgain(t *testing.T) {
	root := real(t)
	for i := range 5 {
		skill(t, filepath.Join(root, fmt.Sprintf("s-%d", i)))
	}
	write(t, filepath.Join(root, "bad", "SKILL.md"), "# none")
	old(t, root)
	s := skills.NewScanner(user(root))
	first, err := s.Scan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	again, err := s.Scan(t.Context())
	if d := cmp.Diff(summary(root, first), summary(root, again)); d != "" || err != nil {
		t.Errorf("unchanged (-first +second): %v\n%s", err, d)
	}
	if reads, _ := s.Work(); reads != 0 {
		t.Errorf("unchanged: %d files were read again", reads)
	}
	_, before := s.Work()
	if got, err := s.Refresh(t.Context()); err != nil || summary(root, got) != summary(root, first) {
		t.Errorf("refresh: got %s, %v", summary(root, got), err)
	}
	if _, now := s.Work(); now != before {
		t.Error("a refresh walked although nothing had changed")
	}
	write(t, filepath.Join(root, "s-3", "SKILL.md"), "---\nname: s-3\ndescription: Another\n---\n")
	got, err := s.Refresh(t.Context())
	if reads, _ := s.Work(); reads != 1 || err != nil {
		t.Errorf("one edit: %d files were read, %v", reads, err)
	}
	if f, err := got.Find("s-3"); err != nil || f.Description != "Another" {
		t.Errorf("one edit: got %q, %v", f.Description, err)
	}
}

// TestRefreshSeesEveryChange makes one change at a time, and compares with a scan that knows nothing.
func TestRefreshSeesEveryChange(t *testing.T) {
	base := real(t)
	root := filepath.Join(base, "root")
	a := skill(t, filepath.Join(root, "a"))
	skill(t, filepath.Join(root, "group", "b"))
	link(t, "../later", filepath.Join(root, "later"))
	outside := skill(t, filepath.Join(base, "elsewhere", "c"))
	link(t, outside, filepath.Join(root, "c"))
	cfg := user(root, filepath.Join(base, "second"))
	s := skills.NewScanner(cfg)
	for _, step := range []struct {
		about string
		do    func()
	}{
		{"nothing yet", func() {}},
		{"an edit in place", func() {
			write(t, filepath.Join(a, "SKILL.md"), "---\nname: a\ndescription: Other text\n---\n")
		}},
		{"an edit of the same size", func() {
			write(t, filepath.Join(a, "SKILL.md"), "---\nname: a\ndescription: Other test\n---\n")
		}},
		{"an edit by renaming", func() {
			write(t, filepath.Join(a, "new"), "---\nname: a\ndescription: Renamed\n---\n")
			rename(t, filepath.Join(a, "new"), filepath.Join(a, "SKILL.md"))
		}},
		{"a new skill", func() { skill(t, filepath.Join(root, "d")) }},
		{"a new one in a group", func() { skill(t, filepath.Join(root, "group", "e")) }},
		{"one inside another", func() { skill(t, filepath.Join(a, "nested")) }},
		{"resources", func() { write(t, filepath.Join(a, "scripts", "x"), "") }},
		{"a link's target appears", func() { skill(t, filepath.Join(base, "later")) }},
		{"an edit behind a link", func() { skill(t, outside, "license: MIT") }},
		{"the link leads elsewhere", func() {
			remove(t, filepath.Join(root, "c"))
			link(t, skill(t, filepath.Join(base, "other", "c"), "license: BSD"), filepath.Join(root, "c"))
		}},
		{"what a link leads to moves", func() {
			rename(t, filepath.Join(base, "other"), filepath.Join(base, "third"))
			remove(t, filepath.Join(root, "c"))
			link(t, filepath.Join(base, "third", "c"), filepath.Join(root, "c"))
		}},
		{"a root appears", func() { skill(t, filepath.Join(base, "second", "f")) }},
		{"a skill goes", func() { remove(t, filepath.Join(root, "d")) }},
		{"a group goes", func() { remove(t, filepath.Join(root, "group")) }},
		{"a root goes", func() { remove(t, root) }},
	} {
		old(t, base)
		if _, err := s.Scan(t.Context()); err != nil {
			t.Fatal(err)
		}
		step.do()
		got, err := s.Refresh(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		want := scan(t, cfg)
		ignore := cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".files" }, cmp.Ignore())
		if d := cmp.Diff(want, got, ignore); d != "" {
			t.Errorf("%s (-scan +refresh):\n%s", step.about, d)
		}
	}
}

func rename(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
}

func TestBrokenEditLeavesTheLastGoodVersion(t *testing.T) {
	root := real(t)
	file := filepath.Join(skill(t, filepath.Join(root, "a")), "SKILL.md")
	s := skills.NewScanner(user(root))
	for _, step := range []struct {
		about string
		do    func()
		want  string
	}{
		{"new", func() {}, "a"},
		{"not YAML", func() { write(t, file, "---\nname: [\n---\n") }, "~a !a/SKILL.md:yaml@2"},
		{"broken otherwise", func() { write(t, file, "half a fi") }, "~a !a/SKILL.md:no-frontmatter@1"},
		{"of another name", func() { write(t, file, "---\nname: b\ndescription: d\n---\n") }, "~a !a/SKILL.md:name-dir-mismatch@2:level"},
		{"mended", func() { skill(t, filepath.Dir(file)) }, "a"},
		{"broken again", func() { write(t, file, "") }, "~a !a/SKILL.md:no-frontmatter@1"},
		{"gone", func() { remove(t, file) }, ""},
		{"back, and broken", func() { write(t, file, "") }, "!a/SKILL.md:no-frontmatter@1"},
		{"mended once more", func() { skill(t, filepath.Dir(file)) }, "a"},
		{"something else than a file", func() {
			remove(t, file)
			if err := os.Mkdir(file, 0o700); err != nil {
				t.Fatal(err)
			}
		}, "!a/SKILL.md:not-regular"},
	} {
		step.do()
		for about, scan := range map[string]func(context.Context) (skills.Catalog, error){"scan": s.Scan, "refresh": s.Refresh} {
			c, err := scan(t.Context())
			if got := summary(root, c); got != step.want || err != nil {
				t.Errorf("%s, %s: got %q, %v; want %q", step.about, about, got, err, step.want)
			}
		}
	}
}

func TestPlaceTakenByASocketIsNoSkill(t *testing.T) {
	root := real(t)
	dir := filepath.Join(root, "a")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Skip("no sockets in the file system here: ", err)
	}
	defer syscall.Close(fd)
	if err := syscall.Bind(fd, &syscall.SockaddrUnix{Name: filepath.Join(dir, "SKILL.md")}); err != nil {
		t.Skip("no sockets in the file system here: ", err)
	}
	if got := summary(root, scan(t, user(root))); got != "!a/SKILL.md:not-regular" {
		t.Errorf("got %q", got)
	}
}
