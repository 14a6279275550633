package skills_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"symbio/actor"
	"symbio/security/permission"
	"symbio/skills"
)

func granted(r *skills.Registry, agent string) []string {
	out := []string{}
	for _, g := range r.Granted(agent) {
		out = append(out, g.Rule.String()+" by "+g.Source)
	}
	return out
}

func expect(t *testing.T, r *skills.Registry, agent string, want ...string) {
	t.Helper()
	if want == nil {
		want = []string{}
	}
	if d := cmp.Diff(want, granted(r, agent)); d != "" {
		t.Errorf("grants of %s (-want +got):\n%s", agent, d)
	}
}

func activate(t *testing.T, r *skills.Registry, agent, name string) skills.Activation {
	t.Helper()
	a, err := r.Activate(t.Context(), skills.ActivateRequest{Agent: agent, Name: name})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestActivationGrantsUntilTheLastSkillIsGone(t *testing.T) {
	root := real(t)
	skill(t, filepath.Join(root, "one"), "allowed-tools: Read Bash(git status:*)")
	skill(t, filepath.Join(root, "two"), "allowed-tools: Grep Read")
	r, _ := registry(t, user(root))
	ctx := t.Context()

	a := activate(t, r, "ann", "one")
	if a.Instructions != "# Do it\n" || a.Already || len(a.Withheld) != 0 {
		t.Errorf("got %+v", a)
	}
	if a := activate(t, r, "ann", "one"); !a.Already {
		t.Error("activated twice, and not told so")
	}
	activate(t, r, "ann", "two")
	expect(t, r, "ann", "Bash(git status:*) by skill:one", "Grep by skill:two", "Read by skill:one")
	expect(t, r, "child of ann")
	if err := r.Deactivate(ctx, "ann", "one"); err != nil {
		t.Fatal(err)
	}
	expect(t, r, "ann", "Grep by skill:two", "Read by skill:two")
	if err := r.Deactivate(ctx, "ann", "one"); !errors.Is(err, skills.ErrNotActive) || !strings.Contains(err.Error(), "two") {
		t.Errorf("got %v, want ErrNotActive and what is active", err)
	}
	if err := r.Deactivate(ctx, "ann", "two"); err != nil {
		t.Fatal(err)
	}
	expect(t, r, "ann")
}

func TestReleaseTakesEverythingBack(t *testing.T) {
	root := real(t)
	skill(t, filepath.Join(root, "one"), "allowed-tools: Read")
	r, _ := registry(t, user(root))
	activate(t, r, "ann", "one")
	activate(t, r, "bob", "one")
	if err := r.Release(t.Context(), "ann"); err != nil {
		t.Fatal(err)
	}
	expect(t, r, "ann")
	expect(t, r, "bob", "Read by skill:one")
	if got, err := r.Active(t.Context(), "ann"); err != nil || len(got) != 0 {
		t.Errorf("active after the release: %v, %v", got, err)
	}
	if a := activate(t, r, "ann", "one"); a.Already {
		t.Error("a new agent of the same id inherits")
	}
}

func TestReleaseEndsGrantsEvenWhenTheActorCannotBeAsked(t *testing.T) {
	root := real(t)
	skill(t, filepath.Join(root, "one"), "allowed-tools: Read")
	r, _ := registry(t, user(root))
	activate(t, r, "ann", "one")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.Release(ctx, "ann"); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v, want that the actor was not asked", err)
	}
	expect(t, r, "ann")
	if got, err := r.Active(t.Context(), "ann"); err != nil || len(got) != 0 {
		t.Errorf("active when the actor got to it: %v, %v", got, err)
	}
}

func TestGrantsEndWithTheNode(t *testing.T) {
	root := real(t)
	skill(t, filepath.Join(root, "one"), "allowed-tools: Read")
	r, sys := registry(t, user(root))
	activate(t, r, "ann", "one")
	if err := sys.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	expect(t, r, "ann")
	if _, err := r.Activate(t.Context(), skills.ActivateRequest{Agent: "ann", Name: "one"}); !errors.Is(err, actor.ErrStopped) &&
		!errors.Is(err, actor.ErrNoActor) {
		t.Errorf("got %v, want that the actor is gone", err)
	}
	expect(t, r, "ann")
}

