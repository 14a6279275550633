package skills_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"symbio/actor"
	"symbio/skills"
	"symbio/skills/format"
)

// taken are the names of an activation and of what was activated with it.
func taken(a skills.Activation) (names []string) {
	for _, one := range a.All() {
		names = append(names, one.Skill.Name)
	}
	return names
}

func active(t *testing.T, r *skills.Registry, agent string, want ...string) {
	t.Helper()
	got, err := r.Active(t.Context(), agent)
	if d := cmp.Diff(want, got); err != nil || d != "" && len(want)+len(got) > 0 {
		t.Errorf("active for %s: %v (-want +got):\n%s", agent, err, d)
	}
}

// notes are the codes of a catalog's notes, by skill.
func notes(c skills.Catalog) (out []string) {
	for _, p := range c.Notes {
		for _, d := range p.Diagnostics {
			out = append(out, filepath.Base(filepath.Dir(p.Path))+" "+string(d.Code))
		}
	}
	return out
}

func TestDependencyIsActiveAsLongAsSkillNeedsIt(t *testing.T) {
	root := real(t)
	skill(t, filepath.Join(root, "a"), "depends: [b, c]", "allowed-tools: Read")
	skill(t, filepath.Join(root, "b"), "depends: [d]", "allowed-tools: Grep")
	skill(t, filepath.Join(root, "c"), "depends: [d]")
	skill(t, filepath.Join(root, "d"), "allowed-tools: Bash(git status:*)")
	skill(t, filepath.Join(root, "e"), "depends: [c]")
	r, _ := registry(t, user(root))
	ctx := t.Context()
	a := activate(t, r, "ann", "a")
	if d := cmp.Diff([]string{"a", "b", "d", "c", "d"}, taken(a)); d != "" || len(a.Unmet) > 0 {
		t.Errorf("with a (-want +got):\n%s\nunmet: %v", d, a.Unmet)
	}
	if text := a.Text(); strings.Count(text, "# Skill Activated: ") != 4 {
		t.Errorf("the model reads\n%s", text)
	}
	expect(t, r, "ann", "Bash(git status:*) by skill:d", "Grep by skill:b", "Read by skill:a")
	active(t, r, "ann", "a", "b", "c", "d")
	if again := activate(t, r, "ann", "a"); !again.Already || len(again.Depends) != 4 {
		t.Errorf("again: %+v", again)
	}
	active(t, r, "ann", "a", "b", "c", "d")
	activate(t, r, "ann", "e")
	activate(t, r, "ann", "b") // now for itself, too
	for _, step := range []struct {
		name string
		left []string
	}{{"a", []string{"b", "c", "d", "e"}}, {"e", []string{"b", "d"}}, {"b", nil}} {
		if err := r.Deactivate(ctx, "ann", step.name); err != nil {
			t.Fatal(err)
		}
		active(t, r, "ann", step.left...)
	}
	expect(t, r, "ann")
}

func TestChangedDependenciesReplaceTheOldOnes(t *testing.T) {
	root := real(t)
	a := skill(t, filepath.Join(root, "a"), "depends: [b, c]")
	skill(t, filepath.Join(root, "b"))
	skill(t, filepath.Join(root, "c"))
	var events []skills.Event
	cfg := user(root)
	cfg.Report = func(e skills.Event) { events = append(events, e) }
	r, _ := registry(t, cfg)
	activate(t, r, "ann", "a")
	skill(t, a, "depends: [c]")
	activate(t, r, "ann", "a")
	active(t, r, "ann", "a", "c")
	var ended []string
	for _, e := range events {
		if e.Kind == skills.EventDeactivated {
			ended = append(ended, e.Skill)
		}
		if e.Kind == skills.EventActivated && e.Skill == "b" && e.Why != "a depends on it" {
			t.Errorf("the event says %q", e.Why)
		}
	}
	if d := cmp.Diff([]string{"b"}, ended); d != "" {
		t.Errorf("ended (-want +got):\n%s", d)
	}
}

