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

// Activate is that of the registry. Whatever a person says, the skill is active; they decide what it grants.
func (t trusting) Activate(ctx context.Context, agent, name string) (skills.Activation, error) {
	a, err := t.Registry.Activate(ctx, agent, name)
	if err != nil || len(a.Proposed) == 0 || a.Skill.Scope == skills.ScopePeer {
		return a, err // what came from another node, symbio skills trust decides alone
	}
	d, always := t.agent.askTrust(ctx, a)
	if !d.Approved {
		return a, nil
	}
	cfg := t.agent.life.factory.cfg
	got, err := t.Accept(ctx, agent, a.Skill.Path, a.Hash)
	if err != nil {
		cfg.Logger.Warn("a skill changed while a person was asked", "skill", a.Skill.Path, "err", err)
		return a, nil
	}
	if always && cfg.Trust != nil {
		if err := cfg.Trust(a.Skill, a.Hash, got.Granted); err != nil {
			cfg.Logger.Warn("trust in a skill not kept", "skill", a.Skill.Path, "err", err)
		}
	}
	a.Granted, a.Withheld, a.Proposed = got.Granted, got.Withheld, got.Proposed
	return a, nil
}

// trustTool is what decisions about a skill's rules are called: no tool has that name.
const trustTool = "trust_skill"

// askTrust asks a person whether the skill may have what it proposes: once for each SKILL.md, and not again
// after a no. Without anybody to ask it is a no.
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
	for _, n := range trust.Notes(rules) {
		text += " Note: " + n + "."
	}
	return text
}

func (l *life) hasDeclined(key string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.declined[key]
}

func (l *life) decline(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.declined == nil {
		l.declined = map[string]bool{}
	}
	l.declined[key] = true
}