func TestProjectSkillsGrantNothing(t *testing.T) {
	root := real(t)
	skill(t, filepath.Join(root, "one"), "allowed-tools: Read Bash(*)")
	for about, scope := range map[string]skills.Scope{"project": skills.ScopeProject, "no scope": "", "unknown scope": "friend"} {
		r, _ := registry(t, skills.Config{Roots: []skills.Root{{Path: root, Scope: scope}}, Name: about})
		a := activate(t, r, "ann", "one")
		expect(t, r, "ann")
		if len(a.Granted) != 0 || len(a.Withheld) != 2 {
			t.Fatalf("%s: got granted %v, withheld %v", about, a.Granted, a.Withheld)
		}
		for _, w := range a.Withheld {
			if w.Why == "" || !strings.Contains(a.Text(), "- "+w.Rule+": ") {
				t.Errorf("%s: %+v is not explained in\n%s", about, w, a.Text())
			}
		}
	}
	for _, scope := range []skills.Scope{skills.ScopeUser, skills.ScopeConfig} {
		r, _ := registry(t, skills.Config{Roots: []skills.Root{{Path: root, Scope: scope}}, Name: string(scope)})
		a := activate(t, r, "ann", "one")
		expect(t, r, "ann", "Read by skill:one")
		if len(a.Withheld) != 1 || a.Withheld[0].Rule != "Bash(*)" {
			t.Errorf("%s: withheld %v, want Bash(*)", scope, a.Withheld)
		}
	}
}

func TestBundledSkillGrantsAndSaysWhatItHas(t *testing.T) {
	files := fstest.MapFS{
		"a/SKILL.md":     {Data: []byte("---\nname: a\ndescription: d\ncompatibility: Go\nallowed-tools: Read Bash(${CLAUDE_SKILL_DIR}/x.sh)\n---\n\ntext\n")},
		"a/scripts/x.sh": {Data: []byte("x")},
	}
	r, _ := registry(t, skills.Config{Bundled: files})
	a := activate(t, r, "ann", "a")
	want := "# Skill Activated: a\n\ntext\n\nCompatibility: Go\n\n## Available Resources\n- Scripts: yes\n- References: no\n- Assets: no\n"
	if d := cmp.Diff(want, a.Text()); d != "" {
		t.Errorf("text (-want +got):\n%s", d)
	}
	if got := granted(r, "ann"); len(got) == 0 || got[len(got)-1] != "Read by skill:a" {
		t.Errorf("grants: got %v", got)
	}
}

func TestGrantedRulesKnowTheSkillsDirectory(t *testing.T) {
	root := real(t)
	dir := skill(t, filepath.Join(root, "one"), "allowed-tools: Read(${CLAUDE_SKILL_DIR}/references/*)")
	r, _ := registry(t, user(root))
	activate(t, r, "ann", "one")
	chain := permission.Chain{{Name: "ann", Policy: permission.Policy{Default: permission.Deny},
		Granted: func() []permission.Grant { return r.Granted("ann") }}}
	for path, want := range map[string]permission.Action{
		filepath.Join(dir, "references", "a.md"): permission.Allow,
		filepath.Join(dir, "SKILL.md"):           permission.Deny,
		filepath.Join(root, "references/a.md"):   permission.Deny,
	} {
		v := chain.Judge(permission.Call{Tool: "Read", Args: map[string]any{"file_path": path}, Dir: root})
		if v.Action != want {
			t.Errorf("Read of %s: got %v, want %v (%s)", path, v.Action, want, v.Why)
		}
	}
}

func TestNamesAreExact(t *testing.T) {
	root := real(t)
	skill(t, filepath.Join(root, "git"))
	skill(t, filepath.Join(root, "git-flow"))
	skill(t, filepath.Join(root, "mine"), "disable-model-invocation: true")
	r, _ := registry(t, user(root))
	for name, want := range map[string]error{
		"git": nil, "git-flow": nil, filepath.Join(root, "git", "SKILL.md"): nil,
		"Git": skills.ErrNotFound, "gi": skills.ErrNotFound, "": skills.ErrNotFound, "../git": skills.ErrNotFound, "mine": skills.ErrUserOnly,
	} {
		if _, err := r.Activate(t.Context(), skills.ActivateRequest{Agent: "ann", Name: name}); !errors.Is(err, want) {
			t.Errorf("%q: got %v, want %v", name, err, want)
		}
	}
}

