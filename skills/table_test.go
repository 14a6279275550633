package skills_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"symbio/skills"
	"symbio/skills/format"
)

// fileRow is a case: a tree on the disk, and what a scan of its directory
// root says at each level. Rows about resources are in TestResourcesStayInTheSkill.
type fileRow struct {
	id   string
	make func(t *testing.T, base string)
	// The skills, those with warnings with the codes; !path:code@line of errors, ?path:code of notes.
	strict, normal, lenient string
}

func same(id string, make func(t *testing.T, base string), want string) fileRow {
	return fileRow{id, make, want, want, want}
}

func in(base string, parts ...string) string {
	return filepath.Join(append([]string{base, "root"}, parts...)...)
}

var fileRows = []fileRow{
	same("F01 a directory", func(t *testing.T, base string) {
		skill(t, in(base, "my-skill", "SKILL.md", "inner"))
		skill(t, in(base, "other"))
	}, "inner other !root/my-skill/SKILL.md:not-regular"),
	same("F02 a named pipe", func(t *testing.T, base string) {
		pipe(t, in(base, "my-skill", "SKILL.md"))
		skill(t, in(base, "other"))
	}, "other !root/my-skill/SKILL.md:not-regular"),
	same("F02 a link to a named pipe", func(t *testing.T, base string) {
		pipe(t, in(base, "my-skill", "pipe"))
		link(t, "pipe", in(base, "my-skill", "SKILL.md"))
	}, "!root/my-skill/SKILL.md:not-regular"),
	same("F03 a link to a device", func(t *testing.T, base string) { link(t, "/dev/zero", in(base, "my-skill", "SKILL.md")) },
		"!root/my-skill/SKILL.md:escape"),
	same("F04 a link out", func(t *testing.T, base string) {
		skill(t, filepath.Join(base, "my-skill"))
		link(t, "../../my-skill/SKILL.md", in(base, "my-skill", "SKILL.md"))
	}, "!root/my-skill/SKILL.md:escape"),
	same("F04 a link out by another link", func(t *testing.T, base string) {
		write(t, filepath.Join(base, "elsewhere", "text.md"), "---\nname: my-skill\ndescription: d\n---\n")
		link(t, "../../elsewhere", in(base, "my-skill", "door"))
		link(t, "door/text.md", in(base, "my-skill", "SKILL.md"))
	}, "!root/my-skill/SKILL.md:escape"),
	same("F04 a link to nothing", func(t *testing.T, base string) { link(t, "gone.md", in(base, "my-skill", "SKILL.md")) },
		"!root/my-skill/SKILL.md:file-not-found"),
	same("F04 a link to itself", func(t *testing.T, base string) { link(t, "SKILL.md", in(base, "my-skill", "SKILL.md")) },
		"!root/my-skill/SKILL.md:file-read"),
	same("F04 a link that stays", func(t *testing.T, base string) {
		write(t, in(base, "my-skill", "docs", "text.md"), "---\nname: my-skill\ndescription: d\n---\n")
		link(t, "docs/text.md", in(base, "my-skill", "SKILL.md"))
	}, "my-skill"),
	same("F05 no permission", func(t *testing.T, base string) {
		if os.Geteuid() == 0 {
			t.Skip("root reads every file")
		}
		skill(t, in(base, "other"))
		if err := os.Chmod(filepath.Join(skill(t, in(base, "my-skill")), "SKILL.md"), 0); err != nil {
			t.Fatal(err)
		}
	}, "other !root/my-skill/SKILL.md:file-read"),
	same("F10 a loop", func(t *testing.T, base string) { link(t, "..", filepath.Join(skill(t, in(base, "a")), "loop")) }, "a"),
	same("F11 a root that is a link", func(t *testing.T, base string) {
		skill(t, filepath.Join(base, "elsewhere", "a"))
		link(t, "elsewhere", in(base))
	}, "a"),
	same("F12 a link to a skill elsewhere", func(t *testing.T, base string) {
		link(t, skill(t, filepath.Join(base, "elsewhere", "a")), in(base, "a"))
	}, "a"),
	{"F12 a link of another name", func(t *testing.T, base string) {
		link(t, skill(t, filepath.Join(base, "elsewhere", "a")), in(base, "b"))
	}, "!root/b/SKILL.md:name-dir-mismatch@2:level", "!root/b/SKILL.md:name-dir-mismatch@2:level", "a[name-dir-mismatch]"},
	same("F12 twice the same", func(t *testing.T, base string) {
		link(t, skill(t, in(base, "a")), in(base, "b"))
		link(t, filepath.Join(base, "root"), in(base, "c"))
	}, "a"),
	same("F13 a broken link", func(t *testing.T, base string) {
		skill(t, in(base, "a"))
		link(t, "nowhere", in(base, "broken"))
	}, "a ?root/broken:broken-link"),
	same("F15 ten levels", func(t *testing.T, base string) {
		dir := in(base)
		for i := range 10 {
			dir = filepath.Join(dir, fmt.Sprintf("l-%d", i+1))
			skill(t, dir)
		}
	}, "l-1 l-2 l-3 l-4 l-5 l-6 ?root:scan-limit"),
	same("F16 other people's directories", func(t *testing.T, base string) {
		for _, d := range []string{"node_modules", ".git", "vendor", "dist", "build", ".hidden"} {
			skill(t, in(base, d, "x"))
		}
		skill(t, in(base, "a"))
	}, "a x"), // the hidden one
	same("F16 a skill of such a name", func(t *testing.T, base string) {
		for _, d := range []string{"vendor", "dist", "build"} {
			skill(t, in(base, d))
		}
	}, "build dist vendor"),
	same("F17 a template in a skill", func(t *testing.T, base string) {
		for _, d := range []string{"references", "reference", "scripts", "assets"} {
			skill(t, in(base, "a", d, "t"))
			skill(t, in(base, "group", d, "in-"+d)) // not in a skill
		}
		skill(t, in(base, "a"))
		skill(t, in(base, "a", "more"))
	}, "a in-assets in-reference in-references in-scripts more"),
	same("F18 a name in lower case", func(t *testing.T, base string) {
		rename(t, filepath.Join(skill(t, in(base, "a")), "SKILL.md"), in(base, "a", "skill.md"))
		rename(t, filepath.Join(skill(t, in(base, "b")), "SKILL.md"), in(base, "b", "Skill.md"))
		if _, err := os.Stat(in(base, "a", "SKILL.md")); err == nil {
			t.Skip("this file system does not tell upper from lower case")
		}
	}, "?root/a:file-name-case ?root/b:file-name-case"),
	same("F19 both names", func(t *testing.T, base string) {
		write(t, in(base, "a", "skill.md"), "# not this one")
		skill(t, in(base, "a"))
	}, "a"),
	same("F21 100 MB", func(t *testing.T, base string) {
		if err := os.Truncate(filepath.Join(skill(t, in(base, "a")), "SKILL.md"), 100<<20); err != nil {
			t.Fatal(err)
		}
	}, "!root/a/SKILL.md:file-too-large"),
	same("E79 a byte more than 1 MiB", func(t *testing.T, base string) {
		file := filepath.Join(skill(t, in(base, "a")), "SKILL.md")
		if err := os.Truncate(file, 1<<20+1); err != nil {
			t.Fatal(err)
		}
	}, "!root/a/SKILL.md:file-too-large"),
	same("E37 at discovery", func(t *testing.T, base string) {
		write(t, in(base, "a", "SKILL.md"), "---\nname: a\ndescription: d\n---\n"+strings.Repeat("x", format.HeadSize)+"\xFF")
	}, "a"),
	same("E78 front matter of 64 KiB and a byte", func(t *testing.T, base string) {
		const lines = "name: a\ndescription: d\nlicense: "
		write(t, in(base, "a", "SKILL.md"), "---\n"+lines+strings.Repeat("x", 64<<10-len(lines)-1)+"\n---\n")
		write(t, in(base, "b", "SKILL.md"), "---\n"+lines+strings.Repeat("x", 64<<10-len(lines))+"\n---\n")
	}, "a !root/b/SKILL.md:frontmatter-too-large@1"),
}

