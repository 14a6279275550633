package trust_test

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
	"time"

	"github.com/google/go-cmp/cmp"

	"symbio/actor"
	"symbio/internal/security/private"
	"symbio/internal/skills/share"
	"symbio/internal/skills/trust"
	"symbio/skills"
	"symbio/skills/format"
)

// place is a user's state, and skills of a project.
type place struct {
	t       *testing.T
	keeper  trust.Keeper
	project string
}

func newPlace(t *testing.T) *place {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return &place{t, trust.Keeper{Book: trust.NewBook(filepath.Join(dir, "trust")), Store: share.NewStore(filepath.Join(dir, "peer"))},
		filepath.Join(dir, "project")}
}

// skill writes a skill of the project, whose allowed-tools are tools.
func (p *place) skill(name, tools string) string {
	p.t.Helper()
	dir := filepath.Join(p.project, name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		p.t.Fatal(err)
	}
	text := fmt.Sprintf("---\nname: %s\ndescription: A test skill\nallowed-tools: %s\n---\nRun ${SKILL_DIR}/x or {baseDir}/y.\n", filepath.Base(name), tools)
	if err := os.WriteFile(filepath.Join(dir, "SKILL.md"), []byte(text), 0o600); err != nil {
		p.t.Fatal(err)
	}
	return dir
}

func (p *place) registry(policy format.Policy) *skills.Registry {
	p.t.Helper()
	sys := actor.NewSystem(actor.Config{})
	r, err := skills.NewRegistry(sys, skills.Config{Roots: []skills.Root{{Path: p.project, Scope: skills.ScopeProject}}, Trust: p.keeper,
		Policy: policy})
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() {
		if err := sys.Shutdown(context.WithoutCancel(p.t.Context())); err != nil {
			p.t.Error(err)
		}
	})
	return r
}

func (p *place) activate(r *skills.Registry, name string) skills.Activation {
	p.t.Helper()
	a, err := r.Activate(p.t.Context(), skills.ActivateRequest{Agent: "ann", Name: name})
	if err != nil {
		p.t.Fatal(err)
	}
	return a
}

func (p *place) granted(what string, r *skills.Registry, want ...string) {
	p.t.Helper()
	got := []string{}
	for _, g := range r.Granted("ann") {
		got = append(got, g.Rule.String())
	}
	if d := cmp.Diff(append([]string{}, want...), got); d != "" {
		p.t.Errorf("%s (-want +got):\n%s", what, d)
	}
}

func (p *place) state(a skills.Activation, want trust.State) {
	p.t.Helper()
	if got, err := p.keeper.State(a.Skill, a.Hash); got != want || err != nil {
		p.t.Errorf("%s is %s, %v; want %s", a.Skill.Name, got, err, want)
	}
}

func TestProjectsSkillGrantsWhatAPersonTrustedItWith(t *testing.T) {
	p := newPlace(t)
	dir := p.skill("own", "Read Bash(git:*) Bash")
	r := p.registry(format.Policy{})
	a := p.activate(r, "own")
	p.granted("untrusted", r)
	p.state(a, trust.Proposal)
	if d := cmp.Diff([]string{"Read", "Bash(git:*)"}, a.Proposed); d != "" || len(a.Withheld) != 3 {
		t.Errorf("proposed, of %v (-want +got):\n%s", a.Withheld, d)
	}
	if want := "Run " + dir + "/x or " + dir + "/y.\n"; a.Instructions != want {
		t.Errorf("the instructions are %q, want %q", a.Instructions, want)
	}
	if err := p.keeper.Trust(a.Skill, a.Hash, []string{"Read"}, share.Origin{}, nil); err != nil {
		t.Fatal(err)
	}
	a = p.activate(r, "own")
	p.granted("trusted with one of its rules", r, "Read")
	p.state(a, trust.Trusted)
	if err := p.keeper.Trust(a.Skill, a.Hash, a.Skill.AllowedTools, share.Origin{}, nil); err != nil {
		t.Fatal(err)
	}
	p.activate(r, "own")
	p.granted("trusted with all of them", r, "Bash(git:*)", "Read")

	// Another content is another skill, until it is the old one again.
	p.skill("own", "Read Bash(git:*) Write")
	a = p.activate(r, "own")
	p.granted("changed", r)
	p.state(a, trust.Changed)
	p.skill("own", "Read Bash(git:*) Bash")
	a = p.activate(r, "own")
	p.granted("changed back", r, "Bash(git:*)", "Read")
	// The same content in another place is another skill: its scripts are.
	moved := filepath.Join(filepath.Dir(p.project), "moved")
	if err := os.Rename(p.project, moved); err != nil {
		t.Fatal(err)
	}
	p.project = moved
	elsewhere := p.registry(format.Policy{})
	if a := p.activate(elsewhere, "own"); len(a.Granted) != 0 {
		t.Errorf("the same SKILL.md elsewhere is granted %v", a.Granted)
	}
	// A link to what is trusted is not trusted: the project that links decides where it leads next.
	if err := os.Symlink(moved, filepath.Dir(dir)); err != nil {
		t.Skip("no symbolic links here: ", err)
	}
	p.project = filepath.Join(filepath.Dir(moved), "hostile")
	if err := os.Symlink(filepath.Dir(dir), p.project); err != nil {
		t.Fatal(err)
	}
	if a := p.activate(p.registry(format.Policy{}), "own"); len(a.Granted) != 0 || len(a.Proposed) != 2 {
		t.Errorf("a link to the trusted skill is granted %v", a.Granted)
	}
	if err := p.keeper.Book.Remove(dir, a.Hash); err != nil {
		t.Fatal(err)
	}
	if err := p.keeper.Book.Remove(dir, a.Hash); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("revoked twice: %v", err)
	}
}

