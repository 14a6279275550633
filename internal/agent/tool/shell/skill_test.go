package shell_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"symbio/actor"
	"symbio/agent"
	"symbio/agent/definition"
	"symbio/agent/llm"
	"symbio/agent/tool"
	"symbio/community"
	"symbio/internal/agent/tool/shell"
	"symbio/security/permission"
	"symbio/skills"
)

// skillDir writes a skill with a script that says where it is.
func skillDir(t *testing.T, root, name, tools string) string {
	t.Helper()
	dir := filepath.Join(root, name)
	if err := os.MkdirAll(filepath.Join(dir, "scripts"), 0o755); err != nil {
		t.Fatal(err)
	}
	for file, text := range map[string]string{
		"SKILL.md":     "---\nname: " + name + "\ndescription: d\nallowed-tools: " + tools + "\n---\nRun ${SKILL_DIR}/scripts/x.sh with a word.\n",
		"scripts/x.sh": "#!/bin/sh\necho \"it runs: $1 [$SKILL_DIR] [$CLAUDE_SKILL_DIR]\"\ncat \"$(dirname \"$0\")/../SKILL.md\" | head -n 2\necho no > \"$(dirname \"$0\")/written\" || echo cannot write\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// tasks is a model that does what its task says, one tool call for each.
func tasks(dir string) llm.Model {
	return llm.Func(func(_ context.Context, r llm.Request) (llm.Response, error) {
		last := r.Messages[len(r.Messages)-1]
		if last.Role == llm.Tool {
			return llm.Response{Message: llm.Message{Text: last.Results[0].Text}, Stop: llm.StopEnd}, nil
		}
		verb, rest, _ := strings.Cut(last.Text, " ")
		args := map[string]any{"skillName": rest}
		name := "activate_skill"
		if verb == "run" {
			name, args = "Bash", map[string]any{"command": strings.ReplaceAll(rest, "DIR", dir)}
		}
		raw, err := json.Marshal(args)
		return llm.Response{Message: llm.Message{Calls: []llm.ToolCall{{ID: "1", Name: name, Args: raw}}}, Stop: llm.StopTools}, err
	})
}

// An agent runs a skill's script in the sandbox without being asked, while the skill is active.
func TestScriptOfAnActiveSkillRunsInTheSandbox(t *testing.T) {
	p := newPlace(t, permission.Config{Preset: "none", Allow: permission.Rules("activate_skill"), Default: "ask"})
	home, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dir := skillDir(t, home, "runs", "Bash(${SKILL_DIR}/scripts/x.sh:*)")
	skillDir(t, home, "other", "Read")
	system := actor.NewSystem(actor.Config{})
	registry, err := skills.NewRegistry(system, skills.Config{Roots: []skills.Root{{Path: home, Scope: skills.ScopeUser}}})
	if err != nil {
		t.Fatal(err)
	}
	house := community.New(community.Config{System: system})
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := house.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		stop()
		running.Wait()
		if err := system.Shutdown(context.WithoutCancel(ctx)); err != nil {
			t.Error(err)
		}
	})
	p.cfg.SkillDirs = registry.Dirs
	var asked []string
	factory := agent.NewFactory(agent.Config{
		Community: house, Skills: registry, Tools: shell.Tools(p.cfg), Dir: p.dir,
		Model: func(context.Context, string) (llm.Model, error) { return tasks(dir), nil },
	})
	m, err := factory.Spawn(ctx, agent.Order{Definition: definition.General(), Policy: p.guard[0].Policy, Ask: func(_ context.Context, d agent.ApprovalRequest) tool.Answer {
		asked = append(asked, d.Tool)
		return tool.Answer{}
	}})
	if err != nil {
		t.Fatal(err)
	}
	do := func(task string) string {
		t.Helper()
		r, err := house.Send(ctx, m.ID, community.Signal{Perception: "task", Data: []byte(task)})
		if err != nil {
			t.Fatalf("%s: %v", task, err)
		}
		return string(r.Data)
	}
	expect := func(what, got string, questions int, want ...string) {
		t.Helper()
		if len(asked) != questions {
			t.Errorf("%s: asked %v, want %d questions", what, asked, questions)
		}
		for _, w := range want {
			if !strings.Contains(got, w) {
				t.Errorf("%s: %q lacks %q", what, got, w)
			}
		}
		asked = nil
	}
	const run = "run DIR/scripts/x.sh hello"
	expect("before", do(run), 1, "The person said no")
	expect("activation", do("take runs"), 0, "Run "+dir+"/scripts/x.sh with a word.")
	expect("active", do(run), 0, "it runs: hello ["+dir+"] ["+dir+"]", "name: runs", "cannot write")
	expect("another script", do("run DIR/scripts/y.sh"), 1, "The person said no")
	expect("more than the script", do(run+"; touch y"), 1, "The person said no")
	do("take other")
	expect("two active", do(run), 0, "it runs: hello [] []")
	if err := registry.Deactivate(ctx, string(m.ID), "other"); err != nil {
		t.Fatal(err)
	}
	expect("one active again", do(run), 0, "["+dir+"]")
	if err := registry.Deactivate(ctx, string(m.ID), "runs"); err != nil {
		t.Fatal(err)
	}
	expect("deactivated", do(run), 1, "The person said no")
	if _, err := os.Stat(filepath.Join(dir, "scripts", "written")); err == nil {
		t.Error("the script wrote into its skill")
	}
}
