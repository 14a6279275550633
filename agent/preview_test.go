package agent_test

import (
	"context"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"symbio/agent"
	"symbio/agent/budget"
	"symbio/agent/event"
	"symbio/agent/llm"
	"symbio/agent/tool"
	"symbio/community"
	"symbio/security/permission"
)

func TestOutlookIsWhatAnAgentWouldHave(t *testing.T) {
	f := agent.NewFactory(agent.Config{
		Tools: []tool.Tool{named("Read"), named("Bash")}, Dir: t.TempDir(),
		DynamicTools: func(context.Context, bool) ([]tool.Tool, map[string]string) {
			return []tool.Tool{named("mcp__a__b"), named("mcp__c__d")}, nil
		},
	})
	d := defined(t, "tools: [Bash, mcp__a__*, find_members]", "permissions: {deny: [Bash]}", "guardrail: {ask: [find_members]}", "budget: {agents: 2}")
	got, err := f.Preview(t.Context(), agent.Order{Definition: d, Policy: everything, Limits: budget.Limits{Depth: 1}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"Bash", "find_members", "mcp__a__b"}, got.Tools.Names()); diff != "" {
		t.Errorf("tools (-want +got):\n%s", diff)
	}
	if got.Limits.Agents != 2 || got.Limits.Depth != 1 || got.Limits.ModelCalls == 0 {
		t.Errorf("limits %+v, want the smaller of each, and defaults", got.Limits)
	}
	if len(got.Links) != 2 || got.Links.Judge(permission.Call{Tool: "Bash"}).Action != permission.Deny {
		t.Errorf("links %+v, want the order's and the definition's", got.Links)
	}
	if g := got.Guardrail; g == nil || len(g.Ask) != 1 || g.Ask[0].String() != "find_members" {
		t.Errorf("guardrail %+v", got.Guardrail)
	}
	if _, err := f.Preview(t.Context(), agent.Order{Definition: defined(t, "sandbox: {write: [nowhere]}")}); err == nil {
		t.Error("a directory that is not there was taken")
	}
}

func TestNamesOfToolsAreThoseThatAgentsCanHave(t *testing.T) {
	all := agent.ToolNames()
	for _, want := range []string{"Read", "MultiEdit", "WebSearch", "Git", "replicate_agent", "send_signal", "find_members", "activate_skill", "skill_load"} {
		if !slices.Contains(all, want) {
			t.Errorf("%s is not among %v", want, all)
		}
	}
}

func TestGuardrailOfADefinitionDeniesASkillThatAPersonNames(t *testing.T) {
	s := newSchool(t, agent.SkillUse{}, map[string]string{"notes/SKILL.md": front("notes", "")})
	for line, want := range map[string]int{"": 1, "guardrail: {deny: [activate_skill]}": 0} {
		before := len(s.happened())
		s.next = func(llm.Request) (llm.Message, error) { return say("done") }
		m, err := s.factory.Spawn(t.Context(), agent.Order{Definition: defined(t, line), Policy: everything})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.community.Send(t.Context(), m.ID, community.Signal{Perception: "task", Data: []byte("use $notes")}); err != nil {
			t.Fatal(err)
		}
		taken := 0
		for _, e := range s.happened()[before:] {
			if e.Type == event.TypeSkill {
				taken++
			}
		}
		if taken != want {
			t.Errorf("%q: the skill was taken %d times, want %d", line, taken, want)
		}
	}
}
