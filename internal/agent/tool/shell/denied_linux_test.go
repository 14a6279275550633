package shell_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"symbio/agent/llm"
	"symbio/agent/tool"
	"symbio/internal/agent/tool/shell"
	"symbio/security/permission"
	"symbio/security/sandbox"
)

// asking is a workspace whose commands run at one level, and that counts its questions.
type asking struct {
	*place
	asked []tool.Decision
}

func newAsking(t *testing.T, b *sandbox.Box, rules permission.Config) *asking {
	t.Helper()
	policy, err := rules.Policy()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	held, err := sandbox.Standard(dir)
	if err != nil {
		t.Fatal(err)
	}
	cfg := shell.Config{Box: func(context.Context) (*sandbox.Box, error) { return b, nil }, Policy: held}
	return &asking{place: &place{t, dir, permission.Chain{{Name: "ann", Policy: policy}}, cfg}}
}

// only is a box of one level.
func only(t *testing.T, l sandbox.Level) *sandbox.Box {
	t.Helper()
	b := sandbox.Probe(t.Context(), sandbox.Config{Levels: []sandbox.Level{l}, Env: os.Environ()})
	if _, err := os.Stat("/bin/bash"); err != nil || b.Status().Level != l {
		t.Skipf("this machine does not have bash or the level %v", l)
	}
	return b
}

func (a *asking) file(name, text string) {
	a.t.Helper()
	at := filepath.Join(a.dir, name)
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		a.t.Fatal(err)
	}
	if err := os.WriteFile(at, []byte(text), 0o644); err != nil {
		a.t.Fatal(err)
	}
}

// run runs a command; its questions are not answered.
func (a *asking) run(command string) llm.ToolResult {
	a.t.Helper()
	raw, err := json.Marshal(map[string]any{"command": command})
	if err != nil {
		a.t.Fatal(err)
	}
	a.asked = nil
	set := tool.NewSet(tool.SetConfig{Guard: a.guard, Dir: a.dir, Ask: func(_ context.Context, d tool.Decision) tool.Answer {
		a.asked = append(a.asked, d)
		return tool.Answer{}
	}}, shell.Tools(a.cfg)...)
	return set.Run(a.t.Context(), []llm.ToolCall{{ID: "1", Name: "Bash", Args: raw}})[0]
}

// deniedTest is a script that reads or writes a denied file in a way that reading the command does not show. It prints want.
type deniedTest struct{ name, needs, script, want string }

func TestDeniedFilesAreKeptFromCommands(t *testing.T) {
	keepsDeniedFiles(t, []deniedTest{
		{"script", "sh", "cat .env sub/deep/.env a/b/key.pem; wc -c <.env", "0"},
		{"directory", "sh", "cat secrets/x secrets/y/z 2>/dev/null; cat secrets/public", "PUBLIC"},
		{"date", "date", "date -f .env", ""},
		{"file", "file", "file -f .env", ""},
		{"du", "du", "du --files0-from=.env", ""},
		{"curl", "curl", "curl -s file://$PWD/.env", ""},
		{"python", "/usr/bin/python3", "/usr/bin/python3 -c 'print([open(\".env\").read()])'", "['']"},
		{"perl", "perl", "perl -ne 'print' .env sub/deep/.env", ""},
		{"tar", "tar", "tar c . | cat", ""},
		{"hard link", "sh", "cat hard", ""},
		{"link", "sh", "cat soft", ""},
		{"denied link", "sh", "cat real", ""},
		{"new hard link", "sh", "ln .env h2 || cp .env h2; cat h2", ""},
		{"moved directory", "sh", "mv sub sub2; cat sub2/deep/.env", ""},
		{"moved secrets", "sh", "mv secrets s2 || mv a/b b2; cat s2/x b2/key.pem", ""},
		{"moved over", "sh", "echo mine > n; mv n .env; cat .env", ""},
		{"list of names", "xargs", "xargs cat < names", ""},
		{"own file", "sh", "mkdir new; echo own > new/.env; cat new/.env; echo x > secrets/q", "own"},
		{"write", "sh", "echo x > keep.txt; echo x >> conf/c; echo x > conf/new", ""},
		{"remove", "sh", "rm -rf keep.txt conf; mv keep.txt k; mv conf k2; sed -i s/k/x/ keep.txt", ""},
		{"replace", "sh", "echo x > n; mv -f n keep.txt; cp n keep.txt; ln -f n keep.txt; echo x > k3", ""},
	})
}

