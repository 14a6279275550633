package permission_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"symbio/security/permission"
)

var (
	someRules = []string{
		"*", "Read", "Write", "Edit", "Grep", "Bash", "Git", "Re*", "mcp__*", "mcp__a__*", "Bash(git:*)", "Bash(git status)", "Bash(rm:*)", "Bash(rm -rf x)",
		"Bash(git push:*)", "Read(/w/*)", "Read(/w/a)", "Read(a)", "Edit(/w/*)", "Write(/w/*.md)", "Read(*.md)", "Grep(/w/*)", "WebFetch(domain:x.org)",
		"WebFetch(domain:*.x.org)", "Skill(a*)", "send_signal(work)", "mcp__a__b(x)", "mcp__*(x)",
	}
	someCalls = []permission.Call{
		{Tool: "Read", Args: map[string]any{"file_path": "/w/a"}, Dir: "/w"}, {Tool: "Read", Args: map[string]any{"file_path": "b.md"}, Dir: "/w"},
		{Tool: "Read", Args: map[string]any{"file_path": "../etc/x"}, Dir: "/w"}, {Tool: "Write", Args: map[string]any{"file_path": "/w/b.md"}, Dir: "/w"},
		{Tool: "Grep", Args: map[string]any{"pattern": "x"}, Dir: "/w"}, {Tool: "Bash", Args: map[string]any{"command": "git status"}, Dir: "/w"},
		{Tool: "Bash", Args: map[string]any{"command": "rm -rf x"}, Dir: "/w"}, {Tool: "Bash", Args: map[string]any{"command": "echo $X"}, Dir: "/w"},
		{Tool: "Git", Args: map[string]any{"command": "push"}, Dir: "/w"}, {Tool: "WebFetch", Args: map[string]any{"url": "https://a.x.org"}, Dir: "/w"},
		{Tool: "activate_skill", Args: map[string]any{"name": "abc"}, Dir: "/w"}, {Tool: "mcp__a__b", Args: map[string]any{"q": "x y"}, Dir: "/w"}, {Tool: "send_signal", Dir: "/w"},
	}
)

func drawRules(t *rapid.T, label string) []permission.Rule {
	var rules []permission.Rule
	for _, text := range rapid.SliceOfN(rapid.SampledFrom(someRules), 0, 4).Draw(t, label) {
		r, err := permission.ParseRule(text)
		if err != nil {
			t.Fatal(err)
		}
		rules = append(rules, r)
	}
	return rules
}

func drawPolicy(t *rapid.T) permission.Policy {
	return permission.Policy{
		FinalDeny: drawRules(t, "final"), Deny: drawRules(t, "deny"), Override: drawRules(t, "override"), Allow: drawRules(t, "allow"),
		Default: permission.Action(rapid.IntRange(0, 2).Draw(t, "default")),
	}
}

func drawLink(t *rapid.T) permission.Link {
	l := permission.Link{Name: "x", Policy: drawPolicy(t), Memory: &permission.Memory{}}
	if rapid.Bool().Draw(t, "remembers") {
		l.Memory.Remember(rapid.SampledFrom(someCalls).Draw(t, "remembered"), drawPolicy(t), permission.Allow)
	}
	return l
}

func TestChainIsNeverMorePermissiveThanAnyLink(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		chain := permission.Chain(rapid.SliceOfN(rapid.Custom(drawLink), 1, 4).Draw(t, "chain"))
		c := rapid.SampledFrom(someCalls).Draw(t, "call")
		got, least := chain.Judge(c).Action, permission.Allow
		for _, l := range chain {
			least = min(least, permission.Chain{l}.Judge(c).Action)
		}
		if got != least {
			t.Fatalf("the chain says %v, its strictest link %v", got, least)
		}
	})
}

func TestAddingADenyNeverPermitsMore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, c := drawPolicy(t), rapid.SampledFrom(someCalls).Draw(t, "call")
		before := judged(p, c)
		more := p
		if rapid.Bool().Draw(t, "final") {
			more.FinalDeny = append(drawRules(t, "more"), p.FinalDeny...)
		} else {
			more.Deny = append(drawRules(t, "more"), p.Deny...)
		}
		if after := judged(more, c); after.Action > before.Action {
			t.Fatalf("before %+v, after %+v", before, after)
		}
	})
}

func TestOrderOfRulesIsIrrelevant(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, c := drawPolicy(t), rapid.SampledFrom(someCalls).Draw(t, "call")
		q := permission.Policy{
			FinalDeny: rapid.Permutation(p.FinalDeny).Draw(t, "f"), Deny: rapid.Permutation(p.Deny).Draw(t, "d"),
			Override: rapid.Permutation(p.Override).Draw(t, "o"), Allow: rapid.Permutation(p.Allow).Draw(t, "a"), Default: p.Default,
		}
		if got, want := judged(q, c).Action, judged(p, c).Action; got != want {
			t.Fatalf("shuffled %v, in order %v", got, want)
		}
	})
}

// An exact rule is an allow for one call; whatever differs from it has to be asked about.
func FuzzJudge(f *testing.F) {
	for _, s := range []string{"git status", "git status; rm -rf ~", "git  status", "git status\n", "$(x)", "/w/a", "../w/a",
		"https://x.org@y/", "\x00", "a\xff"} {
		f.Add("Bash", s, "git status", "rm:*")
		f.Add("Read", s, "/w/a", "/w/*")
		f.Add("WebFetch", s, "domain:x.org", "domain:*.x.org")
		f.Add("mcp__a__b", s, "x", "x*y")
	}
	unrelated := permission.Policy{Allow: []permission.Rule{rule(f, "Bash(another command)")}}
	args := map[string]string{"Bash": "command", "Read": "file_path", "WebFetch": "url"}
	f.Fuzz(func(t *testing.T, tool, value, allowed, denied string) {
		arg := args[tool]
		if arg == "" {
			arg = "x"
		}
		c := permission.Call{Tool: tool, Args: map[string]any{arg: value}, Dir: "/w"}
		var p permission.Policy
		allow, err := permission.ParseRule(tool + "(" + allowed + ")")
		if err == nil {
			p.Allow = []permission.Rule{allow}
		}
		v := judged(p, c)
		switch {
		// it does nothing, as : does
		case v.Action == permission.Allow && tool == "Bash" && judged(unrelated, c).Action == permission.Allow:
		case v.Action == permission.Allow && err != nil:
			t.Fatalf("a rule that is none allowed %v", c)
		case v.Action == permission.Allow && tool == "Bash" && !strings.Contains(allowed, "*") &&
			strings.Join(strings.Fields(value), " ") != strings.Join(strings.Fields(allowed), " "):
			t.Fatalf("%q allowed the command %q", allowed, value)
		case v.Action == permission.Allow && strings.HasPrefix(tool, "mcp__"):
			t.Fatalf("a spec on an unknown tool allowed %v", c)
		}
		if deny, err := permission.ParseRule(tool + "(" + denied + ")"); err == nil {
			p.Deny = []permission.Rule{deny}
			if after := judged(p, c); after.Action > v.Action {
				t.Fatalf("deny %v made %v of %v", deny, after.Action, v.Action)
			}
		}
	})
}