// TestGrantEndsAtOnce takes away what each grant rests on, while the skill is active.
func TestGrantEndsAtOnce(t *testing.T) {
	revoke := func(p *place, a skills.Activation) error { return p.keeper.Book.Remove(a.Skill.Dir, a.Hash) }
	edit := func(_ *place, a skills.Activation) error {
		return os.WriteFile(a.Skill.Path, []byte("---\nname: own\ndescription: A test skill\nallowed-tools: Read\n---\nrun ${SKILL_DIR}/x or {baseDir}/y.\n"), 0o600)
	}
	for about, row := range map[string]struct {
		scope           skills.Scope
		trusted, always bool
		end             func(*place, skills.Activation) error
		still           bool
	}{
		"revoked":                  {skills.ScopeProject, true, false, revoke, false},
		"revoked after an always":  {skills.ScopeProject, true, true, revoke, false},
		"another's trust revoked":  {skills.ScopeProject, false, true, func(*place, skills.Activation) error { return nil }, true},
		"edited":                   {skills.ScopeProject, true, false, edit, false},
		"edited after a yes":       {skills.ScopeProject, false, true, edit, false},
		"the user's own is edited": {skills.ScopeUser, false, false, edit, false},
		"deleted":                  {skills.ScopeUser, false, false, func(_ *place, a skills.Activation) error { return os.Remove(a.Skill.Path) }, false},
		"touched": {skills.ScopeUser, false, false, func(_ *place, a skills.Activation) error {
			return os.Chtimes(a.Skill.Path, time.Time{}, time.Now().Add(time.Hour))
		}, true},
	} {
		p := newPlace(t)
		p.skill("own", "Read")
		sys := actor.NewSystem(actor.Config{})
		r, err := skills.NewRegistry(sys, skills.Config{Roots: []skills.Root{{Path: p.project, Scope: row.scope}}, Trust: p.keeper})
		if err != nil {
			t.Fatal(err)
		}
		a := p.activate(r, "own")
		if row.trusted {
			if err := p.keeper.Trust(a.Skill, a.Hash, []string{"Read"}, share.Origin{}, nil); err != nil {
				t.Fatal(err)
			}
			a = p.activate(r, "own")
		}
		if row.always {
			if a, err = r.Accept(t.Context(), "ann", "own", a.Hash); err != nil {
				t.Fatal(err)
			}
		}
		p.granted(about+": before", r, "Read")
		if err := row.end(p, a); err != nil {
			t.Fatal(err)
		}
		if row.still {
			p.granted(about, r, "Read")
		} else {
			p.granted(about, r)
		}
		if err := sys.Shutdown(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	}
}

func TestUnshownGrantIsNotGrantedLater(t *testing.T) {
	p := newPlace(t)
	p.skill("own", "Read Bash")
	r := p.registry(format.Policy{})
	a := p.activate(r, "own")
	if err := p.keeper.Trust(a.Skill, a.Hash, a.Proposed, share.Origin{}, nil); err != nil {
		t.Fatal(err)
	}
	wide := p.registry(format.Policy{WideGrants: true}) // the user's setting, made later
	a = p.activate(wide, "own")
	p.granted("after the setting", wide, "Read")
	if d := cmp.Diff([]string{"Bash"}, a.Proposed); d != "" {
		t.Errorf("proposed (-want +got):\n%s", d)
	}
	if err := p.keeper.Trust(a.Skill, a.Hash, append(a.Granted, a.Proposed...), share.Origin{}, nil); err != nil {
		t.Fatal(err)
	}
	p.activate(wide, "own")
	p.granted("shown and trusted", wide, "Bash", "Read")
	p.activate(r, "own")
	p.granted("without the setting", r, "Read")
}

func TestYesIsForWhatWasShown(t *testing.T) {
	p := newPlace(t)
	p.skill("own", "Read")
	r := p.registry(format.Policy{})
	a := p.activate(r, "own")
	p.skill("own", "Read Write Bash(rm:*)")
	if _, err := r.Accept(t.Context(), "ann", "own", a.Hash); !errors.Is(err, skills.ErrChanged) {
		t.Errorf("changed between the question and the answer: %v, want ErrChanged", err)
	}
	p.granted("changed meanwhile", r)
	p.skill("own", "Read")
	if got, err := r.Accept(t.Context(), "ann", "own", a.Hash); err != nil || len(got.Granted) != 1 || len(got.Withheld) != 0 {
		t.Errorf("accepted: %+v, %v", got, err)
	}
	p.granted("accepted", r, "Read")
	if d := cmp.Diff([]string{a.Skill.Dir}, r.Dirs("ann")); d != "" {
		t.Errorf("directories:\n%s", d)
	}
	if err := r.Deactivate(t.Context(), "ann", "own"); err != nil {
		t.Fatal(err)
	}
	p.granted("deactivated", r)
	if a := p.activate(r, "own"); len(a.Granted) != 0 {
		t.Errorf("a yes for once is remembered: %v", a.Granted)
	}
}

func TestSkillOfAnotherNodeIsInertUntilAPersonTrustsItsHash(t *testing.T) {
	p := newPlace(t)
	dir := p.skill("far", "Read Bash(git:*)")
	p.skill("far/inner", "Write") // a skill within is a file of the skill, and no skill
	pack, err := share.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	o, err := p.keeper.Store.Put(pack, "0123", "kitchen")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(p.project); err != nil {
		t.Fatal(err)
	}
	p.skill("near", "")
	r := p.registry(format.Policy{})
	rescan := func(want ...string) skills.Catalog {
		t.Helper()
		c, err := r.Rescan(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		names := []string{}
		for _, s := range c.Skills {
			names = append(names, string(s.Scope)+" "+s.Name)
		}
		if d := cmp.Diff(want, names); d != "" {
			t.Errorf("the catalog (-want +got):\n%s", d)
		}
		return c
	}
	rescan("project near")
	if _, err := r.Activate(t.Context(), skills.ActivateRequest{Agent: "ann", Name: "far"}); !errors.Is(err, skills.ErrNotFound) {
		t.Errorf("untrusted: %v, want ErrNotFound", err)
	}
	policy := format.Policy{}
	far, _, hash, err := p.fetched(o, policy)
	if err != nil {
		t.Fatal(err)
	}
	// A record that says nothing of all its files is one of a project's skill.
	if err := p.keeper.Book.Put(trust.Record{Dir: far.Dir, Hash: hash, Name: "far", Rules: []string{"Read"}}); err != nil {
		t.Fatal(err)
	}
	rescan("project near")
	if _, ok, err := p.keeper.Trusted(far, hash); ok || !errors.Is(err, private.ErrRecord) {
		t.Errorf("with a record of another scope: %t, %v; want ErrRecord", ok, err)
	}
	if err := p.keeper.Trust(far, hash, nil, o, nil); err != nil {
		t.Fatal(err)
	}
	rescan("project near", "peer far")
	a := p.activate(r, "far")
	p.granted("trusted without its rules", r)
	if d := cmp.Diff([]string{"Read", "Bash(git:*)"}, a.Proposed); d != "" {
		t.Errorf("proposed (-want +got):\n%s", d)
	}
	if a, err := r.Accept(t.Context(), "ann", "far", hash); err != nil || len(a.Granted) != 0 {
		t.Errorf("a yes on the way grants a fetched skill %v, %v", a.Granted, err)
	}
	if err := p.keeper.Trust(far, hash, []string{"Read"}, o, nil); err != nil {
		t.Fatal(err)
	}
	p.activate(r, "far")
	p.granted("trusted with a rule", r, "Read")

	// One of that name here takes no notice of it.
	p.skill("far", "")
	rescan("project far", "project near", "peer far")
	if a := p.activate(r, "far"); a.Skill.Scope != skills.ScopeProject {
		t.Errorf("the name leads to the one of scope %s", a.Skill.Scope)
	}
	if a := p.activate(r, far.Path); a.Skill.Scope != skills.ScopePeer {
		t.Errorf("the path leads to the one of scope %s", a.Skill.Scope)
	}
	// Any file of it counts, not the SKILL.md alone.
	if err := os.Chmod(far.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(far.Dir, "more.md"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Activate(t.Context(), skills.ActivateRequest{Agent: "bob", Name: far.Path}); !errors.Is(err, skills.ErrUntrusted) ||
		!errors.Is(err, share.ErrHash) {
		t.Errorf("changed in the store: %v, want ErrUntrusted and ErrHash", err)
	}
	if err := p.keeper.Trust(far, hash, nil, o, nil); !errors.Is(err, share.ErrHash) {
		t.Errorf("trusted after a change: %v, want ErrHash", err)
	}
	if err := p.keeper.Store.Remove(o.Hash); err != nil {
		t.Fatal(err)
	}
	rescan("project far", "project near")
}

// fetched reads a stored skill as the command line does.
func (p *place) fetched(o share.Origin, policy format.Policy) (skills.Skill, string, string, error) {
	s, text, hash, err := skills.LoadFull(p.keeper.Store.Dir(o.Hash, o.Name), policy)
	s.Scope = skills.ScopePeer
	return s, text, hash, err
}

func TestHostileRecordIsAnErrorAndNoTrust(t *testing.T) {
	p := newPlace(t)
	p.skill("own", "Read")
	r := p.registry(format.Policy{})
	a := p.activate(r, "own")
	if err := p.keeper.Trust(a.Skill, a.Hash, a.Proposed, share.Origin{}, nil); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(filepath.Dir(p.project), "trust")
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Fatalf("%v, %v", entries, err)
	}
	file := filepath.Join(dir, entries[0].Name())
	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file has the mode %v, %v", info.Mode(), err)
	}
	put := func(data string, mode fs.FileMode) func() error {
		return func() error { return errors.Join(os.WriteFile(file, []byte(data), 0o600), os.Chmod(file, mode)) }
	}
	for name, spoil := range map[string]func() error{
		"empty":            put("", 0o600),
		"no JSON":          put("yes", 0o600),
		"two":              put(string(good)+string(good), 0o600),
		"unknown keys":     put(strings.Replace(string(good), `"name"`, `"nome"`, 1), 0o600),
		"another skill":    put(strings.Replace(string(good), "own", "owl", 1), 0o600),
		"another hash":     put(strings.Replace(string(good), a.Hash[:8], "00000000", 1), 0o600),
		"a fetched one":    put(strings.Replace(string(good), `"rules"`, `"tree":"`+a.Hash+`","rules"`, 1), 0o600),
		"too long":         put(string(good)+strings.Repeat(" ", 65<<10), 0o600),
		"of all users":     put(string(good), 0o644),
		"written by all":   put(string(good), 0o622),
		"a link":           func() error { return errors.Join(os.WriteFile(file+".x", good, 0o600), os.Symlink(file+".x", file)) },
		"a directory":      func() error { return os.Mkdir(file, 0o700) },
		"a pipe":           func() error { pipe(t, file); return nil },
		"in an open place": func() error { return errors.Join(put(string(good), 0o600)(), os.Chmod(dir, 0o777)) },
	} {
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		if err := spoil(); err != nil {
			t.Fatal(err)
		}
		if _, ok, err := p.keeper.Trusted(a.Skill, a.Hash); ok || !errors.Is(err, private.ErrRecord) {
			t.Errorf("%s: trusted %t, %v; want ErrRecord", name, ok, err)
		}
		again := p.activate(r, "own")
		p.granted(name, r)
		if len(again.Withheld) != 1 || !strings.Contains(again.Withheld[0].Why, "cannot be read") {
			t.Errorf("%s: withheld %v does not say so", name, again.Withheld)
		}
		if err := os.Chmod(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := put(string(good), 0o600)(); err != nil {
		t.Fatal(err)
	}
	p.activate(r, "own")
	p.granted("as it was", r, "Read")
}

func TestManyTrustAtTheSameTime(t *testing.T) {
	p := newPlace(t)
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			rec := trust.Record{Dir: filepath.Join(p.project, fmt.Sprint(i)), Hash: strings.Repeat(fmt.Sprintf("%x", i), 64),
				Name: fmt.Sprint("s", i)}
			for range 5 {
				if err := p.keeper.Book.Put(rec); err != nil {
					t.Error(err)
				}
			}
			if i%2 == 0 {
				if err := p.keeper.Book.Remove(rec.Dir, rec.Hash); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	all, err := p.keeper.Book.Records()
	if err != nil || len(all) != 8 {
		t.Errorf("%d are left, %v; want 8", len(all), err)
	}
	for _, bad := range []trust.Record{{Dir: "rel", Hash: strings.Repeat("a", 64)}, {Dir: "/a/../b", Hash: strings.Repeat("a", 64)},
		{Dir: "/a", Hash: "x"}, {Dir: "/a", Hash: strings.Repeat("A", 64)}} {
		if err := p.keeper.Book.Put(bad); !errors.Is(err, private.ErrRecord) {
			t.Errorf("%+v: %v, want ErrRecord", bad, err)
		}
	}
}
