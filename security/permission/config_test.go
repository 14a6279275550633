package permission_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gopkg.in/yaml.v3"

	"symbio/security/permission"
)

func TestRuleMayNameTheArgumentThatItIsAbout(t *testing.T) {
	query := func(sql any, more ...any) permission.Call {
		c := permission.Call{Tool: "mcp__db__query", Args: map[string]any{"sql": sql}, Dir: "/w"}
		for i := 0; i < len(more); i += 2 {
			c.Args[more[i].(string)] = more[i+1]
		}
		return c
	}
	const p = "allow: mcp__db__query(sql=SELECT:*) | default: ask"
	check(t, []ruling{
		{p, query("SELECT"), permission.Allow},
		{p, query("SELECT a FROM b"), permission.Allow},
		{p, query("SELECTED a"), permission.Ask},
		{p, query("select a"), permission.Ask},
		{p, query("DROP TABLE b", "note", "SELECT 1"), permission.Ask},
		{p, query("SELECT 1; DROP TABLE b"), permission.Ask},
		{p, query("SELECT 1\nDROP TABLE b"), permission.Ask},
		{p, query("SELECT 1 -- x"), permission.Ask},
		{p, query([]any{"SELECT a"}), permission.Ask},
		{p, permission.Call{Tool: "mcp__db__query", Args: map[string]any{"SQL": "SELECT a"}, Dir: "/w"}, permission.Ask},
		{p, permission.Call{Tool: "mcp__db__query", Args: map[string]any{}, Dir: "/w"}, permission.Ask},
		{"allow: mcp__db__query(sql=SELECT *)", query("SELECT a"), permission.Allow},
		{"allow: mcp__db__query(table=a*)", query("x", "table", "ab"), permission.Allow},
		{"allow: mcp__db__query(table=ab)", query("x", "table", "abc"), permission.Deny},
		{"allow: mcp__db__query(SELECT:*)", query("SELECT a"), permission.Deny},
		{"allow: mcp__db__*(sql=SELECT:*)", query("SELECT a"), permission.Allow},
		{"deny: mcp__db__query(sql=DROP:*) | allow: mcp__db__query", query("DROP TABLE b"), permission.Deny},
		{"deny: mcp__db__query(sql=DROP:*) | allow: mcp__db__query", query("SELECT a"), permission.Allow},
		{"allow: other(x=a)", permission.Call{Tool: "other", Args: map[string]any{"x": "a"}}, permission.Allow},
	})
}

func TestRulesAreHeldAgainstTheirExamples(t *testing.T) {
	for name, c := range map[string]struct{ text, wrong string }{
		"all fit": {`
allow:
  - Read
  - {rule: "Bash(git log:*)", match: ["git log", "git log -1"], not_match: ["git push", "git log; rm -rf ~", "git log --output=x"]}
  - {rule: "Git(log:*)", match: [log, "log -1"], not_match: [push]}
  - {rule: "Write(/tmp/out/*)", match: [/tmp/out/a], not_match: [/tmp/other, /etc/passwd]}
  - {rule: "WebFetch(domain:*.example.com)", match: ["https://a.example.com/x"], not_match: ["https://example.com.evil.org/"]}
  - {rule: "mcp__db__query(sql=SELECT:*)", match: ["SELECT 1"], not_match: ["DROP TABLE x"]}
  - {rule: "Skill(review-*)", match: [review-go], not_match: [deploy]}
deny:
  - {rule: "Bash(rm:*)", match: ["rm x", "echo $(rm x)", "sudo rm x"], not_match: ["ls", "npm run x"]}
final_deny:
  - {rule: "Read(.env)", match: [.env, sub/.env], not_match: [env.md]}
override:
  - {rule: "Bash(rm:*.tmp)", match: ["rm a.tmp"], not_match: ["rm -f a.tmp", "rm a.txt"]}
`, ""},
		"one does not match":   {`allow: [{rule: "Bash(git log:*)", match: ["git push"]}]`, `allow rule "Bash(git log:*)": it must match "git push"`},
		"one matches too much": {`allow: [{rule: "Bash(git:*)", not_match: ["git push"]}]`, `it must not match "git push"`},
		"a deny that is weak":  {`deny: [{rule: "Bash(rm -rf:*)", match: ["rm -r x"]}]`, `deny rule "Bash(rm -rf:*)": it must match "rm -r x"`},
		"a deny that is wide":  {`deny: [{rule: "Bash", not_match: ["ls"]}]`, `it must not match "ls"`},
		"many tools":           {`allow: [{rule: "mcp__a__*", match: [x]}]`, "one tool"},
		"an unknown key":       {`allow: [{rule: Read, matches: [x]}]`, `no key "matches"`},
		"an empty example":     {`allow: [{rule: "Git(log:*)", match: [" "]}]`, `it must match " "`},
		"no rule":              {`allow: [{match: [x]}]`, "it is empty"},
	} {
		var cfg permission.Config
		err := yaml.Unmarshal([]byte(c.text), &cfg)
		if err == nil {
			_, err = cfg.Policy()
		}
		if c.wrong == "" && err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if c.wrong != "" && (err == nil || !strings.Contains(err.Error(), c.wrong)) {
			t.Errorf("%s: got %v, want an error with %q", name, err, c.wrong)
		}
	}
}

