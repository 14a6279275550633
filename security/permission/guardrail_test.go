package permission_test

import (
	"testing"

	"pgregory.net/rapid"

	"symbio/security/permission"
)

// rail reads "deny: ... | final: ... | override: ... | allow: ... | ask: ... | default: ..." as a guardrail; without a
// default it decides nothing of its own.
func rail(t testing.TB, text string, asks ...string) permission.Guardrail {
	t.Helper()
	g := policy(t, text).Guardrail()
	g.Decides = false
	for _, a := range asks {
		r, err := permission.ParseRule(a)
		if err != nil {
			t.Fatal(err)
		}
		g.Ask = append(g.Ask, r)
	}
	return g
}

func closed(t testing.TB, text string) permission.Guardrail {
	t.Helper()
	return policy(t, text).Guardrail()
}

func TestGuardrailsNestAsTheSpecDescribes(t *testing.T) {
	open := permission.Chain{{Name: "agent", Policy: policy(t, "allow: Bash; Read; Write; WebFetch; WebFetch(ip:127.0.0.1:3000) | default: ask")}}
	noRm := rail(t, "deny: Bash(rm:*)")
	tmp := rail(t, "override: Bash(rm:*.tmp)")
	group := func(g permission.Guardrail, n int) permission.Guardrail { g.Group = n; return g }
	for name, c := range map[string]struct {
		within []permission.Guardrail
		call   permission.Call
		want   permission.Action
	}{
		"none":                                    {nil, bash("rm a.tmp"), permission.Allow},
		"the zero guardrail changes nothing":      {[]permission.Guardrail{{}}, bash("rm a.tmp"), permission.Allow},
		"a plain deny":                            {[]permission.Guardrail{noRm}, bash("rm a.tmp"), permission.Deny},
		"a plain deny of another command":         {[]permission.Guardrail{noRm}, bash("ls"), permission.Allow},
		"an override inside":                      {[]permission.Guardrail{noRm, tmp}, bash("rm a.tmp"), permission.Allow},
		"an override of its own":                  {[]permission.Guardrail{rail(t, "deny: Bash(rm:*) | override: Bash(rm:*.tmp)")}, bash("rm a.tmp"), permission.Allow},
		"an override for something else":          {[]permission.Guardrail{noRm, tmp}, bash("rm a.txt"), permission.Deny},
		"an override outside of the deny":         {[]permission.Guardrail{tmp, noRm}, bash("rm a.tmp"), permission.Deny},
		"Deny.final is not lifted":                {[]permission.Guardrail{rail(t, "final: Bash(rm:*)"), tmp}, bash("rm a.tmp"), permission.Deny},
		"a deny of the caller is not lifted":      {[]permission.Guardrail{noRm, group(tmp, 1)}, bash("rm a.tmp"), permission.Deny},
		"a person has to say":                     {[]permission.Guardrail{rail(t, "default: ask", "Write")}, call("Write", "file_path", "a"), permission.Ask},
		"a person has to say of a command":        {[]permission.Guardrail{rail(t, "default: ask", "Bash(git push:*)")}, bash("git status && git push"), permission.Ask},
		"and of nothing else":                     {[]permission.Guardrail{rail(t, "default: ask", "Bash(git push:*)")}, bash("git status"), permission.Allow},
		"reading only":                            {[]permission.Guardrail{permission.ReadOnly().Guardrail()}, call("Write", "file_path", "a"), permission.Deny},
		"reading only reads":                      {[]permission.Guardrail{permission.ReadOnly().Guardrail()}, call("Read", "file_path", "a"), permission.Allow},
		"an inner one does not widen an outer":    {[]permission.Guardrail{closed(t, "allow: Read | default: deny"), closed(t, "allow: Read; Write | default: deny")}, call("Write", "file_path", "a"), permission.Deny},
		"an allow does not widen an outer":        {[]permission.Guardrail{closed(t, "allow: Read | default: deny"), rail(t, "allow: Write")}, call("Write", "file_path", "a"), permission.Deny},
		"an allow does not widen the agent":       {[]permission.Guardrail{rail(t, "allow: Glob")}, call("Glob", "pattern", "*"), permission.Ask},
		"one without a default minds no address":  {[]permission.Guardrail{noRm}, call("WebFetch", "url", "http://127.0.0.1:3000/"), permission.Allow},
		"one with a default does":                 {[]permission.Guardrail{closed(t, "allow: WebFetch | default: deny")}, call("WebFetch", "url", "http://127.0.0.1:3000/"), permission.Deny},
		"a deny of files holds for redirections":  {[]permission.Guardrail{rail(t, "deny: Edit(/etc/*)")}, bash("echo x > /etc/x"), permission.Deny},
		"what cannot be read is asked beside one": {[]permission.Guardrail{noRm}, bash("eval \"$X\""), permission.Ask},
	} {
		c.call.Within = c.within
		if v := open.Judge(c.call); v.Action != c.want {
			t.Errorf("%s: got %v (%s, %s), want %v", name, v.Action, v.Link, v.Why, c.want)
		}
	}
}

