package permission_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"symbio/security/permission"
)

// What the issue of this part names, each under its name.
func TestNamedAttacks(t *testing.T) {
	work, outside := tree(t)
	for _, c := range []struct {
		name, policy, command string
		want                  permission.Action
	}{
		{"git status; rm -rf ~", "allow: Bash(git:*) | default: ask", "git status; rm -rf ~", permission.Ask},
		{`git status # x \⏎rm -rf .`, "allow: Bash(git:*) | default: ask", "git status # x \\\nrm -rf .", permission.Ask},
		{`git status # x \⏎rm -rf ., denied`, "final: Bash(rm:*) | allow: Bash", "git status # x \\\nrm -rf .", permission.Deny},
		{"find . -exec", "allow: Bash(find:*) | default: ask", `find . -name x -exec rm -rf {} \;`, permission.Ask},
		{"git -c core.pager=…", "allow: Bash(git:*) | default: ask", "git -c core.pager='sh -c id' log", permission.Ask},
		{"cd nosuch; echo x > ../f", "allow: Bash(cd:*); Bash(echo:*); Write(" + work + "/*) | default: ask", "cd nosuch; echo x > ../f", permission.Ask},
		{"the same where it stays inside", "allow: Bash(cd:*); Bash(echo:*); Write(" + work + "/*) | default: ask", "cd sub; echo x > f", permission.Allow},
		{"through a link", "allow: Bash(echo:*); Write(" + work + "/*) | default: ask", "echo x > linkdir/f", permission.Ask},
		{"a denied file through a link", "deny: Read(" + outside + "/*) | allow: Bash", "cat link", permission.Deny},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := judged(policy(t, c.policy), permission.Call{Tool: "Bash", Args: map[string]any{"command": c.command}, Dir: work})
			if !fits(v, c.want) {
				t.Errorf("got %v (%s), want %v", v.Action, v.Why, c.want)
			}
		})
	}
}

func TestPlanIsWhatWasJudged(t *testing.T) {
	p := policy(t, "allow: Bash(git:*); Git(log:*) | default: ask")
	for command, want := range map[string]string{
		"git  status # all":          "git status\n",
		"git status;git log":         "git status\ngit log\n",
		"git log \\\n\t-3":           "git log \\\n\t-3\n",
		"git status $( git   diff )": "git status $(git diff)\n",
	} {
		v := judged(p, bash(command))
		if v.Plan == nil || v.Plan.Script != want || !v.Plan.Printed {
			t.Errorf("%q: got %+v, want %q", command, v.Plan, want)
		}
	}
	if v := judged(p, bash("git status 'x")); v.Action == permission.Allow || v.Plan.Printed || v.Plan.Script != "git status 'x" {
		t.Errorf("a text that cannot be read: got %+v with %+v, want a question about the text itself", v, v.Plan)
	}
	v := judged(p, permission.Call{Tool: "Git", Args: map[string]any{"command": "log", "args": []any{"-1", "a b"}}, Dir: "/w"})
	if v.Plan == nil || strings.Join(v.Plan.Argv, "|") != "git|log|-1|a b" || v.Plan.Script != "" {
		t.Errorf("Git: got %+v, want its arguments", v.Plan)
	}
	if v := judged(p, call("Read", "file_path", "x")); v.Plan != nil {
		t.Errorf("Read: got a plan %+v, want none", v.Plan)
	}
}

