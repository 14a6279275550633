package agent

import (
	"context"

	"symbio/agent/tool"
	"symbio/security/permission"
	"symbio/skills"
	"symbio/skills/trust"
)

// trusting is the registry of skills as an agent's tools see it: what a project's skill proposes is put to a
// person when the agent takes the skill.
type trusting struct {
	*skills.Registry
	agent *Agent
}

// Take is that of the registry. Whatever a person says, the skill is active; they decide what it grants.
func (t trusting) Take(ctx context.Context, w skills.Want) (skills.Activation, error) {
	a, err := t.Registry.Take(ctx, w)
	if err != nil {
		return a, err
	}
	return t.agent.propose(ctx, a), nil
}

// propose puts what an active skill of a project proposes to a person, and returns what came of it. About a
// skill of another node `symbio skills trust` decides alone.
func (a *Agent) propose(ctx context.Context, s skills.Activation) skills.Activation {
	if len(s.Proposed) == 0 || s.Skill.Scope == skills.ScopePeer {
		return s
	}
	d, always := a.askTrust(ctx, s)
	if !d.Approved {
		return s
	}
	cfg := a.life.factory.cfg
	got, err := cfg.Skills.Accept(ctx, string(a.life.self.ID), s.Skill.Path, s.Hash)
	if err != nil {
		cfg.Logger.Warn("a skill changed while a person was asked", "skill", s.Skill.Path, "err", err)
		return s
	}
	if always && cfg.Trust != nil {
		if err := cfg.Trust(s.Skill, s.Hash, got.Granted); err != nil {
			cfg.Logger.Warn("trust in a skill not kept", "skill", s.Skill.Path, "err", err)
		}
	}
	s.Granted, s.Withheld, s.Proposed = got.Granted, got.Withheld, got.Proposed
	return s
}

// trustTool is what decisions about a skill's rules are called: no tool has that name.
const trustTool = "trust_skill"

// askTrust asks a person whether the skill may have what it proposes. After a no they are not asked about the
// same SKILL.md again, by this agent or its sub-agents. Without anybody to ask it is a no.
func (a *Agent) askTrust(ctx context.Context, s skills.Activation) (d tool.Decision, always bool) {
	l := a.life
	d = tool.Decision{
		Agent: string(l.self.ID), Tool: trustTool,
		Args: map[string]any{"skill": s.Skill.Name, "path": s.Skill.Path, "sha256": s.Hash, "grants": s.Proposed},
		Verdict: permission.Verdict{
			Action: permission.Ask, Stage: permission.StageDefault, Source: "skill:" + s.Skill.Name,
			Why: "This skill comes with the project, and asks that these are allowed to the agent without asking, while it is active. " +
				"Always: also from now on, until the SKILL.md changes." + notesOf(s.Proposed),
		},
	}
	key := s.Skill.Dir + "\x00" + s.Hash
	if l.ask == nil || l.hasDeclined(key) {
		return d, false
	}
	answer := l.ask(ctx, Asked{Decision: d, Name: l.self.Name, For: l.behalf()})
	d.Approved, d.By = answer.Allow && ctx.Err() == nil, answer.By
	if err := a.decided(d); err != nil {
		l.factory.cfg.Logger.Warn("decision not recorded", "agent", l.self.ID, "err", err)
		d.Approved = false // a decision that cannot be recorded is none
	}
	if !d.Approved && ctx.Err() == nil {
		l.decline(key)
	}
	return d, answer.Always
}

// notesOf is what a person should know of the rules.
func notesOf(rules []string) string {
	text := ""
	for _, n := range trust.Notes(rules, false) {
		text += " Note: " + n + "."
	}
	return text
}

// first is the agent from which this one descends: what a person declined, no copy asks again.
func (l *life) first() *life {
	for l.parent != nil {
		l = l.parent
	}
	return l
}

func (l *life) hasDeclined(key string) bool {
	l = l.first()
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.declined[key]
}

func (l *life) decline(key string) {
	l = l.first()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.declined == nil {
		l.declined = map[string]bool{}
	}
	l.declined[key] = true
}
