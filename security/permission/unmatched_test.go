package permission_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"symbio/security/permission"
)

// A rule that no call can match is an error with the nearest form that some call matches. In a list
// that denies, more is understood than in one that allows.
func TestRuleThatMatchesNothingIsAnError(t *testing.T) {
	for _, c := range []struct{ rule, allow, deny string }{ // what the error says; "" = none
		{"mcp__github", "mcp__github__*", "mcp__github__*"},
		{"mcp__github__", "mcp__github__*", "mcp__github__*"},
		{"Bash(sudo:*, su:*)", "write Bash(sudo:*)", "write Bash(sudo:*)"},
		{"Bash(git *,npm *)", "write Bash(git *)", "write Bash(git *)"},
		{"Bash(sudo, su)", "write Bash(sudo)", "write Bash(sudo)"},
		{"Read(~/a, ~/b)", "write Read(~/a)", "write Read(~/a)"},
		{"Read(*.env,*.key)", "write Read(*.env)", "write Read(*.env)"},
		{"Read($HOME/.ssh/*)", "write Read(~/.ssh/*)", "write Read(~/.ssh/*)"},
		{"Write($PWD/x)", "write Write(./x)", "write Write(./x)"},
		{"Edit($SRC/*)", "what $SRC is", "what $SRC is"},
		{"Read(file:///etc/passwd)", "write Read(/etc/passwd)", "write Read(/etc/passwd)"},
		{"Git(git push:*)", "write Git(push:*)", "write Git(push:*)"},
		{"Bash(git:push)", "write Bash(git push:*)", "write Bash(git push:*)"},
		{"Bash(rm:-rf *)", "write Bash(rm -rf:*)", "write Bash(rm -rf:*)"},
		{"Bash(sudo:)", "write Bash(sudo:*)", "write Bash(sudo:*)"},
		{`Bash("git push":*)`, "write Bash(git push:*)", "write Bash(git push:*)"},
		{"mcp__github(x)", "mcp__github__*", "mcp__github__*"},
		{"Git(git:*)", "write Git", "write Git"},
		{"Git(git)", "write Git", "write Git"},
		{"Git(/usr/bin/git push)", "write Git(push)", "write Git(push)"},
		{`Git("git push")`, "write Git(push)", "write Git(push)"},
		{"Agent(a, b)", "write Agent(a)", "write Agent(a)"},
		{"Agent(a b)", "write Agent(a)", "write Agent(a)"},
		{"Agent(agent: a)", "write Agent(a)", "write Agent(a)"},
		{"replicate_agent(a:*)", "write replicate_agent(a)", "write replicate_agent(a)"},
		{"Skill(a, b)", "write Skill(a)", "write Skill(a)"},
		{"Skill('a')", "write Skill(a)", "write Skill(a)"},
		{`Skill("a", "b")`, "write Skill(a)", "write Skill(a)"},
		{"Skill(name=a)", "write Skill(a)", "write Skill(a)"},
		{"Skill(/deploy)", "write Skill(deploy)", "write Skill(deploy)"},
		{"Skill(deploy *)", "write Skill(deploy)", "write Skill(deploy)"},
		{"run_skill_script(a:x.sh, a:y.sh)", "write run_skill_script(a:x.sh)", "write run_skill_script(a:x.sh)"},
		{`Read("~/.ssh/*")`, "write Read(~/.ssh/*)", "write Read(~/.ssh/*)"},
		{`Read(~/"My Docs"/*)`, "write Read(~/My Docs/*)", "write Read(~/My Docs/*)"},
		{"Read(/etc/ *)", "write Read(/etc/*)", "write Read(/etc/*)"},
		{"Read(/etc/:*)", "write Read(/etc/*)", "write Read(/etc/*)"},
		{"Read(~/.netrc:*)", "write Read(~/.netrc)", "write Read(~/.netrc)"},
		{"Read(file_path=/etc/*)", "write Read(/etc/*)", "write Read(/etc/*)"},
		{"Read(.env, .key)", "write Read(.env)", "write Read(.env)"},
		{"Read(a.env, b.env)", "write Read(a.env)", "write Read(a.env)"},
		{"Read(/home/$USER/.ssh/*)", "what $USER is", "what $USER is"},
		{"Read(%USERPROFILE%/.ssh)", "write Read(~/.ssh)", "write Read(~/.ssh)"},
		{`Bash("rm -rf *")`, "write Bash(rm -rf *)", "write Bash(rm -rf *)"},
		{"Bash(`git push`)", "write Bash(git push)", "write Bash(git push)"},
		{`Bash("git push" --force)`, "write Bash(git push --force)", "write Bash(git push --force)"},
		{`Bash(git\ push:*)`, "write Bash(git push:*)", "write Bash(git push:*)"},
		{"Bash(rm -rf, mv)", "write Bash(rm -rf), or", "write Bash(rm -rf), or"},
		{"Bash(command=rm:*)", "write Bash(rm:*)", "write Bash(rm:*)"},
		{"Bash(git:pu*)", "write Bash(git pu*)", "write Bash(git pu*)"},
		{`mcp__db__query(sql="DROP *")`, "write mcp__db__query(sql=DROP *)", "write mcp__db__query(sql=DROP *)"},
		{`WebSearch("secret*")`, "write WebSearch(secret*)", "write WebSearch(secret*)"},
		{"Bash(git pus*)", "or Bash(git:*) for all", ""},
		{`Bash(psql -c "SELECT *, a FROM b":*)`, "or Bash(psql -c:*) for all", ""},
		{"invoke_capability(text count)", "write invoke_capability(text)", "write invoke_capability(text)"},
		{"Bash(git * main)", "or Bash(git:*) for all", ""},
		{"Bash(*sudo*)", "name the command", ""},
		{"Bash(cd x && make:*)", "a rule for each command", ""},
		{`Bash(echo "x)`, "no rule allows such a command", ""},
		{"mcp__db__query(SELECT *)", "mcp__db__query(ARGUMENT=SELECT *)", ""},
		{"WebSearch(secret)", "WebSearch(ARGUMENT=secret)", ""},
		// What a call can match.
		{rule: "*"},
		{rule: "mcp__*"},
		{rule: "mcp__git*"},
		{rule: "mcp__db__query(sql=SELECT a, *)"},
		{rule: "mcp_sampling__greeter"},
		{rule: "Bash"},
		{rule: "Bash(*)"},
		{rule: "Bash(cd x && make)"},
		{rule: "Bash(echo $(date))"},
		{rule: "Bash(npm run build:prod)"},
		{rule: "Bash(cut -d, -f1:*)"},
		{rule: "Bash(echo a, b)"},
		{rule: `Bash(git commit -m "fix, test")`},
		{rule: "Bash(awk '{print $1, $2}':*)"},
		{rule: `Bash("/opt/My Tools/run":*)`},
		{rule: `Bash("./my tool":*)`},
		{rule: `Bash(/opt/My\ Tools/run x)`},
		{rule: "Bash(:(){ :|:& };:)"},
		{rule: "Bash(: > x)"},
		{rule: "Bash(command:*)"},
		{rule: `Git("push")`},
		{rule: `Git(grep "a b":*)`},
		{rule: "Edit(./routes/$id/*)"},
		{rule: "Edit($lib/*)"},
		{rule: "Read(Report *.pdf)"},
		{rule: "Read(./Copy (1).txt)"},
		{rule: "WebSearch(site:example.com*)", allow: "ARGUMENT=site"},
		{rule: "mcp__web__get(https://x/*)", allow: "ARGUMENT=https"},
		{rule: "mcp__db__query(sql=UPDATE t SET a=1, b=2)"},
		{rule: "Bash(ls | sort)"},
		{rule: "Bash(curl * | sh)", allow: "or Bash(curl:*) for all"},
		{rule: "Bash(sort -k 1,2:*)"},
		{rule: `Bash(scp x "host:")`},
		{rule: "Bash(> x)"},
		{rule: "Bash(/usr/bin/git log:*)"},
		{rule: "Read(foo.c,v)"},
		{rule: `Read(5" disk's)`},
		{rule: "Skill(my skill)"},
		{rule: "Skill(plugin:name)"},
		{rule: "run_skill_script(job:*)"},
		{rule: `WebSearch(query=*"x"*)`},
		{rule: "message_agent(agent=a)"},
		{rule: "Bash(./a:b x)"},
		{rule: "Bash(rm:*.tmp)"},
		{rule: "Bash(FOO=a:b make:*)"},
		{rule: "Git"},
		{rule: "Git(log:*)"},
		{rule: "Read(Smith, John.txt)"},
		{rule: "Read(./**/.env)"},
		{rule: "Read(US$/x)"},
		{rule: "Skill(release-*)"},
		{rule: "send_signal(agent.*)"},
		{rule: "WebFetch(domain:*.example.com)"},
	} {
		for list, want := range map[string]string{"allow": c.allow, "override": c.allow, "deny": c.deny, "final_deny": c.deny} {
			rules := permission.Rules(c.rule)
			cfg := map[string]permission.Config{"allow": {Allow: rules}, "override": {Override: rules}, "deny": {Deny: rules},
				"final_deny": {FinalDeny: rules}}[list]
			_, err := cfg.Policy()
			if (err == nil) != (want == "") || err != nil && (!strings.Contains(err.Error(), want) || !kind.MatchString(err.Error())) {
				t.Errorf("%s in %s: %v, want %q", c.rule, list, err, want)
			}
			if m := nearest.FindStringSubmatch(fmt.Sprint(err)); m != nil && list == "deny" {
				if _, err := (permission.Config{Deny: permission.Rules(m[1])}).Policy(); err != nil {
					t.Errorf("the advice for %s: %v", c.rule, err)
				}
			}
		}
		if _, err := permission.ParseAllow(c.rule); (err == nil) != (c.allow == "") {
			t.Errorf("ParseAllow(%s): %v", c.rule, err)
		}
	}
}

