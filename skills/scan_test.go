package skills_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"symbio/skills"
	"symbio/skills/format"
)

func TestScanFindsSkillsAndReportsTheRest(t *testing.T) {
	root := real(t)
	skill(t, filepath.Join(root, "a"))
	skill(t, filepath.Join(root, "group", "b"))
	skill(t, filepath.Join(root, "a", "nested"))
	skill(t, filepath.Join(root, "a", "references", "template"))
	skill(t, filepath.Join(root, "node_modules", "x"))
	skill(t, filepath.Join(root, ".git", "y"))
	skill(t, filepath.Join(root, ".curated", "z"))
	skill(t, filepath.Join(root, "references", "kept"))
	write(t, filepath.Join(root, "bad", "SKILL.md"), "# none")
	link(t, "nowhere", filepath.Join(root, "broken"))
	c := scan(t, user(root))
	if d := cmp.Diff([]string{"a", "b", "kept", "nested", "z"}, names(c)); d != "" {
		t.Errorf("skills (-want +got):\n%s", d)
	}
	if d := cmp.Diff(map[string][]string{"bad/SKILL.md": {"no-frontmatter"}}, problems(root, c.Errors)); d != "" {
		t.Errorf("errors (-want +got):\n%s", d)
	}
	if d := cmp.Diff(map[string][]string{"broken": {"broken-link"}}, problems(root, c.Notes)); d != "" {
		t.Errorf("notes (-want +got):\n%s", d)
	}
}

func TestScanFollowsLinksOnce(t *testing.T) {
	base := real(t)
	elsewhere := skill(t, filepath.Join(base, "elsewhere", "found"))
	root := filepath.Join(base, "root")
	skill(t, filepath.Join(root, "a"))
	link(t, "..", filepath.Join(root, "a", "loop"))
	link(t, filepath.Join(root, "a"), filepath.Join(root, "0-other-name"))
	link(t, elsewhere, filepath.Join(root, "found"))
	link(t, elsewhere, filepath.Join(root, "again"))
	wrong := skill(t, filepath.Join(base, "elsewhere", "right"))
	link(t, wrong, filepath.Join(root, "wrong"))
	link(t, filepath.Join(base, "elsewhere"), filepath.Join(base, "pointer", "group"))
	linked := filepath.Join(base, "linked")
	link(t, root, linked)

	c := scan(t, user(linked))
	if d := cmp.Diff([]string{"a", "found"}, names(c)); d != "" {
		t.Errorf("skills (-want +got):\n%s", d)
	}
	if d := cmp.Diff(map[string][]string{"wrong/SKILL.md": {"name-dir-mismatch", "level"}}, problems(linked, c.Errors)); d != "" {
		t.Errorf("errors (-want +got):\n%s", d)
	}
	if got := scan(t, user(linked, root, filepath.Join(base, "pointer"))); len(got.Skills) != 3 || len(got.Errors) != 0 {
		t.Errorf("several roots that lead to the same files: got %v, errors %v", names(got), got.Errors)
	}
	both := scan(t, skills.Config{Roots: []skills.Root{{Path: root, Scope: skills.ScopeUser}, {Path: root}}})
	if len(both.Skills) != 2 || both.Skills[0].Scope != skills.ScopeProject {
		t.Errorf("home is the repository: got %v of scope %q, want each once, of the project", names(both), both.Skills[0].Scope)
	}
}

