package skill_test

import (
	"context"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"symbio/actor"
	"symbio/agent/llm"
	"symbio/agent/tool"
	"symbio/agent/tool/skill"
	"symbio/internal/agent/tool/shell"
	"symbio/internal/community/waittest"
	"symbio/security/permission"
	"symbio/security/sandbox"
	"symbio/skills"
)

// workshop is an agent, ann, with a skill named job that is active, and its scripts.
type workshop struct {
	t        *testing.T
	dir      string // of the skill
	work     string
	registry *skills.Registry
	scripts  *shell.Scripts
	rules    permission.Config
	asked    []tool.Decision
	answer   tool.Answer
}

// newWorkshop activates the skill, in a scope, with lines of front matter.
func newWorkshop(t *testing.T, scope skills.Scope, lines string, scripts map[string]string) *workshop {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w := &workshop{t: t, dir: filepath.Join(root, "job"), work: t.TempDir(),
		rules: permission.Config{Preset: "none", Allow: permission.Rules("run_skill_script(job:*)")}}
	w.write("SKILL.md", "---\nname: job\ndescription: d\n"+lines+"---\nRun it.\n")
	for name, text := range scripts {
		w.write(name, text)
	}
	sys := actor.NewSystem(actor.Config{})
	t.Cleanup(func() { _ = sys.Shutdown(context.Background()) })
	if w.registry, err = skills.NewRegistry(sys, skills.Config{Roots: []skills.Root{{Path: root, Scope: scope}}}); err != nil {
		t.Fatal(err)
	}
	w.activate()
	return w
}

func (w *workshop) activate() skills.Activation {
	w.t.Helper()
	a, err := w.registry.Activate(w.t.Context(), skills.ActivateRequest{Agent: "ann", Name: "job"})
	if err != nil {
		w.t.Fatal(err)
	}
	return a
}

func (w *workshop) write(name, text string) {
	w.t.Helper()
	path := filepath.Join(w.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		w.t.Fatal(err)
	}
	mode := os.FileMode(0o644)
	if strings.HasPrefix(text, "#!") {
		mode = 0o755
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		w.t.Fatal(err)
	}
}

// real gives the workshop a sandbox of the machine, with the node's standard policy.
func (w *workshop) real() {
	w.t.Helper()
	box := sandbox.Probe(w.t.Context(), sandbox.Config{Env: os.Environ()})
	if l := box.Status().Level; l < sandbox.Bwrap {
		w.t.Skipf("this machine has the sandbox level %v only: %s", l, box.Status().Mend)
	}
	policy, err := sandbox.Standard(w.work)
	if err != nil {
		w.t.Fatal(err)
	}
	here := func(context.Context) (*sandbox.Box, error) { return box, nil }
	w.scripts = shell.NewScripts(shell.Config{Box: here, Look: here, Policy: policy})
}

func (w *workshop) run(script string, args ...string) llm.ToolResult {
	w.t.Helper()
	policy, err := w.rules.Policy()
	if err != nil {
		w.t.Fatal(err)
	}
	if w.scripts == nil {
		w.scripts = shell.NewScripts(shell.Config{})
	}
	w.asked = nil
	set := tool.NewSet(tool.SetConfig{
		Guard: permission.Chain{{Name: "ann", Policy: policy, Granted: func() []permission.Grant { return w.registry.Granted("ann") }}},
		Dir:   w.work, Agent: "ann",
		Ask: func(_ context.Context, d tool.Decision) tool.Answer {
			w.asked = append(w.asked, d)
			return w.answer
		},
	}, skill.ScriptTool(w.registry, w.scripts))
	raw, err := json.Marshal(map[string]any{"skill": "job", "script": script, "args": args})
	if err != nil {
		w.t.Fatal(err)
	}
	return set.Run(w.t.Context(), []llm.ToolCall{{ID: "1", Name: skill.RunScript, Args: raw}})[0]
}

func (w *workshop) wants(got llm.ToolResult, isError bool, texts ...string) {
	w.t.Helper()
	for _, text := range texts {
		if got.IsError != isError || !strings.Contains(got.Text, text) {
			w.t.Errorf("got an error: %t, %.300q; want %t, %q", got.IsError, got.Text, isError, text)
		}
	}
}

