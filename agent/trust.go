package agent

import (
	"context"
	"fmt"
	"strings"

	"symbio/agent/session"
	"symbio/agent/tool"
	"symbio/security/permission"
	"symbio/skills"
)

// trustingRegistry is the skill registry of one agent. When the agent activates a skill of the
// project, it asks a person whether the skill's proposed rules are granted.
type trustingRegistry struct {
	*skills.Registry
	approver *approver
	// may judges the activation of a skill that another one depends on.
	may func(skills.Skill) error
}

// Activate activates a skill like skills.Registry.Activate, then asks a person about its proposed
// rules, and about the rules of the skills that it depends on. The skill is active whatever the person answers; the
// answer decides only which rules it grants.
func (t trustingRegistry) Activate(ctx context.Context, w skills.ActivateRequest) (skills.Activation, error) {
	if w.By != skills.ByDefinition { // which is not judged, and so neither are its dependencies
		w.May = t.may
	}
	a, err := t.Registry.Activate(ctx, w)
	if err != nil {
		return a, err
	}
	accepted := false
	if !w.By.NeedsTrust() { // else only what is trusted is taken, and no person is asked
		a, accepted = t.propose(ctx, a)
		for i, d := range a.Depends {
			a.Depends[i], _ = t.propose(ctx, d)
		}
	}
	for _, u := range a.Unmet {
		t.approver.events.notice(fmt.Sprintf("The skill %s depends on %s, which was not activated: %s", a.Skill.Name, u.Name, u.Why))
	}
	if !w.By.AtStart() { // else it is activated at each start
		t.approver.record.add(session.Entry{Kind: session.Skill, Text: a.Skill.Name, Skill: &session.SkillUse{
			Path: a.Skill.Path, Hash: a.Hash, By: string(w.By), Arguments: w.Arguments, Granted: a.Granted, Accepted: accepted, Depends: dependencies(a),
		}})
	}
	return a, nil
}

// dependencies describes the skills that were activated with a, so that a later activation can be
// compared.
func dependencies(a skills.Activation) (all []string) {
	for _, d := range a.Depends {
		all = append(all, strings.Join(append([]string{d.Skill.Path, d.Hash}, d.Granted...), " "))
	}
	return all
}

// Deactivate ends a skill like skills.Registry.Deactivate, and records that it does not come back.
func (t trustingRegistry) Deactivate(ctx context.Context, agent, name string) error {
	err := t.Registry.Deactivate(ctx, agent, name)
	if err == nil {
		t.approver.record.add(session.Entry{Kind: session.Skill, Text: name, Skill: &session.SkillUse{}})
	}
	return err
}

// propose asks a person about the proposed rules of an active skill, and returns the activation
// with the rules that it has afterwards. once is true if they are granted for this activation only. It
// never asks about a skill of another node: only `symbio skills trust` grants rules to those.
func (t trustingRegistry) propose(ctx context.Context, s skills.Activation) (_ skills.Activation, once bool) {
	if len(s.Proposed) == 0 || s.Skill.Scope == skills.ScopePeer {
		return s, false
	}
	d, always := t.ask(ctx, s)
	if !d.Approved {
		return s, false
	}
	cfg, id := t.approver.cfg, string(t.approver.permissions.self.ID)
	got, err := t.Accept(ctx, id, s.Skill.Path, s.Hash)
	if err != nil {
		cfg.Logger.Warn("a skill changed while a person was asked", "skill", s.Skill.Path, "err", err)
		return s, false
	}
	once = true
	if always && cfg.SkillUse.Trust != nil {
		var rules []string
		for _, r := range s.Skill.Grants {
			rules = append(rules, r.String()) // as they are written: those granted have the directory in them
		}
		if err := cfg.SkillUse.Trust(s.Skill, s.Hash, rules); err != nil {
			cfg.Logger.Warn("trust in a skill not kept", "skill", s.Skill.Path, "err", err)
		} else if again, err := t.Accept(ctx, id, s.Skill.Path, s.Hash); err == nil {
			got, once = again, false // now the grant depends on the trust record, so revoking the record revokes the grant
		}
	}
	s.Granted, s.Withheld, s.Proposed = got.Granted, got.Withheld, got.Proposed
	return s, once
}

// trustTool is the Tool of decisions about a skill's rules in events and in the audit log. No tool
// has that name.
const trustTool = "trust_skill"

// ask asks a person whether a skill gets its proposed rules. A person that declined is not asked
// about the same SKILL.md again by any agent of the tree: repeated questions train people to say
// yes. Without a person to ask the answer is no.
func (t trustingRegistry) ask(ctx context.Context, s skills.Activation) (d tool.Decision, always bool) {
	a, p := t.approver, t.approver.permissions
	d = tool.Decision{
		Agent: string(p.self.ID), Tool: trustTool,
		Args: map[string]any{"skill": s.Skill.Name, "path": s.Skill.Path, "sha256": s.Hash, "grants": s.Proposed},
		Verdict: permission.Verdict{
			Action: permission.Ask, Stage: permission.StageDefault, Source: "skill:" + s.Skill.Name,
			Why: "This skill comes with the project, and asks that these are allowed to the agent without asking, while it is active. " +
				"Always: also from now on, until the SKILL.md changes." + notesOf(s.Proposed),
		},
	}
	key := s.Skill.Dir + "\x00" + s.Hash
	if _, declined := p.lineage[0].declined.Load(key); a.ask == nil || declined {
		return d, false
	}
	answer := a.askPerson(ctx, ApprovalRequest{Decision: d, Name: p.self.Name, OnBehalfOf: p.onBehalfOf()})
	d.Approved, d.By = answer.Allow && ctx.Err() == nil, answer.By
	if err := a.recordDecision(d); err != nil {
		a.cfg.Logger.Warn("decision not recorded", "agent", p.self.ID, "err", err)
		d.Approved = false // a decision that cannot be recorded is none
	}
	if !d.Approved && ctx.Err() == nil {
		p.lineage[0].declined.Store(key, true)
	}
	return d, answer.Always
}

// notesOf returns warnings about the rules for the person that decides, such as rules that allow
// any command.
func notesOf(rules []string) string {
	text := ""
	for _, n := range skills.GrantNotes(rules, false) {
		text += " Note: " + n + "."
	}
	return text
}