func TestLaterConfigurationIsPutOverAnEarlierOne(t *testing.T) {
	early := permission.Config{Preset: "standard", Allow: permission.Rules("Read", "Write"), Deny: permission.Rules("Bash(rm:*)"),
		Default: "ask"}
	late := permission.Config{
		Preset: "restrictive", Allow: append(permission.Rules("Glob"), permission.RuleText{Rule: "Write", Match: []string{"a"}}),
		FinalDeny: permission.Rules("Bash(sudo:*)"),
	}
	want := permission.Config{
		Preset: "restrictive", Allow: []permission.RuleText{{Rule: "Read"}, {Rule: "Write", Match: []string{"a"}}, {Rule: "Glob"}},
		Deny: permission.Rules("Bash(rm:*)"), FinalDeny: permission.Rules("Bash(sudo:*)"), Override: nil, Default: "ask",
	}
	got := early.Merge(late)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("merged (-want +got):\n%s", diff)
	}
	if len(early.Allow) != 2 || early.Allow[1].Match != nil {
		t.Errorf("the earlier one was changed: %+v", early.Allow)
	}
	if diff := cmp.Diff(early, early.Merge(permission.Config{})); diff != "" {
		t.Errorf("merged with nothing (-want +got):\n%s", diff)
	}
}

func TestRuleTextIsWrittenAsShortAsItIs(t *testing.T) {
	out, err := yaml.Marshal(permission.Config{Allow: []permission.RuleText{{Rule: "Read"}, {Rule: "Write", Match: []string{"a"}}}})
	if err != nil {
		t.Fatal(err)
	}
	if want := "allow:\n    - Read\n    - rule: Write\n      match:\n        - a\n"; string(out) != want {
		t.Errorf("got\n%swant\n%s", out, want)
	}
}

// TestMergeKeepsEachRuleOnce also of those that one side has twice.
func TestMergeKeepsEachRuleOnce(t *testing.T) {
	twice := []permission.RuleText{{Rule: "Read", At: "a:1"}, {Rule: "Grep"}, {Rule: "Read", At: "a:2"}}
	got := permission.Config{Allow: twice}.Merge(permission.Config{Allow: []permission.RuleText{{Rule: "Glob"}, {Rule: "Glob"},
		{Rule: "Grep"}}})
	var rules []string
	for _, r := range got.Allow {
		rules = append(rules, r.Rule)
	}
	if want := "Read Grep Glob"; strings.Join(rules, " ") != want || got.Allow[0].At != "a:1" {
		t.Errorf("got %v at %s, want %s", rules, got.Allow[0].At, want)
	}
}