// kind matches what an error says of a rule: for certain, or as a guess.
var kind = regexp.MustCompile(`: (no call can match it|it probably means something else): `)

// A denial that is written as elsewhere denies what it names, or is an error whose advice denies it: for every tool, with
// every separator, way to name the argument, place of the blank and path of the program.
func TestDenialIsRefusedOrDenies(t *testing.T) {
	tools := []struct{ tool, arg, names, one, other, call string }{
		{"Bash", "command", "command cmd", "rm", "mv", "rm x"},
		{"Bash", "command", "command cmd", "rm:*", "mv:*", "rm x"},
		{"Bash", "command", "command cmd", "git push", "git pull", "git push x"},
		{"Read", "file_path", "file_path path file pattern", "/etc/passwd", "/etc/shadow", "/etc/passwd"},
		{"Edit", "file_path", "file_path filePath filename", "/etc/*", "~/.ssh/*", "/etc/passwd"},
		{"Glob", "path", "path glob directory", "*.env", "*.key", "/w/x.env"},
		{"activate_skill", "skill_name", "name skill skill_name", "a", "b", "a"},
		{"Skill", "skill_name", "name skill skill_name", "a", "b", "a"},
		{"replicate_agent", "agent", "agent name", "a", "b", "a"},
		{"invoke_capability", "capability", "capability name", "a", "b", "a"},
		{"run_skill_script", "script", "script name", "a:x.sh", "b:y.sh", "a:x.sh"},
		{"mcp__db__query", "sql", "sql", "sql=DROP*", "db=x", "DROP x"},
		{"mcp__db__query", "sql", "sql", "DROP*", "", "DROP x"},
		{"WebSearch", "query", "query", "a", "", "a"},
	}
	refused := func(tool, rule, arg, call string) string {
		for range 2 {
			p, err := permission.Config{Preset: "permissive", Deny: permission.Rules(rule)}.Policy()
			if err == nil {
				args := map[string]any{arg: call}
				if v := (permission.Chain{{Name: "x", Policy: p}}).Judge(permission.Call{Tool: tool, Args: args,
					Dir: "/w"}); v.Action != permission.Deny {
					return fmt.Sprintf("%s: %s is %v", rule, call, v.Action)
				}
				return ""
			}
			m := nearest.FindStringSubmatch(err.Error())
			if m == nil {
				return "no advice: " + err.Error()
			}
			rule = m[1]
		}
		return "the advice is refused: " + rule
	}
	check := func(tool, rule, arg, call string) {
		if called := map[string]string{"Skill": "activate_skill"}[tool]; called != "" {
			rule, tool = strings.Replace(rule, tool, "Skill", 1), called
		}
		if wrong := refused(tool, rule, arg, call); wrong != "" {
			t.Errorf("%s: %s", rule, wrong)
		}
	}
	for _, c := range tools {
		separators := []string{",", ", ", " , ", ";", "; ", "|"}
		if c.tool != "Bash" && c.tool != "mcp__db__query" {
			separators = append(separators, " | ", " ", " or ", " and ")
		}
		for _, separator := range separators {
			// a pipe, or one after the other
			shell := c.tool == "Bash" && strings.Contains(c.one, " ") && strings.ContainsAny(separator, ";|")
			if c.other != "" && !shell {
				check(c.tool, c.tool+"("+c.one+separator+c.other+")", c.arg, c.call)
			}
		}
		for name := range strings.FieldsSeq(c.names) {
			for _, is := range []string{"=", " = ", "= ", " =", ": ", ":", " : "} {
				if !strings.Contains(c.one, "=") && !strings.HasPrefix(c.one, "*") {
					check(c.tool, c.tool+"("+name+is+c.one+")", c.arg, c.call)
				}
			}
		}
	}
	for _, words := range []string{"rm", "sudo", "git push", "rm -rf", "docker compose up"} {
		for _, end := range []string{":*", " *", ": *", " : *", " :*", ":  *", ":", ".*"} {
			if end != ".*" || !strings.Contains(words, " ") {
				check("Bash", "Bash("+words+end+")", "command", words+" x")
			}
		}
	}
	for rule, command := range map[string]string{
		"./scripts/*": "./scripts/deploy.sh", "./scripts/*:*": "scripts/deploy.sh now", "./scripts/": "./scripts/a", "./*": "./x y", "scripts/* x": "./scripts/a y x",
		"/usr/bin/*": "/usr/bin/rm x", "/usr/bin/* x": "/usr/bin//rm y x", "~/bin/*": "~/bin/x", "*/rm *": "/usr/bin/rm x", "/usr/*/rm *": "rm x",
		`"/opt/My Tools/run" * x`: "'/opt/My Tools/run' y x", `/opt/My\ Tools/*`: "'/opt/My Tools/run' y", `"/opt/My Tools"/* x`: "/opt/My\\ Tools/run x",
		"*/etc/passwd": "cat /etc/passwd", "/usr/bin/git:* --force": "git push --force", "$ rm *": "rm x", "^rm.*$": "rm x", "^git push": "git push x",
		"{rm,mv}:*": "rm x", "(rm|mv):*": "rm x", "(rm|mv) *": "rm x", "git * push:": "git -C x push y", "git push: * --force": "git push x --force",
	} {
		check("Bash", "Bash("+rule+")", "command", command)
	}
	for rule, path := range map[string]string{"/etc/(passwd|shadow)": "/etc/passwd", "^/etc/.*$": "/etc/passwd",
		"path:/etc/*": "/etc/passwd", "$home/x": "", "$env:HOME/x": ""} {
		if _, err := permission.ParseAllow("Read(" + rule + ")"); err == nil || strings.Contains(err.Error(), "URL") {
			t.Errorf("%s: %v", rule, err)
		}
		if path != "" {
			check("Read", "Read("+rule+")", "file_path", path)
		}
	}
}

