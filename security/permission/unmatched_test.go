package permission_test

import (
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
		{"invoke_capability(text count)", "as in invoke_capability(text.*)", "as in invoke_capability(text.*)"},
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
			cfg := map[string]permission.Config{"allow": {Allow: rules}, "override": {Override: rules}, "deny": {Deny: rules}, "final_deny": {FinalDeny: rules}}[list]
			_, err := cfg.Policy()
			if (err == nil) != (want == "") || err != nil && (!strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "no call can match it")) {
				t.Errorf("%s in %s: %v, want %q", c.rule, list, err, want)
			}
		}
		if _, err := permission.ParseAllow(c.rule); (err == nil) != (c.allow == "") {
			t.Errorf("ParseAllow(%s): %v", c.rule, err)
		}
	}
}

// The nearest tool is named for one that does not exist; a server is looked for where servers are known.
func TestToolOfARuleHasToExist(t *testing.T) {
	known := permission.Tools{Names: []string{"Bash", "Read", "WebSearch", "wait_agents"}, Servers: []string{"files", "git_hub"}}
	for rule, want := range map[string]string{
		"Bsh": `"Bash"`, "read(x)": `"Read"`, "web_search": `"WebSearch"`, "Task(reviewer)": `"Agent"`, "Frobnicate": "there is no tool",
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
	p, err := permission.Config{Deny: permission.Rules("mcp__files__raed(x=1)", "mcp__files__w*", "mcp__files__*", "mcp__other__x")}.Policy()
	if got := p.Unmatched("mcp__files__", []string{"mcp__files__read"}); err != nil || len(got) != 2 || !strings.Contains(got[0].Error(), `"mcp__files__read"`) {
		t.Error(got, err)
	}
	c := permission.Config{Deny: []permission.RuleText{{Rule: "Bsh(rm:*)", At: "a.yaml:3:9"}}}
	if got := c.UnknownTools(known); len(got) != 1 || !strings.Contains(got[0].Error(), `deny rule "Bsh(rm:*)" (a.yaml:3:9)`) {
		t.Error(got)
	}
}
