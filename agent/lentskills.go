package agent

import (
	"context"
	"errors"
	"time"

	"symbio/internal/agent/lending"
	"symbio/security/permission"
	"symbio/skills"
)

// named returns the agent's active skills as another node is told of them.
func (s *agentSkills) named(ctx context.Context) (all []lending.Skill, err error) {
	if !s.enabled() {
		return nil, nil
	}
	active, err := s.registry.Activations(ctx, s.id())
	for _, one := range active {
		all = append(all, lending.Skill{Name: one.Skill.Name, Hash: one.Hash})
	}
	return all, err
}

// takeLent activates the skills of the borrowing agent for a lent one, and stores the others in its
// lease. It is called at each start of the agent, before any task.
func (s *agentSkills) takeLent() {
	lease := s.approver.permissions.lease
	if lease == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second) // the borrower waits for the start
	defer cancel()
	omitted, dirs := []lending.OmittedSkill{}, map[string]string{}
	for _, want := range lease.Skills {
		if one, err := s.activateLent(ctx, want); err == nil {
			s.lent = append(s.lent, one)
			dirs[skills.GrantSource(want.Name)] = one.Skill.Dir
		} else {
			s.approver.cfg.Logger.Info("skill of the borrower not activated", "agent", s.id(), "skill", want.Name, "err", err)
			omitted = append(omitted, lending.OmittedSkill{Skill: want, Why: whyOmitted(err)})
		}
	}
	p := s.approver.permissions
	p.mu.Lock()
	p.skillDirs = dirs
	p.mu.Unlock()
	if lease.Omitted == nil { // else it is a restart, and the borrower has been told
		lease.Omitted = omitted
	}
}

// activateLent activates a skill of the borrowing agent: one of the same name and SKILL.md, that a
// person of this node trusts and the rules allow. It grants what this node's trust says.
func (s *agentSkills) activateLent(ctx context.Context, want lending.Skill) (skills.Activation, error) {
	if !s.enabled() {
		return skills.Activation{}, skills.ErrNotFound
	}
	s.refresh(ctx, s.registry.Refresh)
	found, err := s.registry.Now().Resolve(want.Name, s.use().Prompt.Duplicates)
	if err == nil {
		err = s.rules.checkActivation(found, "the borrower", permission.Allow)
	}
	if err != nil {
		return skills.Activation{}, err
	}
	return s.registry.Activate(ctx, skills.ActivateRequest{Agent: s.id(), Path: found.Path, Hash: want.Hash, By: skills.ByBorrower, Epoch: s.epoch})
}

// whyOmitted returns the reason as the borrower may know it; the log has the error.
func whyOmitted(err error) lending.Omission {
	for known, why := range map[error]lending.Omission{
		skills.ErrNotFound: lending.SkillAbsent, skills.ErrChanged: lending.SkillChanged, skills.ErrUntrusted: lending.SkillUntrusted,
		errDeniedSkill: lending.SkillDenied,
	} {
		if errors.Is(err, known) {
			return why
		}
	}
	return "failed"
}