// keepsDeniedFiles runs the scripts, each in a workspace of its own, at the levels that keep denied files from commands.
func keepsDeniedFiles(t *testing.T, tests []deniedTest) {
	t.Helper()
	const secret = "SECRET-OF-ANN"
	rules := permission.Config{Preset: "permissive",
		Deny:     permission.Rules("Read(.env)", "Read(**/key.pem)", "Read(./secrets/*)", "Write(keep.txt)", "Edit(./conf/*)"),
		Override: permission.Rules("Read(./secrets/public)"),
	}
	files := map[string]string{
		".env": secret, "sub/deep/.env": secret, "a/b/key.pem": secret, "secrets/x": secret, "secrets/y/z": secret, "real": secret,
		"secrets/public": "PUBLIC", "keep.txt": "keep", "conf/c": "keep", "names": ".env\n", "go.mod": "module d\n",
		"d_test.go": "package d\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n\nfunc TestD(t *testing.T) {\n\tb, err := os.ReadFile(\".env\")\n\tt.Logf(\"read %q %v\", b, err)\n}\n",
	}
	for _, l := range []sandbox.Level{sandbox.Native, sandbox.Bwrap} {
		t.Run(l.String(), func(t *testing.T) {
			b := only(t, l)
			for _, test := range tests {
				t.Run(test.name, func(t *testing.T) {
					if _, err := exec.LookPath(test.needs); err != nil {
						t.Skip(err)
					}
					a := newAsking(t, b, rules)
					if cache := os.Getenv("GOCACHE"); test.needs == "go" {
						a.cfg.Policy.Files.Write = append(a.cfg.Policy.Files.Write, cache)
						test.script = "export GOTOOLCHAIN=local GOFLAGS=-mod=mod GOCACHE=" + cache + "\n" + test.script
					}
					for name, text := range files {
						a.file(name, text)
					}
					for name, err := range map[string]error{
						"hard": os.Link(filepath.Join(a.dir, ".env"), filepath.Join(a.dir, "hard")),
						"soft": os.Symlink(".env", filepath.Join(a.dir, "soft")),
						"l":    os.Symlink("../../real", filepath.Join(a.dir, "a/b/.env")),
					} {
						if err != nil {
							t.Fatal(name, err)
						}
					}
					a.file("s.sh", test.script+"\necho went on")
					got := a.run("sh s.sh")
					if len(a.asked) > 0 || strings.Contains(got.Text, secret) || !strings.Contains(got.Text, test.want) || !strings.Contains(got.Text, "went on") {
						t.Errorf("asked %d times, printed %s; want %q, to go on, and no secret", len(a.asked), got.Text, test.want)
					}
					for _, kept := range []string{"keep.txt", "conf/c"} {
						if text, err := os.ReadFile(filepath.Join(a.dir, kept)); err != nil || string(text) != "keep" {
							t.Errorf("%s holds %q, %v", kept, text, err)
						}
					}
					for _, at := range []string{"conf/new", "secrets/q/x"} {
						if _, err := os.Stat(filepath.Join(a.dir, at)); err == nil {
							t.Errorf("%s was written", at)
						}
					}
					if text, err := os.ReadFile(filepath.Join(a.dir, ".env")); err != nil || string(text) != secret {
						t.Errorf(".env holds %q, %v", text, err)
					}
				})
			}
		})
	}
}

// A file that was made by a command is looked for, and hidden, when the next one starts.
func TestDeniedFilesAreLookedForAtEachStart(t *testing.T) {
	a := newAsking(t, only(t, sandbox.Native), permission.Config{Preset: "permissive", Deny: permission.Rules("Read(.env)")})
	a.file("s.sh", "mkdir -p n; cat n/.env 2>&1; test -s n/.env || echo own > n/.env; cat n/.env")
	wants(t, "its own", a.run("sh s.sh"), false, "own")
	if got := a.run("sh s.sh"); strings.Contains(got.Text, "own") {
		t.Errorf("the next command sees %s", got.Text)
	}
}

// What the sandbox does not keep from a command is a question that says why.
func TestUnenforcedDenialIsAsked(t *testing.T) {
	rules := permission.Config{Preset: "none", Allow: permission.Rules("Bash(ls:*)", "Bash(sh:*)", "Bash(xargs grep:*)", "Bash(grep:*)"), Deny: permission.Rules("Read(.env)", "Write(keep)")}
	many := func(a *asking) {
		for i := range 501 {
			a.file(fmt.Sprintf("d%d/.env", i), "x")
		}
	}
	anywhere := rules
	anywhere.Deny = permission.Rules("Read(/**/.env)")
	for _, test := range []struct {
		name  string
		level sandbox.Level
		rules permission.Config
		make  func(*asking)
		why   string // "" = it is not asked
	}{
		{"kept", sandbox.Native, rules, func(*asking) {}, ""},
		{"too many", sandbox.Native, rules, many, "over 500 files are denied by Read(.env)"},
		{"anywhere", sandbox.Bwrap, anywhere, func(*asking) {}, "Read(/**/.env) denies files that may be anywhere"},
		{"landlock", sandbox.Landlock, rules, func(*asking) {}, ".env could be read, since it lies in a directory that the command may write"},
		{"landlock", sandbox.Landlock, rules, func(*asking) {}, "keep could be written"},
		{"landlock", sandbox.Landlock, rules, func(*asking) {}, "the files of other programs in /tmp could be read"},
	} {
		t.Run(test.name, func(t *testing.T) {
			a := newAsking(t, only(t, test.level), test.rules)
			a.file(".env", "SECRET")
			a.file("keep", "x")
			test.make(a)
			for _, command := range []string{"ls | xargs grep -H x", "sh -c ls"} {
				a.run(command)
				switch {
				case test.why == "" && len(a.asked) > 0:
					t.Errorf("%s: asked %s", command, a.asked[0].Verdict.Why)
				case test.why != "" && (len(a.asked) == 0 || !strings.Contains(a.asked[0].Verdict.Why, test.why)):
					t.Errorf("%s: asked %v, want %q", command, a.asked, test.why)
				}
			}
		})
	}
}
