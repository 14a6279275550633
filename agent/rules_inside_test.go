package agent

import (
	"testing"

	"symbio/community"
	"symbio/internal/agent/lending"
	"symbio/security/permission"
)

// Rules that change hold from the next call on, for an agent and its sub-agents; what a sub-agent was left, and what its
// definition narrows, stay as they were.
func TestRulesChangeForAgentsThatLive(t *testing.T) {
	policy := func(allow ...string) permission.Policy {
		p, err := permission.Config{Preset: "none", Default: "deny", Allow: permission.Rules(allow...)}.Policy()
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	now := policy("Read")
	f := NewFactory(Config{})
	parent := f.newInstance(Order{Rules: func() permission.Policy { return now }}).permissions
	parent.self = community.Member{Name: "parent"}
	child, kept, narrowed := parent.newChild(nil), parent.newChild([]string{"Read"}), parent.newChild(nil)
	definition := policy("Read")
	narrowed.own.policy = &definition
	allowed := func(p *permissions, tool string) bool {
		return p.links(nil).Judge(permission.Call{Tool: tool, Dir: t.TempDir(), Args: map[string]any{"file_path": "x"}}).Action == permission.Allow
	}
	for _, step := range []struct {
		rules                                        permission.Policy
		parentWrites, childWrites, othersWrite, read bool
	}{
		{policy("Read"), false, false, false, true},
		{policy("Read", "Write"), true, true, false, true},
		{policy("Write"), true, true, false, false},
		{policy(), false, false, false, false},
	} {
		now = step.rules
		got := []bool{
			allowed(parent, "Write"), allowed(child, "Write"), allowed(kept, "Write"), allowed(narrowed, "Write"),
			allowed(parent, "Read"), allowed(child, "Read"), allowed(kept, "Read"), allowed(narrowed, "Read"),
		}
		want := []bool{step.parentWrites, step.childWrites, step.othersWrite, step.othersWrite, step.read, step.read, step.read, step.read}
		for i := range got {
			if got[i] != want[i] {
				t.Errorf("rules %v: got %v, want %v", step.rules.Allow, got, want)
				break
			}
		}
	}
}

// kept are approvals of people.
type kept []permission.Grant

func (k kept) Granted(string) []permission.Grant { return k }
func (kept) End(string)                          {}

// What a person allows for a directory is not for an agent that is lent to another node, and for none of its sub-agents.
func TestLentAgentGetsNoRulesOfDirectory(t *testing.T) {
	granted, err := permission.Grants([]string{"Write(./*)"}, "/work", "lasting:1")
	if err != nil {
		t.Fatal(err)
	}
	f := NewFactory(Config{Approvals: append(kept(granted), permission.Grant{Call: "Write x"})})
	own, lent := f.newInstance(Order{}).permissions, f.newInstance(Order{}).permissions
	lent.lease = new(lending.Lease)
	for name, c := range map[string]struct {
		p    *permissions
		want int
	}{"own": {own.newChild(nil), 2}, "lent": {lent, 1}, "of a lent one": {lent.newChild(nil), 1}} {
		if got := c.p.granted(nil); len(got) != c.want {
			t.Errorf("%s: granted %v, want %d", name, got, c.want)
		}
	}
}
