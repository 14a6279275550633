package permission_test

import (
	"strings"
	"testing"

	"symbio/security/permission"
)

func TestOnlyOneThingIsExact(t *testing.T) {
	for text, want := range map[string]bool{
		"Bash(git push)": true, "Bash(FOO=1 make 'a b')": true, "Git(push)": true, "Write(/a/b)": true, "Read(/a/b c)": true,
		"Bash": false, "Bash(git:*)": false, "Bash(git *)": false, "Bash(rm:*.tmp)": false, "Bash(a; b)": false, "Bash(a * b)": false, "Bash(echo $X)": false,
		"Write": false, "Write(a)": false, "Write(./a)": false, "Write(~/a)": false, "Write(/a/*)": false, "*": false, "mcp__a__b": false,
		"WebFetch(domain:a.example)": false, "Skill(a)": false, "Agent(a)": false, "invoke_capability(a)": false,
	} {
		r, err := permission.ParseRule(text)
		if err != nil {
			t.Fatal(err)
		}
		if r.Exact() != want {
			t.Errorf("%s: exact is %v, want %v", text, r.Exact(), want)
		}
	}
	if (permission.Rule{}).Exact() {
		t.Error("no rule is exact")
	}
}

func TestWhatLastsIsExactlyWhatWasShown(t *testing.T) {
	p := policy(t, "allow: Bash(ls:*) | default: ask")
	for command, want := range map[string]string{
		"npm test && make": "Bash(npm test) Bash(make)",
		"ls > out":         "Write(/nowhere/work/out)",
		"npm test $X":      "", "npm test *.go": "", "ls > '*'": "", "bash": "", "x=1; npm test": "",
		"make -f - <<E\na:\nE": "", "git apply <<< x": "", // the text that they are given is none of the rule's
	} {
		c := bash(command)
		v := judged(p, c)
		var got []string
		for _, g := range c.Lasting(v.Plan) {
			got = append(got, g.Rule.String())
			if g.Call != "" {
				t.Errorf("%s: a command lasts as a call", command)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: lasts as %q, want %q", command, got, want)
		}
		if want == "" {
			continue
		}
		link := permission.Link{Policy: p, Granted: func() []permission.Granted { return c.Lasting(v.Plan) }}
		if v := (permission.Chain{link}).Judge(c); v.Action != permission.Allow {
			t.Errorf("%s: with what lasts: %v, %s", command, v.Action, v.Why)
		}
	}
	write := call("Write", "file_path", "a", "content", "1")
	granted := write.Lasting(nil)
	if len(granted) != 1 || granted[0].Call != write.Key() {
		t.Fatalf("a call lasts as %+v", granted)
	}
	link := permission.Link{Policy: p, Granted: func() []permission.Granted { return granted }}
	for name, c := range map[string]permission.Call{
		"the same": write, "another content": call("Write", "file_path", "a", "content", "2"), "another file": call("Write", "file_path", "b", "content", "1"),
		"another tool": call("Edit", "file_path", "a", "content", "1"), "one more": call("Write", "file_path", "a", "content", "1", "mode", "x"),
	} {
		want := permission.Ask
		if name == "the same" {
			want = permission.Allow
		}
		if v := (permission.Chain{link}).Judge(c); v.Action != want {
			t.Errorf("%s: %v, want %v", name, v.Action, want)
		}
	}
	elsewhere := write
	elsewhere.Dir = "/"
	if v := (permission.Chain{link}).Judge(elsewhere); v.Action != permission.Ask {
		t.Errorf("in another directory: %v", v.Action)
	}
}

func TestAPolicysDigestIsThatOfItsRules(t *testing.T) {
	base := "allow: Read; Write(./a) | deny: Bash(rm:*) | default: ask"
	same := policy(t, "allow: Write(./a); Read; Read | deny: Bash(rm:*) | default: ask")
	if policy(t, base).Digest() != same.Digest() {
		t.Error("the order of rules matters")
	}
	seen := map[string]string{policy(t, base).Digest(): base}
	for _, text := range []string{
		"allow: Read | deny: Bash(rm:*) | default: ask",
		"allow: Read; Write(./a) | deny: Bash(rm:*); Edit | default: ask",
		"allow: Read; Write(./a) | final: Bash(rm:*) | default: ask",
		"allow: Read; Write(./a) | override: Bash(rm:*) | default: ask",
		"allow: Read; Write(./a) | deny: Bash(rm:*) | default: allow",
	} {
		d := policy(t, text).Digest()
		if other, ok := seen[d]; ok {
			t.Errorf("%q and %q have one digest", text, other)
		}
		seen[d] = text
	}
}

func TestWhatIsTheOwnersHasToBeNamed(t *testing.T) {
	node := permission.Principal{Node: strings.Repeat("ab", 16), Authority: "lab", Role: "admin"}
	mine := permission.Principal{Node: strings.Repeat("cd", 16), Authority: "local"}
	for _, tt := range []struct {
		from, glob string
		who        permission.Principal
		want       permission.Action
	}{
		{"*", "*", node, permission.Deny},
		{"*", "a*", node, permission.Deny},
		{"*", "approvals*", node, permission.Deny},
		{"*", "*.answer", node, permission.Deny},
		{"role/admin", "*", node, permission.Deny},
		{"cluster/lab", "*", node, permission.Deny},
		{"role/admin", "approvals.*", node, permission.Allow},
		{"role/admin", "approvals.answer", node, permission.Allow},
		{"role/admin", "approvals.list", node, permission.Deny},
		{"role/other", "approvals.*", node, permission.Deny},
		{"*", "approvals.*", node, permission.Allow},
		{"local", "*", node, permission.Deny},
		{"local", "*", mine, permission.Allow},
		{"*", "*", mine, permission.Deny},
	} {
		in, err := permission.NewInbound([]permission.InboundRule{{From: tt.from, Invoke: []string{tt.glob}}})
		if err != nil {
			t.Fatal(err)
		}
		if v := in.Judge(tt.who, permission.KindInvoke, "approvals.answer"); v.Action != tt.want {
			t.Errorf("from %s: invoke %s: %v, want %v", tt.from, tt.glob, v.Action, tt.want)
		}
		agents := strings.NewReplacer("approvals", "agents", "answer", "steer").Replace(tt.glob)
		of, err := permission.NewInbound([]permission.InboundRule{{From: tt.from, Invoke: []string{agents}}})
		if err != nil {
			t.Fatal(err)
		}
		if v := of.Judge(tt.who, permission.KindInvoke, "agents.steer"); v.Action != tt.want {
			t.Errorf("from %s: invoke %s: %v, want %v", tt.from, agents, v.Action, tt.want)
		}
		if v := in.Judge(tt.who, permission.KindSend, "approvals.answer"); v.Action != permission.Deny {
			t.Errorf("from %s: a perception of that name: %v", tt.from, v.Action)
		}
	}
	in, err := permission.NewInbound([]permission.InboundRule{{From: "*", Invoke: []string{"approvals.*"}}, {From: "role/admin", Deny: []string{"*"}}})
	if err != nil {
		t.Fatal(err)
	}
	if v := in.Judge(node, permission.KindInvoke, "approvals.answer"); v.Action != permission.Deny {
		t.Errorf("denied by *: %v", v.Action)
	}
}