// TestLinksOutOfARoot: in a project none is followed; in the user's own roots those that lead to no directory above.
func TestLinksOutOfARoot(t *testing.T) {
	base := real(t)
	project := filepath.Join(base, "home", "repo")
	root := filepath.Join(project, ".agents", "skills")
	skill(t, filepath.Join(root, "own"))
	skill(t, filepath.Join(base, "home", "planted")) // whoever walks up finds it
	other := skill(t, filepath.Join(base, "elsewhere", "other"))
	for name, to := range map[string]string{"slash": "/", "up": "../../..", "home": filepath.Join(base, "home"), "other": other,
		"same": "own", "inner": "."} {
		link(t, to, filepath.Join(root, name))
	}
	refused := func(names ...string) map[string][]string {
		all := map[string][]string{}
		for _, n := range names {
			all[n] = []string{"link-not-followed"}
		}
		return all
	}
	for _, row := range []struct {
		scope  skills.Scope
		want   []string
		reason map[string][]string
	}{
		{skills.ScopeProject, []string{"own"}, refused("slash", "up", "home", "other")},
		{"", []string{"own"}, refused("slash", "up", "home", "other")},
		{skills.ScopeUser, []string{"other", "own"}, refused("slash", "up", "home")},
		{skills.ScopeConfig, []string{"other", "own"}, refused("slash", "up", "home")},
	} {
		c := scan(t, skills.Config{Roots: []skills.Root{{Path: root, Scope: row.scope}}})
		if d := cmp.Diff(row.want, names(c)); d != "" || len(c.Errors) > 0 || c.Truncated {
			t.Errorf("%q: errors %v, truncated %t, skills (-want +got):\n%s", row.scope, c.Errors, c.Truncated, d)
		}
		if d := cmp.Diff(row.reason, problems(root, c.Notes)); d != "" {
			t.Errorf("%q: notes (-want +got):\n%s", row.scope, d)
		}
	}
	for about, to := range map[string]string{"to /": "/", "to the project": "..", "out of it": "../../../elsewhere"} {
		project := filepath.Join(base, "home", "linked "+strings.ReplaceAll(about, "/", "root"))
		root := filepath.Join(project, ".agents", "skills")
		skill(t, filepath.Join(project, "planted"))
		link(t, to, root)
		if c := scan(t, skills.Config{Roots: []skills.Root{{Path: root}}}); len(c.Skills) != 0 || len(c.Notes) != 1 {
			t.Errorf("a root that is a link %s: got %v, notes %v", about, names(c), c.Notes)
		}
	}
}

// TestTooDeepDirectoryIsNamed names the directories that a scan leaves out.
func TestTooDeepDirectoryIsNamed(t *testing.T) {
	root := real(t)
	skill(t, filepath.Join(root, "1/2/3/4/5/6/seventh"))
	c := scan(t, user(root))
	if len(c.Notes) != 1 || !strings.Contains(c.Notes[0].Message(), filepath.Join(root, "1/2/3/4/5/6/seventh")) ||
		!strings.Contains(c.Notes[0].Message(), "skills.max_depth") {
		t.Errorf("got %v", c.Notes)
	}
}

func TestScanHasLimits(t *testing.T) {
	root := real(t)
	deep := root
	for i := range 10 {
		deep = filepath.Join(deep, fmt.Sprintf("level-%d", i+1))
		skill(t, deep)
	}
	c := scan(t, user(root))
	if len(c.Skills) != 6 || !c.Truncated {
		t.Errorf("depth: got %v, truncated %t; want six levels", names(c), c.Truncated)
	}
	if d := cmp.Diff(map[string][]string{".": {"scan-limit"}}, problems(root, c.Notes)); d != "" {
		t.Errorf("notes (-want +got):\n%s", d)
	}
	wide := real(t)
	for i := range 30 {
		skill(t, filepath.Join(wide, fmt.Sprintf("s-%02d", i)))
	}
	for i := range 12 {
		write(t, filepath.Join(wide, fmt.Sprintf("x-%02d", i), "README.md"), "no skill")
	}
	for about, row := range map[string]struct {
		cfg  skills.Config
		want int
	}{
		"enough":      {skills.Config{MaxDirs: 13, MaxEntries: 54, MaxSkills: 31}, 30}, // the root is a directory too
		"directories": {skills.Config{MaxDirs: 12}, 30},
		"entries":     {skills.Config{MaxEntries: 10}, -1}, // whichever come first

		"skills": {skills.Config{MaxSkills: 7}, 7},
	} {
		row.cfg.Roots = user(wide).Roots
		c := scan(t, row.cfg)
		if limited := about != "enough"; row.want >= 0 && len(c.Skills) != row.want || len(c.Skills) > 30 || c.Truncated != limited ||
			len(c.Notes) > 1 || limited != (len(c.Notes) == 1) {
			t.Errorf("%s: got %d skills, truncated %t, notes %v; want %d", about, len(c.Skills), c.Truncated, c.Notes, row.want)
		}
	}
}

