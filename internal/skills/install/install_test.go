package install_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"symbio/internal/skills/install"
)

// git runs git in dir, as a user with a configuration of their own.
func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	return gitInput(t, dir, "", args...)
}

func gitInput(t *testing.T, dir, input string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=ann", "-c", "user.email=ann@example.com", "-c",
		"init.defaultBranch=main", "-c", "core.autocrlf=false", "-c", "commit.gpgsign=false", "-c", "tag.gpgsign=false"}, args...)...)
	cmd.Stdin = strings.NewReader(input)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// write writes a file, and the directories above it.
func write(t *testing.T, file, text string) {
	t.Helper()
	mode := os.FileMode(0o644)
	if strings.HasSuffix(file, ".sh") {
		mode = 0o755
	}
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), mode)); err != nil {
		t.Fatal(err)
	}
}

func skillText(name, rules, body string) string {
	return fmt.Sprintf("---\nname: %s\ndescription: Does what %s does.\nallowed-tools: %s\nmetadata:\n  version: \"1.0\"\n---\n%s\n", name, name, rules, body)
}

// team is a bare repository with skills, and a clone in which they are written.
type team struct {
	t          *testing.T
	bare, work string
}

func newTeam(t *testing.T, skills int) *team {
	t.Helper()
	dir := t.TempDir()
	r := &team{t, filepath.Join(dir, "team.git"), filepath.Join(dir, "work")}
	git(t, dir, "init", "-q", "--bare", r.bare)
	git(t, dir, "init", "-q", r.work)
	for i := range skills {
		name := fmt.Sprintf("skill-%02d", i)
		write(t, filepath.Join(r.work, "all", name, "SKILL.md"), skillText(name, "Read", "Do it."))
		write(t, filepath.Join(r.work, "all", name, "scripts", "run.sh"), "#!/bin/sh\necho "+name+"\n")
	}
	r.push("main")
	return r
}

// push commits what lies in the clone and pushes it to a branch or a tag.
func (r *team) push(ref string) string {
	r.t.Helper()
	git(r.t, r.work, "add", "-A")
	git(r.t, r.work, "commit", "-q", "--allow-empty", "-m", "skills")
	git(r.t, r.work, "push", "-q", "-f", r.bare, "HEAD:refs/heads/main")
	if ref != "main" {
		git(r.t, r.work, "tag", "-f", "-a", "-m", ref, ref)
		git(r.t, r.work, "push", "-q", "-f", r.bare, ref)
	}
	return git(r.t, r.work, "rev-parse", "HEAD")
}

// place is a Place with what a test does in it.
type place struct {
	t   *testing.T
	dir string
	*install.Place
	fetcher *install.Fetcher
}

func newPlace(t *testing.T) *place {
	t.Helper()
	p := &place{t: t, dir: t.TempDir(), fetcher: &install.Fetcher{}}
	var err error
	if p.Place, err = install.Open(p.dir); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(p.Close(), p.fetcher.Close()); err != nil {
			t.Error(err)
		}
	})
	return p
}

// again forgets what was fetched, as the next command does.
func (p *place) again() {
	p.t.Helper()
	if err := p.fetcher.Close(); err != nil {
		p.t.Fatal(err)
	}
	p.fetcher = &install.Fetcher{}
}

func (p *place) plan(source string, names ...string) ([]install.Change, error) {
	p.t.Helper()
	p.again()
	s, err := install.ParseSource(source)
	if err != nil {
		return nil, err
	}
	return p.PlanAdd(p.t.Context(), p.fetcher, s, names, len(names) == 0)
}

// add installs skills of a source, all if none is named.
func (p *place) add(source string, names ...string) {
	p.t.Helper()
	changes, err := p.plan(source, names...)
	if err != nil {
		p.t.Fatal(err)
	}
	p.apply(changes...)
}

func (p *place) apply(changes ...install.Change) {
	p.t.Helper()
	for _, c := range changes {
		if err := p.Apply(&c, false); err != nil {
			p.t.Fatal(err)
		}
	}
}