func TestAlwaysIsOneExactRuleForEachCommand(t *testing.T) {
	p := policy(t, "allow: Bash(ls:*) | default: ask")
	for command, want := range map[string][]string{
		"npm test":                        {"Bash(npm test)"},
		"ls; npm  test && make 'a b'":     {"Bash(npm test)", "Bash(make 'a b')"},
		"timeout 5 npm test":              {"Bash(timeout 5 npm test)"},
		"FOO=1 npm test":                  {"Bash(FOO=1 npm test)"},
		"npm test $X":                     {""},
		"npm test *.go":                   {""},
		"ls > out":                        {"Write(/nowhere/work/out)"},
		"ls > '*'":                        {""}, // the rule would mean every file there
		"npm test > $X":                   {"Bash(npm test)", "", ""},
		"echo ')'":                        {""},
		"find . -exec rm {} +":            {""},
		"sh -c 'npm test; rm x'":          {"Bash(sh -c 'npm test; rm x')"},
		"git commit -m \"a\nb\"":          {""},
		"x=1; npm test":                   {"Bash(npm test)"},
		"cat <<EOF\nx\nEOF\nls":           {"Bash(cat)"},
		"ls | xargs npm test":             {""},
		"for i in a; do npm test; done":   {"Bash(npm test)"},
		"npm test; npm test; (npm  test)": {"Bash(npm test)"},
	} {
		v := judged(p, bash(command))
		if !fits(v, permission.Ask) {
			t.Errorf("%q: got %v, want ask", command, v.Action)
			continue
		}
		var got []string
		always := true
		for _, a := range v.Plan.Approve {
			got = append(got, a.Rule)
			always = always && a.Rule != ""
			if a.Command == "" {
				t.Errorf("%q: nothing to show for %+v", command, a)
			}
		}
		if strings.Join(got, "\n") != strings.Join(want, "\n") || v.Plan.Always() != always {
			t.Errorf("%q: got %q, want %q", command, got, want)
			continue
		}
		if !always {
			continue
		}
		for _, text := range got {
			p := p
			r, err := permission.ParseRule(text)
			if err != nil {
				t.Fatal(err)
			}
			p.Allow = append([]permission.Rule{r}, p.Allow...)
			if len(got) == 1 && judged(p, bash(command)).Action != permission.Allow {
				t.Errorf("%q: %s does not allow it", command, text)
			}
			if judged(p, bash("npm test x; rm y")).Action == permission.Allow {
				t.Errorf("%s allows more than its command", text)
			}
		}
	}
}

func TestWhySaysWhichRuleAndWhatWouldChangeIt(t *testing.T) {
	for _, c := range []struct{ policy, command, want string }{
		{"allow: Bash(git:*)", "git status", "The rule Bash(git:*) allows this."},
		{"allow: Bash(python3:*)", "python3 x.py", "runs what it is given"},
		{"allow: Bash(find:*) | default: ask", "find . -delete", "The rule Bash(find:*) allows this. It names the beginning of the command only, so it runs where it changes nothing"},
		{"allow: Bash(find:*) | default: ask", "X=y find .", "The rule Bash(find:*) speaks of `X=y find .`, but does not cover it, because it sets the variable X; a rule that spells that out would."},
		{"allow: Bash(git:*) | default: ask", "git status; rm x", "No rule matches `rm x`. A person must approve it."},
		{"allow: Bash(echo:*) | default: ask", "echo x > y", `A redirection would write "y", and no Write rule allows that.`},
		{"deny: Bash(rm:*) | allow: Bash", "ls; timeout 5 rm x", "The rule Bash(rm:*) denies this. It means `rm x`."},
		{"allow: Bash(echo:*) | default: ask", "echo ${x^^}", "No rule for single commands can allow this: it changes a variable's value while using it"},
		{"allow: Bash | default: ask", "ls\u202e", "No rule can allow this: it holds the character U+202E"},
		{"deny: Bash(rm:*) | allow: Bash", "$X y", "may deny this, and it cannot be told whether it does"},
		{"default: allow", "ls", "The default is to allow."},
	} {
		if v := judged(policy(t, c.policy), bash(c.command)); !strings.Contains(v.Why, c.want) {
			t.Errorf("%s, %q: got %q, want %q", c.policy, c.command, v.Why, c.want)
		}
	}
}

