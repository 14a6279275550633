package lending

import (
	"cmp"
	"fmt"
	"slices"

	"symbio/internal/security/lazyregexp"
	"symbio/internal/security/visible"
)

// Skill names a skill that is active for the borrowing agent.
type Skill struct {
	Name string `json:"name"`
	// Hash is the SHA-256 of its SKILL.md, in hex.
	Hash string `json:"hash"`
}

// OmittedSkill is a skill of the borrowing agent that is not active for the lent one.
type OmittedSkill struct {
	Skill
	Why Omission `json:"why"`
}

// Omission is why a skill is not active. On the wire it is a code and not a text, so that a lender
// cannot put words before the borrower's model. Other codes count as another reason.
type Omission string

// The reasons: the lender has no skill of that name, its SKILL.md there is another, no person of the
// lender trusts it, or the rules of one of the two nodes do not allow it without a question.
const (
	SkillAbsent    Omission = "absent"
	SkillChanged   Omission = "changed"
	SkillUntrusted Omission = "untrusted"
	SkillDenied    Omission = "denied"
)

// text returns the reason in words for models.
func (o Omission) text() string {
	return cmp.Or(map[Omission]string{
		SkillAbsent: "its node has no such skill", SkillChanged: "its node has another SKILL.md",
		SkillUntrusted: "no person of its node trusts it", SkillDenied: "the rules do not allow it there",
	}[o], "its node cannot activate it")
}

// maxSkills bounds the skills of a request: as many as may be active by default (skills.Config).
// maxSkillName is the longest name of the specification.
const maxSkills, maxSkillName = 16, 64

// skillSyntax matches the name and the hash of a skill. Only names of the specification travel.
var skillSyntax = lazyregexp.New(`^[a-z0-9]+(-[a-z0-9]+)* [0-9a-f]{64}$`)

// isInvalid reports whether a request may not name the skill.
func (s Skill) isInvalid() bool {
	return len(s.Name) > maxSkillName || !skillSyntax().MatchString(s.Name+" "+s.Hash)
}

// selectSkills returns the skills that a request may name.
func selectSkills(all []Skill) []Skill {
	named := slices.DeleteFunc(slices.Clone(all), Skill.isInvalid)
	return named[:min(len(named), maxSkills)]
}

// explainSkills returns a sentence for the model of the borrower about its skills that are not active
// for the lent agent; "" = all are. It trusts the lender only with the reasons: a skill that was not
// named to it is ignored.
func explainSkills(all []Skill, omitted []OmittedSkill) string {
	named, text := selectSkills(all), ""
	for _, s := range all {
		why := "it cannot be named to another node"
		if slices.Contains(named, s) {
			i := slices.IndexFunc(omitted, func(o OmittedSkill) bool { return o.Skill == s })
			if i < 0 {
				continue
			}
			why = omitted[i].Why.text()
		}
		text += fmt.Sprintf(", %s (%s)", visible.Line(s.Name, maxSkillName), why)
	}
	if text == "" {
		return ""
	}
	return "skills of yours that are not active for it: " + text[2:]
}
