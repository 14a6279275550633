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
	"symbio/internal/community/waittest"
	"symbio/security/permission"
	"symbio/security/sandbox"
)

// place is a workspace, and a shell in it.
type place struct {
	t     *testing.T
	dir   string
	guard permission.Chain
	cfg   shell.Config
}

func newPlace(t *testing.T, rules permission.Config) *place {
	t.Helper()
	if _, err := os.Stat("/bin/bash"); err != nil {
		t.Skip("needs /bin/bash")
	}
	policy, err := rules.Policy()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	box := sandbox.Probe(t.Context(), sandbox.Config{Env: append(os.Environ(), "OPENAI_API_KEY=sk-secret", "BASH_ENV=/etc/evil", "PROMPT_COMMAND=false")})
	if box.Status().Level < sandbox.Bwrap {
		t.Skipf("this machine has the sandbox level %v only", box.Status().Level)
	}
	held, err := sandbox.Standard(dir)
	if err != nil {
		t.Fatal(err)
	}
	return &place{t, dir, permission.Chain{{Name: "ann", Policy: policy}}, shell.Config{
		Box: func(context.Context) (*sandbox.Box, error) { return box, nil }, Policy: held,
	}}
}

func (p *place) call(name string, args map[string]any) llm.ToolResult {
	p.t.Helper()
	return p.run(p.t.Context(), name, args)
}

func (p *place) run(ctx context.Context, name string, args map[string]any) llm.ToolResult {
	p.t.Helper()
	raw, err := json.Marshal(args)
	if err != nil {
		p.t.Fatal(err)
	}
	set := tool.NewSet(tool.SetConfig{Guard: p.guard, Dir: p.dir, Ask: func(context.Context, tool.Decision) tool.Answer { return tool.Answer{Allow: true} }}, shell.Tools(p.cfg)...)
	return set.Run(ctx, []llm.ToolCall{{ID: "1", Name: name, Args: raw}})[0]
}

func (p *place) bash(command string) llm.ToolResult {
	p.t.Helper()
	return p.call("Bash", map[string]any{"command": command})
}

func wants(t *testing.T, what string, got llm.ToolResult, isError bool, texts ...string) {
	t.Helper()
	if got.IsError != isError {
		t.Errorf("%s: an error: %v, want %v: %.400s", what, got.IsError, isError, got.Text)
	}
	for _, want := range texts {
		if !strings.Contains(got.Text, want) {
			t.Errorf("%s: the text lacks %q: %.400s", what, want, got.Text)
		}
	}
}

var permissive = permission.Config{Preset: "permissive"}

func TestCommandRunsInTheWorkspaceAndSaysWhatItDid(t *testing.T) {
	p := newPlace(t, permissive)
	wants(t, "output", p.bash("echo out; echo err >&2; pwd"), false, "out\nerr\n", p.dir)
	wants(t, "a file", p.bash("printf x > a.txt && cat a.txt"), false, "x")
	if text, err := os.ReadFile(filepath.Join(p.dir, "a.txt")); err != nil || string(text) != "x" {
		t.Errorf("a.txt holds %q, %v", text, err)
	}
	wants(t, "a status", p.bash("echo before; exit 3"), true, "before", "status 3")
	wants(t, "silence", p.bash("true"), false, "printed nothing")
	wants(t, "colours", p.bash(`printf '1%%\ra\033[31mred\033[0m\u202e'`), false, "[earlier states of this line: 1] ared\n")
	wants(t, "a lot", p.bash("seq 1 200000"), false, "1\n2\n", "200000\n", "bytes cut")
	wants(t, "nothing stays", p.bash("cd /tmp; X=1; echo x > /tmp/kept"), false)
	wants(t, "nothing stays, in /tmp either", p.bash("cat /tmp/kept"), true, "No such file")
	wants(t, "nothing stays", p.bash("pwd; echo ${X:-unset}"), false, p.dir, "unset")
}

