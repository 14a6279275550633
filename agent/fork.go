package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"symbio/agent/definition"
	"symbio/agent/tool"
	"symbio/internal/agent/lending"
	"symbio/internal/agent/team"
	"symbio/security/permission"
	"symbio/skills"
)

// fork runs a skill in a sub-agent and returns its answer. The sub-agent has the skill from its
// start and gets the arguments as its task; it is stopped before fork returns. The agent needs the
// permission to spawn it, its budget pays, and the sub-agent may do at most what the agent may. The
// error says what is missing, or comes from the task of the sub-agent. want has the path of one.
func (s *subAgents) fork(ctx context.Context, want skills.ActivateRequest, one skills.Skill) (string, error) {
	i := s.parent
	definition := one.Agent
	if definition != "" {
		if _, _, err := i.factory.definition(ctx, definition, nil); err != nil {
			i.events.notice(fmt.Sprintf("The skill %s is run by a copy of this agent, because its agent cannot be used: %v", one.Name, err))
			definition = ""
		}
	}
	request := team.SpawnRequest{Reason: "the skill " + one.Name, Definition: definition}
	var c *team.Child
	err := i.approver.checkFork(i.order.Definition, want, request)
	if err == nil {
		c, err = s.spawn(ctx, request, &forkedSkill{want, one})
	}
	if err != nil {
		return "", fmt.Errorf("the skill %s runs in a sub-agent, which was not spawned: %w", one.Name, err)
	}
	defer c.Handle.Stop(context.WithoutCancel(ctx))
	task := fmt.Sprintf("Follow the instructions of the skill %s, which your instructions contain.", one.Name)
	if want.Arguments != "" {
		task += "\n\nArguments: " + want.Arguments
	}
	return s.team.Ask(ctx, c, task)
}

// checkFork judges and records the spawn of a sub-agent for a skill, as the spawn of a model with
// replicate_agent. A person that starts the skill has said yes where a rule would ask.
func (a *approver) checkFork(def definition.Definition, want skills.ActivateRequest, spawned team.SpawnRequest) error {
	call := lending.SpawnCall(a.permissions.dir, map[string]any{"reason": spawned.Reason, "agent": cmp.Or(spawned.Definition, def.Name)})
	if !hasTool(def, call.Tool) || !a.permissions.keepsTool(call.Tool) {
		return errors.New("this agent has no tool " + call.Tool)
	}
	d := tool.Decision{Agent: string(a.permissions.self.ID), Tool: call.Tool, Args: call.Args, Verdict: guard{a.permissions}.Judge(call)}
	if why := a.settings.onlyReads(); why != "" {
		d.Verdict = permission.Verdict{Action: permission.Deny, Stage: permission.StageMode, Source: "mode", Why: why}
	}
	d.Approved = d.Verdict.Action == permission.Allow
	if want.By == skills.ByPerson && d.Verdict.Action == permission.Ask {
		d.Approved, d.By = true, "the message"
	}
	return a.permit(d)
}

// forkedSkill is a skill for which a sub-agent is spawned.
type forkedSkill struct {
	want skills.ActivateRequest
	one  skills.Skill
}

// prepare gives a new sub-agent the skill for which it is spawned, with the model and the effort
// that the skill asks for. A skill of a project or of another node cannot choose a model: it could
// send what the agent reads to another server. It does nothing on nil.
func (f *forkedSkill) prepare(ctx context.Context, parent, child *instance) {
	if f == nil {
		return
	}
	child.order.forked = &f.want
	one := f.one
	child.settings.effort = cmp.Or(one.Effort, child.settings.effort)
	if one.Model == "" || !one.Scope.Grants() {
		return
	}
	model, err := parent.factory.cfg.Model(ctx, one.Model)
	if err != nil {
		parent.events.notice(fmt.Sprintf("The skill %s is run with this agent's model, because its model cannot be used: %v", one.Name, err))
		return
	}
	child.settings.setModel(model)
}

// forkResult returns the answer of a sub-agent as it stands behind a person's message. It is data,
// and cannot end the element that marks it.
func forkResult(name, answer string) string {
	const end = "</skill_result"
	return fmt.Sprintf("<skill_result name=%q>\n%s\n%s>", name, strings.ReplaceAll(answer, end, "&lt;/skill_result"), end)
}
