package skill_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"symbio/agent/llm"
	"symbio/agent/tool"
	"symbio/agent/tool/skill"
	"symbio/security/permission"
	"symbio/skills"
	"symbio/skills/format"
)

// shop is a registry that hands out what it is asked for, and notes it.
type shop struct {
	now    *skills.Snapshot
	wanted []skills.ActivateRequest
	err    error
}

func (s *shop) Now() *skills.Snapshot { return s.now }

func (s *shop) Activate(_ context.Context, w skills.ActivateRequest) (skills.Activation, error) {
	s.wanted = append(s.wanted, w)
	found, err := s.now.Find(w.Path)
	return skills.Activation{Skill: found, Instructions: "How to."}, errors.Join(err, s.err)
}

func (s *shop) Deactivate(_ context.Context, agent, name string) error {
	if name != "one" {
		return skills.ErrNotActive
	}
	return nil
}

func stock(names ...string) *shop {
	c := skills.Catalog{}
	for i, name := range names {
		name, exposure, _ := strings.Cut(name, "=")
		dir := fmt.Sprintf("/s%d/%s", i, name)
		c.Skills = append(c.Skills, skills.Skill{
			Manifest: format.Manifest{Name: name, Description: "Does\u202e <" + name + ">."}, ID: dir, Dir: dir, Path: dir + "/SKILL.md",
			Scope: skills.ScopeUser, Exposure: skills.Exposure(exposure),
		})
	}
	return &shop{now: &skills.Snapshot{Catalog: c}}
}

// all is a guard that allows, and notes what it was asked.
type all struct{ calls []permission.Call }

func (g *all) Judge(c permission.Call) permission.Verdict {
	g.calls = append(g.calls, c)
	return permission.Verdict{Action: permission.Allow}
}

func set(cfg skill.Config) (*tool.Set, *all) {
	guard := &all{}
	return tool.NewSet(tool.SetConfig{Guard: guard}, skill.Tools(cfg)...), guard
}

func run(s *tool.Set, name, args string) llm.ToolResult {
	return s.Run(context.Background(), []llm.ToolCall{{ID: "1", Name: name, Args: json.RawMessage(args)}})[0]
}

func enum(t *testing.T, s *tool.Set, name, argument string) []string {
	t.Helper()
	for _, spec := range s.Specs() {
		if spec.Name != name {
			continue
		}
		var schema struct {
			Properties map[string]struct{ Enum []string }
		}
		if err := json.Unmarshal(spec.Schema, &schema); err != nil {
			t.Fatal(err)
		}
		return schema.Properties[argument].Enum
	}
	return nil
}

func TestSchemaNamesTheSkillsThereAre(t *testing.T) {
	r := stock("one", "two=off", "mine=user-invocable-only", "twin", "twin", "name=name-only")
	omitted := ""
	s, _ := set(skill.Config{Registry: r, Names: skill.Names(),
		Shown: skills.PromptOptions{Omit: func(s skills.Skill) bool { return s.Name == omitted }}})
	for _, test := range []struct {
		tool, argument string
		want           []string
	}{
		{skill.Activate, "skillName", []string{"/s3/twin/SKILL.md", "/s4/twin/SKILL.md", "name", "one"}},
		{skill.Load, "name", []string{"name", "one"}},
		{skill.Deactivate, "skillName", nil},
	} {
		if d := cmp.Diff(test.want, enum(t, s, test.tool, test.argument)); d != "" {
			t.Errorf("%s (-want +got):\n%s", test.tool, d)
		}
	}
	omitted = "one"
	r.now = stock("one", "new").now
	if d := cmp.Diff([]string{"new"}, enum(t, s, skill.Activate, "skillName")); d != "" {
		t.Errorf("another catalog (-want +got):\n%s", d)
	}
	many := make([]string, 201)
	for i := range many {
		many[i] = fmt.Sprintf("s-%03d", i)
	}
	r.now = stock(many...).now
	if got := enum(t, s, skill.Activate, "skillName"); got != nil {
		t.Errorf("%d names; want none, as a part of them would forbid the rest", len(got))
	}
	for _, none := range []*shop{stock(), stock("a=off", "b=user-invocable-only"), stock("one")} {
		r.now = none.now
		if got := s.Specs(); len(got) != 0 {
			t.Errorf("%d tools without a skill for the agent", len(got))
		}
	}
	if got := run(s, skill.Search, `{"query":"one"}`); !got.IsError || !strings.Contains(got.Text, "There is no tool") {
		t.Errorf("a tool that is not offered: %+v", got)
	}
}

func TestConfigurationPicksTheTools(t *testing.T) {
	for want, names := range map[string][]string{
		"activate_skill skill_search": nil, "": {}, "skill_load": {"skill_load", "none"},
		"activate_skill skill_load skill_search deactivate_skill": skill.Names(),
	} {
		s, _ := set(skill.Config{Registry: stock("one"), Names: names})
		var got []string
		for _, spec := range s.Specs() {
			got = append(got, spec.Name)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%v: got %v, want %s", names, got, want)
		}
	}
	if skill.Unknown(skill.Names()) != nil || skill.Unknown([]string{"skill_run"}) == nil {
		t.Error("names that are of no tool are not told apart")
	}
}

