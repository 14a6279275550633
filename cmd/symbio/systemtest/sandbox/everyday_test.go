//go:build system && linux

package sandbox_test

import (
	"context"
	_ "embed"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"symbio/agent/llm"
	"symbio/agent/tool"
	"symbio/agent/tool/builtin"
	"symbio/agent/tool/security"
	"symbio/internal/community/waittest"
	"symbio/security/permission"
)

//go:embed testdata/everyday.txt
var everyday string

// project makes a repository with a little of several languages, in which everyday commands have something to print.
const project = `git init -q -b main . && git config user.name n && git config user.email n@example.com
mkdir lib c
printf 'module example.com/x\n\ngo 1.24\n' > go.mod
printf 'package main\n\nimport "fmt"\n\n// TODO: greet\nfunc main() { fmt.Println("hello") }\n' > main.go
printf 'package lib\n\n// Double doubles.\nfunc Double(n int) int { return 2 * n }\n' > lib/lib.go
printf 'package lib\n\nimport "testing"\n\nfunc TestDouble(t *testing.T) {\n\tif Double(2) != 4 {\n\t\tt.Fatal("wrong")\n\t}\n}\n' > lib/lib_test.go
printf 'one\ntwo\ntwo\nthree\n' > a.txt; printf 'one\nfour\n' > b.txt; printf 'a,1,x\nb,2,y\n' > a.csv; printf 'one\n' > notes.txt
printf 'print("from a script")\n' > script.py
printf 'import unittest\n\nclass T(unittest.TestCase):\n    def test_one(self):\n        self.assertEqual(1, 1)\n' > test_one.py
printf '{"name": "x", "version": "1.2.3", "scripts": {"hello": "echo hello", "test": "node --test", "build": "mkdir -p build && echo built > build/out"}}\n' > package.json
printf 'console.log("from node")\n' > index.js
printf 'const test = require("node:test"); test("one", () => {});\n' > one.test.js
printf '#include <stdio.h>\nint main(void) { puts("from c"); return 0; }\n' > c/hello.c
printf 'all:\n\tmkdir -p build && echo made > build/made\n' > Makefile
tar -cf archive.tar a.txt
printf 'build/\n__pycache__/\n' > .gitignore
git add . && git commit -qm 'first' && git tag v0.1 && echo '// end' >> main.go && git commit -qam 'second'`

// bench is a project and the tools of an agent with a security preset.
type bench struct {
	dir   string
	set   *tool.Set
	asked *int
}

func newBench(t *testing.T, dir, preset string) bench {
	t.Helper()
	s, err := security.Preset(preset)
	if err != nil {
		t.Fatal(err)
	}
	rules, err := s.Permissions.Policy()
	if err != nil {
		t.Fatal(err)
	}
	w, err := builtin.New(builtin.Config{Dir: dir, Security: s})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	asked := new(int)
	return bench{dir, tool.NewSet(tool.SetConfig{Guard: permission.Chain{{Name: "agent", Policy: rules, Memory: new(permission.Memory)}}, Dir: dir, Ask: func(context.Context, tool.Decision) tool.Answer {
		*asked++
		return tool.Answer{Why: tool.NoPerson}
	}}, w.Tools()...), asked}
}

// run calls Bash, and returns its result without the note about the box.
func (b bench) run(t *testing.T, command, access string) (text string, failed bool) {
	t.Helper()
	call := map[string]string{"command": command}
	if access != "" {
		call["access"] = access
	}
	args, err := json.Marshal(call)
	if err != nil {
		t.Fatal(err)
	}
	r := b.set.Run(waittest.Context(t), []llm.ToolCall{{ID: "1", Name: "Bash", Args: args}})[0]
	text, _, _ = strings.Cut(r.Text, "[It ran in the look box")
	return strings.TrimPrefix(text, "[It printed nothing.]\n"), r.IsError
}

// outside runs a command without a sandbox, as a person would.
func (b bench) outside(t *testing.T, command string) (text string, failed bool) {
	t.Helper()
	c := exec.CommandContext(waittest.Context(t), "bash", "--norc", "--noprofile", "-c", command)
	c.Dir = b.dir
	out, err := c.CombinedOutput()
	return string(out), err != nil
}

// Everyday commands that only look are not asked about under standard, and print what they print outside; under workspace,
// neither are those that change the workspace. What needs the network is asked about.
func TestEverydayCommandsAreNotAskedAbout(t *testing.T) {
	dir := t.TempDir()
	b := newBench(t, dir, "standard")
	if out, failed := b.outside(t, project); failed {
		t.Fatal(out)
	}
	mine := newBench(t, dir, "workspace")
	looking, writing := 0, 0
	for command := range strings.Lines(everyday) {
		command = strings.TrimSpace(command)
		if command == "" || strings.HasPrefix(command, "#") {
			continue
		}
		mark, rest, _ := strings.Cut(command, " ")
		switch mark {
		case "w":
			writing++
			if text, failed := mine.run(t, rest, "write"); failed || *mine.asked > 0 {
				t.Errorf("%s: asked %d times under workspace:\n%s", rest, *mine.asked, text)
			}
		case "n":
			if mine.run(t, rest, "network"); *mine.asked != 1 {
				t.Errorf("%s: asked %d times under workspace, want once", rest, *mine.asked)
			}
		default:
			looking++
			if mark == "~" {
				command = rest
			}
			text, failed := b.run(t, command, "")
			want, wantFailed := b.outside(t, command)
			if *b.asked > 0 || failed != wantFailed || mark != "~" && !strings.HasPrefix(text, want) {
				t.Errorf("%s: asked %d times; failed %v, want %v:\n%swant:\n%s", command, *b.asked, failed, wantFailed, text, want)
			}
		}
		*b.asked, *mine.asked = 0, 0
	}
	if looking < 200 || writing < 20 {
		t.Errorf("%d commands look and %d write, want 200 and 20", looking, writing)
	}
	if made, err := os.ReadFile(filepath.Join(dir, "notes.txt")); err != nil || !strings.Contains(string(made), "two") {
		t.Errorf("notes.txt is %q: %v", made, err)
	}
}
