package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"symbio/agent/tool"
	"symbio/agent/tool/replicate"
	"symbio/internal/agent/team"
	"symbio/security/permission"
	"symbio/skills"
)

// fork runs a skill in a sub-agent and returns its answer. The sub-agent has the skill from its
// start and gets the arguments as its task; it is stopped before fork returns. The agent needs the
// permission to spawn it, its budget pays, and the sub-agent may do at most what the agent may. The
// error says what is missing, or comes from the sub-agent's task. want has the path of one.
func (s *agentSkills) fork(ctx context.Context, want skills.ActivateRequest, one skills.Skill) (string, error) {
	i := s.instance
	definition := one.Agent
	if definition != "" {
		if _, _, err := i.factory.definition(ctx, definition, nil); err != nil {
			i.notice(fmt.Sprintf("The skill %s is run by a copy of this agent, because its agent cannot be used: %v", one.Name, err))
			definition = ""
		}
	}
	request := team.SpawnRequest{Reason: "the skill " + one.Name, Name: i.nextName(), Definition: definition, Keep: i.current().keepFor(definition)}
	a := i.current()
	var c *team.Child
	err := checkFork(i, want, request)
	if err == nil {
		c, err = a.spawnHere(ctx, request, "", func(child *instance) { prepareFork(ctx, i, child, want, one) })
	}
	if err != nil {
		return "", fmt.Errorf("the skill %s runs in a sub-agent, which was not spawned: %w", one.Name, err)
	}
	defer c.Handle.Stop(context.WithoutCancel(ctx))
	task := fmt.Sprintf("Follow the instructions of the skill %s, which your instructions contain.", one.Name)
	if want.Arguments != "" {
		task += "\n\nArguments: " + want.Arguments
	}
	return a.team.Ask(ctx, c, task)
}

// checkFork judges and records the spawn of a sub-agent for a skill, as the spawn of a model with
// replicate_agent. A person that starts the skill has said yes where a rule would ask.
func checkFork(i *instance, want skills.ActivateRequest, spawned team.SpawnRequest) error {
	if !i.hasTool(replicate.Name) || !i.permissions.keepsTool(replicate.Name) {
		return errors.New("this agent has no tool " + replicate.Name)
	}
	call := permission.Call{Tool: replicate.Name,
		Args: map[string]any{"reason": spawned.Reason, "agent": cmp.Or(spawned.Definition, i.def.Name)}, Dir: i.workspace.Dir}
	d := tool.Decision{Agent: string(i.self.ID), Tool: call.Tool, Args: call.Args, Verdict: guard{i.permissions}.Judge(call)}
	if why := i.settings.onlyReads(); why != "" {
		d.Verdict = permission.Verdict{Action: permission.Deny, Stage: permission.StageMode, Source: "mode", Why: why}
	}
	d.Approved = d.Verdict.Action == permission.Allow
	if want.By == skills.ByPerson && d.Verdict.Action == permission.Ask {
		d.Approved, d.By = true, "the message"
	}
	return permit(i, d)
}

// prepareFork gives a new sub-agent the skill for which it is spawned, with the model and the effort
// that the skill asks for. A skill of a project or of another node cannot choose a model: it could
// send what the agent reads to another server.
func prepareFork(ctx context.Context, parent, child *instance, want skills.ActivateRequest, one skills.Skill) {
	child.forked = &want
	child.settings.effort = cmp.Or(one.Effort, child.settings.effort)
	if one.Model == "" || !one.Scope.Grants() {
		return
	}
	model, err := parent.factory.cfg.Model(ctx, one.Model)
	if err != nil {
		parent.notice(fmt.Sprintf("The skill %s is run with this agent's model, because its model cannot be used: %v", one.Name, err))
		return
	}
	child.withModel(model)
}

// forkResult returns the answer of a sub-agent as it stands behind a person's message. It is data,
// and cannot end the element that marks it.
func forkResult(name, answer string) string {
	const end = "</skill_result"
	return fmt.Sprintf("<skill_result name=%q>\n%s\n%s>", name, strings.ReplaceAll(answer, end, "&lt;/skill_result"), end)
}