func TestTwoSkillsOfOneNameAreKeptApart(t *testing.T) {
	base := real(t)
	one := skill(t, filepath.Join(base, "x", "a"), "allowed-tools: Read")
	two := skill(t, filepath.Join(base, "y", "a"), "allowed-tools: Grep")
	r, _ := registry(t, user(filepath.Join(base, "x"), filepath.Join(base, "y")))
	if _, err := r.Activate(t.Context(), skills.ActivateRequest{Agent: "ann", Name: "a"}); !errors.Is(err, skills.ErrAmbiguous) {
		t.Fatalf("got %v, want ErrAmbiguous", err)
	}
	activate(t, r, "ann", one)
	activate(t, r, "ann", two)
	path := filepath.Join(two, "SKILL.md")
	expect(t, r, "ann", "Grep by skill:"+path, "Read by skill:a")
	if got, err := r.Active(t.Context(), "ann"); err != nil || cmp.Diff([]string{path, "a"}, got) != "" {
		t.Errorf("active: %v, %v", got, err)
	}
	if err := r.Deactivate(t.Context(), "ann", path); err != nil {
		t.Fatal(err)
	}
	expect(t, r, "ann", "Read by skill:a")
}

func TestActivationReadsTheFileAsItIsNow(t *testing.T) {
	root := real(t)
	dir := skill(t, filepath.Join(root, "one"), "allowed-tools: Read")
	file := filepath.Join(dir, "SKILL.md")
	r, _ := registry(t, user(root))
	first := activate(t, r, "ann", "one")
	write(t, file, "---\nname: one\ndescription: new\nallowed-tools: Grep\n---\nnew text")
	again := activate(t, r, "ann", "one")
	if again.Instructions != "new text" || again.Hash == first.Hash || !again.Already {
		t.Errorf("got %+v, want the new version", again)
	}
	expect(t, r, "ann", "Grep by skill:one")
	write(t, file, "broken")
	if _, err := r.Activate(t.Context(), skills.ActivateRequest{Agent: "ann", Name: "one"}); !errors.Is(err, skills.ErrFormat) {
		t.Errorf("broken: got %v, want ErrFormat", err)
	}
	expect(t, r, "ann")
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Activate(t.Context(), skills.ActivateRequest{Agent: "bob", Name: "one"}); !errors.Is(err, skills.ErrNoFile) {
		t.Errorf("removed: got %v, want ErrNoFile", err)
	}
	expect(t, r, "bob")
	if c, err := r.Rescan(t.Context()); err != nil || len(c.Skills) != 0 {
		t.Errorf("rescan: got %v, %v", names(c), err)
	}
	if err := r.Deactivate(t.Context(), "ann", "one"); err != nil {
		t.Errorf("a skill that is gone can be deactivated: %v", err)
	}
	expect(t, r, "ann")
}

func TestRescanFindsNewSkillsAndLeavesOldSnapshotsAlone(t *testing.T) {
	root := real(t)
	skill(t, filepath.Join(root, "one"))
	r, _ := registry(t, user(root))
	before, err := r.Catalog(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	skill(t, filepath.Join(root, "two"))
	after, err := r.Rescan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	before.Skills[0].Name = "changed"
	if now, err := r.Catalog(t.Context()); err != nil || cmp.Diff([]string{"one", "two"}, names(now)) != "" || len(names(before)) != 1 ||
		len(names(after)) != 2 {
		t.Errorf("before %v, after %v, now %v, %v", names(before), names(after), names(now), err)
	}
}

func TestManyAgentsShareOneRegistry(t *testing.T) {
	root := real(t)
	for i := range 4 {
		skill(t, filepath.Join(root, fmt.Sprintf("s-%d", i)), fmt.Sprintf("allowed-tools: Read Tool%d", i))
	}
	r, _ := registry(t, user(root))
	ctx := t.Context()
	stop := make(chan struct{})
	var readers, agents sync.WaitGroup
	readers.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				r.Granted("agent-0")
			}
		}
	})
	for a := range 8 {
		agents.Go(func() {
			agent := fmt.Sprintf("agent-%d", a)
			for i := range 40 {
				name := fmt.Sprintf("s-%d", (a+i)%4)
				if _, err := r.Activate(ctx, skills.ActivateRequest{Agent: agent, Name: name}); err != nil {
					t.Error(err)
				}
				if i%3 == 0 {
					if err := r.Deactivate(ctx, agent, name); err != nil {
						t.Error(err)
					}
				}
			}
			if a%2 == 0 {
				if err := r.Release(ctx, agent); err != nil {
					t.Error(err)
				}
			}
		})
	}
	agents.Wait()
	close(stop)
	readers.Wait()
	for a := range 8 {
		agent := fmt.Sprintf("agent-%d", a)
		active, err := r.Active(ctx, agent)
		if err != nil {
			t.Fatal(err)
		}
		want := len(active) // a tool of its own for each, and Read
		if want > 0 {
			want++
		}
		if got := len(r.Granted(agent)); got != want || a%2 == 0 && got != 0 {
			t.Errorf("%s has %v active and %d rules", agent, active, got)
		}
	}
}