func TestFailedDependencyIsReportedAndTheRestGoesOn(t *testing.T) {
	root, project := real(t), real(t)
	skill(t, filepath.Join(root, "a"), "depends: [none, 'old >=2', hidden, denied, proposing, itself, good]", "allowed-tools: Read")
	skill(t, filepath.Join(root, "old"), "metadata: {version: 1.9}")
	skill(t, filepath.Join(root, "hidden"), "disable-model-invocation: true")
	skill(t, filepath.Join(root, "denied"))
	skill(t, filepath.Join(root, "itself"), "depends: [a, good]")
	skill(t, filepath.Join(root, "good"), "allowed-tools: Grep")
	skill(t, filepath.Join(project, "proposing"), "allowed-tools: Write(./*)")
	cfg := user(root)
	cfg.Roots = append(cfg.Roots, skills.Root{Path: project, Scope: skills.ScopeProject})
	cfg.MaxActive = 4
	var refused []string
	cfg.Report = func(e skills.Event) {
		if e.Kind == skills.EventRefused {
			refused = append(refused, e.Skill)
		}
	}
	r, _ := registry(t, cfg)
	a := take(t, r, skills.ActivateRequest{Agent: "ann", Name: "a", May: func(s skills.Skill) error {
		if s.Name == "denied" {
			return errors.New("a rule denies it")
		}
		return nil
	}})
	var got []string
	for _, u := range a.Unmet {
		got = append(got, u.Name+": "+u.Why)
	}
	want := []string{
		"none: it depends on none, and no skill of that name was found",
		"old >=2: it depends on old >=2, and no skill of that name has such a version; " + root + `/old/SKILL.md has the version "1.9"`,
		"hidden: activate hidden: the skill is for people to start, not for a model",
		"denied: a rule denies it",
		"a: it depends on itself as well",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("unmet (-want +got):\n%s", d)
	}
	for _, u := range want {
		if !strings.Contains(a.Text(), "- "+u) || !strings.Contains(a.Context(), "- "+u) {
			t.Errorf("the model does not read %q", u)
		}
	}
	active(t, r, "ann", "a", "good", "itself", "proposing")
	expect(t, r, "ann", "Grep by skill:good", "Read by skill:a") // a project's skill grants nothing, whoever depends on it
	if d := cmp.Diff([]string{"none", "old >=2", "hidden", "denied", "proposing", "a"}, refused); d != "" {
		t.Errorf("refused in events (-want +got):\n%s", d)
	}
	skill(t, filepath.Join(root, "a"), "depends: [itself, proposing, good, old]")
	if a := activate(t, r, "ann", "a"); len(a.Unmet) != 2 || !strings.Contains(a.Unmet[1].Why, "too many active skills") {
		t.Errorf("one too many: %v", a.Unmet)
	}
}

func TestDependencyOnAnotherNodesSkillNeedsTrust(t *testing.T) {
	root, fetched := real(t), real(t)
	skill(t, filepath.Join(root, "a"), "depends: [far, near]")
	skill(t, filepath.Join(root, "near"), "metadata: {version: 1.0}")
	skill(t, filepath.Join(fetched, "far"))
	skill(t, filepath.Join(fetched, "near"), "metadata: {version: 2.0}")
	cfg := user(root)
	cfg.Roots = append(cfg.Roots, skills.Root{Path: fetched, Scope: skills.ScopePeer})
	r, _ := registry(t, cfg)
	a := activate(t, r, "ann", "a")
	if len(a.Unmet) != 1 || !strings.Contains(a.Unmet[0].Why, skills.ErrUntrusted.Error()) {
		t.Errorf("unmet: %v", a.Unmet)
	}
	active(t, r, "ann", "a", "near")
	if got := a.Depends[0].Skill.Version; got != "1.0" {
		t.Errorf("took the version %s", got)
	}
}

func TestAcceptedRulesLeaveDependencyADependency(t *testing.T) {
	root, project := real(t), real(t)
	skill(t, filepath.Join(root, "a"), "depends: [b]")
	skill(t, filepath.Join(project, "b"), "allowed-tools: Read", "depends: [c]")
	skill(t, filepath.Join(project, "c"))
	cfg := user(root)
	cfg.Roots = append(cfg.Roots, skills.Root{Path: project, Scope: skills.ScopeProject})
	r, _ := registry(t, cfg)
	b := activate(t, r, "ann", "a").Depends[0]
	if _, err := r.Accept(t.Context(), "ann", b.Skill.Path, b.Hash); err != nil {
		t.Fatal(err)
	}
	expect(t, r, "ann", "Read by skill:b")
	if err := r.Deactivate(t.Context(), "ann", "a"); err != nil {
		t.Fatal(err)
	}
	active(t, r, "ann")
}

