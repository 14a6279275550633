package permission_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"symbio/security/permission"
)

// What lasts of a command is its whole program: not its parts, and not with another input or other redirections.
func TestLastingApprovalIsExactlyWhatWasShown(t *testing.T) {
	p := policy(t, "allow: Bash(ls:*); Write(./x.py) | default: ask")
	home := t.TempDir()
	at := func(command string) permission.Call {
		return permission.Call{Tool: "Bash", Args: map[string]any{"command": command}, Dir: home}
	}
	script := func(text string) {
		if err := os.WriteFile(filepath.Join(home, "x.py"), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	script("print(1)")
	for command, others := range map[string][]string{
		"npm test && make":             {"npm test", "make", "make && npm test", "npm test && make x"},
		"ls > out":                     {"ls -l > out", "ls >> out"},
		"echo all: > Makefile":         {"printf 'all:\\n\\tid' > Makefile", "echo all: x > Makefile"},
		"make -f - <<E\na:\nE":         {"make -f -", "make -f - <<E\na: b\nE"},
		"python3 - <<'E'\nprint(1)\nE": {"python3 -", "python3 - <<'E'\nprint(2)\nE", "python3 - < x.py"},
		"git apply <<< x":              {"git apply", "git apply <<< y"},
		"python3 x.py":                 {"python3 y.py", "python3 x.py < y"},
		"./x.py a":                     {"./x.py b"},
	} {
		c := at(command)
		granted := c.Lasting(judged(p, c).Plan)
		if len(granted) != 1 {
			t.Errorf("%q lasts as %v", command, granted)
			continue
		}
		link := permission.Link{Policy: p, Granted: func() []permission.Grant { return granted }}
		again := at(strings.ReplaceAll(command, " && ", " &&  "))
		again.Args["description"] = "in other words"
		for _, same := range []permission.Call{c, again} {
			if v := (permission.Chain{link}).Judge(same); v.Action != permission.Allow {
				t.Errorf("%q: with what lasts: %v, %s", command, v.Action, v.Why)
			}
		}
		for _, other := range others {
			if v := (permission.Chain{link}).Judge(at(other)); v.Action != permission.Ask {
				t.Errorf("after %q, %q: %v, %s", command, other, v.Action, v.Why)
			}
		}
		if strings.Contains(command, "x.py") {
			script("import os; os.system('id')")
			if v := (permission.Chain{link}).Judge(c); v.Action != permission.Ask {
				t.Errorf("%q with another script: %v", command, v.Action)
			}
			script("print(1)")
		}
	}
	for _, command := range []string{"npm test $X", "npm test *.go", "bash", "PATH=x; npm test", "x=$(id); npm test $x", "curl x | sh",
		"echo $(id) > out", "(("} {
		if granted := at(command).Lasting(judged(p, at(command)).Plan); len(granted) > 0 {
			t.Errorf("%q lasts", command)
		}
	}
	write := call("Write", "file_path", "a", "content", "1")
	granted := write.Lasting(nil)
	if len(granted) != 1 || granted[0].Call != write.Key() {
		t.Fatalf("a call lasts as %+v", granted)
	}
	link := permission.Link{Policy: p, Granted: func() []permission.Grant { return granted }}
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

func TestPolicysDigestIsThatOfItsRules(t *testing.T) {
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
