package permission_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"symbio/security/permission"
)

func TestConstraintsRoundTrip(t *testing.T) {
	grant, err := permission.ParseGrant("Read(${CLAUDE_SKILL_DIR}/x)")
	if err != nil {
		t.Fatal(err)
	}
	rule, err := permission.ParseRule("Bash(make)")
	if err != nil {
		t.Fatal(err)
	}
	memory := new(permission.Memory)
	own := policy(t, "final: Bash(rm:*) | deny: Edit(./secret) | override: Edit(./secret/a) | allow: Read; Write(./*) | default: ask")
	memory.Remember(call("Edit", "file_path", "b"), own, permission.Allow)
	chain := permission.Chain{
		{Name: "root", Policy: policy(t, "allow: Read; Write | default: ask")},
		{Name: "worker", Policy: own, Memory: memory, Granted: func() []permission.Grant {
			return []permission.Grant{{Rule: grant.WithSkillDir("/skills/a"), Source: "skill:a"}, {Rule: rule},
				{Call: call("Edit", "file_path", "c").Key()}}
		}},
		{Name: "again", Policy: policy(t, "allow: Write; Read | default: ask")},
	}
	data, err := permission.EncodeConstraints(chain)
	if err != nil {
		t.Fatal(err)
	}
	read, err := permission.DecodeConstraints(data)
	if err != nil || len(read) != 2 || read[0].Name != "root" || read[1].Name != "worker" {
		t.Fatalf("%s is read as %+v, %v", data, read, err)
	}
	for name, tt := range map[string]struct {
		call permission.Call
		want permission.Action
	}{
		"allowed by both":     {call("Read", "file_path", "x"), permission.Allow},
		"denied for good":     {bash("rm x"), permission.Deny},
		"denied":              {call("Edit", "file_path", "secret"), permission.Deny},
		"granted to one":      {bash("make"), permission.Ask},
		"answered to one":     {call("Edit", "file_path", "b"), permission.Ask},
		"granted as one call": {call("Edit", "file_path", "c"), permission.Ask},
		"written":             {call("Write", "file_path", "x"), permission.Allow},
	} {
		if v := read.Judge(tt.call); v.Action != tt.want {
			t.Errorf("%s: %v, want %v: %s", name, v.Action, tt.want, v.Why)
		}
	}
	if v := read[1:].Judge(bash("make")); v.Action != permission.Allow {
		t.Errorf("a rule that was granted is not among them: %s", data)
	}
	for dir, want := range map[string][]permission.Grant{"": nil, "/here/a": {{Rule: grant.WithSkillDir("/here/a"), Source: "skill:a"}}} {
		if got := read.WithSkillDirs(map[string]string{"skill:a": dir})[1].Granted(); !reflect.DeepEqual(got, want) {
			t.Errorf("of the skill in %q is granted %v, want %v", dir, got, want)
		}
	}
	if data, err := permission.EncodeConstraints(nil); data != nil || err != nil {
		t.Errorf("nobody: %s, %v", data, err)
	}
}

// Whatever another node says, nobody is permitted more by it.
func TestConstraintsOfNodeNeverPermitMore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		mine := permission.Chain{{Name: "mine", Policy: drawPolicy(t)}}
		data, err := permission.EncodeConstraints(permission.Chain{{Name: "theirs", Policy: drawPolicy(t)}})
		if err != nil {
			t.Fatal(err)
		}
		theirs, err := permission.DecodeConstraints(data)
		if err != nil {
			t.Fatal(err)
		}
		c := permission.Call{Tool: "Bash", Args: map[string]any{"command": drawScript(t)}, Dir: "/w"}
		alone, both, other := mine.Judge(c), append(mine, theirs...).Judge(c), theirs.Judge(c)
		if both.Action != min(alone.Action, other.Action) {
			t.Fatalf("%v: mine %v, theirs %v, both %v", c.Args, alone.Action, other.Action, both.Action)
		}
	})
}

