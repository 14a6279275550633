package skills

import (
	"fmt"
	"sort"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Budget bounds what the catalog takes of a system prompt. The zero value is the default.
type Budget struct {
	// MaxEntries is how many skills are listed. Default 200.
	MaxEntries int
	// MaxBytes is how long the whole text may be. Default 32 KiB, some 8,000 tokens.
	MaxBytes int
}

// maxDescription is what the specification allows; lenient readers let more in.
const maxDescription = 1024

// shortest is how far descriptions are cut, in characters, before skills are left out.
const shortest = 60

// Prompt renders the catalog for a system prompt: name, description and location of each skill that
// a model may activate, the first in precedence first. It is "" when there is none. A catalog over
// budget has its longest descriptions shortened, then its last skills left out, and says so.
// Nothing in a skill's text can end the list or hide in it: it is escaped, put on one line, and
// invisible characters are taken out.
func Prompt(c Catalog, b Budget) string {
	if b.MaxEntries <= 0 {
		b.MaxEntries = 200
	}
	if b.MaxBytes <= 0 {
		b.MaxBytes = 32 << 10
	}
	var entries []entry
	for _, s := range c.Skills {
		if !s.UserOnly {
			entries = append(entries, entry{oneLine(s.Name), cut(oneLine(s.Description), maxDescription), oneLine(s.Path)})
		}
	}
	if len(entries) == 0 {
		return ""
	}
	all := len(entries)
	entries = entries[:min(all, b.MaxEntries)]
	longest := maxDescription
	if size(entries, longest) > b.MaxBytes {
		longest = sort.Search(maxDescription, func(n int) bool { return size(entries, n+1) > b.MaxBytes })
	}
	if longest < shortest {
		longest = shortest
		n := sort.Search(len(entries), func(n int) bool { return size(entries[:n+1], longest) > b.MaxBytes })
		entries = entries[:n]
	}
	return render(entries, longest, all-len(entries))
}

type entry struct{ name, description, location string }

const (
	opening = "<available_skills>\n"
	closing = "</available_skills>"
	// reserve is kept for the note about what was left out.
	reserve = 160
)

func (e entry) write(b *strings.Builder, longest int) {
	fmt.Fprintf(b, "  <skill>\n    <name>%s</name>\n    <description>%s</description>\n    <location>%s</location>\n  </skill>\n",
		markup.Replace(e.name), markup.Replace(cut(e.description, longest)), markup.Replace(e.location))
}

func size(entries []entry, longest int) int {
	var b strings.Builder
	for _, e := range entries {
		e.write(&b, longest)
	}
	return b.Len() + len(opening) + len(closing) + reserve
}

func render(entries []entry, longest, missing int) string {
	var b strings.Builder
	b.WriteString(opening)
	cutAny := false
	for _, e := range entries {
		e.write(&b, longest)
		cutAny = cutAny || utf8.RuneCountInString(e.description) > longest
	}
	if missing > 0 {
		fmt.Fprintf(&b, "  <truncated>%d more skills are installed and not listed; they can be activated by name</truncated>\n", missing)
	} else if cutAny {
		b.WriteString("  <truncated>long descriptions were shortened</truncated>\n")
	}
	b.WriteString(closing)
	return b.String()
}

var markup = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;")

// oneLine joins lines and blanks, and drops what a person would not see: control characters,
// direction marks, tags. Joiners stay; scripts and emoji need them.
func oneLine(s string) string {
	var b strings.Builder
	blank := false
	for _, r := range s {
		switch {
		case unicode.IsSpace(r), r == '\u2028', r == '\u2029':
			blank = true
			continue
		case r == utf8.RuneError, unicode.IsControl(r), unicode.In(r, unicode.Co, unicode.Cs):
			continue
		case unicode.Is(unicode.Cf, r) && r != '\u200c' && r != '\u200d':
			continue
		}
		if blank && b.Len() > 0 {
			b.WriteByte(' ')
		}
		blank = false
		b.WriteRune(r)
	}
	return b.String()
}

// cut shortens s to at most n characters, the last of which then is an ellipsis.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	i := 0
	for at := range s {
		if i == n-1 {
			if utf8.RuneCountInString(s[at:]) <= 1 {
				return s
			}
			return s[:at] + "…"
		}
		i++
	}
	return s
}
