package permission_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"symbio/security/permission"
)

func rule(t testing.TB, text string) permission.Rule {
	t.Helper()
	r, err := permission.ParseRule(text)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestExplainNamesTheSmallestChange(t *testing.T) {
	for _, c := range []struct {
		policy string
		call   permission.Call
		want   string
	}{
		{"allow: Bash(git log:*) | default: ask", bash("git push"), "To allow it, add to allow: Bash(git push). Bash(git push:*) would allow all like it."},
		{"allow: Bash(git:*) | deny: Bash(git push:*) | default: ask", bash("git push -f"), "To allow it, add to override: Bash(git push -f)."},
		{"allow: Bash(ls:*) | default: ask", bash("ls; rm a | cat > /x/y"), "To allow it, add to allow: Bash(rm a), Bash(cat), Write(/x/y)."},
		{"deny: Bash(rm:*) | allow: Bash(timeout:*) | default: deny", bash("timeout 5 rm x"), "To allow it, add to override: Bash(rm x) and to allow: Bash(timeout 5 rm x)."},
		{"default: ask", bash("ls $X"), "To allow it, add to allow: Bash(ls:*)."},
		{"default: ask", bash("python3 $X"), "No rule changes this: no rule matches `python3 $X`."},
		{"default: ask", bash("$X a"), "No rule changes this: no rule matches `$X a`."},
		{"final: Bash(sudo:*) | override: Bash(sudo:*) | default: allow", bash("sudo x"), "No rule changes this: Bash(sudo:*) is a final denial, and nothing lifts those."},
		{"allow: Bash(git:*) | default: ask", bash("git log -1"), "To deny it, add to deny: Bash(git log -1)."},
		{"default: ask", call("Write", "file_path", "/w/a"), "To allow it, add to allow: Write(/w/a)."},
		{"deny: Write(/w/*) | default: allow", call("Write", "file_path", "/w/a"), "To allow it, add to override: Write(/w/a)."},
		{"default: deny", call("Write", "file_path", "/w/.git/config"), "To allow it, add to allow: Write(/w/.git/config)."},
		{"default: ask", call("WebFetch", "url", "https://A.example./x"), "To allow it, add to allow: WebFetch(domain:a.example)."},
		{"default: ask", call("WebFetch", "url", "http://10.0.0.1/"), "To allow it, add to allow: WebFetch(ip:10.0.0.1:80)."},
		{"default: ask", call("mcp__db__query", "sql", "SELECT 1"), "To allow it, add to allow: mcp__db__query(sql=SELECT 1)."},
		{"default: ask", call("activate_skill", "skill_name", "pdf"), "To allow it, add to allow: activate_skill(pdf)."},
		{"default: deny", call("find_members"), "To allow it, add to allow: find_members."},
	} {
		e := permission.Chain{{Name: "a", Policy: policy(t, c.policy)}}.Explain(c.call)
		if got := e.Change(); got != c.want {
			t.Errorf("%s: %v\ngot  %s\nwant %s", c.policy, c.call.Args, got, c.want)
		}
	}
}

func TestExplainLooksAtEveryLink(t *testing.T) {
	open, shut := policy(t, "default: allow"), policy(t, "deny: Bash(rm:*) | default: allow")
	final := policy(t, "final: Bash(rm:*) | default: allow")
	for _, c := range []struct {
		chain permission.Chain
		want  string
	}{
		{permission.Chain{{Name: "child", Policy: open}, {Name: "planner", Policy: final}}, "No rule changes this: Bash(rm:*) is a final denial, and nothing lifts those (permissions of planner)."},
		{permission.Chain{{Name: "child", Policy: policy(t, "default: ask")}, {Name: "planner", Policy: shut}}, "To allow it, add to allow of child: Bash(rm a) and to override of planner: Bash(rm a)."},
		{nil, "No rule changes this: the call has no agent with permissions (an empty chain)."},
	} {
		if got := c.chain.Explain(bash("rm a")).Change(); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
	inside := bash("rm a")
	inside.Within = []permission.Guardrail{shut.Guardrail()}
	if got := (permission.Chain{{Policy: open}}).Explain(inside); !strings.Contains(got.Never, "guardrail 1 around this work") {
		t.Errorf("got %q, want one about the guardrail", got.Never)
	}
	var memory permission.Memory
	memory.Remember(bash("rm a"), open, permission.Deny)
	if got := (permission.Chain{{Policy: open, Memory: &memory}}).Explain(bash("rm a")); !strings.Contains(got.Never,
		"a person has denied exactly this") {
		t.Errorf("got %q, want one about the person", got.Never)
	}
}

func TestExplainSaysWhereTheRuleStands(t *testing.T) {
	c := permission.Config{Deny: []permission.RuleText{{Rule: "Bash(rm:*)", At: "3:5"}, {Rule: "Bash(rm -rf:*)", At: "4:5"}}}.In("a.yaml")
	p, err := c.Policy()
	if err != nil {
		t.Fatal(err)
	}
	for command, want := range map[string]string{"rm a": "a.yaml:3:5", "rm -rf a": "a.yaml:4:5", "sudo a": "preset standard", "make": ""} {
		if got := (permission.Chain{{Name: "x", Policy: p}}).Explain(bash(command)).At; got != want {
			t.Errorf("%s: got %q, want %q", command, got, want)
		}
	}
	granted := permission.Link{Policy: policy(t, "default: ask"), Granted: func() []permission.Grant {
		return []permission.Grant{{Rule: rule(t, "Bash(ls:*)"), Source: "skill:x"}}
	}}
	if got := (permission.Chain{granted}).Explain(bash("ls -l")).At; got != "skill:x" {
		t.Errorf("got %q, want the skill", got)
	}
}

// What Explain says is done, and then the verdict is what it says; and the call is what the rules mean: another
// one they do not let through.
func TestExplanationMatchesVerdict(t *testing.T) {
	g := rand.New(rand.NewPCG(1, 9))
	commands := []string{"git push", "git log -3", "rm -rf a", "ls | wc -l", "echo a > /x/b", "cat < /x/a", "timeout 5 rm x",
		"find . -delete", "X=1 make a", "cd a && ls", "git -c a=b log", "ls $X", "for i in a b; do rm x; done", "echo 'a b' \"c\"", "$X",
		"eval rm", "tar xf a -C b", "ls 2>&1", "sh -c 'rm a'"}
	rules := []string{"Bash(git:*)", "Bash(rm:*)", "Bash(ls:*)", "Bash(git push:*)", "Bash", "Write", "Read(/x/*)", "Write(/x/*)",
		"Bash(timeout:*)", "Edit", "Bash(make:*)", "Git", "mcp__*", "Bash(echo:*)"}
	some := func() (all []permission.Rule) {
		for range g.IntN(3) {
			all = append(all, rule(t, rules[g.IntN(len(rules))]))
		}
		return all
	}
	other := []permission.Call{bash("curl x"), bash("rm -rf /other"), bash("git push other"), call("Write", "file_path", "/x/other"),
		call("mcp__a__b", "q", "other"), call("WebFetch", "url", "https://other.example/")}
	changed := 0
	for range 1500 {
		var chain permission.Chain
		for i := range 1 + g.IntN(2) {
			chain = append(chain, permission.Link{Name: string(rune('a' + i)), Policy: permission.Policy{FinalDeny: some()[:0],
				Deny: some(), Override: some(), Allow: some(), Default: permission.Action(g.IntN(3))}})
		}
		c := bash(commands[g.IntN(len(commands))])
		switch g.IntN(6) {
		case 0:
			c = call("Write", "file_path", "/x/y")
		case 1:
			c = call("mcp__a__b", "q", "v")
		case 2:
			c = call("WebFetch", "url", "https://a.example/x")
		}
		e := chain.Explain(c)
		if len(e.Changes) == 0 {
			if e.Never == "" {
				t.Fatalf("%v: neither a change nor a reason", c.Args)
			}
			continue
		}
		changed++
		next := append(permission.Chain(nil), chain...)
		for _, ch := range e.Changes {
			for i := range next {
				if next[i].Name == ch.Link {
					p := &next[i].Policy
					list := map[string]*[]permission.Rule{"allow": &p.Allow, "deny": &p.Deny, "override": &p.Override}[ch.List]
					*list = append((*list)[:len(*list):len(*list)], rule(t, ch.Rule))
				}
			}
		}
		if got := next.Judge(c).Action; got != e.To {
			t.Fatalf("%v: with %v got %v, want %v\n%+v", c.Args, e.Changes, got, e.To, chain)
		}
		if strings.Contains(e.Change(), "ls:*") {
			continue // parts known to the shell alone: there is nothing narrower
		}
		for _, o := range other {
			if before, after := chain.Judge(o).Action, next.Judge(o).Action; e.To == permission.Allow && after > before {
				t.Fatalf("%v: %v also lets %v through", c.Args, e.Changes, o.Args)
			}
		}
	}
	if changed < 1000 {
		t.Errorf("only %d of the calls had a change", changed)
	}
}
