package skills

import (
	"fmt"
	"slices"
	"strings"

	"symbio/security/permission"
	"symbio/skills/format"
)

// Trust is what people have said of skills that grant nothing by themselves (security: D12). It is asked by
// the registry's actor, one call at a time, and may read the disk.
type Trust interface {
	// Trusted says whether a person trusts the skill in s.Dir whose SKILL.md has that SHA-256, and with
	// which of its rules, as they are written. An error is a no.
	Trusted(s Skill, hash string) (rules []string, ok bool, err error)
	// Fetched lists where the skills of other nodes are that a person trusts. All count as ScopePeer.
	Fetched() []Root
}

func fetched(t Trust) []Root {
	if t == nil {
		return nil
	}
	roots := slices.Clone(t.Fetched())
	for i := range roots {
		roots[i].Scope = ScopePeer
	}
	return roots
}

// grantsTo parts what the skill of an activation asks for into what it is granted and what is withheld, and
// returns the rules. accepted is the hash that a person said yes to just now, "" if nobody was asked.
// ErrChanged, and ErrUntrusted for a skill of another node.
func (s *shelf) grantsTo(a *Activation, accepted string) ([]permission.Rule, error) {
	skill := a.Skill
	if accepted != "" && accepted != a.Hash {
		return nil, fmt.Errorf("accept %s: %w: its SHA-256 is %s, not %s", skill.Name, ErrChanged, a.Hash, accepted)
	}
	var trusted []string
	why := proposal
	if !skill.Scope.Grants() {
		rules, ok, err := s.trusted(skill, a.Hash)
		switch {
		case skill.Scope == ScopePeer && !ok:
			return nil, fmt.Errorf("activate %s: %w; `symbio skills trust %s` shows what it would get", skill.Name, notNil(ErrUntrusted, err), skill.Path)
		case err != nil:
			why += "; what people have trusted cannot be read: " + err.Error()
		}
		trusted = rules
	}
	may := func(r permission.Rule) bool {
		return skill.Scope.Grants() || accepted != "" && skill.Scope != ScopePeer || slices.Contains(trusted, r.String())
	}
	for _, r := range skill.Refused {
		a.Withheld = append(a.Withheld, Withheld(r))
	}
	var rules []permission.Rule
	for _, r := range skill.Manifest.Grants {
		if !may(r) {
			a.Withheld = append(a.Withheld, Withheld{r.String(), why})
			a.Proposed = append(a.Proposed, r.String())
			continue
		}
		if skill.files == nil {
			r = r.WithSkillDir(skill.Dir)
		}
		rules = append(rules, r)
		a.Granted = append(a.Granted, r.String())
	}
	return rules, nil
}

// proposal is why a rule is withheld that a person may still grant.
const proposal = "nobody has trusted this skill with it; until a person does, it is a proposal"

func (s *shelf) trusted(skill Skill, hash string) ([]string, bool, error) {
	if s.cfg.Trust == nil {
		return nil, false, nil
	}
	rules, ok, err := s.cfg.Trust.Trusted(skill, hash)
	if err != nil {
		s.cfg.Logger.Warn("trust in a skill cannot be read", "path", skill.Path, "err", err)
		return nil, false, err
	}
	return rules, ok, nil
}

func notNil(sentinel, cause error) error {
	if cause == nil {
		return sentinel
	}
	return fmt.Errorf("%w: %w", sentinel, cause)
}

// placeholders are how skills write their own directory, for the agents that they were written for.
var placeholders = [...]string{"${CLAUDE_SKILL_DIR}", "${SKILL_DIR}", "{baseDir}"}

// inPlace is a text of the skill with its directory where it is named. A skill inside the program has none.
func (s Skill) inPlace(text string) string {
	if s.files != nil {
		return text
	}
	for _, p := range placeholders {
		text = strings.ReplaceAll(text, p, s.Dir)
	}
	return text
}

func dirs(mine map[string]active) []string {
	var all []string
	for _, a := range mine {
		if a.skill.files == nil {
			all = append(all, a.skill.Dir)
		}
	}
	slices.Sort(all)
	return all
}

// Inspect reads one skill whole, as a registry would, for a person: what it asks for, its text, and the
// SHA-256 of the SKILL.md of which both come. The error is a *LoadError.
func Inspect(dir string, scope Scope, policy format.Policy) (s Skill, instructions, hash string, err error) {
	r, err := load(dir, policy, true)
	r.skill.Scope = scope
	return r.skill, r.body, r.hash, err
}
