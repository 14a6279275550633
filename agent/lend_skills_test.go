package agent_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"symbio/agent"
	"symbio/agent/definition"
	"symbio/agent/llm"
	"symbio/internal/agent/lending"
	"symbio/skills"
)

// trusting is what people of a node trust: rules by the name of a skill.
type trusting map[string][]string

func (t trusting) Trusted(s skills.Skill, _ string) ([]string, bool, error) {
	rules, ok := t[s.Name]
	return rules, ok, nil
}
func (trusting) Fetched() []skills.Root { return nil }

// library is a directory with skills that ask for Read and Bash(python3:*), by name with the text.
func library(t *testing.T, texts map[string]string) string {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range texts {
		if err := os.Mkdir(filepath.Join(root, name), 0o700); err != nil {
			t.Fatal(err)
		}
		text = "---\nname: " + name + "\ndescription: d\nallowed-tools: Read Bash(python3:*)\n---\n" + text
		if err := os.WriteFile(filepath.Join(root, name, "SKILL.md"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// withSkills starts both nodes again, with skills. The borrower's grant what they ask for.
func (l *lan) withSkills(borrower string, lender skills.Config, rules ...string) {
	l.t.Helper()
	l.a.skills, l.b.skills = skills.Config{Roots: []skills.Root{{Path: borrower, Scope: skills.ScopeUser}}}, lender
	for _, p := range []*place{l.a, l.b} {
		if err := p.end(); err != nil {
			l.t.Fatal(err)
		}
		p.start(l.t)
	}
	l.b.lender = nil
	policy := allowed(l.t, rules...)
	policy.Deny = allowed(l.t, "Skill(denied)").Allow
	l.b.lendAs(l.t, lending.LenderConfig{}, agent.Order{Policy: policy})
	l.meet()
}

// borrower is a model whose agents borrow one of bob and answer with the result of replicate_agent;
// the borrowed ones answer with their system prompt.
func borrower() llm.Model {
	return script(func(_ context.Context, r llm.Request) (llm.Message, error) {
		m := last(r)
		switch {
		case firstTask(r) != "borrow":
			return say(r.System)
		case m.Role == llm.User:
			return call(use("1", "replicate_agent", map[string]any{"reason": "it is to help", "node": "bob"}))
		}
		return say(m.Results[0].Text)
	})
}

func TestLentAgentHasSkillsThatItsNodeTrusts(t *testing.T) {
	texts := map[string]string{"same": "Same.", "other": "Ours.", "untrusted": "Untrusted.", "absent": "Absent.", "denied": "Denied."}
	ours := library(t, texts)
	delete(texts, "absent")
	texts["other"] = "Theirs."
	theirs := skills.Config{
		Roots: []skills.Root{{Path: library(t, texts), Scope: skills.ScopeProject}}, GrantTTL: skills.GrantTurn,
		Trust: trusting{"same": {"Read"}, "other": {"Read", "Bash(python3:*)"}, "denied": {"Read"}},
	}
	d := definition.General()
	d.Skills = []string{"same", "other", "untrusted", "absent", "denied"}
	omitted := "skills of yours that are not active for it: absent (its node has no such skill), denied (the rules do not allow it there), " +
		"other (its node has another SKILL.md), untrusted (no person of its node trusts it)"
	for name, c := range map[string]struct {
		lender skills.Config
		rules  []string // of the parent, beside those to borrow
		told   string
		active []string
		grants []string
	}{
		"trusted":               {theirs, []string{"activate_skill"}, omitted, []string{"same"}, []string{"Read"}},
		"denied by the parent":  {theirs, nil, "same (the rules do not allow it there)", []string{}, nil},
		"lender without skills": {skills.Config{}, []string{"activate_skill"}, "same (its node has no such skill)", nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLAN(t, borrower(), general())
				l.withSkills(ours, c.lender, "activate_skill")
				m := l.a.spawn(t, agent.Order{Definition: d, Policy: allowed(t, append(c.rules, "replicate_agent", "invoke_capability")...)})
				got, err := l.a.task(t.Context(), m, "borrow")
				if err != nil || !strings.Contains(got, c.told) {
					t.Fatalf("the parent reads %q, %v; want %q", got, err, c.told)
				}
				child := l.b.here()[0]
				for task := range 2 {
					prompt, err := l.b.task(t.Context(), child, "show")
					if err != nil || strings.Contains(prompt, "Same.") != slices.Contains(c.active, "same") || strings.Contains(prompt, "Theirs.") || strings.Contains(prompt, "Untrusted.") {
						t.Errorf("task %d: its prompt is %q, %v", task, prompt, err)
					}
					if l.b.registry == nil {
						continue
					}
					if active, err := l.b.registry.Active(t.Context(), string(child.ID)); err != nil || !slices.Equal(active, c.active) {
						t.Errorf("task %d: active are %v, %v; want %v", task, active, err, c.active)
					}
					var rules []string
					for _, g := range l.b.registry.Granted(string(child.ID)) {
						rules = append(rules, g.Rule.String())
					}
					if diff := cmp.Diff(c.grants, rules); diff != "" {
						t.Errorf("task %d: grants (-want +got):\n%s", task, diff)
					}
				}
			})
		})
	}
}
