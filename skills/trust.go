package skills

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"symbio/security/permission"

	"symbio/internal/skills/walk"
)

// Trust answers which skills a person trusts that grant nothing by themselves (security: D12). The
// registry's actor and any number of goroutines call it, before each decision that depends on it.
// It may read the disk.
type Trust interface {
	// Trusted reports whether a person trusts the skill in s.Dir whose SKILL.md has that SHA-256,
	// and returns the rules that the person accepted, as written. An error counts as no.
	Trusted(s Skill, hash string) (rules []string, ok bool, err error)
	// Fetched returns the roots of trusted skills of other nodes. All of them count as ScopePeer.
	Fetched() []Root
}

// fetchedRoots returns the roots of t with the scope set. A nil t has none.
func fetchedRoots(t Trust) []Root {
	if t == nil {
		return nil
	}
	roots := slices.Clone(t.Fetched())
	for i := range roots {
		roots[i].Scope = ScopePeer
	}
	return roots
}

// grantDecision divides the rules that a skill asks for into granted and withheld ones.
type grantDecision struct {
	rules    []permission.Rule
	withheld []WithheldRule
	proposed []string // of the withheld, what a person may still grant
	trusted  bool     // its scope grants, or a person has said yes
	byTrust  bool     // a record of a person's trust says so, and they may revoke it
}

// decideGrants decides which rules a skill gets. hash is the hash of the SKILL.md that was just read.
// accepted is the hash that a person has just accepted, "" without such a decision. Errors:
// ErrChanged, and ErrUntrusted for a skill of another node.
func (c Config) decideGrants(skill Skill, hash, accepted string) (g grantDecision, err error) {
	if accepted != "" && accepted != hash {
		return g, fmt.Errorf("accept %s: %w: its SHA-256 is %s, not %s", skill.Name, ErrChanged, hash, accepted)
	}
	var trusted []string
	why := proposal
	if !skill.Scope.Grants() {
		rules, ok, err := c.trusted(skill, hash)
		switch {
		case skill.Scope == ScopePeer && !ok:
			return g, errors.Join(fmt.Errorf("activate %s: %w; `symbio skills trust %s` shows what it would get", skill.Name, ErrUntrusted, skill.Path), err)
		case err != nil:
			why += "; what people have trusted cannot be read: " + err.Error()
		}
		trusted, g.byTrust = rules, ok
	}
	free := skill.Scope.Grants() || accepted != "" && skill.Scope != ScopePeer
	g.trusted = free || g.byTrust
	for _, r := range skill.Refused {
		g.withheld = append(g.withheld, WithheldRule(r))
	}
	for _, r := range skill.Manifest.Grants {
		if !free && !slices.Contains(trusted, r.String()) {
			g.withheld = append(g.withheld, WithheldRule{r.String(), why})
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

// grantValidity returns a function that reports, at each decision, whether a skill's grants still
// hold: its SKILL.md is unchanged, and the trust on which they depend is not revoked. The function
// looks at the disk.
func (c Config) grantValidity(r loadResult, byTrust bool) func() bool {
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

// proposal is the reason for withholding a rule that a person may still grant.
const proposal = "no person has trusted this skill with it; until then it is a proposal"

// trusted asks Config.Trust and logs its error.
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

// GrantNotes returns warnings for a person who is asked to trust a skill with these rules: rules that
// allow very much or nothing, and rules that run the skill's own files. A fetched skill needs no
// warning about its files, because the hash covers them.
func GrantNotes(rules []string, fetched bool) (notes []string) {
	for _, text := range rules {
		r, err := permission.ParseGrant(text)
		if err != nil {
			if r, err = permission.ParseRule(text); err != nil {
				continue
			}
		}
		switch w := r.Warning(); {
		case r.RunsSkillFiles() && fetched:
		case r.RunsSkillFiles():
			notes = append(notes, text+": this runs the skill's own files, as they are then; the hash is of the SKILL.md alone")
		case w != "":
			notes = append(notes, text+": "+w)
		}
	}
	return notes
}
