package skills_test

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"symbio/security/permission"
	"symbio/skills"
)

func rules(t interface{ Fatal(...any) }, texts ...string) []permission.Rule {
	var out []permission.Rule
	for _, s := range texts {
		r, err := permission.ParseGrant(s)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, r)
	}
	return out
}

func TestGrantsAreCountedBySkill(t *testing.T) {
	var g skills.Grants
	if g.Rules() != nil || len(g.Skills()) != 0 {
		t.Error("the zero value grants something")
	}
	g.Add("none", nil)
	g.Add("b", rules(t, "Read", "Grep"))
	g.Add("b", rules(t, "Read", "Grep")) // again: not counted twice
	g.Add("a", rules(t, "Read"))
	if d := cmp.Diff([]string{"a", "b"}, g.Skills()); d != "" {
		t.Errorf("skills (-want +got):\n%s", d)
	}
	if got := fmt.Sprint(g.Rules()); got != "[Grep by skill:b Read by skill:a]" {
		t.Errorf("rules: got %s", got)
	}
	if got := fmt.Sprint(g.RulesOf("b")); got != "[Read Grep]" {
		t.Errorf("rules of b: got %s", got)
	}
	g.Remove("gone")
	g.Remove("a")
	if got := fmt.Sprint(g.Rules()); got != "[Grep by skill:b Read by skill:b]" {
		t.Errorf("after a is removed: got %s", got)
	}
	g.Remove("b")
	if len(g.Rules()) != 0 {
		t.Errorf("after all are removed: got %v", g.Rules())
	}
	g.Add("a", rules(t, "Read"))
	g.Clear()
	if len(g.Rules()) != 0 || len(g.Skills()) != 0 {
		t.Errorf("after Clear: got %v", g.Rules())
	}
}

func TestGrantsEqualThoseOfTheActiveSkills(t *testing.T) {
	root := real(t)
	grants := map[string][]string{
		"none": nil, "read": {"Read"}, "both": {"Read", "Grep"}, "more": {"Grep", "Glob", "Bash(git status)"},
	}
	for name, texts := range grants {
		line := "license: MIT"
		if texts != nil {
			line = "allowed-tools:"
			for _, s := range texts {
				line += " " + s
			}
		}
		skill(t, filepath.Join(root, name), line)
	}
	r, _ := registry(t, user(root))
	all := slices.Sorted(maps.Keys(grants))
	agents := []string{"ann", "bob"}
	rapid.Check(t, func(t *rapid.T) {
		active := map[string]map[string]bool{"ann": {}, "bob": {}}
		for _, agent := range agents { // each run starts with dead agents
			if err := r.Release(t.Context(), agent); err != nil {
				t.Fatal(err)
			}
		}
		pick := func(t *rapid.T) (agent, name string) {
			return rapid.SampledFrom(agents).Draw(t, "agent"), rapid.SampledFrom(all).Draw(t, "skill")
		}
		t.Repeat(map[string]func(*rapid.T){
			"activate": func(t *rapid.T) {
				agent, name := pick(t)
				a, err := r.Activate(t.Context(), agent, name)
				if err != nil || a.Already != active[agent][name] {
					t.Fatalf("activate: %v, already %t, want %t", err, a.Already, active[agent][name])
				}
				active[agent][name] = true
			},
			"activate what is not there": func(t *rapid.T) {
				agent, name := pick(t)
				if _, err := r.Activate(t.Context(), agent, name+"x"); err == nil {
					t.Fatal("activated")
				}
			},
			"deactivate": func(t *rapid.T) {
				agent, name := pick(t)
				if err := r.Deactivate(t.Context(), agent, name); (err == nil) != active[agent][name] {
					t.Fatalf("deactivate: %v, active %t", err, active[agent][name])
				}
				delete(active[agent], name)
			},
			"die": func(t *rapid.T) {
				agent, _ := pick(t)
				if err := r.Release(t.Context(), agent); err != nil {
					t.Fatal(err)
				}
				clear(active[agent])
			},
			"": func(t *rapid.T) {
				for agent, names := range active {
					want := map[string]bool{}
					for name := range names {
						for _, rule := range grants[name] {
							want[rule] = true
						}
					}
					got := []string{}
					for _, g := range r.Granted(agent) {
						got = append(got, g.Rule.String())
					}
					sorted := slices.Sorted(maps.Keys(want))
					if d := cmp.Diff(append([]string{}, sorted...), got); d != "" {
						t.Fatalf("grants of %s (-want +got):\n%s", agent, d)
					}
					listed, err := r.Active(t.Context(), agent)
					if err != nil || cmp.Diff(append([]string{}, slices.Sorted(maps.Keys(names))...), listed) != "" {
						t.Fatalf("active of %s: %v, %v; want %v", agent, listed, err, names)
					}
				}
			},
		})
	})
}
