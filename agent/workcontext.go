package agent

import (
	"slices"
	"time"

	"symbio/agent/conversation"
	"symbio/agent/definition"
	"symbio/agent/llm"
	"symbio/agent/tool/skill"
	"symbio/internal/agent/workcontext"
	"symbio/security/permission"
	"symbio/security/sandbox"
)

// WorkContext says what agents are told of the place in which they work. The zero value tells
// nothing.
type WorkContext struct {
	// Files adds the files for agents of the project, and that in UserDir.
	Files   bool
	UserDir string // the user's directory for symbio; "" = none
	// Environment adds the date, the system, git's branch, and what commands may do: Sandbox, unless
	// SandboxOff is set.
	Environment bool
	Sandbox     sandbox.Policy
	SandboxOff  bool
	// Level returns how well this machine holds commands; nil = not known. It may block for the time of a probe.
	Level func() sandbox.Level
}

// smallWindow is the number of tokens below which a model's window is small: then the prompt and the
// tools are described in few words, and the files for agents get an eighth of the window.
const smallWindow = 16_000

// hasSmallWindow reports whether the window of the agent's model is small.
func (a *Agent) hasSmallWindow() bool {
	w := a.window()
	return w > 0 && w < smallWindow
}

// essentialTools are what a model with a small window is shown of all tools.
var essentialTools = [...]string{"Read", "Write", "Edit", "Glob", "Grep", "Bash", "WebFetch", skill.Activate}

// isEssential reports whether a tool is shown to a model with a small window. Those that a definition
// names are.
func isEssential(def definition.Definition, name string) bool {
	return def.Tools != nil || slices.Contains(essentialTools[:], name)
}

// window returns the context window of the agent's present model, in tokens: the smaller one of the sizes that the
// node knows of the model's name and what the model says. 0 means that neither is known.
func (a *Agent) window() int {
	m, _ := a.instance.settings.models()
	known, own := a.instance.factory.cfg.Window(m.Name()), llm.WindowOf(m)
	if known == 0 || own > 0 && own < known {
		return own
	}
	return known
}

// workContext returns the parts of the system prompt about the place of work. An agent that works
// for another node gets none: that node's work is about other files.
func (a *Agent) workContext() (parts []conversation.Part) {
	i := a.instance
	c, dir := i.factory.cfg.WorkContext, i.order.Workspace.Dir
	if i.permissions.borrower() != nil {
		return nil
	}
	if c.Environment {
		level, policy := c.sandboxOf(i.permissions)
		parts = append(parts, workcontext.Environment(time.Now(), dir, level, policy))
	}
	files, _ := a.files()
	return append(parts, files...)
}

// files returns the parts for the files for agents, and which of their imports were left out.
func (a *Agent) files() (parts []conversation.Part, leftOut []string) {
	i := a.instance
	c, room := i.factory.cfg.WorkContext, 0
	if !c.Files || i.permissions.borrower() != nil {
		return nil, nil
	}
	if a.hasSmallWindow() {
		room = a.window() / 2 // bytes: an eighth of the tokens
	}
	return workcontext.Files(i.order.Workspace.Dir, c.UserDir, room, i.permissions.unreadable(i.order.Workspace.Dir))
}

// sandboxOf returns what holds the commands of an agent: the level by its name, "" if it is not known, and the policy.
func (c WorkContext) sandboxOf(p *permissions) (level string, policy sandbox.Policy) {
	policy, narrower := p.constrainSandbox(c.Sandbox)
	switch {
	case c.SandboxOff && !narrower: // a definition can have a sandbox where the node has none
		return sandbox.Off.String(), policy
	case c.Level != nil:
		return c.Level().String(), policy
	}
	return "", policy
}

// unreadable returns a function that says why the agent may not be shown a file; "" = it may. A file for agents is shown unless
// a rule denies Read, also to an agent that has no such tool; an imported one if the agent could read it unasked.
func (p *permissions) unreadable(dir string) func(file string, imported bool) string {
	return func(file string, imported bool) string {
		read := permission.Call{Tool: "Read", Args: map[string]any{"file_path": file}, Dir: dir, Within: p.guardrails()}
		for _, l := range p.chain() {
			v := permission.Chain{l}.Judge(read)
			if v.Action == permission.Deny && v.Stage != permission.StageDefault || imported && v.Action != permission.Allow {
				return v.Why
			}
		}
		return ""
	}
}