// A command that is not asked about does not see the files that a guardrail asks about; one that is, does.
func TestFilesThatAGuardrailAsksAboutAreKeptFromOtherCommands(t *testing.T) {
	for command, want := range map[string]struct {
		action permission.Action
		kept   int
	}{"sh s.sh": {permission.Allow, 1}, "cat $X": {permission.Allow, 1}, "cat finance/x": {permission.Ask, 0}} {
		c := on(bash(command), "")
		c.Within = []permission.Guardrail{rail(t, "default: ask", "Read(./finance/*)")}
		if v := judged(preset(t, "standard", permission.Config{}), c); v.Action != want.action || len(v.Plan.Denied.Rules()) != want.kept {
			t.Errorf("%s: %v, without the files of %q; want %v and %d rules", command, v.Action, v.Plan.Denied.Rules(), want.action, want.kept)
		}
	}
}

func TestVerdictNamesTheGuardrail(t *testing.T) {
	c := call("Write", "file_path", "a")
	c.Within = []permission.Guardrail{{}, rail(t, "deny: Write")}
	v := permission.Chain{{Name: "agent", Policy: policy(t, "allow: Write")}}.Judge(c)
	if v.Link != "guardrail 2" || v.Source != "guardrail" || v.Rule != "Write" {
		t.Errorf("verdict %+v", v)
	}
}

func TestWalkLeavesOutWhatAGuardrailDenies(t *testing.T) {
	c := call("Glob", "pattern", "*", "path", "/w")
	c.Within = []permission.Guardrail{rail(t, "deny: Read(/w/secret/*)")}
	v := permission.Chain{{Policy: policy(t, "allow: Glob")}}.Judge(c)
	if v.Action != permission.Allow || !v.Except.Covers("secret/key") || v.Except.Covers("open") {
		t.Errorf("verdict %+v, except %v", v, v.Except)
	}
}

func TestGuardrailNeverWidens(t *testing.T) {
	texts := []string{"Read", "Read(/w/*)", "Write", "Bash", "Bash(rm:*)", "Bash(rm:*.tmp)", "Bash(git:*)", "Edit(/w/*)", "Git"}
	calls := []permission.Call{
		bash("rm a.tmp"), bash("git status; rm x"), bash("echo $(git push)"), call("Read", "file_path", "/w/a"),
		call("Write", "file_path", "/w/a"),
		{Tool: "Git", Args: map[string]any{"command": "push"}, Dir: "/w"}, bash("cat /w/a > /w/b"),
	}
	rules := rapid.Custom(func(t *rapid.T) []permission.Rule {
		var all []permission.Rule
		for _, text := range rapid.SliceOfN(rapid.SampledFrom(texts), 0, 2).Draw(t, "rules") {
			r, err := permission.ParseRule(text)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, r)
		}
		return all
	})
	actions := rapid.SampledFrom([]permission.Action{permission.Deny, permission.Ask, permission.Allow})
	rapid.Check(t, func(t *rapid.T) {
		base := permission.Policy{FinalDeny: rules.Draw(t, "final"), Deny: rules.Draw(t, "deny"), Override: rules.Draw(t, "override"),
			Allow: rules.Draw(t, "allow"), Default: actions.Draw(t, "default")}
		c := rapid.SampledFrom(calls).Draw(t, "call")
		chain := permission.Chain{{Policy: base}}
		without := chain.Judge(c).Action
		for range rapid.IntRange(0, 3).Draw(t, "depth") {
			c.Within = append(c.Within, permission.Guardrail{
				FinalDeny: rules.Draw(t, "rail final"), Deny: rules.Draw(t, "rail deny"), Override: rules.Draw(t, "rail override"),
				Allow: rules.Draw(t, "rail allow"),
				Ask:   rules.Draw(t, "rail ask"), Default: actions.Draw(t, "rail default"), Decides: rapid.Bool().Draw(t, "decides"),
				Group: rapid.IntRange(0, 1).Draw(t, "group"),
			})
		}
		if with := chain.Judge(c).Action; with > without {
			t.Fatalf("%v with guardrails, %v without", with, without)
		}
	})
}
