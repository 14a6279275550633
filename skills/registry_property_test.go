package skills_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"symbio/actor"
	"symbio/skills"
)

// world is what a registry should have in it, kept by the simplest means.
type world struct {
	dir    string
	r      *skills.Registry
	onDisk map[string]string   // what each SKILL.md asks for; "-" = broken, absent = removed
	found  map[string]bool     // in the catalog
	off    map[string]bool     // by the choices
	has    map[string][]string // by agent/skill, the rules of its last activation
}

var (
	worldAgents = []string{"ann", "bob", "cem"}
	worldSkills = []string{"one", "two", "three"}
	worldRules  = []string{"", "Read", "Read Grep", "Glob Bash(git status:*)", "Bash(*) Read"}
)

func (w *world) file(skill string) string { return filepath.Join(w.dir, skill, "SKILL.md") }

func (w *world) edit(t *rapid.T, skill, rules string) {
	text := "broken"
	if rules != "-" {
		text = fmt.Sprintf("---\nname: %s\ndescription: d\nallowed-tools: %s\n---\ntext %s\n", skill, rules, rules)
	}
	if err := os.MkdirAll(filepath.Join(w.dir, skill), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(w.file(skill), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	w.changes(skill, rules)
	w.onDisk[skill] = rules
}

// changes ends what a file has granted that is another one from now on.
func (w *world) changes(skill, rules string) {
	for _, agent := range worldAgents {
		if key := agent + "/" + skill; w.has[key] != nil && w.onDisk[skill] != rules {
			w.has[key] = []string{}
		}
	}
}

// step does one thing to the registry and to the expectation of it.
func (w *world) step(t *rapid.T) {
	agent := rapid.SampledFrom(worldAgents).Draw(t, "agent")
	skill := rapid.SampledFrom(worldSkills).Draw(t, "skill")
	key := agent + "/" + skill
	ctx := context.Background()
	switch rapid.SampledFrom([]string{"take", "take", "take", "give back", "end", "end unheard", "rescan", "edit", "break", "remove",
		"choose"}).Draw(t, "do") {
	case "take":
		_, err := w.r.Activate(ctx, skills.ActivateRequest{Agent: agent, Name: skill})
		rules, there := w.onDisk[skill]
		// A skill that no scan has found yet may be found when it is wanted.
		good := there && rules != "-" && !w.off[skill]
		if err == nil && !good || err != nil && good && w.found[skill] {
			t.Fatalf("%s takes %s: %v; want success = %t", agent, skill, err, good)
		}
		if err == nil {
			w.has[key] = slices.DeleteFunc(strings.Fields(strings.ReplaceAll(rules, "git status", "git_status")),
				func(r string) bool { return r == "Bash(*)" })
		}
	case "give back":
		err := w.r.Deactivate(ctx, agent, skill)
		if _, had := w.has[key]; had != (err == nil) {
			t.Fatalf("%s gives %s back: %v; want success = %t", agent, skill, err, had)
		}
		delete(w.has, key)
	case "end":
		if err := w.r.Release(ctx, agent); err != nil {
			t.Fatal(err)
		}
		w.ended(agent)
	case "end unheard": // the actor may not get to know of it
		gone, cancel := context.WithCancel(ctx)
		cancel()
		_ = w.r.Release(gone, agent)
		w.ended(agent)
	case "rescan":
		if _, err := w.r.Rescan(ctx); err != nil {
			t.Fatal(err)
		}
		for _, s := range worldSkills {
			rules, there := w.onDisk[s]
			w.found[s] = there && rules != "-"
		}
	case "edit":
		w.edit(t, skill, rapid.SampledFrom(worldRules).Draw(t, "rules"))
	case "break":
		w.edit(t, skill, "-")
	case "remove":
		if err := os.RemoveAll(filepath.Join(w.dir, skill)); err != nil {
			t.Fatal(err)
		}
		w.changes(skill, "gone")
		delete(w.onDisk, skill)
	case "choose":
		w.off = map[string]bool{}
		var c skills.Choices
		if rapid.Bool().Draw(t, "off") {
			w.off[skill], c.Disabled = true, []string{skill}
			for _, a := range worldAgents {
				delete(w.has, a+"/"+skill)
			}
		}
		if _, err := w.r.Choose(ctx, c); err != nil {
			t.Fatal(err)
		}
	}
}

func (w *world) ended(agent string) {
	for _, s := range worldSkills {
		delete(w.has, agent+"/"+s)
	}
}

// check compares what agents are granted, and what is active, with what should be.
func (w *world) check(t *rapid.T) {
	for _, agent := range worldAgents {
		want, names := []string{}, []string{}
		for _, s := range worldSkills {
			if rules, has := w.has[agent+"/"+s]; has {
				want, names = append(want, rules...), append(names, s)
			}
		}
		slices.Sort(want)
		want = slices.Compact(want)
		slices.Sort(names)
		got := []string{}
		for _, g := range w.r.Granted(agent) {
			got = append(got, strings.ReplaceAll(g.Rule.String(), "git status", "git_status"))
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Fatalf("grants of %s (-want +got):\n%s", agent, d)
		}
		if n := len(w.r.Reading(agent)); n != len(names) {
			t.Fatalf("%s may read in %d skills' directories, want %d", agent, n, len(names))
		}
		active, err := w.r.Active(context.Background(), agent)
		if d := cmp.Diff(names, active); d != "" || err != nil {
			t.Fatalf("active for %s (-want +got): %v\n%s", agent, err, d)
		}
	}
}

// TestGrantsAreThoseOfTheActiveSkillsWhateverHappens does what agents, people and editors may do, in any order.
func TestGrantsAreThoseOfTheActiveSkillsWhateverHappens(t *testing.T) {
	t.Parallel()
	base := real(t)
	worlds := 0
	rapid.Check(t, func(rt *rapid.T) {
		worlds++
		w := &world{dir: filepath.Join(base, fmt.Sprint(worlds)), onDisk: map[string]string{}, found: map[string]bool{},
			has: map[string][]string{}}
		for _, s := range worldSkills {
			w.edit(rt, s, "Read")
			w.found[s] = true
		}
		sys := actor.NewSystem(actor.Config{})
		defer func() {
			if err := sys.Shutdown(context.Background()); err != nil {
				rt.Error(err)
			}
		}()
		var err error
		if w.r, err = skills.NewRegistry(sys, user(w.dir)); err != nil {
			rt.Fatal(err)
		}
		for range rapid.IntRange(1, 15).Draw(rt, "steps") {
			w.step(rt)
			w.check(rt)
		}
	})
}
