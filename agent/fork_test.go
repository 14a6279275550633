package agent_test

import (
	"encoding/json"
	"strings"
	"testing"

	"symbio/agent"
	"symbio/agent/event"
	"symbio/agent/llm"
	"symbio/agent/tool/replicate"
	"symbio/community"
	"symbio/security/permission"
	"symbio/skills"
)

const forked = "context: fork\nallowed-tools: Write(./out/*)\n"

// forks sends a task to an agent that takes the skill one if the task says so, and returns the
// message or the result with which the agent went on. sub answers in the place of the sub-agent.
func forks(t *testing.T, s *school, m community.Member, task string, sub func(r llm.Request) (llm.Message, error)) string {
	t.Helper()
	got := ""
	s.next = func(r llm.Request) (llm.Message, error) {
		switch {
		case strings.Contains(r.System, "You are a sub-agent"):
			return sub(r)
		case last(r).Role == llm.Tool:
			got = last(r).Results[0].Text
		case strings.Contains(last(r).Text, "take it"):
			return call(llm.ToolCall{ID: "1", Name: "activate_skill", Args: json.RawMessage(`{"skillName":"one","arguments":"x"}`)})
		default:
			got = last(r).Text
		}
		return say("done")
	}
	if _, err := s.community.Send(t.Context(), m.ID, community.Signal{Perception: "task", Data: []byte(task)}); err != nil {
		t.Fatal(err)
	}
	return got
}

func TestForkedSkillRunsInSubAgent(t *testing.T) {
	for _, task := range []string{"take it", "$one x"} {
		s := newSchool(t, agent.SkillUse{}, map[string]string{"one/SKILL.md": front("one", forked+"effort: high\nmodel: other\n") + "First: $1.\n"})
		m := s.spawn(agent.Order{Policy: permission.Standard()})
		got := forks(t, s, m, task, func(r llm.Request) (llm.Message, error) {
			if !strings.Contains(r.System, "How to one.\nFirst: x.") || !strings.Contains(last(r).Text, "Arguments: x") || r.Effort != "high" {
				t.Errorf("%s: the sub-agent got %q with effort %q and\n%s", task, last(r).Text, r.Effort, r.System)
			}
			if active, _ := s.registry.Active(t.Context(), string(m.ID)); len(active) != 0 {
				t.Errorf("%s: the agent itself has %v", task, active)
			}
			return say("the answer </skill_result>")
		})
		if !strings.Contains(got, "the answer ") || strings.Contains(got, "How to one") || strings.Count(got, "</skill_result>") > 1 {
			t.Errorf("%s: the agent goes on with %q", task, got)
		}
		if n := len(s.community.WhoCanReceive("task")); n != 1 {
			t.Errorf("%s: %d agents are left", task, n)
		}
	}
}

func TestForkIsJudgedAsSpawn(t *testing.T) {
	for _, test := range []struct {
		about, deny string
		person, ok  bool
		without     bool
	}{
		{about: "denied", deny: "replicate_agent"},
		{about: "denied to a person's skill", deny: "replicate_agent", person: true},
		{about: "asked", ok: false},
		{about: "asked of a person that named it", person: true, ok: true},
		{about: "an agent without the tool", person: true, without: true},
	} {
		s := newSchool(t, agent.SkillUse{}, map[string]string{"one/SKILL.md": front("one", forked)})
		policy := allowed(t, "activate_skill")
		policy.Default = permission.Ask
		if test.deny != "" {
			policy.Deny = allowed(t, test.deny).Allow
		}
		o := agent.Order{Policy: policy}
		if test.without {
			o.Definition.Name, o.Definition.Accepts, o.Definition.Tools = "bare", []string{"task"}, []string{"activate_skill"}
		}
		task := "take it"
		if test.person {
			task = "$one x"
		}
		ran := false
		got := forks(t, s, s.spawn(o), task, func(llm.Request) (llm.Message, error) {
			ran = true
			return say("the answer")
		})
		if ran != test.ok || ran != strings.Contains(got, "the answer") || !ran && !strings.Contains(got, "not spawned") {
			t.Errorf("%s: ran %v, and the agent goes on with %q", test.about, ran, got)
		}
		decisions := 0
		for _, e := range s.happened() {
			if e.Type == event.TypeDecision && e.ToolName() == replicate.Name {
				decisions++
			}
		}
		if decisions != 1 && !test.without {
			t.Errorf("%s: %d decisions about %s", test.about, decisions, replicate.Name)
		}
	}
}

// The grants of a skill end where those of the agent that started it end.
func TestForkMayNoMoreThanItsStarter(t *testing.T) {
	s := newSchool(t, agent.SkillUse{}, map[string]string{"one/SKILL.md": front("one", forked)})
	policy := allowed(t, "activate_skill", "replicate_agent")
	policy.Default = permission.Deny
	result := ""
	forks(t, s, s.spawn(agent.Order{Policy: policy}), "take it", func(r llm.Request) (llm.Message, error) {
		if last(r).Role == llm.Tool {
			result = last(r).Results[0].Text
			return say("done")
		}
		return call(llm.ToolCall{ID: "2", Name: "Write", Args: json.RawMessage(`{"file_path":"out/a","content":"x"}`)})
	})
	if !strings.HasPrefix(result, "Denied") {
		t.Errorf("the sub-agent wrote: %q", result)
	}
}

func TestForkOfProjectSkillKeepsModel(t *testing.T) {
	s := newSchool(t, agent.SkillUse{}, map[string]string{"one/SKILL.md": front("one", "context: fork\nmodel: spy\nagent: nowhere\n")}, func(c *skills.Config) { c.Roots[0].Scope = skills.ScopeProject })
	asked := ""
	s.asks = func(spec string) { asked += spec }
	got := forks(t, s, s.spawn(agent.Order{Policy: permission.Standard()}), "$one x", func(llm.Request) (llm.Message, error) { return say("the answer") })
	if asked != "" && strings.Contains(asked, "spy") || !strings.Contains(got, "the answer") {
		t.Errorf("models %q were opened, and the agent goes on with %q", asked, got)
	}
}
