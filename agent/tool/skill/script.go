package skill

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"
	"strings"

	"symbio/agent/tool"
	"symbio/internal/agent/tool/shell"
	"symbio/skills"
)

// RunScript is the name of the tool that runs scripts of skills.
const RunScript = "run_skill_script"

//go:embed run_skill_script.md
var scriptText string

type scriptArgs struct {
	Skill  string   `json:"skill" jsonschema:"the name of the active skill"`
	Script string   `json:"script" jsonschema:"the file in scripts/, such as check.py"`
	Args   []string `json:"args,omitempty" jsonschema:"its arguments, one string each"`
}

// interpreters run scripts that are not executable, by the ending of their names.
var interpreters = map[string]string{".sh": "sh", ".bash": "bash", ".py": "python3", ".js": "node", ".mjs": "node", ".rb": "ruby", ".pl": "perl"}

// scriptTool is run_skill_script. It is offered while a skill of the catalog has scripts.
type scriptTool struct {
	tool.Tool
	registry *skills.Registry
}

// ScriptTool returns run_skill_script, which all agents share. Whether a script may run is decided
// by the rules for run_skill_script(SKILL:SCRIPT), by the trust in the skill, and by the sandbox.
func ScriptTool(registry *skills.Registry, scripts *shell.Scripts) tool.Tool {
	spec := tool.Spec{Name: RunScript, Description: scriptText, Alone: true, Holds: scripts.Holds, Keeps: scripts.Keeps}
	return scriptTool{tool.New(spec, func(ctx context.Context, a scriptArgs) tool.Result {
		found, err := registry.Script(tool.AgentOf(ctx), a.Skill, a.file())
		if err != nil {
			return tool.Result{Text: err.Error(), IsError: true}
		}
		argv := []string{found.Path}
		if !found.Executable {
			argv = []string{interpreters[filepath.Ext(found.Path)], found.Path}
		}
		return scripts.Run(ctx, shell.Script{Argv: append(argv, a.Args...), Dir: found.Dir, Network: found.Network})
	}), registry}
}

// Offered reports whether a skill has scripts.
func (t scriptTool) Offered() bool {
	return slices.ContainsFunc(t.registry.Now().Skills, func(s skills.Skill) bool { return s.HasScripts && s.ForModels() })
}

// file returns the script's path in scripts/, which models also write with the directory.
func (a scriptArgs) file() string {
	return strings.TrimPrefix(strings.TrimPrefix(a.Script, "./"), "scripts/")
}

// Decode gives the guard SKILL:SCRIPT in place of the two arguments, so that one rule can name both.
func (t scriptTool) Decode(raw json.RawMessage) (tool.Invocation, error) {
	inv, err := t.Tool.Decode(raw)
	if err != nil {
		return inv, err
	}
	a := scriptArgs{}
	a.Skill, _ = inv.Args["skill"].(string)
	a.Script, _ = inv.Args["script"].(string)
	if a.file() != filepath.ToSlash(filepath.Clean(a.file())) || strings.ContainsAny(a.Skill, ":/\\") {
		return inv, errors.New("write the name of the skill, and the plain path of a file in its scripts/, such as check.py")
	}
	shown := map[string]any{"script": a.Skill + ":" + a.file()}
	if args, ok := inv.Args["args"]; ok {
		shown["args"] = args
	}
	inv.Args = shown
	return inv, nil
}
