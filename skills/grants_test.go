package skills_test

import (
	"maps"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"symbio/skills"
)

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
				a, err := r.Activate(t.Context(), skills.ActivateRequest{Agent: agent, Name: name})
				if err != nil || a.Already != active[agent][name] {
					t.Fatalf("activate: %v, already %t, want %t", err, a.Already, active[agent][name])
				}
				active[agent][name] = true
			},
			"activate what is not there": func(t *rapid.T) {
				agent, name := pick(t)
				if _, err := r.Activate(t.Context(), skills.ActivateRequest{Agent: agent, Name: name + "x"}); err == nil {
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
