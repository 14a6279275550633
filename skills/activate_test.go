package skills_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/google/go-cmp/cmp"

	"symbio/security/permission"
	"symbio/skills"
	"symbio/skills/format"
)

func take(t *testing.T, r *skills.Registry, w skills.ActivateRequest) skills.Activation {
	t.Helper()
	a, err := r.Activate(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestTextIsShownOnceInAnEpoch(t *testing.T) {
	root := real(t)
	dir := skill(t, filepath.Join(root, "one"), "allowed-tools: Read")
	file := filepath.Join(dir, "SKILL.md")
	r, _ := registry(t, user(root))
	later := func() {
		t.Helper()
		if err := os.Chtimes(file, time.Time{}, time.Now().Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	for _, step := range []struct {
		about  string
		before func()
		want   skills.ActivateRequest
		repeat bool
	}{
		{"first", nil, skills.ActivateRequest{}, false},
		{"again", nil, skills.ActivateRequest{}, true},
		{"by its path", nil, skills.ActivateRequest{Path: file}, true},
		{"forced", nil, skills.ActivateRequest{Force: true}, false},
		{"after being forced", nil, skills.ActivateRequest{}, true},
		{"the conversation was shortened", nil, skills.ActivateRequest{Epoch: 1}, false},
		{"again in the new epoch", nil, skills.ActivateRequest{Epoch: 1}, true},
		{"touched", later, skills.ActivateRequest{Epoch: 1}, false},
		{"given back, and the text still there", func() {
			if err := r.Deactivate(t.Context(), "ann", "one"); err != nil {
				t.Fatal(err)
			}
		}, skills.ActivateRequest{Epoch: 1}, true},
		{"changed", func() { write(t, file, "---\nname: one\ndescription: d\nallowed-tools: Read\n---\nother\n") }, skills.ActivateRequest{Epoch: 1}, false},
	} {
		if step.before != nil {
			step.before()
		}
		step.want.Agent, step.want.Name = "ann", "one"
		a := take(t, r, step.want)
		if a.Repeat != step.repeat {
			t.Errorf("%s: repeat = %t, want %t", step.about, a.Repeat, step.repeat)
		}
		if whole := strings.Contains(a.Text(), strings.TrimSpace(a.Instructions)); whole == step.repeat ||
			strings.Contains(a.Context(), "<skill_context") == step.repeat {
			t.Errorf("%s: the model reads %q and %q", step.about, a.Text(), a.Context())
		}
		expect(t, r, "ann", "Read by skill:one") // a reminder grants as well
	}
	if a := take(t, r, skills.ActivateRequest{Agent: "bob", Name: "one"}); a.Repeat {
		t.Error("another agent is reminded of what it never saw")
	}
	if err := r.Release(t.Context(), "ann"); err != nil {
		t.Fatal(err)
	}
	if a := take(t, r, skills.ActivateRequest{Agent: "ann", Name: "one", Epoch: 1}); a.Repeat {
		t.Error("a new agent of the same id is reminded of what the old one saw")
	}
}

func TestSkillActivationRights(t *testing.T) {
	root := real(t)
	for name, more := range map[string]string{"plain": "license: MIT", "person": "disable-model-invocation: true",
		"model": "user-invokable: false", "narrowed": "license: MIT", "off": "license: MIT", "bad": "license: MIT"} {
		skill(t, filepath.Join(root, name), more)
	}
	cfg := user(root)
	cfg.Choices = skills.Choices{
		Disabled:  []string{filepath.Join(root, "off")},
		Overrides: map[string]skills.Exposure{"narrowed": skills.PeopleOnly, "person": skills.On, "bad": "sometimes"},
	}
	r, _ := registry(t, cfg)
	for name, want := range map[string]map[skills.Initiator]error{
		"plain":    {},
		"person":   {skills.ByModel: skills.ErrUserOnly, skills.ByDefinition: skills.ErrUserOnly, "": skills.ErrUserOnly},
		"model":    {skills.ByPerson: skills.ErrModelOnly},
		"narrowed": {skills.ByModel: skills.ErrUserOnly, skills.ByDefinition: skills.ErrUserOnly, "": skills.ErrUserOnly},
		"off":      {skills.ByModel: skills.ErrDisabled, skills.ByPerson: skills.ErrDisabled, skills.ByDefinition: skills.ErrDisabled, "": skills.ErrDisabled},
		"bad":      {skills.ByModel: skills.ErrDisabled, skills.ByPerson: skills.ErrDisabled, skills.ByDefinition: skills.ErrDisabled, "": skills.ErrDisabled},
	} {
		for _, by := range []skills.Initiator{skills.ByModel, skills.ByPerson, skills.ByDefinition, ""} {
			if _, err := r.Activate(t.Context(), skills.ActivateRequest{Agent: "ann", Name: name, By: by}); !errors.Is(err, want[by]) {
				t.Errorf("%s by %q: got %v, want %v", name, by, err, want[by])
			}
		}
	}
	if err := cfg.Choices.Check(); err == nil || !strings.Contains(err.Error(), "bad") {
		t.Errorf("the choices: %v; want the override that is none", err)
	}
}

func TestStricterOfFlagsAndChoicesCounts(t *testing.T) {
	s := promptEntry("a", "d")
	s.UserOnly = true
	for e, want := range map[skills.Exposure]skills.Exposure{skills.On: skills.PeopleOnly, skills.NameOnly: skills.PeopleOnly,
		skills.PeopleOnly: skills.PeopleOnly, skills.Off: skills.Off, "never": skills.Off} {
		if got := (skills.Choices{Overrides: map[string]skills.Exposure{"a": e}}).Exposure(s); got != want {
			t.Errorf("%s over a skill for people: got %s, want %s", e, got, want)
		}
	}
	both := skills.Choices{Overrides: map[string]skills.Exposure{"a": skills.NameOnly, s.Path: skills.PeopleOnly}}
	s.UserOnly = false
	if got := both.Exposure(s); got != skills.PeopleOnly {
		t.Errorf("two choices: got %s, want the stricter", got)
	}
}

// TestSkillGrantIsRevokedWhenAgentEndsMeanwhile has the registry hear nothing of the end.
func TestSkillGrantIsRevokedWhenAgentEndsMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		files := &gated{files: fstest.MapFS{"a/SKILL.md": {Data: []byte("---\nname: a\ndescription: d\nallowed-tools: Read\n---\n")}}}
		r, _ := registry(t, skills.Config{Bundled: files})
		files.opening, files.open = make(chan struct{}), make(chan struct{})
		var taking sync.WaitGroup
		taking.Go(func() {
			if _, err := r.Activate(t.Context(), skills.ActivateRequest{Agent: "ann", Name: "a"}); err != nil {
				t.Error(err)
			}
		})
		<-files.opening
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if err := r.Release(gone, "ann"); err == nil {
			t.Error("the registry heard of it")
		}
		close(files.open)
		taking.Wait()
		synctest.Wait()
		expect(t, r, "ann")
	})
}

func TestFlagThatCameAfterTheScanCounts(t *testing.T) {
	root := real(t)
	dir := skill(t, filepath.Join(root, "one"))
	r, _ := registry(t, user(root))
	write(t, filepath.Join(dir, "SKILL.md"), "---\nname: one\ndescription: d\ndisable-model-invocation: true\n---\n")
	if _, err := r.Activate(t.Context(), skills.ActivateRequest{Agent: "ann", Name: "one"}); !errors.Is(err, skills.ErrUserOnly) {
		t.Errorf("got %v, want ErrUserOnly", err)
	}
}

func TestSkillIsTheOneWhoseNameWasJudged(t *testing.T) {
	root := real(t)
	dir := skill(t, filepath.Join(root, "one"), "allowed-tools: Read")
	cfg := user(root)
	cfg.Policy.Level = format.Lenient // which lets a name differ from its directory's
	r, _ := registry(t, cfg)
	write(t, filepath.Join(dir, "SKILL.md"), "---\nname: two\ndescription: d\nallowed-tools: Read\n---\n")
	if _, err := r.Activate(t.Context(), skills.ActivateRequest{Agent: "ann", Name: "one"}); !errors.Is(err, skills.ErrNotFound) {
		t.Errorf("got %v, want that there is no such skill any more", err)
	}
	expect(t, r, "ann")
}

func TestAgentHasSoManySkills(t *testing.T) {
	root := real(t)
	for i := range 4 {
		skill(t, filepath.Join(root, fmt.Sprint("s-", i)), fmt.Sprint("allowed-tools: Tool", i))
	}
	cfg := user(root)
	cfg.MaxActive = 2
	r, _ := registry(t, cfg)
	activate(t, r, "ann", "s-0")
	activate(t, r, "ann", "s-1")
	activate(t, r, "ann", "s-1") // again is no other
	if _, err := r.Activate(t.Context(), skills.ActivateRequest{Agent: "ann", Name: "s-2"}); !errors.Is(err, skills.ErrTooMany) ||
		!strings.Contains(err.Error(), "s-0, s-1") {
		t.Errorf("got %v, want ErrTooMany and what to give back", err)
	}
	expect(t, r, "ann", "Tool0 by skill:s-0", "Tool1 by skill:s-1")
	activate(t, r, "bob", "s-2")
	if err := r.Deactivate(t.Context(), "ann", "s-0"); err != nil {
		t.Fatal(err)
	}
	activate(t, r, "ann", "s-2")
}

func TestTurnEndsWhatWasTakenInIt(t *testing.T) {
	root := real(t)
	skill(t, filepath.Join(root, "kept"), "allowed-tools: Grep")
	skill(t, filepath.Join(root, "one"), "allowed-tools: Read")
	for ttl, want := range map[skills.GrantTTL][]string{
		skills.GrantTurn: {"Grep by skill:kept"}, skills.GrantSession: {"Grep by skill:kept", "Read by skill:one"},
		"": {"Grep by skill:kept", "Read by skill:one"},
	} {
		cfg := user(root)
		cfg.GrantTTL, cfg.Name = ttl, "skills "+string(ttl)
		r, _ := registry(t, cfg)
		take(t, r, skills.ActivateRequest{Agent: "ann", Name: "kept", By: skills.ByDefinition})
		activate(t, r, "ann", "kept") // the model asks for it, too; it is the definition's all the same
		activate(t, r, "ann", "one")
		if err := r.EndTurn(t.Context(), "ann"); err != nil {
			t.Fatal(err)
		}
		expect(t, r, "ann", want...)
	}
}

func TestSkillThatIsSwitchedOffIsTakenBack(t *testing.T) {
	root := real(t)
	skill(t, filepath.Join(root, "one"), "allowed-tools: Read")
	skill(t, filepath.Join(root, "two"), "allowed-tools: Read")
	r, _ := registry(t, user(root))
	for _, agent := range []string{"ann", "bob"} {
		activate(t, r, agent, "one")
	}
	activate(t, r, "bob", "two")
	before := r.Now()
	if _, err := r.Choose(t.Context(), skills.Choices{Disabled: []string{"one"}}); err != nil {
		t.Fatal(err)
	}
	expect(t, r, "ann")
	expect(t, r, "bob", "Read by skill:two")
	if s, _ := before.Get("one"); !s.ForModels() {
		t.Error("an old snapshot was changed")
	}
	if s, _ := r.Now().Get("one"); s.ForModels() {
		t.Error("the skill is still on")
	}
	if _, err := r.Choose(t.Context(), skills.Choices{}); err != nil {
		t.Fatal(err)
	}
	activate(t, r, "ann", "one")
}

func TestSkillsAreRegisteredBesideTheScan(t *testing.T) {
	root, other := real(t), real(t)
	skill(t, filepath.Join(root, "one"), "allowed-tools: Read")
	ctx := t.Context()
	r, _ := registry(t, user(root))
	inline, err := skills.Inline(fstest.MapFS{"SKILL.md": {Data: []byte("---\nname: made\ndescription: d\nallowed-tools: Grep\n---\nhere\n")}, "references/a.md": {Data: []byte("A")}}, format.Policy{})
	if err != nil {
		t.Fatal(err)
	}
	loaded, err := skills.Load(skill(t, filepath.Join(other, "two"), "allowed-tools: Glob"), format.Policy{})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Register(ctx, inline, loaded); err != nil {
		t.Fatal(err)
	}
	for _, again := range [][]skills.Skill{{inline}, {loaded, loaded}, {r.Now().Skills[0]}} {
		if err := r.Register(ctx, again...); !errors.Is(err, skills.ErrAlreadyExists) {
			t.Errorf("registering %s again: got %v, want ErrAlreadyExists", again[0].Name, err)
		}
	}
	if err := r.Register(ctx, skills.Skill{}); !errors.Is(err, skills.ErrInvalid) {
		t.Errorf("registering nothing: got %v", err)
	}
	if a := activate(t, r, "ann", "made"); a.Instructions != "here\n" || !strings.Contains(a.Context(), "inline:made/references/a.md") {
		t.Errorf("got %+v, and the model reads %s", a, a.Context())
	}
	activate(t, r, "ann", "two")
	expect(t, r, "ann", "Grep by skill:made") // the other is of no scope that grants
	if c, err := r.Rescan(ctx); err != nil || cmp.Diff([]string{"made", "one", "two"}, c.Names()) != "" {
		t.Errorf("after a scan: %v, %v", c.Names(), err)
	}
	changed, err := skills.Inline(fstest.MapFS{"SKILL.md": {Data: []byte("---\nname: made\ndescription: d\n---\nnow\n")}}, format.Policy{})
	if err != nil {
		t.Fatal(err)
	}
	before := r.Now()
	if _, err := r.Unregister(ctx, "made"); err != nil {
		t.Fatal(err)
	}
	if err := r.Register(ctx, changed); err != nil {
		t.Fatal(err)
	}
	if a := activate(t, r, "ann", "made"); a.Instructions != "now\n" || r.Now() == before {
		t.Errorf("after another is registered in its place: %+v", a)
	}
	expect(t, r, "ann")
	activate(t, r, "bob", "one")
	for _, name := range []string{"made", "one"} {
		if s, err := r.Unregister(ctx, name); err != nil || s.Name != name {
			t.Errorf("unregister %s: got %q, %v", name, s.Name, err)
		}
	}
	expect(t, r, "bob")
	if c, err := r.Rescan(ctx); err != nil || cmp.Diff([]string{"two"}, c.Names()) != "" {
		t.Errorf("after unregistering: %v, %v", c.Names(), err)
	}
	if _, err := r.Unregister(ctx, "one"); !errors.Is(err, skills.ErrNotFound) {
		t.Errorf("got %v, want ErrNotFound", err)
	}
}

func TestEveryChangeIsAnEvent(t *testing.T) {
	root := real(t)
	dir := skill(t, filepath.Join(root, "one"), "allowed-tools: Read Bash")
	var seen []string
	cfg := user(root)
	cfg.Report = func(e skills.Event) {
		seen = append(seen, strings.TrimSpace(fmt.Sprint(e.Kind, " ", e.Agent, " ", e.Skill, " ", e.By, strings.Join(e.Rules, ","),
			len(e.Withheld), " ", strings.ReplaceAll(e.Why, root, "ROOT"))))
	}
	r, _ := registry(t, cfg)
	ctx := t.Context()
	activate(t, r, "ann", "one")
	activate(t, r, "ann", "one")
	if _, err := r.Rescan(ctx); err != nil { // nothing is new
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "SKILL.md"), "---\nname: one\ndescription: other\nallowed-tools: Grep\n---\n")
	activate(t, r, "ann", "one")
	if _, err := r.Rescan(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Activate(ctx, skills.ActivateRequest{Agent: "ann", Name: "none"}); err == nil {
		t.Error("there is no such skill")
	}
	if err := r.Deactivate(ctx, "ann", "one"); err != nil {
		t.Fatal(err)
	}
	activate(t, r, "ann", "one")
	if err := r.Release(ctx, "ann"); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"catalog_changed   0 scanned",
		"skill_activated ann one model0", "skill_granted ann one Read0", "skill_refused ann one 1 not all that it asks for is granted",
		"skill_reloaded ann one model0", "skill_granted ann one Grep0",
		"catalog_changed   0 scanned",
		`skill_refused ann none model0 no such skill: "none"; did you mean "one"?`,
		"skill_deactivated ann one Grep0 given back",
		"skill_activated ann one model0", "skill_granted ann one Grep0",
		"skill_deactivated ann one Grep0 the agent ended",
	}
	if d := cmp.Diff(want, seen); d != "" {
		t.Errorf("events (-want +got):\n%s", d)
	}
}