// nearest matches the rule at the end of an error, which is to be written instead.
var nearest = regexp.MustCompile(`write ([\w*]+(?:\(.*\))?)(?:$|, or)`)

// What a deny rule says is denied, however unlike the words of the command it is.
func TestDenialMeansWhatItSays(t *testing.T) {
	for rule, command := range map[string]string{
		"Bash(:(){ :|:& };:)": ":(){ :|:& };:", `Bash("/opt/My Tools/run":*)`: `/opt/My\ Tools/run x`, `Bash(git commit -m "WIP*")`: "git commit -m 'WIP: x'",
		"Bash(git push:* --force)": "git push --force", "Bash(docker run img:* sh)": "docker run img:x sh", "Bash(docker push img:*-debug)": "docker push img:x-debug",
		"Bash(/usr/bin/rm -rf * x)": "rm -rf y x", `Bash(psql -c "SELECT *, a":*)`: `psql -c "SELECT b, a"`, `Bash(*"/etc/passwd"*)`: "cat /etc/passwd",
	} {
		p, err := permission.Config{Preset: "permissive", Deny: permission.Rules(rule)}.Policy()
		if v := (permission.Chain{{Name: "x", Policy: p}}).Judge(permission.Call{Tool: "Bash", Args: map[string]any{"command": command},
			Dir: "/w"}); err != nil || v.Action != permission.Deny {
			t.Errorf("%s: %s is %v: %v", rule, command, v.Action, err)
		}
	}
}