func TestRulesThatAllowMuchSaySo(t *testing.T) {
	for text, want := range map[string]string{
		"Bash": "everything", "Bash(python3:*)": "python3 runs what it is given", "Bash(npm run:*)": "npm run runs", "Bash(make:*)": "make runs", "Bash(bash:*)": "bash runs", "Bash(go test:*)": "go test runs",
		"Bash(git:*)": "", "Bash(npm install)": "", "Bash(ls *.go)": "", "Bash(git * main)": "nothing", "Read": "", "Bash(x $Y:*)": "nothing", "Bash(echo $HOME)": "",
	} {
		r, err := permission.ParseRule(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Warning(); (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
}

func TestGrantedRuleNamesTheSkillsDirectory(t *testing.T) {
	r, err := permission.ParseGrant("Bash(${CLAUDE_SKILL_DIR}/run.sh:*)")
	if err != nil {
		t.Fatal(err)
	}
	for dir, command := range map[string]string{"/skills/a": "/skills/a/run.sh x", "/skills/a b": "'/skills/a b/run.sh' x"} {
		link := permission.Link{Policy: policy(t, "default: ask"), Granted: func() []permission.Grant {
			return []permission.Grant{{Rule: r.WithSkillDir(dir), Source: "skill:a"}}
		}}
		if v := (permission.Chain{link}).Judge(bash(command)); v.Action != permission.Allow || v.Source != "skill:a" {
			t.Errorf("%s: got %+v, want allow by the skill", command, v)
		}
		if v := (permission.Chain{link}).Judge(bash("/skills/b/run.sh")); !fits(v, permission.Ask) {
			t.Errorf("another skill's: got %+v, want ask", v)
		}
	}
}

// drawScript puts together commands that the rules of drawPolicy mean, and some that they do not.
func drawScript(t *rapid.T) string {
	part := rapid.SampledFrom([]string{
		"git status", "git push", "git -c a=b push", "rm -rf x", "rm x", "cat /w/a", "cat a.md", "echo x > /w/b.md", "$X y", "sh -c 'rm x'", "timeout 5 git push", "eval \"$Y\"", "ls", "cd d", "x=1", "f() { rm x; }", "cat *",
		"find . -exec rm {} +", "sort -o /w/a b", "tee a", "echo $(rm x)", "git log --output=a", "PATH=. ls", "\u202e", "'",
	})
	parts := rapid.SliceOfN(part, 1, 4).Draw(t, "parts")
	return strings.Join(parts, rapid.SampledFrom([]string{"; ", " && ", " | ", "\n"}).Draw(t, "joined by"))
}

func TestAddingADenyNeverPermitsMoreCommands(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawPolicy(t)
		c := permission.Call{Tool: "Bash", Args: map[string]any{"command": drawScript(t)}, Dir: "/w"}
		before := judged(p, c)
		more := p
		if rapid.Bool().Draw(t, "final") {
			more.FinalDeny = append(drawRules(t, "more"), p.FinalDeny...)
		} else {
			more.Deny = append(drawRules(t, "more"), p.Deny...)
		}
		if after := judged(more, c); after.Action > before.Action {
			t.Fatalf("%q: before %+v, after %+v", c.Args, before, after)
		}
	})
}

func TestMoreCommandsAreNeverPermittedThanEachOfThem(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawPolicy(t)
		first, second := drawScript(t), drawScript(t)
		judge := func(text string) permission.Action {
			return judged(p, permission.Call{Tool: "Bash", Args: map[string]any{"command": text}, Dir: "/w"}).Action
		}
		if both := judge(first + "\n" + second); both > judge(first) && !strings.Contains(first+second, "'") {
			t.Fatalf("%q alone: %v, with %q behind it: %v", first, judge(first), second, both)
		}
	})
}

func TestCanonicalTextIsJudgedLikeTheText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawPolicy(t)
		c := permission.Call{Tool: "Bash", Args: map[string]any{"command": drawScript(t)}, Dir: "/w"}
		v := judged(p, c)
		if !v.Plan.Printed {
			return
		}
		again := c
		again.Args = map[string]any{"command": v.Plan.Script}
		w := judged(p, again)
		if strings.Contains(v.Plan.Script, ":(exclude") && w.Action < v.Action {
			return // git is run with pathspecs, and what names a denied file may be denied
		}
		if w.Action != v.Action || w.Plan.Script != v.Plan.Script {
			t.Fatalf("%q: %+v, printed %q: %+v", c.Args, v, v.Plan.Script, w)
		}
	})
}

func TestCaseFileCountsBothKinds(t *testing.T) {
	counts := map[string]int{}
	for _, cases := range caseFiles(t) {
		for _, c := range cases {
			counts[c.Kind]++
		}
	}
	if counts["attack"] < 300 || counts["benign"] < 100 {
		t.Errorf("got %v, want several hundred attacks and a hundred benign commands", counts)
	}
}

// Without a sandbox that hides it, a denied file may lie below a directory that a command is given.
func TestDeniedFileMayLieBelowADirectory(t *testing.T) {
	work, _ := tree(t)
	p := policy(t, "deny: Read(.env) | allow: Bash")
	for command, want := range map[string]permission.Action{"grep -r x .": permission.Ask, "grep x sub": permission.Ask,
		"grep x a.go": permission.Allow, "ls .": permission.Allow} {
		if v := (permission.Chain{{Policy: p}}).Judge(permission.Call{Tool: "Bash", Args: map[string]any{"command": command},
			Dir: work}); v.Action != want {
			t.Errorf("%s: got %+v, want %v", command, v, want)
		}
	}
}
