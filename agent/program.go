package agent

import (
	"slices"

	"symbio/agent/definition"
	"symbio/agent/llm"
	"symbio/agent/tool"
	"symbio/security/permission"
	"symbio/security/sandbox"
)

// Program is a program that does an agent's work in the place of a model.
type Program interface {
	llm.Model
	// Tools returns the agent's tools, with those by which the program asks for its own actions.
	Tools(all []tool.Tool) []tool.Tool
	// Settle is called when a task has ended: the program stops what it is doing for it.
	Settle()
	// Close is called when the agent has ended, or starts again.
	Close()
}

// StepTool is the name of the tool by which a program's own actions are noted. It does nothing, and needs no permission.
const StepTool = "GuestStep"

// ProgramConfig describes the program of an agent. Its functions may be called by many goroutines.
type ProgramConfig struct {
	Name    string // of the definition, for people
	Program definition.Program
	// Dir returns the directory in which it works, an absolute path; it is known when the agent runs.
	Dir func() string
	// Session returns the id of the agent's session; "" = it has none.
	Session func() string
	// Constrain returns what the program may do of the node's policy for commands. It looks for denied files, which may take some 0.4 s.
	Constrain func(sandbox.Policy) sandbox.Policy
	// ReadOnly reports whether the agent only reads now, and Mode its mode.
	ReadOnly func() bool
	Mode     func() Mode
	// Begun shows people a call of StepTool that has begun, and that the answer has, with the same id, when it has ended.
	Begun func(llm.ToolCall)
	// Notice tells people of something that they may not expect.
	Notice func(text string)
	// Own are the names of the tools for the workspace, which a program has itself.
	Own []string
}

// newProgram returns the program of an instance. The instance need not be complete yet.
func newProgram(i *instance) Program {
	c := ProgramConfig{
		Name: i.order.Definition.Name, Program: i.order.Definition.Program, Notice: i.events.notice, Begun: i.events.calls,
		Dir:       func() string { return i.order.Workspace.Dir },
		Session:   func() string { return i.record.info().ID },
		Constrain: i.constrainProgram,
		ReadOnly:  func() bool { return i.settings.onlyReads() != "" },
		Mode:      i.settings.currentMode,
	}
	for _, t := range i.order.Workspace.Tools {
		c.Own = append(c.Own, t.Spec().Name)
	}
	return i.factory.cfg.Programs(c)
}

// constrainProgram returns what the agent's program may do of the node's policy: as a command of the agent, without the files
// that are denied to it now, and without writing in the workspace while the agent only reads.
func (i *instance) constrainProgram(p sandbox.Policy) sandbox.Policy {
	dir := i.order.Workspace.Dir
	p, _ = i.permissions.constrainSandbox(p)
	denied := i.permissions.policy().Denied(dir)
	if v := (guard{i.permissions}).Judge(permission.Call{Tool: "Bash", Args: map[string]any{"command": "true"}, Dir: dir}); v.Plan != nil {
		denied = v.Plan.Denied
	}
	if i.settings.onlyReads() != "" {
		p.Files.Write = slices.DeleteFunc(slices.Clone(p.Files.Write), func(w string) bool { return w == dir })
	}
	return tool.WithoutDenied(hideOrigin(p, i.factory.cfg.Dir, dir, i.permissions.policy), denied)
}

// hideOrigin returns p without the denied files of the node's workspace, if the agent works in another directory, such as a worktree of
// that: relative rules mean the files of both.
func hideOrigin(p sandbox.Policy, workspace, dir string, rules func() permission.Policy) sandbox.Policy {
	if workspace == "" || workspace == dir {
		return p
	}
	return tool.WithoutDenied(p, rules().Denied(workspace))
}
