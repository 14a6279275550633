package skills

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"symbio/security/permission"

	"symbio/skills/walk"
)

// Trust is what people have said of skills that grant nothing by themselves (security: D12). It is asked by
// the registry's actor and before each decision that may rest on it, by any number of goroutines, and may read the disk.
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

// grants are what a skill asks for, parted into what it gets and what it does not.
type grants struct {
	rules    []permission.Rule
	withheld []Withheld
	proposed []string // of the withheld, what a person may still grant
	byTrust  bool     // a record of a person's trust says so, and they may revoke it
}

// grantsOf says what a skill gets whose SKILL.md has that hash, now that it was read. accepted is the hash that a
// person said yes to just now, "" if nobody was asked. ErrChanged, and ErrUntrusted for a skill of another node.
func (c Config) grantsOf(skill Skill, hash, accepted string) (g grants, err error) {
	if accepted != "" && accepted != hash {
		return g, fmt.Errorf("accept %s: %w: its SHA-256 is %s, not %s", skill.Name, ErrChanged, hash, accepted)
	}
	var trusted []string
	why := proposal
	if !skill.Scope.Grants() {
		rules, ok, err := c.trusted(skill, hash)
		switch {
		case skill.Scope == ScopePeer && !ok:
			return g, fmt.Errorf("activate %s: %w; `symbio skills trust %s` shows what it would get", skill.Name, notNil(ErrUntrusted, err), skill.Path)
		case err != nil:
			why += "; what people have trusted cannot be read: " + err.Error()
		}
		trusted, g.byTrust = rules, ok
	}
	free := skill.Scope.Grants() || accepted != "" && skill.Scope != ScopePeer
	for _, r := range skill.Refused {
		g.withheld = append(g.withheld, Withheld(r))
	}
	for _, r := range skill.Manifest.Grants {
		if !free && !slices.Contains(trusted, r.String()) {
			g.withheld = append(g.withheld, Withheld{r.String(), why})
			g.proposed = append(g.proposed, r.String())
			continue
		}
		if skill.files == nil {
			r = r.WithSkillDir(skill.Dir)
		}
		g.rules = append(g.rules, r)
	}
	return g, nil
}

// holds returns what says, at each decision, whether a skill's grants still count: its SKILL.md is the one that was
// read, and the trust by which they were given is not revoked. It looks at the disk.
func (c Config) holds(r reading, byTrust bool) func() bool {
	at := time.Now()
	return func() bool {
		if now, err := walk.MarkOf(r.skill.Path); r.skill.files == nil && (err != nil || now != r.mark || !now.Settled(at)) {
			text, err := r.skill.Resource(filepath.Base(r.skill.Path))
			if err != nil || hashOf(text) != r.hash {
				return false
			}
		}
		if !byTrust {
			return true
		}
		_, ok, err := c.Trust.Trusted(r.skill, r.hash)
		return ok && err == nil
	}
}

// proposal is why a rule is withheld that a person may still grant.
const proposal = "nobody has trusted this skill with it; until a person does, it is a proposal"

func (c Config) trusted(skill Skill, hash string) ([]string, bool, error) {
	if c.Trust == nil {
		return nil, false, nil
	}
	rules, ok, err := c.Trust.Trusted(skill, hash)
	if err != nil {
		c.Logger.Warn("trust in a skill cannot be read", "path", skill.Path, "err", err)
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