func TestOnlyOwnFilesOfAnActiveSkillMayBeRead(t *testing.T) {
	root := real(t)
	one := skill(t, filepath.Join(root, "one"))
	two := skill(t, filepath.Join(root, "two"))
	cfg := skills.Config{Roots: []skills.Root{{Path: root, Scope: skills.ScopeProject}}}
	r, _ := registry(t, cfg)
	activate(t, r, "ann", "one")
	if d := cmp.Diff([]string{one}, r.Dirs("ann")); d != "" {
		t.Errorf("directories (-want +got):\n%s", d)
	}
	link(t, "/etc", filepath.Join(one, "references", "out"))
	chain := permission.Chain{{Name: "ann", Policy: permission.Policy{Default: permission.Deny},
		Granted: func() []permission.Grant { return r.Reading("ann") }}}
	for path, want := range map[string]permission.Action{
		filepath.Join(one, "references", "a.md"):           permission.Allow,
		filepath.Join(one, "SKILL.md"):                     permission.Allow,
		filepath.Join(one, "references", "out", "passwd"):  permission.Deny,
		filepath.Join(one, "..", "two", "SKILL.md"):        permission.Deny,
		one + "/references/../../two/SKILL.md":             permission.Deny,
		filepath.Join(two, "SKILL.md"):                     permission.Deny,
		"references/a.md":                                  permission.Deny,
		filepath.Join(filepath.Dir(root), "x", "SKILL.md"): permission.Deny,
	} {
		if v := chain.Judge(permission.Call{Tool: "Read", Args: map[string]any{"file_path": path}, Dir: "/work"}); v.Action != want {
			t.Errorf("Read of %s: got %v, want %v (%s)", path, v.Action, want, v.Why)
		}
		if v := chain.Judge(permission.Call{Tool: "Write", Args: map[string]any{"file_path": path},
			Dir: "/work"}); v.Action != permission.Deny {
			t.Errorf("Write of %s: got %v", path, v.Action)
		}
	}
	if err := os.Rename(one, one+"-was"); err != nil {
		t.Fatal(err)
	}
	link(t, two, one)
	if got := r.Dirs("ann"); len(got) != 0 {
		t.Errorf("the directory became a link to another: still readable: %v", got)
	}
	if err := r.Deactivate(t.Context(), "ann", "one"); err != nil {
		t.Fatal(err)
	}
	if len(r.Reading("ann")) != 0 || len(r.Dirs("ann")) != 0 {
		t.Error("files may be read after the deactivation")
	}
}