func TestSkillScriptRunsInItsDirectoryWithArguments(t *testing.T) {
	w := newWorkshop(t, skills.ScopeUser, "", map[string]string{
		"scripts/show.sh": "#!/bin/sh\npwd; echo \"$1|$2|$SKILL_DIR\"; cat data/x; exit 3\n", "scripts/plain.sh": "echo plain $1\n", "scripts/odd.xyz": "x", "data/x": "DATA\n",
	})
	w.real()
	w.wants(w.run("show.sh", "a b", "$(id)"), true, w.dir+"\na b|$(id)|"+w.dir+"\nDATA\n", "ended with status 3")
	w.wants(w.run("scripts/plain.sh", "x"), false, "plain x")
	w.wants(w.run("odd.xyz"), true, "not executable")
}

func TestSkillScriptKeepsItsThreeLimits(t *testing.T) {
	w := newWorkshop(t, skills.ScopeUser, "", map[string]string{
		"scripts/slow.sh": "#!/bin/sh\necho begun; sleep 86400 & sleep 86400\n", "scripts/loud.sh": "#!/bin/sh\nyes 0123456789\n", "scripts/fine.sh": "#!/bin/sh\nyes 0123456789 | head -c 900000\n",
		"scripts/write.sh": "#!/bin/sh\necho x > here || echo cannot; echo x > scripts/write.sh || echo neither\n",
	})
	w.real()
	if w.scripts.Timeout != time.Minute || w.scripts.MaxOutput != 1<<20 {
		t.Errorf("the limits are %v and %d", w.scripts.Timeout, w.scripts.MaxOutput)
	}
	w.wants(w.run("loud.sh"), true, "printed too much")
	w.wants(w.run("fine.sh"), false, "bytes cut")
	w.wants(w.run("write.sh"), false, "cannot", "neither") // it runs in the skill's directory, and does not change it
	w.scripts.Timeout = time.Second
	waittest.Until(t, "a script that has begun before its time is up", func() (any, bool) {
		got := w.run("slow.sh")
		w.wants(got, true, "longer than "+w.scripts.Timeout.String())
		w.scripts.Timeout *= 2
		return got.Text, strings.Contains(got.Text, "begun")
	})
}

// The box of scripts shows the skill and not the workspace; the sandbox of commands shows both, and lets scripts write in one.
func TestSkillScriptSeesItsSkillAloneUnlessItIsToWork(t *testing.T) {
	for _, works := range []bool{false, true} {
		w := newWorkshop(t, skills.ScopeUser, "", map[string]string{
			"scripts/x.sh": "#!/bin/sh\ncat data; (echo x >\"$1/made\") 2>/dev/null; if cat \"$1/notes\" 2>/dev/null; then echo; fi; echo end\n", "data": "DATA\n",
		})
		w.real()
		if err := os.WriteFile(filepath.Join(w.work, "notes"), []byte("NOTES"), 0o600); err != nil {
			t.Fatal(err)
		}
		w.scripts.Work = works
		want := map[bool]string{false: "DATA\nend", true: "DATA\nNOTES\nend"}[works]
		w.wants(w.run("x.sh", w.work), false, want)
		if _, err := os.Stat(filepath.Join(w.work, "made")); (err == nil) != works {
			t.Errorf("to work: %t; it has written in the workspace: %t", works, err == nil)
		}
	}
}

