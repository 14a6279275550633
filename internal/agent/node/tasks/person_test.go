package tasks

import (
	"context"
	"testing"

	"symbio/agent"
	"symbio/agent/definition"
	"symbio/agent/tool"
	"symbio/agent/tool/guardrail"
	"symbio/community"
	"symbio/internal/agent/lending"
	"symbio/security/permission"
)

// parsedRules returns rules for a test.
func parsedRules(t *testing.T, texts ...string) (all []permission.Rule) {
	t.Helper()
	for _, text := range texts {
		r, err := permission.ParseRule(text)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
	return all
}

// A rule that came with a task answers the question of a lender only where it would allow the call of an agent of this node.
func TestRulesOfATaskLiftNoRuleOfTheNodeOnALender(t *testing.T) {
	denied, guarded := definition.Definition{}, definition.Definition{}
	denied.Permissions.Deny, guarded.Guardrail = permission.Rules("Bash(rm:*)"), guardrail.Config{Ask: permission.Rules("Write(notes/*)")}
	hidden := map[string]any{"command": "x=$(printf r; printf m); $x -f gone"}
	note := map[string]any{"file_path": "notes/a", "content": "x"}
	for name, tt := range map[string]struct {
		deny, allow string
		def         definition.Definition
		q           lending.Question
		want        bool
	}{
		"allowed":                          {allow: "Bash(*)", q: lending.Question{Tool: "Bash", Args: map[string]any{"command": "rm gone"}}, want: true},
		"the network of the lender":        {allow: "Bash(*)", q: lending.Question{Tool: "Bash", Args: map[string]any{"command": "curl x", "access": "network"}}},
		"not meant":                        {allow: "Read(*)", q: lending.Question{Tool: "Write", Args: note}},
		"denied by the node":               {deny: "Bash(rm:*)", allow: "Bash(*)", q: lending.Question{Tool: "Bash", Args: map[string]any{"command": "rm gone"}}},
		"may be denied by the node":        {deny: "Bash(rm:*)", allow: "Bash(*)", q: lending.Question{Tool: "Bash", Args: hidden}},
		"may be denied by the definition":  {allow: "Bash(*)", def: denied, q: lending.Question{Tool: "Bash", Args: hidden}},
		"asked about by the definition":    {allow: "Write(notes/*)", def: guarded, q: lending.Question{Tool: "Write", Args: note}},
		"asked about by a rule elsewhere":  {allow: "Write(notes/*)", q: lending.Question{Tool: "Write", Args: note, Rule: "Write(notes/*)"}},
		"nothing said about by definition": {allow: "Write(*)", def: guarded, q: lending.Question{Tool: "Write", Args: map[string]any{"file_path": "a", "content": "x"}}, want: true},
	} {
		allow := parsedRules(t, tt.allow)
		who := &person{dir: t.TempDir(), allow: allow, policy: func() permission.Policy {
			p := permission.Policy{Allow: allow, Default: permission.Ask}
			if tt.deny != "" {
				p.Deny = parsedRules(t, tt.deny)
			}
			return p
		}}
		b, err := New(Config{Agents: new(Spawner)}).borrower(who, tt.def)
		if err != nil {
			t.Fatal(err)
		}
		if got := b.Owner().Ask(t.Context(), community.Member{Name: "b"}, "1", tt.q); got.Allow != tt.want || (len(who.denials) == 0) != tt.want {
			t.Errorf("%s: %+v, denials %v", name, got, who.denials)
		}
	}
}

// A call that no person answered is denied, and that is told; one that a person refused is the person's.
func TestTaskKeepsCallsThatNoPersonAnswered(t *testing.T) {
	for name, tt := range map[string]struct {
		answer tool.Answer
		want   int
	}{
		"no answer in time": {tool.Answer{Why: "It was denied, because there was no answer within 3s."}, 1},
		"refused":           {tool.Answer{By: "ann", Reason: "no"}, 0},
		"allowed":           {tool.Answer{Allow: true, By: "ann"}, 0},
	} {
		who := &person{dir: t.TempDir(), policy: func() permission.Policy { return permission.Policy{} }, next: func(context.Context, agent.ApprovalRequest) tool.Answer { return tt.answer }}
		for _, call := range []string{"1", ""} { // "" = a lender asks
			if got := who.ask(t.Context(), agent.ApprovalRequest{Decision: tool.Decision{CallID: call, Tool: "Write"}}); got != tt.answer {
				t.Errorf("%s: %+v", name, got)
			}
		}
		if len(who.denials) != 2*tt.want {
			t.Errorf("%s: denials %v", name, who.denials)
		}
	}
}