func TestFileTableHoldsAtAllLevels(t *testing.T) {
	for _, row := range fileRows {
		t.Run(row.id, func(t *testing.T) {
			base := real(t)
			row.make(t, base)
			for level, want := range map[format.Level]string{format.Strict: row.strict, format.Standard: row.normal,
				format.Lenient: row.lenient} {
				cfg := user(filepath.Join(base, "root"))
				cfg.Policy.Level = level
				if got := summary(base, scan(t, cfg)); got != want {
					t.Errorf("%s:\ngot  %q\nwant %q", level, got, want)
				}
			}
		})
	}
}

func TestHomeThatIsTheRepositoryIsSearchedOnce(t *testing.T) {
	home := real(t)
	skill(t, filepath.Join(home, ".agents", "skills", "a"))
	skill(t, filepath.Join(home, ".agent", "skills", "b"))
	if err := os.Mkdir(filepath.Join(home, ".git"), 0o700); err != nil {
		t.Fatal(err)
	}
	c := scan(t, skills.Config{Roots: skills.StandardRoots(home, home, nil)})
	if got := summary(home, c); got != "a b" {
		t.Fatalf("got %q", got)
	}
	for _, s := range c.Skills {
		if s.Scope != skills.ScopeProject {
			t.Errorf("%s is of scope %s, want the higher one", s.Name, s.Scope)
		}
	}
}

func TestFlatRootIsOneDirectoryOfSkills(t *testing.T) {
	base := real(t)
	skill(t, in(base, "a"))
	skill(t, in(base, "group", "b"))
	skill(t, in(base, "a", "inner"))
	cfg := user(filepath.Join(base, "root"))
	cfg.Roots[0].Flat = true
	if got := summary(base, scan(t, cfg)); got != "a" {
		t.Errorf("got %q, want a alone and no note", got)
	}
}

func TestWhichDirectoriesAreSkills(t *testing.T) {
	base := real(t)
	pipe(t, filepath.Join(base, "pipe", "SKILL.md"))
	write(t, filepath.Join(base, "lower", "skill.md"), "x")
	write(t, filepath.Join(base, "broken", "SKILL.md"), "x")
	for dir, want := range map[string]bool{skill(t, filepath.Join(base, "a")): true, filepath.Join(base, "broken"): true, base: false,
		filepath.Join(base, "pipe"): false, filepath.Join(base, "gone"): false} {
		if got := skills.IsSkillDirectory(dir); got != want {
			t.Errorf("%s: got %t, want %t", dir, got, want)
		}
	}
}