func TestGuardSeesTheNameOfTheSkillThatIsTaken(t *testing.T) {
	for _, test := range []struct {
		tool, args string
		want       map[string]any
		path       string
	}{
		{skill.Activate, `{"skillName":"one"}`, map[string]any{"skillName": "one"}, "/s0/one/SKILL.md"},
		{skill.Activate, `{"skillName":"one","force":true}`, map[string]any{"skillName": "one"}, "/s0/one/SKILL.md"},
		{skill.Activate, `{"skillName":"/s0/one"}`, map[string]any{"skillName": "one", "path": "/s0/one/SKILL.md"}, "/s0/one/SKILL.md"},
		{skill.Load, `{"name":"one"}`, map[string]any{"name": "one"}, "/s0/one/SKILL.md"},
		{skill.Load, `{"name":"one","path":"/s2/twin/SKILL.md"}`, map[string]any{"name": "twin", "path": "/s2/twin/SKILL.md"}, "/s2/twin/SKILL.md"},
		{skill.Load, `{"path":"/s1/twin"}`, map[string]any{"name": "twin", "path": "/s1/twin/SKILL.md"}, "/s1/twin/SKILL.md"},
		{skill.Activate, `{"skillName":"One"}`, map[string]any{"skillName": "One"}, ""},
		{skill.Load, `{"name":"twin"}`, map[string]any{"name": "twin"}, ""},
		{skill.Load, `{}`, map[string]any{}, ""},
	} {
		r := stock("one", "twin", "twin")
		took := ""
		s, guard := set(skill.Config{Registry: r, Names: skill.Names(), Agent: "ann", Epoch: func() int { return 7 },
			OnActivated: func(name string) { took = name }})
		got := run(s, test.tool, test.args)
		if len(guard.calls) != 1 {
			t.Fatalf("%s %s: the guard was asked %d times", test.tool, test.args, len(guard.calls))
		}
		if d := cmp.Diff(test.want, guard.calls[0].Args); d != "" {
			t.Errorf("%s %s: the guard sees (-want +got):\n%s", test.tool, test.args, d)
		}
		if test.path == "" {
			if !got.IsError || len(r.wanted) != 0 || took != "" {
				t.Errorf("%s %s: %+v, and the registry was asked for %v", test.tool, test.args, got, r.wanted)
			}
			continue
		}
		w := r.wanted[0]
		if w.Path != test.path || w.Agent != "ann" || w.Epoch != 7 || w.By != "" || w.Force != strings.Contains(test.args, "force") ||
			got.IsError || took != test.want[map[bool]string{true: "skillName", false: "name"}[test.tool == skill.Activate]] {
			t.Errorf("%s %s: wanted %+v, got %+v, took %q", test.tool, test.args, w, got, took)
		}
	}
}

func TestUnusableConfigurationSaysWhy(t *testing.T) {
	r := stock("one", "twin", "twin")
	s, _ := set(skill.Config{Registry: r, Names: skill.Names()})
	for args, want := range map[string]string{
		`{"name":"One"}`: `did you mean "one"?`, `{"name":"twin"}`: "/s1/twin/SKILL.md, /s2/twin/SKILL.md", `{"path":"/etc/passwd"}`: "no such skill", `{}`: "no such skill",
		`{"name":"one","limit":3}`: `there is no argument "limit"`,
	} {
		if got := run(s, skill.Load, args); !got.IsError || !strings.Contains(got.Text, want) {
			t.Errorf("%s: got %+v, want %q", args, got, want)
		}
	}
	r.err = errors.New("the disk")
	if got := run(s, skill.Activate, `{"skillName":"one"}`); !got.IsError || !strings.Contains(got.Text, "the disk") {
		t.Errorf("got %+v", got)
	}
	if got := run(s, skill.Deactivate, `{"skillName":"two"}`); !got.IsError || run(s, skill.Deactivate, `{"skillName":"one"}`).IsError {
		t.Errorf("giving back: %+v", got)
	}
}

func TestSearchAnswersWithWhatIsNeededToChoose(t *testing.T) {
	r := stock("one", "one-more", "gone=off", "mine=user-invocable-only", "other")
	s, _ := set(skill.Config{Registry: r, DefaultLimit: 1, MaxLimit: 2})
	want := `{"skills":[{"name":"one","description":"Does <one>.","path":"/s0/one/SKILL.md","scope":"user","reason":"exact_name","score":900}],"count":2,"truncated":true}`
	if got := run(s, skill.Search, `{"query":"one"}`); got.IsError || got.Text != want {
		t.Errorf("got %s, want %s", got.Text, want)
	}
	for args, want := range map[string]int{`{"query":"more others","limit":50}`: 2, `{"query":"one","scope":"project"}`: 0,
		`{"query":"one","scope":"repo"}`: 0, `{"query":"one","scope":"user","limit":2}`: 2, `{"query":"gone"}`: 0, `{"query":"mine"}`: 0} {
		got := run(s, skill.Search, args)
		var answer struct{ Skills []struct{ Name string } }
		if err := json.Unmarshal([]byte(got.Text), &answer); err != nil || len(answer.Skills) != want {
			t.Errorf("%s: got %s, want %d", args, got.Text, want)
		}
		if slices.ContainsFunc(answer.Skills, func(s struct{ Name string }) bool { return s.Name == "gone" || s.Name == "mine" }) {
			t.Errorf("%s: finds what is not for models: %s", args, got.Text)
		}
	}
	for _, args := range []string{`{"query":""}`, `{"query":"one","scope":"world"}`, `{}`} {
		if got := run(s, skill.Search, args); !got.IsError {
			t.Errorf("%s: got %s, want an error", args, got.Text)
		}
	}
}