// gated holds up whoever opens a skill's file, once it is armed.
type gated struct {
	files         fs.FS
	opening, open chan struct{} // nil = not armed
}

func (g *gated) Open(name string) (fs.File, error) {
	if g.opening != nil && strings.HasSuffix(name, "SKILL.md") {
		g.opening <- struct{}{}
		<-g.open
	}
	return g.files.Open(name)
}

func TestReleaseBeatsAnActivationThatIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		files := &gated{files: fstest.MapFS{"a/SKILL.md": {Data: []byte("---\nname: a\ndescription: d\nallowed-tools: Read\n---\n")}}}
		r, _ := registry(t, skills.Config{Bundled: files})
		files.opening, files.open = make(chan struct{}), make(chan struct{})
		var both sync.WaitGroup
		both.Go(func() {
			if _, err := r.Activate(t.Context(), skills.ActivateRequest{Agent: "ann", Name: "a"}); err != nil {
				t.Error(err)
			}
		})
		<-files.opening
		both.Go(func() {
			if err := r.Release(t.Context(), "ann"); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait() // the release waits for its turn
		close(files.open)
		both.Wait()
		expect(t, r, "ann")
	})
}

func TestRefreshSeesWhatIsNewOnTheDiskAndDoesNotLookAllTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		root := real(t)
		skill(t, filepath.Join(root, "one"))
		cfg := user(root)
		cfg.Fresh = time.Minute
		r, _ := registry(t, cfg)
		names := func() string {
			c, err := r.Refresh(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return strings.Join(c.Names(), " ")
		}
		skill(t, filepath.Join(root, "two"))
		if got := names(); got != "one" {
			t.Errorf("within a minute it looked again: %s", got)
		}
		time.Sleep(time.Minute)
		if got := names(); got != "one two" {
			t.Errorf("after a minute the skills are %s, want one and two", got)
		}
		if got := strings.Join(r.Now().Names(), " "); got != "one two" {
			t.Errorf("what all see is %s", got)
		}
		before := r.Now()
		time.Sleep(time.Minute)
		if names(); r.Now() != before {
			t.Error("nothing has changed, and yet there is another snapshot")
		}
		if err := os.RemoveAll(filepath.Join(root, "one")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if got := names(); got != "two" {
			t.Errorf("what was removed is still there: %s", got)
		}
	})
}

func TestRefreshNowSeesEditsAtOnce(t *testing.T) {
	root := real(t)
	file := filepath.Join(skill(t, filepath.Join(root, "one")), "SKILL.md")
	skill(t, filepath.Join(root, "two"))
	old(t, root)
	r, _ := registry(t, user(root))
	before := r.Now()
	if c, err := r.RefreshNow(t.Context()); err != nil || len(c.Skills) != 2 || r.Now() != before {
		t.Errorf("unchanged: %d skills, %v, another catalog: %t", len(c.Skills), err, r.Now() != before)
	}
	for _, text := range []string{"Other", "Again"} {
		write(t, file, "---\nname: one\ndescription: "+text+"\n---\n")
		c, err := r.RefreshNow(t.Context())
		if one, _ := c.Get("one"); err != nil || one.Description != text {
			t.Errorf("got %q, %v; want %q", one.Description, err, text)
		}
	}
}
