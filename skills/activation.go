package skills

import (
	"fmt"
	"net/url"
	"path/filepath"
	"strings"

	"symbio/internal/security/visible"
)

// Activation is the result of activating a skill for one agent. It is a value: later changes of the
// skill do not change it.
type Activation struct {
	Skill        Skill
	Instructions string // the text after the front matter, with the skill's directory where it names it
	Hash         string // SHA-256 of the SKILL.md, in hex
	// Already is true when the skill was active for the agent before.
	Already bool
	// Repeat is true when the model has this text in its conversation. Text and Context then return
	// a short reminder instead of the instructions, which saves thousands of tokens.
	Repeat bool
	// Granted are the permission rules that hold for the agent while the skill is active.
	Granted []string
	// Withheld are the rules that the skill asks for and does not get, with the reasons.
	Withheld []WithheldRule
	// Depends are the skills that were activated with this one because it depends on them. Unmet are
	// those that could not be.
	Depends []Activation
	Unmet   []UnmetDependency
	// Proposed are the withheld rules that a person can still grant by trusting the skill.
	Proposed []string
}

// WithheldRule is a permission rule that a skill asks for and does not get.
type WithheldRule struct {
	Rule string `json:"rule"`
	Why  string `json:"why"`
}

// Text returns the text that the model reads, followed by the texts of Depends: the instructions, the kinds of resources, the
// directory that relative paths start from, and the rules that were withheld.
func (a Activation) Text() string {
	var b strings.Builder
	b.WriteString(a.text())
	a.writeDependencies(&b, Activation.text)
	return b.String()
}

// text is Text of this skill alone.
func (a Activation) text() string {
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
	fmt.Fprintf(&b, "- Scripts: %s\n- References: %s\n- Assets: %s\n", yesNo(s.HasScripts), yesNo(s.HasReferences), yesNo(s.HasAssets))
	if s.onDisk() {
		fmt.Fprintf(&b, "\nRelative paths in this skill are resolved from %s\n", s.Dir)
	}
	a.writeWithheld(&b)
	return b.String()
}

// writeWithheld appends the list of withheld rules, so that the model does not try forbidden things
// do.
func (a Activation) writeWithheld(b *strings.Builder) {
	if len(a.Withheld) == 0 {
		return
	}
	b.WriteString("\n## Not granted\n")
	for _, w := range a.Withheld {
		fmt.Fprintf(b, "- %s: %s\n", w.Rule, w.Why)
	}
}

// reminder returns the short text for a repeated activation. It refers to the instructions that are
// already in the conversation.
func (a Activation) reminder() string {
	return fmt.Sprintf("The skill %s is active, and its instructions have not changed since you got them, above (%s, sha256 %.12s). Follow those; call this again with force to have them repeated.\n",
		a.Skill.Name, oneLine(a.Skill.Path), a.Hash)
}

// Context returns the text that the model reads after skill_load, followed
// by the texts of Depends: the
// instructions, the base directory, and a list of the skill's files. It lists the skill's
// directory, so it can block on the disk. A directory that cannot be read gives no list.
func (a Activation) Context() string {
	var b strings.Builder
	b.WriteString(a.context())
	a.writeDependencies(&b, Activation.context)
	return b.String()
}

// context is Context of this skill alone.
func (a Activation) context() string {
	if a.Repeat {
		return a.reminder()
	}
	var b strings.Builder
	s := a.Skill
	fmt.Fprintf(&b, "<skill_context name=\"%s\" path=\"%s\">\n%s\n", markup.Replace(oneLine(s.Name)), markup.Replace(oneLine(s.Path)), escapeClosingTag(strings.TrimSpace(a.Instructions)))
	if s.Compatibility != "" {
		fmt.Fprintf(&b, "\nCompatibility: %s\n", escapeClosingTag(oneLine(s.Compatibility)))
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
	b.WriteString(escapeClosingTag(not.String()))
	b.WriteString("</skill_context>")
	return b.String()
}

// escapeClosingTag keeps a text from ending the skill_context element that it is placed in. A skill
// could otherwise write text that looks as if it came from the system.
func escapeClosingTag(text string) string {
	return strings.ReplaceAll(text, "</skill_context", "&lt;/skill_context")
}

// Metadata identifies a loaded skill for a program. The JSON names are a
// contract.
type Metadata struct {
	SkillID string `json:"skill_id"`
	Name    string `json:"name"`
	Path    string `json:"path"`
	Dir     string `json:"dir"`
	MtimeMs int64  `json:"mtime_ms"`
}

// Metadata returns the identity of the activated skill and the time of its file.
func (a Activation) Metadata() Metadata {
	return Metadata{a.Skill.ID, a.Skill.Name, a.Skill.Path, a.Skill.Dir, a.Skill.ModTime.UnixMilli()}
}

// MarshalJSON writes the structured result of activate_skill: name,
// instructions, kinds of resources, and granted rules. It does not escape HTML, because a model
// reads it.
func (a Activation) MarshalJSON() ([]byte, error) {
	type resources struct {
		HasScripts    bool `json:"has_scripts"`
		HasReferences bool `json:"has_references"`
		HasAssets     bool `json:"has_assets"`
	}
	return visible.JSON(struct {
		Metadata
		Instructions string            `json:"instructions"`
		Resources    resources         `json:"resources_available"`
		Granted      []string          `json:"granted"`
		Withheld     []WithheldRule    `json:"withheld,omitempty"`
		Depends      []Activation      `json:"depends,omitempty"`
		Unmet        []UnmetDependency `json:"unmet,omitempty"`
	}{a.Metadata(), a.Instructions, resources{a.Skill.HasScripts, a.Skill.HasReferences, a.Skill.HasAssets}, a.Granted, a.Withheld, a.Depends, a.Unmet})
}

// PreloadPrompt returns the part of a system prompt that contains skills in full. It returns "" for no skills. It lists the assets of
// each skill, so it can block on the disk.
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
		if assets := s.topAssets(); len(assets) > 0 {
			fmt.Fprintf(&b, "**Available assets:** %s\n\n", strings.Join(assets, ", "))
		}
	}
	return b.String()
}

// The limits of the texts that a model is shown again after its conversation was shortened, in bytes:
// about 5,000 and 25,000 tokens, the numbers of another well-known program.
const (
	maxReattached    = 20_000 // of one skill
	maxAllReattached = 100_000
)

// cutMark ends a text that was cut, so that the model knows that there is more.
const cutMark = "\n[The rest of this skill's text was left out; activate it again to read it.]"

// cutReattached cuts text to maxReattached and to the left bytes. It cuts at the start of a character.
// It returns "" when nothing but the mark would be left.
func cutReattached(text string, left int) string {
	room := min(maxReattached, left)
	if len(text) <= room {
		return text
	}
	room -= len(cutMark)
	if room <= 0 {
		return ""
	}
	return visible.Prefix(text, room) + cutMark
}

// yesNo returns the word that a model reads for b.
func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
