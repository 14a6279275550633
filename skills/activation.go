package skills

import (
	"fmt"
	"path/filepath"
	"strings"
)

// Activation is what an agent gets when it activates a skill.
type Activation struct {
	Skill        Skill
	Instructions string // the text after the front matter, with the skill's directory where it names it
	Hash         string // SHA-256 of the SKILL.md, in hex
	// Already: the agent had activated it before.
	Already bool
	// Granted are the rules that hold for the agent while the skill is active.
	Granted []string
	// Withheld are the rules that the skill asks for and does not get.
	Withheld []Withheld
	// Proposed are those of the withheld rules that a person may grant by trusting the skill.
	Proposed []string
}

// Withheld is a rule that was not granted.
type Withheld struct {
	Rule string
	Why  string
}

// Text is what the model reads: the instructions, which resources there are and where, and what
// was not granted (skills-swiftagent.md 4.7).
func (a Activation) Text() string {
	var b strings.Builder
	s := a.Skill
	fmt.Fprintf(&b, "# Skill Activated: %s\n\n%s\n\n", s.Name, strings.TrimSpace(a.Instructions))
	if s.Compatibility != "" {
		fmt.Fprintf(&b, "Compatibility: %s\n\n", oneLine(s.Compatibility))
	}
	b.WriteString("## Available Resources\n")
	fmt.Fprintf(&b, "- Scripts: %s\n- References: %s\n- Assets: %s\n", yes(s.HasScripts), yes(s.HasReferences), yes(s.HasAssets))
	if s.files == nil && filepath.IsAbs(s.Dir) {
		fmt.Fprintf(&b, "\nRelative paths in this skill are resolved from %s\n", s.Dir)
	}
	if len(a.Withheld) > 0 {
		b.WriteString("\n## Not granted\n")
		for _, w := range a.Withheld {
			fmt.Fprintf(&b, "- %s: %s\n", w.Rule, w.Why)
		}
	}
	return b.String()
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
