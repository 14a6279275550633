package agent_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"symbio/agent"
	"symbio/agent/definition"
	"symbio/agent/event"
	"symbio/agent/llm"
	"symbio/community"
	"symbio/security/permission"
	"symbio/skills"
)

// believer trusts the skills with those names.
type believer []string

func (b believer) Trusted(s skills.Skill, _ string) ([]string, bool, error) {
	return []string{"Write(./*)"}, slices.Contains(b, s.Name), nil
}
func (b believer) Fetched() []skills.Root { return nil }

// asProject makes the skills those of a project, of which a person trusts some.
func asProject(trusted ...string) func(*skills.Config) {
	return func(c *skills.Config) { c.Roots[0].Scope, c.Trust = skills.ScopeProject, believer(trusted) }
}

// heard is the last message of a person that the model was given.
func (s *school) heard() string {
	for _, m := range slices.Backward(s.requests[len(s.requests)-1].Messages) {
		if m.Role == llm.User {
			return m.Text
		}
	}
	return ""
}

func (s *school) active(m community.Member) []string {
	s.t.Helper()
	names, err := s.registry.Active(s.t.Context(), string(m.ID))
	if err != nil {
		s.t.Fatal(err)
	}
	return names
}

func (s *school) granted(m community.Member) (rules []string) {
	for _, g := range s.registry.Granted(string(m.ID)) {
		rules = append(rules, g.Rule.String())
	}
	return rules
}

const triggered = "triggers: {keywords: [release notes], verbs: [ship]}\nallowed-tools: Write(./*)\n"

func TestTriggeredSkillIsNamedBehindTheTask(t *testing.T) {
	s := newSchool(t, agent.SkillUse{}, map[string]string{
		"notes/SKILL.md": front("notes", triggered), "other/SKILL.md": front("other", "triggers: [shipping]\n"),
		"mine/SKILL.md": front("mine", "disable-model-invocation: true\n"+triggered), "off/SKILL.md": front("off", triggered), "denied/SKILL.md": front("denied", triggered),
	}, func(c *skills.Config) { c.Choices.Disabled = []string{"off"} })
	policy := permission.Standard()
	policy.Deny = allowed(t, "activate_skill(denied)").Allow
	m := s.spawn(agent.Order{Policy: policy})
	s.tell(m, "Write the release notes before shipping")
	want := "Write the release notes before shipping\n\n[The triggers of these skills match the task: notes (keyword \"release notes\"), other (keyword \"shipping\"). Before you begin, activate those that fit, with activate_skill.]"
	if got := s.heard(); got != want {
		t.Errorf("the model is told\n%q, want\n%q", got, want)
	}
	if got := s.active(m); len(got) != 0 {
		t.Errorf("active: %v", got)
	}
	first := s.system()
	s.tell(m, "Something else")
	if s.heard() != "Something else" || s.system() != first {
		t.Errorf("without a match: %q, and the system prompt changes: %t", s.heard(), s.system() != first)
	}
	s.tell(m, "Ship it", takes("notes"))
	s.tell(m, "Ship it again")
	if strings.Contains(s.heard(), "notes (") {
		t.Errorf("a skill that is active is named: %q", s.heard())
	}
	if !slices.ContainsFunc(s.texts(event.TypeNotice), func(text string) bool {
		return text == `Skills whose triggers match this task: notes (verb "ship")`
	}) {
		t.Errorf("notices: %q", s.texts(event.TypeNotice))
	}
}

func TestTriggeredSkillIsActivatedOnlyWithTrust(t *testing.T) {
	const auto = "auto: true\n" + triggered
	for name, c := range map[string]struct {
		more    string
		config  func(*skills.Config)
		rules   []string // beside the standard ones
		ask     bool     // activate_skill is asked about
		active  bool
		granted bool
	}{
		"user":               {more: auto, active: true, granted: true},
		"user without auto":  {more: triggered},
		"project":            {more: auto, config: asProject()},
		"project, trusted":   {more: auto, config: asProject("notes"), active: true, granted: true},
		"no match":           {more: "auto: true\ntriggers: [else]\n"},
		"for people":         {more: "disable-model-invocation: true\n" + auto},
		"asked about":        {more: auto, ask: true},
		"in a sub-agent":     {more: "context: fork\n" + auto},
		"too wide for skill": {more: "auto: true\ntriggers: [release notes]\nallowed-tools: Bash\n", active: true},
	} {
		t.Run(name, func(t *testing.T) {
			var policy []func(*skills.Config)
			if c.config != nil {
				policy = append(policy, c.config)
			}
			s := newSchool(t, agent.SkillUse{}, map[string]string{"notes/SKILL.md": front("notes", c.more)}, policy...)
			o := agent.Order{}
			if c.ask {
				o.Policy = permission.Policy{Allow: allowed(t, "Read").Allow, Default: permission.Ask}
			}
			m := s.spawn(o)
			s.tell(m, "Write the release notes")
			if got := s.active(m); slices.Contains(got, "notes") != c.active {
				t.Errorf("active: %v, want %t", got, c.active)
			}
			if got := s.granted(m); slices.Contains(got, "Write(./*)") != c.granted {
				t.Errorf("granted: %v, want %t", got, c.granted)
			}
			if strings.Contains(s.heard(), "How to notes.") != c.active || strings.Contains(s.system(), "How to notes.") {
				t.Errorf("the model is told %q and %q", s.heard(), s.system())
			}
			if slices.Contains(s.texts(event.TypeSkill), "notes") != c.active || slices.Contains(s.texts(event.TypeNotice), `Activated for this task by a trigger: notes (keyword "release notes")`) != c.active {
				t.Errorf("events: %q, %q", s.texts(event.TypeSkill), s.texts(event.TypeNotice))
			}
		})
	}
}

