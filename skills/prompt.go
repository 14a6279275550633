package skills

import (
	"fmt"
	"sort"
	"strings"
	"unicode"
	"unicode/utf8"

	"symbio/security/visible"
)

// PromptFormat is how the catalog is written (skills.md C18).
type PromptFormat string

// The formats. Both hold the same skills.
const (
	AvailableSkills PromptFormat = "available_skills" // skills-swiftagent.md 4.4
	SkillsContext   PromptFormat = "skills_context"   // skills-codelia.md 6.1
)

// PromptOptions say what of a catalog goes into a system prompt. The zero value is the default.
type PromptOptions struct {
	// Format is how it is written. Default: AvailableSkills.
	Format PromptFormat
	// MaxEntries is how many skills are listed. Default 200.
	MaxEntries int
	// MaxBytes is how long the whole text may be. Default 32 KiB, some 8,000 tokens.
	MaxBytes int
	// Omit, if set, leaves skills out that are not for this agent, or that it has already.
	Omit func(Skill) bool
	// Search says that the model has skill_search, to find what is not listed.
	Search bool
	// Duplicates as in Config: by precedence, only the skill that a name means is listed.
	Duplicates Duplicates
}

func (o PromptOptions) withDefaults() PromptOptions {
	if o.Format == "" {
		o.Format = AvailableSkills
	}
	if o.MaxEntries <= 0 {
		o.MaxEntries = 200
	}
	if o.MaxBytes <= 0 {
		o.MaxBytes = 32 << 10
	}
	return o
}

// Rendered is the catalog as a model sees it.
type Rendered struct {
	Text string // "" when there is nothing to show
	// Listed, Shortened and Dropped name skills: what is there, what of that with a shortened description,
	// and what there was no room for.
	Listed, Shortened, Dropped []string
}

// Truncated says that something is missing.
func (r Rendered) Truncated() bool { return len(r.Shortened)+len(r.Dropped) > 0 }

// maxDescription is what the specification allows; lenient readers let more in.
const maxDescription = 1024

// shortest is how far descriptions are cut, in characters, before skills are left out.
const shortest = 60

// Prompt is the text of Render.
func Prompt(c Catalog, o PromptOptions) string { return Render(c, o).Text }

// Render writes the catalog for a system prompt: name, description and location of each skill that a model
// may take, the first in precedence first. There is no text when there is no such skill. A catalog over
// budget has its longest descriptions shortened, then its last skills left out, and says so.
// Nothing in a skill's text can end the list or hide in it: it is escaped, put on one line, and
// invisible characters are taken out.
func Render(c Catalog, o PromptOptions) Rendered {
	o = o.withDefaults()
	shown := c.shown(o)
	if len(shown) == 0 {
		return Rendered{}
	}
	entries := make([]entry, min(len(shown), o.MaxEntries))
	for i := range entries {
		s := shown[i]
		entries[i] = entry{name: oneLine(s.Name), location: oneLine(s.Path), scope: string(s.Scope), named: s.Exposure == NameOnly}
		if !entries[i].named {
			entries[i].description = visible.TruncateRunes(oneLine(s.Description), maxDescription)
		}
	}
	w := writer{o, maxDescription}
	if w.size(entries) > o.MaxBytes {
		w.longest = sort.Search(maxDescription, func(n int) bool { return writer{o, n + 1}.size(entries) > o.MaxBytes })
	}
	if w.longest < shortest {
		w.longest = shortest
		n := sort.Search(len(entries), func(n int) bool { return w.size(entries[:n+1]) > o.MaxBytes })
		entries = entries[:n]
	}
	r := Rendered{}
	for i, s := range shown {
		if i >= len(entries) {
			r.Dropped = append(r.Dropped, s.Name)
			continue
		}
		r.Listed = append(r.Listed, s.Name)
		if utf8.RuneCountInString(entries[i].description) > w.longest {
			r.Shortened = append(r.Shortened, s.Name)
		}
	}
	r.Text = w.render(entries, len(r.Dropped), len(r.Shortened))
	return r
}