func (p *place) update(name string) (install.Change, error) {
	p.t.Helper()
	p.again()
	l, err := p.Find(name)
	if err != nil {
		p.t.Fatal(err)
	}
	return p.PlanUpdate(p.t.Context(), p.fetcher, l)
}

// check returns the skills that are not as the lock file says.
func (p *place) check() (bad []string) {
	p.t.Helper()
	all, err := p.List()
	if err != nil {
		p.t.Fatal(err)
	}
	for _, l := range all {
		_, edits, err := p.Installed(l)
		for _, e := range edits {
			bad = append(bad, l.Name+": "+e.Change+" "+e.Path)
		}
		if err != nil {
			bad = append(bad, err.Error())
		}
	}
	return bad
}

func TestFiftySkillsOfOneRepository(t *testing.T) {
	r, p := newTeam(t, 50), newPlace(t)
	first := r.push("v1")
	s, err := install.ParseSource(r.bare)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.PlanAdd(t.Context(), p.fetcher, s, nil, false); !errors.Is(err, install.ErrChoice) ||
		!strings.Contains(err.Error(), "there are 50") || !strings.Contains(err.Error(), " skill-07 ") {
		t.Fatalf("without a name: %v", err)
	}
	if _, err := p.plan(r.bare, "skil-07"); !errors.Is(err, install.ErrNoSkill) ||
		!strings.Contains(err.Error(), `did you mean "skill-07"`) {
		t.Errorf("misspelled: %v", err)
	}
	if _, err := p.plan(r.bare + "#v2"); !errors.Is(err, install.ErrNoRef) || !strings.Contains(err.Error(), `did you mean "v1"`) {
		t.Errorf("no such reference: %v", err)
	}

	p.add(r.bare)
	all, err := p.List()
	if err != nil || len(all) != 50 {
		t.Fatalf("%d are installed, %v", len(all), err)
	}
	l := all[7]
	if l.Name != "skill-07" || l.Path != "all/skill-07" || l.Ref != "HEAD" || l.Commit != first || l.Version != "1.0" ||
		len(l.Files) != 2 || !l.Files[1].Exec {
		t.Errorf("locked: %+v", l)
	}
	if info, err := os.Stat(filepath.Join(p.Dir("skill-07"), "scripts", "run.sh")); err != nil || info.Mode().Perm()&0o700 != 0o700 {
		t.Errorf("the script: %v, %v", info, err)
	}
	if bad := p.check(); bad != nil {
		t.Errorf("check: %v", bad)
	}
	lock, err := os.ReadFile(filepath.Join(p.dir, ".agents", "skills.lock"))
	if err != nil {
		t.Fatal(err)
	}

	// The same again changes nothing.
	for _, l := range all {
		if c, err := p.PlanUpdate(t.Context(), p.fetcher, l); err != nil || !c.Current {
			t.Errorf("%s: %+v, %v", l.Name, c, err)
		}
	}
	p.add(r.bare)
	if now, err := os.ReadFile(filepath.Join(p.dir, ".agents", "skills.lock")); err != nil || string(now) != string(lock) {
		t.Errorf("the lock file changes without a change (%v)", err)
	}
	entries, err := os.ReadDir(filepath.Join(p.dir, ".agents"))
	if err != nil || len(entries) != 2 {
		t.Errorf("beside the skills and the lock file there is more: %v, %v", entries, err)
	}

	// A path, a tag and a single skill.
	q := newPlace(t)
	q.add(r.bare + "//all/skill-03#v1")
	if l, err := q.Find("skill-03"); err != nil || l.Ref != "refs/tags/v1" || l.Commit != first {
		t.Errorf("%+v, %v", l, err)
	}
}