func TestScanReadsNoFurtherThanTheFrontMatter(t *testing.T) {
	root := real(t)
	dir := skill(t, filepath.Join(root, "a"))
	f, err := os.OpenFile(filepath.Join(dir, "SKILL.md"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(strings.Repeat("x", 8<<10) + "\xFF"); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if c := scan(t, user(root)); len(c.Skills) != 1 {
		t.Errorf("a fault in the text was seen by a scan: %v", c.Errors)
	}
	if _, _, _, err := skills.LoadFull(dir, format.Policy{}); codeOf(t, err) != format.CodeEncoding {
		t.Errorf("whole: got %v, want encoding", err)
	}
}

func TestOneNameTwiceIsKeptAndReported(t *testing.T) {
	base := real(t)
	mine, theirs := filepath.Join(base, "user"), filepath.Join(base, "project")
	skill(t, filepath.Join(mine, "a"))
	skill(t, filepath.Join(mine, "a-b"))
	skill(t, filepath.Join(theirs, "a"))
	c := scan(t, skills.Config{Roots: []skills.Root{{Path: mine, Scope: skills.ScopeUser}, {Path: theirs, Scope: skills.ScopeProject}}})
	if d := cmp.Diff([]string{"a", "a", "a-b"}, names(c)); d != "" {
		t.Errorf("skills (-want +got):\n%s", d)
	}
	if c.Skills[0].Scope != skills.ScopeProject {
		t.Errorf("first is of scope %s, want project", c.Skills[0].Scope)
	}
	if d := cmp.Diff(map[string][]string{"user/a/SKILL.md": {"duplicate-name"}}, problems(base, c.Notes)); d != "" {
		t.Errorf("notes (-want +got):\n%s", d)
	}
	_, err := c.Find("a")
	if !errors.Is(err, skills.ErrAmbiguous) || !strings.Contains(err.Error(), filepath.Join(mine, "a", "SKILL.md")) ||
		!strings.Contains(err.Error(), filepath.Join(theirs, "a", "SKILL.md")) {
		t.Errorf("got %v, want both paths", err)
	}
	for _, path := range []string{filepath.Join(mine, "a"), filepath.Join(mine, "a", "SKILL.md")} {
		if s, err := c.Find(path); err != nil || s.Scope != skills.ScopeUser {
			t.Errorf("%s: got %v, %v", path, s.Scope, err)
		}
	}
	if _, err := c.Find("A-B"); !errors.Is(err, skills.ErrNotFound) || !strings.Contains(err.Error(), `did you mean "a-b"`) {
		t.Errorf("got %v, want the name in the right case", err)
	}
}

func TestScanEndsWithItsContext(t *testing.T) {
	root := real(t)
	skill(t, filepath.Join(root, "a"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := skills.Scan(ctx, user(root)); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
}

func TestMissingRootIsNotedIfConfigured(t *testing.T) {
	gone := filepath.Join(real(t), "gone")
	if c := scan(t, user(gone)); len(c.Notes)+len(c.Errors) != 0 {
		t.Errorf("standard root: got %v %v", c.Notes, c.Errors)
	}
	c := scan(t, skills.Config{Roots: []skills.Root{{Path: gone, Scope: skills.ScopeConfig}}})
	if d := cmp.Diff(map[string][]string{".": {"directory-not-found"}}, problems(gone, c.Notes)); d != "" {
		t.Errorf("configured root (-want +got):\n%s", d)
	}
}

func TestRootsOfOtherProgramsAreSearchedWhenAsked(t *testing.T) {
	base := real(t)
	skill(t, filepath.Join(base, "repo/.claude/skills/one"))
	skill(t, filepath.Join(base, "home/.codex/skills/two"))
	skill(t, filepath.Join(base, "home/.github/skills/three"))
	standard := skills.StandardRoots(filepath.Join(base, "home"), filepath.Join(base, "repo"), nil)
	for names, want := range map[string]string{"": "", "claude": "project:one", "claude codex": "project:one user:two",
		"github none": "user:three"} {
		catalog, err := skills.Scan(t.Context(), skills.Config{Roots: skills.WithCompat(standard, strings.Fields(names))})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, s := range catalog.Skills {
			got = append(got, string(s.Scope)+":"+s.Name)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q: got %v, want %q", names, got, want)
		}
	}
}

func TestStandardRoots(t *testing.T) {
	base := real(t)
	home, repo := filepath.Join(base, "home"), filepath.Join(base, "home", "src", "repo")
	cwd := filepath.Join(repo, "a", "b")
	for _, d := range []string{cwd, filepath.Join(repo, ".git")} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	env := map[string]string{}
	get := func(k string) string { return env[k] }
	roots := func(home, dir string, getenv func(string) string) []string {
		var out []string
		for _, r := range skills.StandardRoots(home, dir, getenv) {
			rel, err := filepath.Rel(base, r.Path)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, string(r.Scope)+" "+filepath.ToSlash(rel))
		}
		return out
	}
	want := []string{
		"project home/src/repo/a/b/.agents/skills", "project home/src/repo/a/b/.agent/skills",
		"project home/src/repo/a/.agents/skills", "project home/src/repo/a/.agent/skills",
		"project home/src/repo/.agents/skills", "project home/src/repo/.agent/skills",
		"user home/.agents/skills", "user home/.agent/skills",
	}
	if d := cmp.Diff(want, roots(home, cwd, nil)); d != "" {
		t.Errorf("in a repository (-want +got):\n%s", d)
	}
	env["AGENT_SKILLS_PATH"] = filepath.Join(base, "x") + string(filepath.ListSeparator) + string(filepath.ListSeparator) +
		filepath.Join(base, "y")
	env["SYMBIO_AGENTS_ROOT"] = filepath.Join(repo, "a")
	want = append(append(want[:4:4], want[6:]...), "config x", "config y")
	if d := cmp.Diff(want, roots(home, cwd, get)); d != "" {
		t.Errorf("with variables (-want +got):\n%s", d)
	}
	env = map[string]string{"SYMBIO_AGENTS_ROOT": repo}
	if d := cmp.Diff([]string{"project elsewhere/.agents/skills", "project elsewhere/.agent/skills"},
		roots("", filepath.Join(base, "elsewhere"), get)); d != "" {
		t.Errorf("in no repository (-want +got):\n%s", d)
	}
	if got := roots("", "", nil); got != nil {
		t.Errorf("nowhere: got %v", got)
	}
}

func TestLeftOutSkillNamesTheLineThatTakesIt(t *testing.T) {
	const fine = "name: one\ndescription: d\n"
	for why, c := range map[string]struct {
		front string
		takes bool // by level lenient
	}{
		"description has 1068 characters": {"name: one\ndescription: " + strings.Repeat("x", 1068) + "\n", true},
		"must be lower case":              {"name: One\ndescription: d\n", true},
		"may not begin or end":            {"name: -one\ndescription: d\n", true},
		"name is missing":                 {"description: d\n", true},
		"compatibility":                   {fine + "compatibility: " + strings.Repeat("x", 501) + "\n", true},
		"allowed-tools must be text":      {fine + "allowed-tools: {a: b}\n", true},
		"metadata":                        {fine + "metadata: text\n", true},
		"description is missing":          {"name: one\n", false},
		"never accepted":                  {"name: ../one\ndescription: d\n", false},
		"twice":                           {fine + "name: one\n", false},
	} {
		root := real(t)
		dir := filepath.Join(root, "one")
		write(t, filepath.Join(dir, "SKILL.md"), "---\n"+c.front+"---\n")
		cfg := user(root)
		all := scan(t, cfg)
		left := all.LeftOut()
		if len(left) != 1 || !strings.Contains(left[0].Message(), why) || strings.Contains(left[0].Message(), dir+`": lenient`) != c.takes {
			t.Errorf("%s: %v", why, left)
		}
		if _, err := all.Find("one"); !errors.Is(err, skills.ErrNotFound) || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: the name: %v", why, err)
		}
		cfg.Policy.Levels = map[string]format.Level{root: format.Strict, dir: format.Lenient, dir + "2": format.Strict}
		if all = scan(t, cfg); len(all.Skills) == 1 != c.takes {
			t.Errorf("%s: with the level: %v", why, all.Errors)
		}
	}
}

func TestProblemSaysTheReasonAlone(t *testing.T) {
	root := real(t)
	dir := skill(t, filepath.Join(root, "mine"), "origin: elsewhere")
	if err := os.Rename(dir, filepath.Join(root, "other")); err != nil {
		t.Fatal(err)
	}
	c := scan(t, user(root))
	if len(c.Errors) != 1 || len(c.Errors[0].Diagnostics) != 3 {
		t.Fatalf("left out are %v, want one with two errors and a warning", c.Errors)
	}
	if got, want := c.Errors[0].Message(), `name "mine" differs from the directory's name "other"; to have it all the same, write skills: {levels: {"`+filepath.Join(root, "other")+`": lenient}} in symbio.yaml`; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if c.Err() == nil || scan(t, user(t.TempDir())).Err() != nil {
		t.Error("Err is not about the skills that were left out")
	}
}