func TestSandboxHolds(t *testing.T) {
	p := newPlace(t, permissive)
	outside := t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, "f"), []byte("x"), 0o666); err != nil {
		t.Fatal(err)
	}
	wants(t, "writing outside", p.bash("echo y > "+outside+"/f"), true)
	if text, err := os.ReadFile(filepath.Join(outside, "f")); err != nil || string(text) != "x" {
		t.Errorf("the file outside holds %q, %v", text, err)
	}
	wants(t, "secrets", p.bash("env"), false)
	for _, name := range []string{"OPENAI_API_KEY", "BASH_ENV", "PROMPT_COMMAND", "sk-secret"} {
		if got := p.bash("env"); strings.Contains(got.Text, name) {
			t.Errorf("the command sees %s: %s", name, got.Text)
		}
	}
}

func TestCommandEndsInTimeWithAllThatItStarted(t *testing.T) {
	p := newPlace(t, permissive)
	limit := 1
	waittest.Until(t, "a command that has begun before its time is up", func() (any, bool) {
		got := p.call("Bash", map[string]any{"command": "setsid sleep 86400 & echo started; sleep 86400", "timeout": limit})
		wants(t, "too long", got, true, fmt.Sprintf("longer than %ds", limit))
		limit *= 2
		return got.Text, strings.Contains(got.Text, "started")
	})
	wants(t, "a negative time", p.call("Bash", map[string]any{"command": "true", "timeout": -1}), true, "negative")
}

func TestStoppedCommandSaysSo(t *testing.T) {
	p := newPlace(t, permissive)
	fifo := filepath.Join(p.dir, "begun")
	if err := exec.Command("mkfifo", fifo).Run(); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go func() {
		defer stop()
		if _, err := os.ReadFile(fifo); err != nil { // until the command has written to it
			t.Error(err)
		}
	}()
	wants(t, "a stopped one", p.run(ctx, "Bash", map[string]any{"command": "echo so far; echo > begun; sleep 300"}), true, "so far", "it was ended, because the task was stopped")
}

// What runs is the tree that was judged: here what bash would read as a second command is a comment's end.
func TestJudgedCommandIsTheOneThatRuns(t *testing.T) {
	p := newPlace(t, permission.Config{Preset: "none", Allow: permission.Rules("Bash(echo:*)"), Deny: permission.Rules("Bash(touch:*)"), Default: "deny"})
	wants(t, "an allowed one", p.bash("echo hi"), false, "hi")
	wants(t, "a denied one", p.bash("echo hi; touch f"), true, "Denied")
	wants(t, "one in a substitution", p.bash("echo $(touch f)"), true, "Denied")
	wants(t, "one behind a comment", p.bash("echo hi # x \\\ntouch f"), true, "Denied")
	if _, err := os.Stat(filepath.Join(p.dir, "f")); err == nil {
		t.Error("touch ran")
	}
}

func TestWithoutASandboxOrAVerdictNothingRuns(t *testing.T) {
	p := newPlace(t, permissive)
	p.cfg.Box = nil
	wants(t, "no box", p.bash("true"), true, "did not run", "no sandbox")
	none := sandbox.Probe(t.Context(), sandbox.Config{Levels: []sandbox.Level{}})
	p.cfg.Box = func(context.Context) (*sandbox.Box, error) { return none, nil }
	wants(t, "no level", p.bash("true"), true, "Denied: The sandbox cannot hold this command", "none is run")
	for _, x := range shell.Tools(p.cfg) { // outside of a Set nobody has judged
		inv, err := x.Decode(json.RawMessage(`{"command": "status"}`))
		if err != nil {
			t.Fatal(err)
		}
		if r := inv.Run(t.Context()); !r.IsError || !strings.Contains(r.Text, "no permission check has judged it") {
			t.Errorf("%s outside of a Set: %+v", x.Spec().Name, r)
		}
	}
}

