package agent

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"symbio/agent/tool/skill"
	"symbio/security/permission"
	"symbio/skills"
)

const (
	// maxTriggered limits the skills that one task names, so that the note stays a glance.
	maxTriggered = 8
	// maxAuto limits those that one task activates: each adds a whole text.
	maxAuto = 3
)

// activateTriggered finds the skills whose triggers match a person's task. It activates those that
// say auto, if the agent may do so without a question, and names the others. It returns the text
// for the model, which follows the task: the system prompt stays as it is, and what servers have
// kept of it stays useful.
func activateTriggered(ctx context.Context, s *agentSkills, task string) string {
	if !s.enabled() {
		return ""
	}
	active, err := s.registry.Active(ctx, s.id())
	if err != nil {
		return "" // the triggers only help
	}
	var names []string
	texts, taken := "", 0
	for _, found := range s.registry.Now().Triggered(task, maxTriggered, func(one skills.Skill) bool {
		return one.ForModels() && !slices.Contains(active, one.Name) && !s.rules.omits(one)
	}) {
		label := fmt.Sprintf("%s (%s)", found.Skill.Name, skills.Line(found.Why))
		if one, ok := activateAuto(ctx, s, found.Skill, taken); ok {
			taken++
			texts += "\n\n" + one.Context()
			s.approver.events.notice("Activated for this task by a trigger: " + label)
			continue
		}
		names = append(names, label)
	}
	if len(names) == 0 {
		return texts
	}
	all := strings.Join(names, ", ")
	s.approver.events.notice("Skills whose triggers match this task: " + all)
	return fmt.Sprintf("\n\n[The triggers of these skills match the task: %s. Before you begin, activate those that fit, with %s.]", all, s.rules.activationTool()) + texts
}

// activateAuto activates a skill that says auto, unless as many as may be are taken. ok is false if the model is only told of
// it: the rules ask or deny, no person trusts the skill, or it runs in a sub-agent.
func activateAuto(ctx context.Context, s *agentSkills, one skills.Skill, taken int) (_ skills.Activation, ok bool) {
	if taken == maxAuto || !one.Auto || one.Fork || s.approver.settings.onlyReads() != "" {
		return skills.Activation{}, false
	}
	if s.approver.permissions.links(nil).Judge(s.rules.call(skill.Activate, one)).Action != permission.Allow ||
		s.rules.checkActivation(one, "a trigger", permission.Allow) != nil {
		return skills.Activation{}, false
	}
	a, err := s.registry.Activate(ctx, skills.ActivateRequest{Agent: s.id(), Path: one.Path, By: skills.ByTrigger, Epoch: s.epoch})
	if err != nil {
		return a, false
	}
	for _, each := range a.All() {
		s.onTaken(each.Skill.Name)
	}
	return a, true
}
