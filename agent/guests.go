package agent

import (
	"slices"

	"symbio/agent/guest"
	"symbio/agent/tool"
	"symbio/security/permission"
	"symbio/security/sandbox"
)

// newGuest returns the program of an instance as its model. The instance need not be complete yet.
func newGuest(i *instance) *guest.Guest {
	i.permissions.isGuest = true
	var own []string
	for _, t := range i.order.Workspace.Tools {
		own = append(own, t.Spec().Name)
	}
	return guest.New(guest.Config{
		Host: i.factory.cfg.Guests, Program: i.order.Definition.Program, Own: own, Notice: i.events.notice,
		Order: func() guest.Order {
			return guest.Order{Name: i.order.Definition.Name, Dir: i.order.Workspace.Dir, Session: i.record.info().ID, Constrain: i.constrainProgram}
		},
		ReadOnly: func() bool { return i.settings.onlyReads() != "" },
		Mode:     func() string { return string(i.settings.currentMode()) },
	})
}

// constrainProgram returns what the agent's program may do of the node's policy: as a command of the agent, without the files
// that are denied to it now, and without writing in the workspace while the agent only reads.
func (i *instance) constrainProgram(p sandbox.Policy) sandbox.Policy {
	p, _ = i.permissions.constrainSandbox(p)
	denied := i.permissions.policy().Denied(i.order.Workspace.Dir)
	if v := (guard{i.permissions}).Judge(permission.Call{Tool: "Bash", Args: map[string]any{"command": "true"}, Dir: i.order.Workspace.Dir}); v.Plan != nil {
		denied = v.Plan.Denied
	}
	if i.settings.onlyReads() != "" {
		p.Files.Write = slices.DeleteFunc(slices.Clone(p.Files.Write), func(dir string) bool { return dir == i.order.Workspace.Dir })
	}
	return tool.WithoutDenied(p, denied)
}