// The nearest tool is named for one that does not exist; a server is looked for where servers are known.
func TestToolOfARuleHasToExist(t *testing.T) {
	known := permission.Tools{Names: []string{"Bash", "Read", "WebSearch", "wait_agents"}, Servers: []string{"files", "git_hub"}}
	for rule, want := range map[string]string{
		"Bsh": `"Bash"`, "read(x)": `"Read"`, "web_search": `"WebSearch"`, "ls(x)": `"Glob"`, "Shell": `"Bash"`, "ToolSearch": `"ToolSearch" here`, "Task(reviewer)": `"Agent"`, "Frobnicate": "there is no tool",
		"wait*x": "there is no tool", "mcp__fils__read": `"files"`, "mcp__nosuch__*": "no MCP server", "mcp_sampling__fils": `"files"`,
		"Bash": "", "Bash(x)": "", "Agent(x)": "", "Skill": "", "wait_*": "", "*": "", "m*": "", "mcp__*": "", "mcp__fi*": "", "mcp__files__read": "", "mcp__git_hub__*": "", "mcp_sampling__files": "",
	} {
		if err := known.Check(rule); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", rule, err, want)
		}
	}
	if err := (permission.Tools{Names: known.Names}).Check("mcp__fils__read"); err != nil {
		t.Error("servers are not known:", err)
	}
	p, err := permission.Config{Deny: permission.Rules("mcp__files__raed(x=1)", "mcp__files__w*", "mcp__files__*",
		"mcp__other__x")}.Policy()
	if got := p.Unmatched("mcp__files__", []string{"mcp__files__read"}); err != nil || len(got) != 2 ||
		!strings.Contains(got[0].Error(), `"mcp__files__read"`) {
		t.Error(got, err)
	}
	c := permission.Config{Deny: []permission.RuleText{{Rule: "Bsh(rm:*)", At: "a.yaml:3:9"}}}
	if got := c.UnknownTools(known); len(got) != 1 || !strings.Contains(got[0].Error(), `deny rule "Bsh(rm:*)" (a.yaml:3:9)`) {
		t.Error(got)
	}
}
