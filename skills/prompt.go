package skills

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"strings"
	"unicode"
	"unicode/utf8"

	"symbio/internal/security/visible"
)

// PromptFormat selects how the catalog is written into a prompt.
type PromptFormat string

// The formats. Both hold the same skills.
const (
	AvailableSkills PromptFormat = "available_skills"
	SkillsContext   PromptFormat = "skills_context"
)

// PromptOptions select what part of a catalog goes into a system prompt. The zero value is the
// default.
type PromptOptions struct {
	// Format is how it is written. Default: AvailableSkills.
	Format PromptFormat
	// MaxEntries is the largest number of listed skills. Default 200.
	MaxEntries int
	// MaxBytes limits the whole text. Default 32 KiB, about 8,000 tokens.
	MaxBytes int
	// Omit leaves out the skills for which it returns true, such as those that are active already.
	Omit func(Skill) bool
	// Search is true when the model has the tool skill_search. The text then says how to find
	// skills that are not listed.
	Search bool
	// Uses returns by name how much each skill was used lately. It is called only if there is no room
	// for all skills: then the most used ones come first, and the others stay in their order. nil =
	// none was used.
	Uses func() map[string]float64
	// Duplicates is as in Config. By precedence only the skill that a name means is listed.
	Duplicates Duplicates
}

// withDefaults returns o with the defaults filled in.
func (o PromptOptions) withDefaults() PromptOptions {
	o.Format = cmp.Or(o.Format, AvailableSkills)
	o.MaxEntries = cmp.Or(max(o.MaxEntries, 0), 200)
	o.MaxBytes = cmp.Or(max(o.MaxBytes, 0), 32<<10)
	return o
}

// CatalogText is the catalog of skills as a model reads it in its system prompt.
type CatalogText struct {
	Text string // "" when there is nothing to show
	// Listed are the names of the skills in the text, Shortened the ones with a shortened
	// description, and Dropped the skills for which there was no room.
	Listed, Shortened, Dropped []string
}

// Truncated reports whether anything was shortened or dropped.
func (r CatalogText) Truncated() bool { return len(r.Shortened)+len(r.Dropped) > 0 }

// maxDescription is the limit of the specification. Level lenient reads longer descriptions.
const maxDescription = 1024

// minDescription is the length to which descriptions are cut before whole skills are left out, in
// characters. A shorter text does not tell a model when to use a skill.
const minDescription = 60

// Render writes the catalog for a system prompt: name, description and location of each skill that
// a model may activate, in the order of precedence, or with the most used ones first if there is no
// room for all. The text is "" if there is no such skill. If the catalog is over the budget, Render
// shortens the longest descriptions first, then leaves out the last skills, and says so in the text.
// Text of a skill cannot end the list or hide in it: it is escaped, put on one line, and invisible
// characters are removed.
func Render(c Catalog, o PromptOptions) CatalogText {
	o = o.withDefaults()
	shown := c.shown(o)
	if len(shown) == 0 {
		return CatalogText{}
	}
	r := render(shown, o)
	if len(r.Dropped) > 0 && o.Uses != nil {
		uses := o.Uses()
		slices.SortStableFunc(shown, func(a, b Skill) int { return cmp.Compare(uses[b.Name], uses[a.Name]) })
		r = render(shown, o)
	}
	return r
}

// render writes as many of the skills as there is room for, in their order.
func render(shown []Skill, o PromptOptions) CatalogText {
	entries := make([]promptEntry, min(len(shown), o.MaxEntries))
	for i := range entries {
		s := shown[i]
		entries[i] = promptEntry{name: oneLine(s.Name), location: oneLine(s.Path), scope: string(s.Scope), nameOnly: s.Exposure == NameOnly}
		if !entries[i].nameOnly {
			entries[i].description = visible.TruncateRunes(oneLine(s.Description), maxDescription)
		}
	}
	w := promptWriter{o, maxDescription}
	if w.size(entries) > o.MaxBytes {
		w.longest = sort.Search(maxDescription, func(n int) bool { return promptWriter{o, n + 1}.size(entries) > o.MaxBytes })
	}
	if w.longest < minDescription {
		w.longest = minDescription
		n := sort.Search(len(entries), func(n int) bool { return w.size(entries[:n+1]) > o.MaxBytes })
		entries = entries[:n]
	}
	r := CatalogText{}
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

// shown returns the skills that a model is to see.
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
	first := map[string]string{} // the ids
	return slices.DeleteFunc(shown, func(s Skill) bool {
		if _, known := first[s.Name]; !known {
			first[s.Name] = c.first(s.Name).ID
		}
		return first[s.Name] != s.ID
	})
}

// promptEntry is the text of one skill before it is cut to the budget.
type promptEntry struct {
	name, description, location, scope string
	nameOnly                           bool // listed by its name alone
}

// promptWriter writes entries with descriptions of at most longest characters.
type promptWriter struct {
	PromptOptions
	longest int
}

// noticeBytes is room for the sentence about what was left out.
const noticeBytes = 200

// size returns the length of the text with all entries, in bytes.
func (w promptWriter) size(entries []promptEntry) int {
	var b strings.Builder
	for _, e := range entries {
		w.entry(&b, e)
	}
	return b.Len() + len(w.opening(true)) + len(w.closing()) + noticeBytes
}

// entry writes one skill.
func (w promptWriter) entry(b *strings.Builder, e promptEntry) {
	element := func(name, text string) {
		fmt.Fprintf(b, "    <%s>%s</%s>\n", name, markup.Replace(text), name)
	}
	b.WriteString("  <skill>\n")
	element("name", e.name)
	if !e.nameOnly {
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

// opening returns the text before the first entry.
func (w promptWriter) opening(truncated bool) string {
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

// closing returns the text after the last entry.
func (w promptWriter) closing() string {
	if w.Format == SkillsContext {
		return "</skills_catalog>\n</skills_context>"
	}
	return "</available_skills>"
}

// render returns the whole text, with a sentence about what was left out.
func (w promptWriter) render(entries []promptEntry, dropped, shortened int) string {
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

// Line returns text of a skill as a model may be shown it: on one line, without invisible
// characters.
func Line(text string) string { return oneLine(text) }

// markup escapes text for XML-like markup.
var markup = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;")

// oneLine joins lines and blanks, and removes characters that a person does not see: control
// characters, direction marks, tags. It keeps joiners, because scripts and emoji need them.
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
