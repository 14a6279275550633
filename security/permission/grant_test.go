package permission_test

import (
	"strings"
	"testing"

	"symbio/security/permission"
)

// grantedTo is an agent whose active skill grants a rule, in dir.
func grantedTo(t *testing.T, rules, text, dir string) permission.Chain {
	t.Helper()
	r, err := permission.ParseGrant(text)
	if err != nil {
		t.Fatal(err)
	}
	return permission.Chain{{Policy: policy(t, rules), Granted: func() []permission.Grant {
		return []permission.Grant{{Rule: r.WithSkillDir(dir), Source: "skill:a"}}
	}}}
}

// The vectors of skills.md 4.3, for a rule of a skill and for the same rule of a configuration.
func TestGrantMeansItsVectors(t *testing.T) {
	const tmp = "/tmp/x"
	command := func(text string) permission.Call { return bash(text) }
	write := func(path string) permission.Call {
		return permission.Call{Tool: "Write", Args: map[string]any{"file_path": path}, Dir: "/w"}
	}
	fetch := func(host string) permission.Call {
		return permission.Call{Tool: "WebFetch", Args: map[string]any{"url": "https://" + host + "/"}, Dir: "/w"}
	}
	for _, c := range []struct {
		rule                string
		call                permission.Call
		granted, configured permission.Action
	}{
		{"Bash(git:*)", command("git"), permission.Allow, permission.Allow},
		{"Bash(git:*)", command("git status"), permission.Allow, permission.Allow},
		{"Bash(git:*)", command("git  log"), permission.Allow, permission.Allow},
		{"Bash(git:*)", command("gitk"), permission.Ask, permission.Ask},
		{"Bash(npm:*)", command("npm-evil x"), permission.Ask, permission.Allow},
		{"Bash(git:*)", command("git-log -1"), permission.Ask, permission.Allow},
		{"Bash(git:*)", command("git status && rm x"), permission.Ask, permission.Ask},
		{"Bash(git:*)", command(`git add a && git commit -m "x && y"`), permission.Allow, permission.Allow},
		{"Bash(git:*)", command("git $(rm x)"), permission.Ask, permission.Ask},
		{"Bash(git:*)", command("FOO=1 git status"), permission.Ask, permission.Ask},
		{"Bash(git:*)", command("timeout 5 git status"), permission.Allow, permission.Allow},
		{"Bash(npm run test *)", command("npm run test"), permission.Allow, permission.Allow},
		{"Bash(npm run test *)", command("npm run test unit"), permission.Allow, permission.Allow},
		{"Bash(npm run test *)", command("npm run tests"), permission.Ask, permission.Ask},
		// A * inside a command is for deny rules alone: 4.3 has this one allowed.
		{"Bash(* --version)", command("node --version"), permission.Ask, permission.Ask},
		{"Write(tmp/*)", write("tmp/a/b"), permission.Allow, permission.Allow},
		{"Write(tmp/*)", write("tmp/../etc/x"), permission.Ask, permission.Ask},
		{"Write(tmp/*)", write("tmpx/a"), permission.Ask, permission.Ask},
		{"WebFetch(domain:*.example.com)", fetch("a.b.EXAMPLE.com."), permission.Allow, permission.Allow},
		{"WebFetch(domain:*.example.com)", fetch("example.com"), permission.Ask, permission.Ask},
	} {
		if got := grantedTo(t, "default: ask", c.rule, tmp).Judge(c.call).Action; got != c.granted {
			t.Errorf("%s of a skill, %v: got %v, want %v", c.rule, c.call.Args, got, c.granted)
		}
		p := policy(t, "default: ask | allow: "+c.rule)
		if got := (permission.Chain{{Policy: p}}).Judge(c.call).Action; got != c.configured {
			t.Errorf("%s of a configuration, %v: got %v, want %v", c.rule, c.call.Args, got, c.configured)
		}
	}
	if v := grantedTo(t, "default: ask | deny: Bash(git push:*)", "Bash(git:*)",
		tmp).Judge(command("git push")); v.Action != permission.Deny {
		t.Errorf("a denied push: got %+v, want a deny that no grant lifts", v)
	}
	if v := grantedTo(t, "default: ask | final: Bash(git push:*)", "Bash(git push)",
		tmp).Judge(command("git push")); v.Action != permission.Deny {
		t.Errorf("a push denied for good: got %+v, want a deny that no grant lifts", v)
	}
}

// quotes writes a path as it stands between double quotes.
var quotes = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "$", `\$`, "`", "\\`")

func TestSkillMayWriteItsDirectoryInTwoWaysAndInQuotes(t *testing.T) {
	for _, dir := range []string{"/s/a", "/s/a b", "/s/a'b", `/s/a"b`, "/s/$x", "/s/`x`"} {
		run := bash(`"` + quotes.Replace(dir+"/scripts/x.sh") + `" one`)
		for _, text := range []string{
			"Bash(${SKILL_DIR}/scripts/x.sh:*)", "Bash(${CLAUDE_SKILL_DIR}/scripts/x.sh *)", `Bash("${SKILL_DIR}/scripts/x.sh" one)`, `Bash("${CLAUDE_SKILL_DIR}"/scripts/x.sh:*)`,
		} {
			if v := grantedTo(t, "default: ask", text, dir).Judge(run); v.Action != permission.Allow {
				t.Errorf("%s in %s: got %+v, want allow", text, dir, v)
			}
			if v := grantedTo(t, "default: ask", text, "/elsewhere").Judge(run); v.Action != permission.Ask {
				t.Errorf("%s in another directory than %s: got %+v, want ask", text, dir, v)
			}
		}
		if v := grantedTo(t, "default: ask", "Bash('${SKILL_DIR}/scripts/x.sh':*)", dir).Judge(run); v.Action != permission.Ask {
			t.Errorf("in single quotes, %s: got %+v, want ask", dir, v)
		}
		read := permission.Call{Tool: "Read", Args: map[string]any{"file_path": dir + "/references/a.md"}, Dir: "/w"}
		if v := grantedTo(t, "default: ask", "Read(${SKILL_DIR}/references/*)", dir).Judge(read); v.Action != permission.Allow {
			t.Errorf("Read below %s: got %+v, want allow", dir, v)
		}
	}
	for text, want := range map[string]bool{"Read": false, "Read(a/*)": false, "Read(${SKILL_DIR}/*)": false,
		"Bash(${CLAUDE_SKILL_DIR}/x:*)": true, "Bash(git:*)": false} {
		r, err := permission.ParseGrant(text)
		if err != nil || r.RunsSkillFiles() != want {
			t.Errorf("%s runs the skill's files: %t, %v; want %t", text, r.RunsSkillFiles(), err, want)
		}
	}
}

func TestSkillGrantOfGitNamesItsDirectory(t *testing.T) {
	call := permission.Call{Tool: "Git", Args: map[string]any{"command": "log", "args": []any{"/s/a/x"}}, Dir: "/w"}
	for _, c := range []struct {
		rule string
		call permission.Call
		want permission.Action
	}{
		{"Git(log ${SKILL_DIR}/x)", call, permission.Allow},
		{"Git(log ${SKILL_DIR}/x:*)", call, permission.Allow},
		{"Git(log ${SKILL_DIR}/y)", call, permission.Ask},
		{"Git(log ${SKILL_DIR}/x)", bash("log /s/a/x"), permission.Ask},
	} {
		if v := grantedTo(t, "default: ask", c.rule, "/s/a").Judge(c.call); v.Action != c.want {
			t.Errorf("%s, %v: got %v (%s), want %v", c.rule, c.call.Args, v.Action, v.Why, c.want)
		}
	}
}