func TestUpdateShowsWhatChanges(t *testing.T) {
	r, p := newTeam(t, 2), newPlace(t)
	p.add(r.bare)
	dir := filepath.Join(r.work, "all", "skill-00")
	write(t, filepath.Join(dir, "SKILL.md"), skillText("skill-00", "Grep Bash(git log:*)", "Do it."))
	write(t, filepath.Join(dir, "scripts", "new.py"), "print()\n")
	if err := os.Remove(filepath.Join(dir, "scripts", "run.sh")); err != nil {
		t.Fatal(err)
	}
	second := r.push("main")
	c, err := p.update("skill-00")
	if err != nil {
		t.Fatal(err)
	}
	var files []string
	for _, f := range c.Changes {
		files = append(files, fmt.Sprint(f.Change, " ", f.Path, " ", f.Script))
	}
	got := map[string][]string{"files": files, "grants": c.Grants, "new": c.NewGrants, "old": c.OldGrants}
	want := map[string][]string{
		"files":  {"changed SKILL.md false", "added scripts/new.py true", "removed scripts/run.sh false"},
		"grants": {"Grep", "Bash(git log:*)"}, "new": {"Grep", "Bash(git log:*)"}, "old": {"Read"},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if c.Current || c.Commit != second || c.Old == nil || c.Old.Commit == second {
		t.Errorf("%+v", c)
	}
	p.apply(c)
	if bad := p.check(); bad != nil {
		t.Errorf("check: %v", bad)
	}
	if _, err := os.Stat(filepath.Join(p.Dir("skill-00"), "scripts", "run.sh")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a removed file: %v", err)
	}
	// The other skill has only another commit.
	if c, err := p.update("skill-01"); err != nil || c.Current || len(c.NewGrants) != 0 ||
		slices.ContainsFunc(c.Changes, func(f install.FileChange) bool { return f.Change != "same" }) {
		t.Errorf("%+v, %v", c, err)
	}
	// One that is gone from the source stays, with an error.
	if err := os.RemoveAll(filepath.Join(r.work, "all", "skill-01")); err != nil {
		t.Fatal(err)
	}
	r.push("main")
	if _, err := p.update("skill-01"); !errors.Is(err, install.ErrNoSkill) {
		t.Errorf("gone: %v, want ErrNoSkill", err)
	}
}

func TestRewrittenTagIsRefused(t *testing.T) {
	r, p := newTeam(t, 2), newPlace(t)
	r.push("v1")
	p.add(r.bare + "#v1")
	if c, err := p.update("skill-00"); err != nil || !c.Current {
		t.Errorf("unmoved: %+v, %v", c, err)
	}
	write(t, filepath.Join(r.work, "all", "skill-00", "scripts", "run.sh"), "evil\n")
	r.push("v1")
	if _, err := p.update("skill-00"); !errors.Is(err, install.ErrRewritten) {
		t.Errorf("update: %v, want ErrRewritten", err)
	}
	if _, err := p.plan(r.bare + "#v1"); !errors.Is(err, install.ErrRewritten) {
		t.Errorf("add: %v, want ErrRewritten", err)
	}
	if bad := p.check(); bad != nil {
		t.Errorf("check: %v", bad)
	}
	// A newer one is named, and not taken.
	for _, tag := range []string{"v1.9.0", "v1.10.0", "v2.0.0-beta", "nightly"} {
		git(t, r.work, "push", "-q", "-f", r.bare, "HEAD:refs/tags/"+tag)
	}
	q := newPlace(t)
	q.add(r.bare+"#v1", "skill-00")
	if c, err := q.update("skill-00"); err != nil || !c.Current || c.NewerTag != "v1.10.0" {
		t.Errorf("the newer tag is %q, %v", c.NewerTag, err)
	}
	q.add(r.bare+"#nightly", "skill-01")
	if c, err := q.update("skill-01"); err != nil || c.NewerTag != "" {
		t.Errorf("newer than nightly: %q, %v", c.NewerTag, err)
	}
	// Another tag is a decision of the person, and so is to remove the skill first.
	r.push("v2")
	p.add(r.bare+"#v2", "skill-00")
	if err := p.Remove("skill-01", false); err != nil {
		t.Fatal(err)
	}
	p.add(r.bare+"#v1", "skill-01")
}

func TestCommitStaysWhatItIs(t *testing.T) {
	r, p := newTeam(t, 1), newPlace(t)
	first := r.push("main")
	p.add(r.bare + "#" + first)
	r.push("main")
	if c, err := p.update("skill-00"); err != nil || !c.Current || c.Commit != first {
		t.Errorf("%+v, %v", c, err)
	}
}

// An edit together with its hashes in the lock file, or another commit in it, is found by the commit.
func TestLockFileIsComparedWithItsCommit(t *testing.T) {
	r, p := newTeam(t, 2), newPlace(t)
	first := r.push("main")
	write(t, filepath.Join(r.work, "all", "skill-00", "scripts", "run.sh"), "#!/bin/sh\necho second\n")
	r.push("v2")
	p.add(r.bare + "#v2")
	forged := newTeam(t, 2)
	write(t, filepath.Join(forged.work, "all", "skill-00", "scripts", "run.sh"), "#!/bin/sh\nevil\n")
	forged.push("v2")
	q := newPlace(t)
	q.add(forged.bare+"#v2", "skill-00")
	entry := func(p *place, name string) install.LockEntry {
		l, err := p.Find(name)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	for name, c := range map[string]struct {
		edit func(l *install.LockEntry)
		want string
	}{
		"as it was":      {func(*install.LockEntry) {}, ""},
		"forged hashes":  {func(l *install.LockEntry) { e := entry(q, "skill-00"); l.Hash, l.Files = e.Hash, e.Files }, "changed scripts/run.sh"},
		"other commit":   {func(l *install.LockEntry) { l.Commit = first }, "changed scripts/run.sh"},
		"other skill":    {func(l *install.LockEntry) { l.Path = "all/skill-01" }, "changed SKILL.md"},
		"no such skill":  {func(l *install.LockEntry) { l.Path = "all" }, "has no skill"},
		"no such commit": {func(l *install.LockEntry) { l.Commit = strings.Repeat("0", 40) }, "git: "},
	} {
		l := entry(p, "skill-00")
		c.edit(&l)
		err := p.CheckCommit(t.Context(), p.fetcher, l)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) ||
			errors.Is(err, install.ErrCommit) == (c.want == "" || c.want == "git: ") {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	// A lock file from which the commit was taken is damaged.
	lock := filepath.Join(p.dir, ".agents", "skills.lock")
	data, err := os.ReadFile(lock)
	if err != nil {
		t.Fatal(err)
	}
	write(t, lock, strings.ReplaceAll(string(data), "      \"commit\": \""+entry(p, "skill-00").Commit+"\",\n", ""))
	if _, err := p.List(); !errors.Is(err, install.ErrLock) || !strings.Contains(err.Error(), "names no commit") {
		t.Errorf("without the commit: %v", err)
	}
}

func TestEditsAreNotLost(t *testing.T) {
	r, p := newTeam(t, 3), newPlace(t)
	p.add(r.bare)
	write(t, filepath.Join(p.Dir("skill-00"), "SKILL.md"), skillText("skill-00", "Read", "Do it my way."))
	write(t, filepath.Join(p.Dir("skill-00"), "mine.md"), "mine")
	if err := os.Remove(filepath.Join(p.Dir("skill-01"), "scripts", "run.sh")); err != nil {
		t.Fatal(err)
	}
	want := []string{"skill-00: changed SKILL.md", "skill-00: added mine.md", "skill-01: removed scripts/run.sh"}
	if d := cmp.Diff(want, p.check()); d != "" {
		t.Errorf("check (-want +got):\n%s", d)
	}
	c, err := p.update("skill-00")
	if err != nil || c.Current || len(c.NewGrants) != 1 { // what a person edited was not shown to one
		t.Fatalf("%+v, %v", c, err)
	}
	if err := p.Apply(&c, false); !errors.Is(err, install.ErrEdited) ||
		!strings.Contains(err.Error(), "changed SKILL.md (2 files)") || c.Done {
		t.Errorf("apply: %v, want ErrEdited", err)
	}
	if err := p.Remove("skill-01", false); !errors.Is(err, install.ErrEdited) {
		t.Errorf("remove: %v, want ErrEdited", err)
	}
	if err := p.Apply(&c, true); err != nil {
		t.Fatal(err)
	}
	if err := p.Remove("skill-01", true); err != nil {
		t.Fatal(err)
	}
	if bad := p.check(); bad != nil {
		t.Errorf("check: %v", bad)
	}
	if err := p.Remove("skill-9", false); !errors.Is(err, install.ErrNotInstalled) {
		t.Errorf("remove: %v, want ErrNotInstalled", err)
	}
	// A skill that a person wrote is not replaced, and not removed.
	write(t, filepath.Join(p.Dir("skill-01"), "SKILL.md"), skillText("skill-01", "", "Mine."))
	if _, err := p.plan(r.bare, "skill-01"); !errors.Is(err, install.ErrExists) {
		t.Errorf("add: %v, want ErrExists", err)
	}
	if err := p.Remove("skill-01", true); err == nil {
		t.Error("a skill that was not installed is removed")
	}
	// Between the plan and its application, one may be edited.
	c, err = p.update("skill-02")
	if err != nil {
		t.Fatal(err)
	}
	c.Current = false
	write(t, filepath.Join(p.Dir("skill-02"), "SKILL.md"), "edited")
	if err := p.Apply(&c, false); !errors.Is(err, install.ErrEdited) {
		t.Errorf("edited meanwhile: %v, want ErrEdited", err)
	}
}

func TestFolderAndArchive(t *testing.T) {
	r, p := newTeam(t, 2), newPlace(t)
	write(t, filepath.Join(r.work, "all", "skill-00", ".git", "config"), "no part of a skill")
	folder := filepath.Join(r.work, "all", "skill-00")
	p.add(folder)
	zipped, tarred := filepath.Join(t.TempDir(), "a.zip"), filepath.Join(t.TempDir(), "b.tar.gz")
	git(t, r.bare, "archive", "-o", zipped, "--prefix=team-1.0/", "main")
	git(t, r.bare, "archive", "-o", tarred, "main", "all/skill-01")
	byFolder, err := p.Find("skill-00")
	if err != nil {
		t.Fatal(err)
	}
	p.add(zipped, "skill-00")
	byArchive, err := p.Find("skill-00")
	if err != nil || byArchive.Hash != byFolder.Hash || byArchive.Path != "all/skill-00" || byArchive.Commit != "" {
		t.Errorf("%+v, %v", byArchive, err)
	}
	p.add(tarred)
	if c, err := p.update("skill-01"); err != nil || !c.Current {
		t.Errorf("%+v, %v", c, err)
	}
	write(t, filepath.Join(folder, "references", "more.md"), "more")
	p.add(folder)
	write(t, filepath.Join(folder, "references", "more.md"), "even more")
	if c, err := p.update("skill-00"); err != nil || c.Current || len(c.Changes) != 3 {
		t.Errorf("a folder that has changed: %+v, %v", c, err)
	}
	// A repository that is one skill has the name that its SKILL.md says.
	dir := filepath.Join(t.TempDir(), "some-repository")
	write(t, filepath.Join(dir, "SKILL.md"), skillText("alone", "Read", "x"))
	git(t, t.TempDir(), "init", "-q", dir)
	git(t, dir, "add", "-A")
	git(t, dir, "commit", "-q", "-m", "x")
	p.add(dir + "#HEAD")
	if c, err := p.update("alone"); err != nil || !c.Current || c.Path != "." {
		t.Errorf("%+v, %v", c, err)
	}
}

// TestProjectCannotWriteOutside has a project whose .agents is a link.
func TestProjectCannotWriteOutside(t *testing.T) {
	r := newTeam(t, 1)
	for _, link := range []string{".agents", ".agents/skills", ".agents/skills/skill-00"} {
		p, outside := newPlace(t), t.TempDir()
		at := filepath.Join(p.dir, link)
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.Symlink(outside, at)); err != nil {
			t.Fatal(err)
		}
		changes, err := p.plan(r.bare)
		for _, c := range changes {
			err = errors.Join(err, p.Apply(&c, true))
		}
		if entries, _ := os.ReadDir(outside); err == nil || len(entries) > 0 {
			t.Errorf("%s: %v, and %v was written", link, err, entries)
		}
	}
}