func TestSkillScriptHasNetworkOnlyByGrant(t *testing.T) {
	if _, err := os.Stat("/bin/bash"); err != nil {
		t.Skip("bash is not installed: ", err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	script := map[string]string{"scripts/call.sh": "#!/bin/bash\nif (exec 3<>/dev/tcp/127.0.0.1/$1); then echo CONNECTED; else echo refused; fi\n"}
	for lines, want := range map[string]string{"": "refused", "allowed-tools: run_skill_script(network)\n": "CONNECTED"} {
		for _, scope := range []skills.Scope{skills.ScopeUser, skills.ScopeProject} {
			w := newWorkshop(t, scope, lines, script)
			w.real()
			policy := sandbox.Permissive()
			box := sandbox.Probe(t.Context(), sandbox.Config{Env: os.Environ()})
			w.scripts = shell.NewScripts(shell.Config{Box: func(context.Context) (*sandbox.Box, error) { return box, nil }, Policy: policy})
			if scope == skills.ScopeProject {
				w.wants(w.run("call.sh", port), true, "no person trusts it")
				a := w.activate()
				if _, err := w.registry.Accept(t.Context(), "ann", a.Skill.Path, a.Hash); err != nil {
					t.Fatal(err)
				}
			}
			w.wants(w.run("call.sh", port), false, want)
		}
	}
}

func TestSkillScriptRunsOnlyIfActiveTrustedAndAllowed(t *testing.T) {
	for name, c := range map[string]struct {
		scope  skills.Scope
		script string // default x.sh
		rules  permission.Config
		before func(*workshop)
		want   string
		asked  bool
	}{
		"untrusted":           {scope: skills.ScopeProject, want: "no person trusts it"},
		"given back":          {before: func(w *workshop) { _ = w.registry.Deactivate(w.t.Context(), "ann", "job") }, want: "not active"},
		"changed":             {before: func(w *workshop) { w.write("SKILL.md", "---\nname: job\ndescription: e\n---\n") }, want: "no person trusts it as it is now"},
		"moved":               {before: func(w *workshop) { _ = os.Rename(w.dir, w.dir+"2") }, want: "directory"},
		"asked by default":    {rules: permission.Config{Preset: "standard"}, want: "Denied", asked: true},
		"another script":      {rules: permission.Config{Preset: "none", Allow: permission.Rules("run_skill_script(job:y.sh)")}, want: "Denied", asked: true},
		"denied":              {rules: permission.Config{Preset: "permissive", Deny: permission.Rules("run_skill_script(job:x*)")}, want: "Denied"},
		"denied with Bash":    {rules: permission.Config{Preset: "permissive", Deny: permission.Rules("Bash")}, want: "Denied"},
		"reading only":        {rules: permission.Config{Preset: "read_only", Allow: permission.Rules("run_skill_script")}, want: "Denied"},
		"no sandbox":          {want: "no sandbox is available"},
		"missing":             {script: "none.sh", want: "no such file"},
		"directory":           {script: "sub", want: "a directory"},
		"outside":             {script: "../SKILL.md", want: "path must lead down"},
		"absolute":            {script: "/bin/sh", want: "path must lead down"},
		"dots":                {script: "sub/../x.sh", want: "plain path"},
		"nothing":             {script: "", want: "plain path"},
		"link out":            {script: "link.sh", want: "escapes"},
		"link of a directory": {script: "out/x.sh", want: "escapes"},
		"end in the name":     {script: "x.sh\x00", want: "invalid argument"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.scope == "" {
				c.scope = skills.ScopeUser
			}
			w := newWorkshop(t, c.scope, "", map[string]string{"scripts/x.sh": "#!/bin/sh\necho ran\n", "scripts/sub/y.sh": "#!/bin/sh\n"})
			for link, target := range map[string]string{"link.sh": "/bin/sh", "out": t.TempDir()} {
				if err := os.Symlink(target, filepath.Join(w.dir, "scripts", link)); err != nil {
					t.Skip("symbolic links are missing, which this system or user may not make: ", err)
				}
			}
			if c.rules.Preset != "" {
				w.rules = c.rules
			}
			if c.before != nil {
				c.before(w)
			}
			if c.script == "" && name != "nothing" {
				c.script = "x.sh"
			}
			got := w.run(c.script)
			w.wants(got, true, c.want)
			if strings.Contains(got.Text, "ran\n") || (len(w.asked) > 0) != c.asked {
				t.Errorf("it ran, or was asked about %d times: %q", len(w.asked), got.Text)
			}
			if c.asked && w.asked[0].Args["script"] != "job:x.sh" {
				t.Errorf("the person is shown %v", w.asked[0].Args)
			}
		})
	}
}

func TestSkillScriptDoesNotReadDeniedFiles(t *testing.T) {
	w := newWorkshop(t, skills.ScopeUser, "", map[string]string{"scripts/x.sh": "#!/bin/sh\ncat \"$1/.env\"; echo end\n"})
	w.real()
	if err := os.WriteFile(filepath.Join(w.work, ".env"), []byte("SECRET"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.rules.Deny = permission.Rules("Read(.env)")
	if got := w.run("x.sh", w.work); strings.Contains(got.Text, "SECRET") || !strings.Contains(got.Text, "end") {
		t.Errorf("got %q", got.Text)
	}
}

func TestSkillScriptToolIsOfferedWhereSkillsHaveScripts(t *testing.T) {
	for want, scripts := range map[bool]map[string]string{true: {"scripts/x.sh": "x"}, false: {"references/x.md": "x"}} {
		w := newWorkshop(t, skills.ScopeUser, "", scripts)
		set := tool.NewSet(tool.SetConfig{}, skill.ScriptTool(w.registry, shell.NewScripts(shell.Config{})))
		if got := slices.ContainsFunc(set.Specs(), func(s llm.ToolSpec) bool { return s.Name == skill.RunScript }); got != want {
			t.Errorf("offered: %t, want %t", got, want)
		}
	}
}
