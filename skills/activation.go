package skills

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"

	"symbio/security/visible"
)

// Activation is what an agent gets when it activates a skill.
type Activation struct {
	Skill        Skill
	Instructions string // the text after the front matter, with the skill's directory where it names it
	Hash         string // SHA-256 of the SKILL.md, in hex
	// Already: the agent had activated it before.
	Already bool
	// Repeat: the agent's model has this very text before it. Text and Context then only remind of it.
	Repeat bool
	// Granted are the rules that hold for the agent while the skill is active.
	Granted []string
	// Withheld are the rules that the skill asks for and does not get.
	Withheld []Withheld
	// Proposed are those of the withheld rules that a person may grant by trusting the skill.
	Proposed []string
}

// Withheld is a rule that was not granted.
type Withheld struct {
	Rule string `json:"rule"`
	Why  string `json:"why"`
}

// Text is what the model reads: the instructions, which resources there are and where, and what
// was not granted (skills-swiftagent.md 4.7).
func (a Activation) Text() string {
	if a.Repeat {
		return a.reminder()
	}
	var b strings.Builder
	s := a.Skill
	fmt.Fprintf(&b, "# Skill Activated: %s\n\n%s\n\n", s.Name, strings.TrimSpace(a.Instructions))
	if s.Compatibility != "" {
		fmt.Fprintf(&b, "Compatibility: %s\n\n", oneLine(s.Compatibility))
	}
	b.WriteString("## Available Resources\n")
	fmt.Fprintf(&b, "- Scripts: %s\n- References: %s\n- Assets: %s\n", yes(s.HasScripts), yes(s.HasReferences), yes(s.HasAssets))
	if s.onDisk() {
		fmt.Fprintf(&b, "\nRelative paths in this skill are resolved from %s\n", s.Dir)
	}
	a.writeWithheld(&b)
	return b.String()
}

func (a Activation) writeWithheld(b *strings.Builder) {
	if len(a.Withheld) == 0 {
		return
	}
	b.WriteString("\n## Not granted\n")
	for _, w := range a.Withheld {
		fmt.Fprintf(b, "- %s: %s\n", w.Rule, w.Why)
	}
}

// reminder refers to the text that the model has (skills.md R49).
func (a Activation) reminder() string {
	return fmt.Sprintf("The skill %s is active, and its instructions have not changed since you got them, above (%s, sha256 %.12s). Follow those; call this again with force to have them repeated.\n",
		a.Skill.Name, oneLine(a.Skill.Path), a.Hash)
}

// Context is what the model reads of a skill that it loaded (skills-codelia.md 6.2): the text, where it
// lies, and its files. It lists the skill's directory, and may block as long as that does.
func (a Activation) Context() string {
	if a.Repeat {
		return a.reminder()
	}
	var b strings.Builder
	s := a.Skill
	fmt.Fprintf(&b, "<skill_context name=\"%s\" path=\"%s\">\n%s\n", markup.Replace(oneLine(s.Name)), markup.Replace(oneLine(s.Path)), closed(strings.TrimSpace(a.Instructions)))
	if s.Compatibility != "" {
		fmt.Fprintf(&b, "\nCompatibility: %s\n", closed(oneLine(s.Compatibility)))
	}
	if s.onDisk() {
		base := url.URL{Scheme: "file", Path: filepath.ToSlash(s.Dir) + "/"}
		fmt.Fprintf(&b, "\nBase directory: %s\nRelative paths in this skill are resolved from this directory.\n", base.String())
	}
	files, truncated, err := s.Files()
	if err == nil && len(files) > 0 {
		more := ""
		if truncated {
			more = ` truncated="true"`
		}
		fmt.Fprintf(&b, "<skill_files%s>\n", more)
		for _, f := range files {
			fmt.Fprintf(&b, "<file>%s</file>\n", markup.Replace(oneLine(s.ResourcePath(f))))
		}
		b.WriteString("</skill_files>\n")
	}
	var not strings.Builder
	a.writeWithheld(&not)
	b.WriteString(closed(not.String()))
	b.WriteString("</skill_context>")
	return b.String()
}

// closed keeps a text from ending the element that it stands in.
func closed(text string) string {
	return strings.ReplaceAll(text, "</skill_context", "&lt;/skill_context")
}

// Metadata is what a program wants to know of a loaded skill (skills-codelia.md 7.2); the names are a
// contract.
type Metadata struct {
	SkillID string `json:"skill_id"`
	Name    string `json:"name"`
	Path    string `json:"path"`
	Dir     string `json:"dir"`
	MtimeMs int64  `json:"mtime_ms"`
}

// Metadata says which skill it is, and of when.
func (a Activation) Metadata() Metadata {
	return Metadata{a.Skill.ID, a.Skill.Name, a.Skill.Path, a.Skill.Dir, a.Skill.ModTime.UnixMilli()}
}

// MarshalJSON writes what activate_skill answers (skills-swiftagent.md 4.7): name, instructions, which
// resources there are, and what was granted.
func (a Activation) MarshalJSON() ([]byte, error) {
	type resources struct {
		HasScripts    bool `json:"has_scripts"`
		HasReferences bool `json:"has_references"`
		HasAssets     bool `json:"has_assets"`
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(struct {
		Metadata
		Instructions string     `json:"instructions"`
		Resources    resources  `json:"resources_available"`
		Granted      []string   `json:"granted"`
		Withheld     []Withheld `json:"withheld,omitempty"`
	}{a.Metadata(), a.Instructions, resources{a.Skill.HasScripts, a.Skill.HasReferences, a.Skill.HasAssets}, a.Granted, a.Withheld})
	return bytes.TrimSpace(b.Bytes()), err
}

// PreloadPrompt is the part of a system prompt that holds skills in full (skills-orchestration.md,
// context setup); "" for none.
func PreloadPrompt(all []Activation) string {
	if len(all) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("# Available Skills\n\nYou have access to the following domain expertise:\n\n")
	for _, a := range all {
		s := a.Skill
		fmt.Fprintf(&b, "## %s (%s)\n\n%s\n\n", oneLine(s.Name), visible.TruncateRunes(oneLine(s.Description), maxDescription), strings.TrimSpace(a.Instructions))
		if s.onDisk() {
			fmt.Fprintf(&b, "Relative paths in this skill are resolved from %s\n\n", s.Dir)
		}
		if assets := s.top("assets"); len(assets) > 0 {
			fmt.Fprintf(&b, "**Available assets:** %s\n\n", strings.Join(assets, ", "))
		}
	}
	return b.String()
}

// ReattachBudget bounds what of the texts is shown again after a conversation was shortened. The zero
// value is the default.
type ReattachBudget struct {
	// PerSkill and Total are in bytes. Default: 20,000 and 100,000, some 5,000 and 25,000 tokens, the
	// same as in another well-known program (skills.md 2.6).
	PerSkill, Total int
}

func (b ReattachBudget) withDefaults() ReattachBudget {
	if b.PerSkill <= 0 {
		b.PerSkill = 20_000
	}
	if b.Total <= 0 {
		b.Total = 100_000
	}
	return b
}

const cutMark = "\n[The rest of this skill's text was left out; activate it again to read it.]"

// fit cuts a text to what a skill may take and what is left; "" when that is not worth it.
func (b ReattachBudget) fit(text string, left int) string {
	room := min(b.PerSkill, left)
	if len(text) <= room {
		return text
	}
	room -= len(cutMark)
	if room <= 0 {
		return ""
	}
	return visible.Prefix(text, room) + cutMark
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