func TestNewestVersionOfNameWinsWithinScope(t *testing.T) {
	root, project := real(t), real(t)
	one := skill(t, filepath.Join(root, "v1", "tool"), "version: 1.10.0", "allowed-tools: Read")
	two := skill(t, filepath.Join(root, "v2", "tool"), "metadata: {version: 1.9}")
	skill(t, filepath.Join(root, "v3", "tool"))
	skill(t, filepath.Join(root, "user"), "depends: ['tool <1.10']")
	cfg := user(root)
	r, _ := registry(t, cfg)
	c := r.Now().Catalog
	if got, err := c.Find("tool"); err != nil || got.Dir != one {
		t.Errorf("the name means %s, %v; want the newest", got.Dir, err)
	}
	if d := cmp.Diff([]string{"tool duplicate-name", "tool duplicate-name"}, notes(c)); d != "" {
		t.Errorf("notes (-want +got):\n%s", d)
	}
	if text := skills.Render(c, skills.PromptOptions{}).Text; strings.Count(text, "<name>tool</name>") != 1 ||
		!strings.Contains(text, one) {
		t.Errorf("models see\n%s", text)
	}
	if a := activate(t, r, "ann", "tool"); a.Skill.Dir != one {
		t.Errorf("activated %s", a.Skill.Dir)
	}
	if a := activate(t, r, "bob", "user"); len(a.Depends) != 1 || a.Depends[0].Skill.Dir != two {
		t.Errorf("the dependency on an older version: %v, %v", taken(a), a.Unmet)
	}
	if a := take(t, r, skills.ActivateRequest{Agent: "cat", Path: two}); a.Skill.Dir != two {
		t.Errorf("by its path: %s", a.Skill.Dir)
	}
	// Without the newest, the next one is what the name means.
	if _, err := r.Unregister(t.Context(), one); err != nil {
		t.Fatal(err)
	}
	if a := activate(t, r, "ann", "tool"); a.Skill.Dir != two || r.Now().Skills[0].Superseded {
		t.Errorf("without the newest: %s", a.Skill.Dir)
	}
	skill(t, filepath.Join(root, "v4", "tool"), "version: 1.9.0")
	skill(t, filepath.Join(project, "tool"), "version: 0.1")
	cfg.Roots = append(cfg.Roots, skills.Root{Path: project, Scope: skills.ScopeProject})
	c = scan(t, cfg)
	if _, err := c.Find("tool"); !errors.Is(err, skills.ErrAmbiguous) {
		t.Errorf("two scopes: %v", err)
	}
	if got, err := c.Resolve("tool", skills.DuplicatesPrecedence); err != nil || got.Scope != skills.ScopeProject {
		t.Errorf("the version of another scope wins: %v, %v", got.Dir, err)
	}
}

func TestCatalogNotesNameBrokenDependencies(t *testing.T) {
	root := real(t)
	for name, depends := range map[string]string{
		"a": "[b]", "b": "['c >=1']", "c": "[a, d]", "d": "[missing, 'e >1']", "e": "[]", "own": "[own]", "fine": "[e, d]",
	} {
		skill(t, filepath.Join(root, name), "depends: "+depends, "metadata: {version: 1.0.0}")
	}
	want := []string{"c depends-cycle", "d depends-missing", "d depends-version", "own depends-cycle"}
	if d := cmp.Diff(want, notes(scan(t, user(root)))); d != "" {
		t.Errorf("notes (-want +got):\n%s", d)
	}
}

// TestRelationsTakeLinearTime has catalogs on which a search for each skill would take hours.
func TestRelationsTakeLinearTime(t *testing.T) {
	const n = 2_000
	same := make([]skills.Skill, n)
	chain := make([]skills.Skill, n)
	for i := range n {
		m := format.Manifest{Name: "same", Description: "d", Version: fmt.Sprint(i)}
		for j := range 16 {
			m.Depends = append(m.Depends, format.Dependency{Name: "same", Constraint: fmt.Sprintf(">%d", i+j)})
		}
		same[i] = skills.Skill{Manifest: m, ID: fmt.Sprint(i)}
		next := []format.Dependency{{Name: fmt.Sprint((i + 1) % n)}}
		chain[i] = skills.Skill{Manifest: format.Manifest{Name: fmt.Sprint(i), Depends: next}, ID: fmt.Sprint(i)}
	}
	begun := time.Now()
	if got := skills.Relations(same); len(got) == 0 {
		t.Error("no notes")
	}
	cycle := skills.Relations(chain)
	if len(cycle) != 1 || !slices.ContainsFunc(cycle,
		func(p skills.Problem) bool { return p.Diagnostics[0].Code == format.CodeDependsCycle }) {
		t.Errorf("%d notes on a ring", len(cycle))
	}
	t.Logf("%v", time.Since(begun))
}

func TestSkillOfTheProgramDependsOnOthers(t *testing.T) {
	sys := actor.NewSystem(actor.Config{})
	t.Cleanup(func() { _ = sys.Shutdown(t.Context()) })
	r, err := skills.NewRegistry(sys, skills.Config{Bundled: fstest.MapFS{
		"a/SKILL.md": {Data: []byte("---\nname: a\ndescription: d\nmetadata:\n  depends: b ^1.2\n---\nA")},
		"b/SKILL.md": {Data: []byte("---\nname: b\ndescription: d\nmetadata:\n  version: 1.3.0\n---\nB")},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if a := activate(t, r, "ann", "a"); len(a.Depends) != 1 || !strings.Contains(skills.PreloadPrompt(a.All()), "B") {
		t.Errorf("got %v, %v", taken(a), a.Unmet)
	}
}