func TestTextOfAnotherAgentTriggersNothing(t *testing.T) {
	s := newSchool(t, agent.SkillUse{}, map[string]string{"notes/SKILL.md": front("notes", "auto: true\n"+triggered)})
	m := s.spawn(agent.Order{})
	s.next = func(llm.Request) (llm.Message, error) { return say("ok") }
	if _, err := s.community.Send(t.Context(), m.ID, community.Signal{Perception: "task", Data: []byte("Write the release notes"), Requester: []string{"other"}}); err != nil {
		t.Fatal(err)
	}
	if s.heard() != "Write the release notes" || len(s.active(m)) > 0 {
		t.Errorf("the model is told %q, active: %v", s.heard(), s.active(m))
	}
}

func TestTextThatNoPersonWroteNamesAndTriggersNothing(t *testing.T) {
	const data = "$notes shows the release notes of @a.txt"
	for task, ctx := range map[string]context.Context{"Sum up" + agent.Piped + data: t.Context(), data: agent.WithData(t.Context())} {
		s := newSchool(t, agent.SkillUse{}, map[string]string{"notes/SKILL.md": front("notes", "auto: true\n"+triggered)})
		if err := os.WriteFile(filepath.Join(s.work, "a.txt"), []byte("one"), 0o600); err != nil {
			t.Fatal(err)
		}
		m := s.spawn(agent.Order{})
		s.next = func(llm.Request) (llm.Message, error) { return say("ok") }
		if _, err := s.community.Send(ctx, m.ID, community.Signal{Perception: "task", Data: []byte(task)}); err != nil {
			t.Fatal(err)
		}
		if s.heard() != task || len(s.active(m)) > 0 {
			t.Errorf("the model is told %q, active: %v", s.heard(), s.active(m))
		}
	}
}

func TestDependenciesComeWithSkillOfDefinitionAndMention(t *testing.T) {
	s := newSchool(t, agent.SkillUse{}, map[string]string{
		"a/SKILL.md": front("a", "depends: [b, none]\n"), "b/SKILL.md": front("b", "allowed-tools: Write(./*)\nversion: 1.0\n"),
		"c/SKILL.md": front("c", "depends: [denied, b]\n"), "denied/SKILL.md": front("denied", ""),
	})
	def := definition.General()
	def.Skills = []string{"a"}
	m := s.spawn(agent.Order{Definition: def})
	s.tell(m, "go")
	if !strings.Contains(s.system(), "How to b.") || !slices.Contains(s.granted(m), "Write(./*)") {
		t.Errorf("the system prompt is\n%s\ngranted %v", s.system(), s.granted(m))
	}
	for _, want := range []string{"Loaded skill: b v1.0", "The skill a depends on none, which was not activated: it depends on none, and no skill of that name was found"} {
		if !slices.Contains(s.texts(event.TypeNotice), want) {
			t.Errorf("notices: %q, want %q", s.texts(event.TypeNotice), want)
		}
	}
	policy := permission.Standard()
	policy.Deny = allowed(t, "activate_skill(denied)").Allow
	m = s.spawn(agent.Order{Policy: policy})
	s.tell(m, "use $c")
	if got := s.active(m); !slices.Equal(got, []string{"b", "c"}) {
		t.Errorf("active: %v", got)
	}
	if !strings.Contains(s.heard(), "How to b.") || !strings.Contains(s.heard(), "- denied: denied: The rule activate_skill(denied) denies this.") {
		t.Errorf("the model is told %q", s.heard())
	}
	s.tell(m, "done", use("d", "deactivate_skill", map[string]any{"skillName": "c"}))
	if err := s.registry.Deactivate(t.Context(), string(m.ID), "c"); err != nil && !errors.Is(err, skills.ErrNotActive) {
		t.Fatal(err)
	}
	if got := s.active(m); len(got) > 0 {
		t.Errorf("after giving it back: %v", got)
	}
}
