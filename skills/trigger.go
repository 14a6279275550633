package skills

import (
	"errors"
	"fmt"

	"symbio/internal/skills/trigger"
	"symbio/skills/format"
)

// TriggerMatch is a skill whose triggers match a task.
type TriggerMatch struct {
	Skill Skill
	// Why names the trigger and the words of the task.
	Why string
}

// Triggered returns the skills whose triggers match a task, the best first, at most limit of those
// that keep accepts. The first call makes an index, which all later ones share.
func (s *Snapshot) Triggered(task string, limit int, keep func(Skill) bool) (found []TriggerMatch) {
	s.readTriggers.Do(func() {
		all := make([]format.Triggers, len(s.Skills))
		for i := range s.Skills {
			all[i] = s.Skills[i].Triggers
		}
		s.triggers = trigger.New(all)
	})
	for _, m := range s.triggers.Match(task) {
		if len(found) == limit {
			break
		}
		if one := s.Skills[m.Entry]; keep(one) {
			found = append(found, TriggerMatch{one, m.Why})
		}
	}
	return found
}

// checkTrust returns an error for a skill that a trigger may not activate, because it does not say
// auto, and for one that a trigger or a borrower may not, because no person trusts it. A skill that
// another one depends on needs the trust alone.
func (c Config) checkTrust(w ActivateRequest, r loadResult) error {
	if !w.By.NeedsTrust() {
		return nil
	}
	if w.By == ByTrigger && len(w.chain) == 0 && !r.skill.Auto {
		return fmt.Errorf("activate %s: it does not say auto: true, so no trigger activates it", r.skill.Name)
	}
	if r.skill.Scope.Grants() {
		return nil
	}
	_, ok, err := c.trusted(r.skill, r.hash)
	if ok {
		return nil
	}
	return errors.Join(fmt.Errorf("activate %s: %w, so no %s activates it", r.skill.Name, ErrUntrusted, w.By), err)
}