// shown are the skills of the catalog that a model is to see.
func (c Catalog) shown(o PromptOptions) []Skill {
	shown := make([]Skill, 0, len(c.Skills))
	for _, s := range c.Skills {
		if s.ForModels() && (o.Omit == nil || !o.Omit(s)) {
			shown = append(shown, s)
		}
	}
	if o.Duplicates != DuplicatesPrecedence {
		return shown
	}
	first := map[string]string{}
	for _, s := range shown {
		if _, known := first[s.Name]; !known {
			first[s.Name] = c.first(s.Name).ID
		}
	}
	kept := shown[:0]
	for _, s := range shown {
		if first[s.Name] == s.ID {
			kept = append(kept, s)
		}
	}
	return kept
}

type entry struct {
	name, description, location, scope string
	named                              bool // listed by its name alone
}

// writer writes entries with descriptions of at most longest characters.
type writer struct {
	PromptOptions
	longest int
}

// reserve is kept for what is said about what was left out.
const reserve = 200

func (w writer) size(entries []entry) int {
	var b strings.Builder
	for _, e := range entries {
		w.entry(&b, e)
	}
	return b.Len() + len(w.opening(true)) + len(w.closing()) + reserve
}

func (w writer) entry(b *strings.Builder, e entry) {
	element := func(name, text string) {
		fmt.Fprintf(b, "    <%s>%s</%s>\n", name, markup.Replace(text), name)
	}
	b.WriteString("  <skill>\n")
	element("name", e.name)
	if !e.named {
		element("description", visible.TruncateRunes(e.description, w.longest))
	}
	if w.Format == SkillsContext {
		element("path", e.location)
		element("scope", e.scope)
	} else {
		element("location", e.location)
	}
	b.WriteString("  </skill>\n")
}

func (w writer) opening(truncated bool) string {
	if w.Format != SkillsContext {
		if truncated {
			return "<available_skills truncated=\"true\">\n"
		}
		return "<available_skills>\n"
	}
	rules := []string{
		"When a task fits a skill's description, take the skill before you begin, and follow what it says.",
		"A skill's text may name files; read them only when they are needed. Relative paths start from the skill's own directory.",
	}
	if w.Search {
		rules = append(rules, "When no skill here fits, look for one with skill_search.")
	}
	var b strings.Builder
	b.WriteString("<skills_context>\n<skills_usage>\n")
	for _, r := range rules {
		fmt.Fprintf(&b, "  <rule>%s</rule>\n", r)
	}
	fmt.Fprintf(&b, "</skills_usage>\n<skills_catalog scope=\"initial\" truncated=\"%t\">\n", truncated)
	return b.String()
}

func (w writer) closing() string {
	if w.Format == SkillsContext {
		return "</skills_catalog>\n</skills_context>"
	}
	return "</available_skills>"
}

func (w writer) render(entries []entry, dropped, shortened int) string {
	var b strings.Builder
	b.WriteString(w.opening(dropped+shortened > 0))
	for _, e := range entries {
		w.entry(&b, e)
	}
	switch {
	case dropped > 0 && w.Search:
		fmt.Fprintf(&b, "  <truncated>%d more skills are installed and not listed; find them with skill_search</truncated>\n", dropped)
	case dropped > 0:
		fmt.Fprintf(&b, "  <truncated>%d more skills are installed and not listed; they can be activated by name</truncated>\n", dropped)
	case shortened > 0 && w.Search:
		fmt.Fprintf(&b, "  <truncated>%d long descriptions were shortened; skill_search shows them whole</truncated>\n", shortened)
	case shortened > 0:
		fmt.Fprintf(&b, "  <truncated>%d long descriptions were shortened</truncated>\n", shortened)
	}
	b.WriteString(w.closing())
	return b.String()
}

// Line is text of a skill as it may be shown to a model: on one line, without what cannot be seen.
func Line(text string) string { return oneLine(text) }

var markup = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;")

// oneLine joins lines and blanks, and drops what a person would not see: control characters,
// direction marks, tags. Joiners stay; scripts and emoji need them.
func oneLine(s string) string {
	return strings.Join(strings.Fields(strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r), r == '\u200c', r == '\u200d':
			return r
		case r == utf8.RuneError, visible.Hidden(r), unicode.In(r, unicode.Co, unicode.Cs):
			return -1
		}
		return r
	}, s)), " ")
}