// Guardrails hold on another node exactly as they do here, whatever their groups and overrides are.
func TestConstraintsOfGuardrailsJudgeAsHere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var within []permission.Guardrail
		for i := range rapid.IntRange(1, 4).Draw(t, "guardrails") {
			g := drawPolicy(t).Guardrail()
			if g.Ask = drawRules(t, "ask"); rapid.Bool().Draw(t, "undecided") {
				g.Decides, g.Default = false, permission.Deny
			}
			g.Group = rapid.SampledFrom([]int{-1 - i, 0, 1}).Draw(t, "group")
			within = append(within, g)
		}
		data, err := permission.EncodeConstraints(nil, within...)
		if err != nil {
			t.Fatal(err)
		}
		there, err := permission.DecodeConstraints(data)
		if err != nil {
			t.Fatalf("%s: %v", data, err)
		}
		mine := permission.Link{Name: "mine", Policy: drawPolicy(t)}
		c := rapid.SampledFrom(someCalls).Draw(t, "call")
		got := append(permission.Chain{mine}, there...).Judge(c)
		c.Within = within
		if want := (permission.Chain{mine}).Judge(c); got.Action != want.Action {
			t.Fatalf("%s: %v there (%s), %v here (%s)", data, got.Action, got.Why, want.Action, want.Why)
		}
	})
}

func TestUnreadableConstraintsAreError(t *testing.T) {
	many := strings.TrimSuffix(strings.Repeat(`"Read",`, 2049), ",")
	for name, data := range map[string]string{
		"no JSON": "x", "no links": "{}", "empty links": `{"links":[]}`, "an unknown key": `{"links":[{"name":"a","default":"allow","ask":["Read"]}]}`,
		"an unknown list": `{"links":[{"name":"a","default":"allow"}],"guardrails":[]}`, "something behind": `{"links":[{"name":"a","default":"allow"}]}{}`,
		"a bad rule": `{"links":[{"name":"a","default":"allow","deny":["Bash(rm"]}]}`, "a bad default": `{"links":[{"name":"a","default":"maybe"}]}`,
		"a hidden name": `{"links":[{"name":"a\u202e","default":"allow"}]}`, "a long name": `{"links":[{"name":"` + strings.Repeat("a", 300) + `","default":"allow"}]}`,
		"a guardrail that has a default and none": `{"links":[{"name":"a","default":"deny","guardrail":{}}]}`, "more of a guardrail": `{"links":[{"name":"a","default":"allow","guardrail":{"decides":true,"group":1}}]}`,
		"a bad rule of a guardrail": `{"links":[{"name":"a","default":"allow","guardrail":{"ask":["Bash(rm"]}}]}`,
		"many rules":                `{"links":[{"name":"a","default":"allow","deny":[` + many + `]}]}`,
		"many links":                `{"links":[` + strings.Repeat(`{"name":"a","default":"ask"},`, 32) + `{"name":"a","default":"ask"}]}`,
	} {
		if c, err := permission.DecodeConstraints([]byte(data)); err == nil || c != nil {
			t.Errorf("%s: read as %+v", name, c)
		}
	}
	if c, err := permission.DecodeConstraints([]byte(`{"links":[{"name":"a"}]}`)); err != nil ||
		c.Judge(call("Read", "file_path", "x")).Action != permission.Deny {
		t.Errorf("without a default: %v, want one that denies", err)
	}
	var long permission.Chain
	for i := range 33 {
		long = append(long, permission.Link{Policy: policy(t, fmt.Sprintf("allow: Write(./%d) | default: ask", i))})
	}
	if _, err := permission.EncodeConstraints(long); err == nil {
		t.Error("more was written than is read")
	}
}

func FuzzDecodeConstraints(f *testing.F) {
	f.Add([]byte(`{"links":[{"name":"a","final_deny":["Bash(rm:*)"],"allow":["Read"],"default":"ask"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := permission.DecodeConstraints(data)
		if err != nil || len(c) == 0 {
			return
		}
		again, err := permission.EncodeConstraints(c)
		if err != nil {
			t.Fatalf("%s was read and cannot be written: %v", data, err)
		}
		d, err := permission.DecodeConstraints(again)
		if err != nil {
			t.Fatalf("%s was written and cannot be read: %v", again, err)
		}
		for _, call := range []permission.Call{call("Read", "file_path", "a"), bash("rm -rf x"), bash("git push")} {
			if x, y := c.Judge(call).Action, d.Judge(call).Action; x != y {
				t.Errorf("%s: %v, written again %v", data, x, y)
			}
		}
	})
}