// On a machine with Landlock alone a command could change git's hooks, which its policy does not let it.
func TestMissingSandboxIsAsked(t *testing.T) {
	p := newPlace(t, permissive)
	weak := sandbox.Probe(t.Context(), sandbox.Config{Levels: []sandbox.Level{sandbox.Landlock}, Env: os.Environ()})
	if weak.Status().Level != sandbox.Landlock {
		t.Skipf("this machine has no Landlock: %s", weak.Status().Mend)
	}
	p.cfg.Box = func(context.Context) (*sandbox.Box, error) { return weak, nil }
	var asked []tool.Decision
	answer := tool.Answer{Allow: true, By: "ann"}
	var told []tool.Decision
	var set *tool.Set // the last one
	var calls []llm.ToolCall
	run := func(ctx context.Context, ask bool, rules permission.Chain, command string) llm.ToolResult {
		asked, told = nil, nil
		cfg := tool.SetConfig{Guard: rules, Dir: p.dir, OnDecision: func(d tool.Decision) error { told = append(told, d); return nil }}
		if ask {
			cfg.Ask = func(_ context.Context, d tool.Decision) tool.Answer { asked = append(asked, d); return answer }
		}
		args, err := json.Marshal(map[string]any{"command": command})
		if err != nil {
			t.Fatal(err)
		}
		set, calls = tool.NewSet(cfg, shell.Tools(p.cfg)...), []llm.ToolCall{{ID: "1", Name: "Bash", Args: args}}
		return set.Run(ctx, calls)[0]
	}
	wants(t, "accepted", run(t.Context(), true, p.guard, "echo hi"), false, "hi")
	if len(asked) != 1 || asked[0].Verdict.Stage != permission.StageSandbox || !strings.Contains(asked[0].Verdict.Why, "git's hooks") || !strings.Contains(asked[0].Verdict.Why, "landlock+seccomp") {
		t.Errorf("the person was asked %+v; want once, with the level and what is lacking", asked)
	}
	if len(told) != 1 || told[0].By != "ann" || !told[0].Approved {
		t.Errorf("recorded: %+v", told)
	}
	answer.Allow = false
	wants(t, "refused", run(t.Context(), true, p.guard, "echo hi"), true, "Denied", "The person said no")
	wants(t, "nobody to ask", run(t.Context(), false, p.guard, "echo hi"), true, "Denied", "git's hooks", "no person to ask", "To mend it: ")
	answer.Allow = true
	asks := permission.Chain{{Name: "ann", Policy: permission.Policy{Default: permission.Ask}}}
	wants(t, "two questions in one", run(t.Context(), true, asks, "echo hi"), false, "hi")
	if len(asked) != 1 || !strings.Contains(asked[0].Verdict.Why, "No rule matches") || !strings.Contains(asked[0].Verdict.Why, "git's hooks") {
		t.Errorf("asked %+v; want one question with both reasons", asked)
	}
	answer.Always = true
	for _, command := range []string{"echo once; true", "echo $RANDOM"} {
		wants(t, "accepted for good", run(t.Context(), true, p.guard, command), false)
		wants(t, "so not asked again", set.Run(t.Context(), calls)[0], false)
		if len(asked) != 1 {
			t.Errorf("asked %d times about %q, want once", len(asked), command)
		}
	}
	wants(t, "what another lacks", run(tool.Within(t.Context(), permission.Guardrail{}, &p.cfg.Policy), true, p.guard, "echo else"), false)
	if len(asked) != 1 {
		t.Errorf("asked %d times about another call, want once", len(asked))
	}
	answer.Always = false
	wants(t, "denied by the rules", run(t.Context(), true, permission.Chain{{}}, "echo hi"), true, "No rule")
	if len(asked) != 0 {
		t.Errorf("a person was asked about what is denied: %+v", asked)
	}
	strict := sandbox.Restrictive()
	wants(t, "a policy that it can hold", run(tool.Within(t.Context(), permission.Guardrail{}, &strict), true, p.guard, "echo hi"), false, "hi")
	if len(asked) != 0 {
		t.Errorf("a person was asked about what is held: %+v", asked)
	}
}