func TestTextsComeBackAfterAConversationWasShortened(t *testing.T) {
	root := real(t)
	names := []string{"a", "b", "c", "d", "e", "f", "g"}
	for _, name := range names {
		size := 30_000
		if name == "f" {
			size = 100
		}
		write(t, filepath.Join(root, name, "SKILL.md"), "---\nname: "+name+"\ndescription: d\n---\n"+strings.Repeat("é", size/2)+"\n")
	}
	r, _ := registry(t, user(root))
	for _, name := range append(names, "a") {
		take(t, r, skills.ActivateRequest{Agent: "ann", Name: name, Force: true})
	}
	all, err := r.Reattach(t.Context(), "ann", 1)
	if err != nil {
		t.Fatal(err)
	}
	got, total := []string{}, 0
	for _, a := range all {
		total += len(a.Instructions)
		got = append(got, fmt.Sprint(a.Skill.Name, " ", len(a.Instructions) <= 20_000, " ", strings.Contains(a.Instructions, "left out")))
	}
	// The newest first; for the last one there is no room.
	if d := cmp.Diff([]string{"a true true", "g true true", "f true false", "e true true", "d true true", "c true true"}, got); d != "" ||
		total > 100_000 {
		t.Errorf("texts of %d bytes (-want +got):\n%s", total, d)
	}
	for _, epoch := range []int{1, 2} {
		if a := take(t, r, skills.ActivateRequest{Agent: "ann", Name: "f", Epoch: epoch}); a.Repeat != (epoch == 1) {
			t.Errorf("in epoch %d: repeat = %t", epoch, a.Repeat)
		}
	}
	if a := take(t, r, skills.ActivateRequest{Agent: "ann", Name: "b", Epoch: 1}); a.Repeat {
		t.Error("a text that was left out counts as shown")
	}
	if none, err := r.Reattach(t.Context(), "nobody", 1); err != nil || len(none) != 0 {
		t.Errorf("somebody without skills: %v, %v", none, err)
	}
}

func TestManyAgentsKeepATextOnce(t *testing.T) {
	root := real(t)
	skill(t, filepath.Join(root, "one"))
	r, _ := registry(t, user(root))
	prompt := ""
	var first *byte
	for i := range 3 {
		agent := fmt.Sprint("agent-", i)
		text := unsafe.StringData(activate(t, r, agent, "one").Instructions)
		if i == 0 {
			first = text
		} else if text != first {
			t.Errorf("%s has a text of its own", agent)
		}
		p, err := r.ActivePrompt(t.Context(), agent)
		if err != nil || i > 0 && p != prompt || !strings.Contains(p, "# Do it") {
			t.Errorf("%s: %q, %v", agent, p, err)
		}
		prompt = p
	}
	if p, err := r.ActivePrompt(t.Context(), "nobody"); p != "" || err != nil {
		t.Errorf("nobody: %q, %v", p, err)
	}
}