// Where commands run without a sandbox, Git has its own one, or is a question.
func TestGitIsHeldWhereBashIsNot(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("needs git")
	}
	p := newPlace(t, permissive)
	held, policy := p.cfg.Box, p.cfg.Policy
	box := func(levels ...sandbox.Level) func(context.Context) (*sandbox.Box, error) {
		b := sandbox.Probe(t.Context(), sandbox.Config{Levels: levels, Env: os.Environ()})
		return func(context.Context) (*sandbox.Box, error) { return b, nil }
	}
	p.cfg.Box, p.cfg.Policy = box(sandbox.Off), sandbox.Permissive()
	outside := filepath.Join(t.TempDir(), "f")
	if out, err := exec.Command("git", "init", "-q", p.dir).CombinedOutput(); err != nil {
		t.Fatalf("git init: %v\n%s", err, out)
	}
	for _, test := range []struct {
		name  string
		git   shell.GitSandbox
		asked bool
	}{
		{"nothing holds it", shell.GitSandbox{}, true},
		{"a machine without a sandbox", shell.GitSandbox{Box: box([]sandbox.Level{}...), Policy: policy}, true},
		{"held", shell.GitSandbox{Box: held, Policy: policy}, false},
	} {
		p.cfg.Git = test.git
		var asked []tool.Decision
		set := tool.NewSet(tool.SetConfig{Guard: p.guard, Dir: p.dir, Ask: func(_ context.Context, d tool.Decision) tool.Answer {
			asked = append(asked, d)
			return tool.Answer{Allow: true}
		}}, shell.Tools(p.cfg)...)
		wants(t, test.name, set.Run(t.Context(), []llm.ToolCall{{ID: "1", Name: "Git", Args: json.RawMessage(`{"command": "status"}`)}})[0], false, "No commits yet")
		if len(asked) > 0 != test.asked || test.asked && !strings.Contains(asked[0].Verdict.Why, "repository's configuration names") {
			t.Errorf("%s: asked %+v", test.name, asked)
		}
		wants(t, "Bash", set.Run(t.Context(), []llm.ToolCall{{ID: "2", Name: "Bash", Args: json.RawMessage(`{"command": "echo x > ` + outside + `"}`)}})[0], false)
	}
	wants(t, "what it writes outside", p.call("Git", map[string]any{"command": "diff", "args": []any{"--no-index", "--output=" + outside + "2", "/dev/null", outside}}), true)
	if _, err := os.Stat(outside + "2"); err == nil {
		t.Error("Git wrote outside of the workspace")
	}
}

func TestGitRunsWithoutAShell(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("needs git")
	}
	p := newPlace(t, permissive)
	git := func(command string, args ...string) llm.ToolResult {
		list := make([]any, len(args))
		for i, a := range args {
			list[i] = a
		}
		return p.call("Git", map[string]any{"command": command, "args": list})
	}
	if out, err := exec.Command("git", "init", "-q", p.dir).CombinedOutput(); err != nil {
		t.Fatalf("git init: %v\n%s", err, out)
	}
	if err := os.WriteFile(filepath.Join(p.dir, "a; touch b"), []byte("x"), 0o666); err != nil {
		t.Fatal(err)
	}
	wants(t, "status", git("status", "--short"), false, "a; touch b")
	wants(t, "add", git("add", "a; touch b"), false)
	wants(t, "options first", git("-c", "core.pager=touch c", "log"), true, "options before it")
	wants(t, "no shell", git("status", "$(touch d)"), false)
	for _, name := range []string{"b", "c", "d"} {
		if _, err := os.Stat(filepath.Join(p.dir, name)); err == nil {
			t.Errorf("something made %s", name)
		}
	}
}

// The note about the box is for what ran in it.
func TestNoteTellsOfTheBoxThatHeldACommand(t *testing.T) {
	p := newPlace(t, permission.Config{Preset: "standard"})
	p.cfg.Look = p.cfg.Box
	wants(t, "it ran", p.bash("echo x"), false, "x\n[It ran in the look box")
	if err := os.RemoveAll(p.dir); err != nil {
		t.Fatal(err)
	}
	if got := p.bash("echo x"); !got.IsError || strings.Contains(got.Text, "It ran") {
		t.Errorf("without its directory: %s", got.Text)
	}
}
