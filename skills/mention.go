package skills

import (
	"cmp"
	"strings"

	"symbio/internal/security/lazyregexp"
)

// Mention is a skill that a person names in a message: $name, or [$name](path).
type Mention struct {
	// Name is as written. It may be no skill.
	Name string
	// Path is the target of the link; "" = the mention is no link. It counts before the name.
	Path string
	// Arguments is the text behind the mention, if the message begins with it and it is not longer
	// than MaxArguments; see ActivateRequest.
	Arguments string
}

// maxMentions limits the skills that one message can name, and so the text that a message can load.
const maxMentions = 16

// Mentions returns the skills that a message names, without duplicates and in order. It ignores code, a $ after a
// backslash, and a name that continues as a path, a call or an
// assignment. The caller must check that the skill exists, because many matches are shell
// variables. data follows text: it names nothing, but is of the arguments.
func Mentions(text, data string) []Mention {
	var found []Mention
	seen := map[Mention]bool{}
	for _, line := range outsideFences(text) {
		for _, m := range mentionsIn(blankCode(line)) {
			if !seen[m] && len(found) < maxMentions {
				seen[m] = true
				found = append(found, m)
			}
		}
	}
	if len(found) > 0 {
		found[0].Arguments = found[0].argumentsIn(text + data)
	}
	return found
}

// argumentsIn returns the text behind m, "" if the message does not begin with m.
func (m Mention) argumentsIn(message string) string {
	message = strings.TrimSpace(message)
	rest, begins := strings.CutPrefix(message, "$"+m.Name)
	if m.Path != "" {
		if rest, begins = strings.CutPrefix(message, "[$"+m.Name+"]("); begins {
			_, rest, begins = strings.Cut(rest, ")")
		}
	}
	if !begins || len(rest) > MaxArguments {
		return ""
	}
	return strings.TrimSpace(rest)
}

// outsideFences returns the lines that are not in a fenced code block. A fence that is not closed
// extends to the end of the text.
func outsideFences(text string) (lines []string) {
	// fence is the mark that opened the present block, such as ``` ; "" = outside of blocks.
	fence := ""
	for line := range strings.SplitSeq(text, "\n") {
		start := strings.TrimLeft(line, " ")
		mark := start[:len(start)-len(strings.TrimLeft(start, "`"))]
		mark = cmp.Or(mark, start[:len(start)-len(strings.TrimLeft(start, "~"))])
		switch {
		// CommonMark: three marks, indented by at most three blanks.
		case fence == "" && len(mark) >= 3 && len(line)-len(start) < 4:
			fence = mark
		case fence == "":
			lines = append(lines, line)
		case strings.HasPrefix(mark, fence) && strings.TrimSpace(start[len(mark):]) == "":
			fence = ""
		}
	}
	return lines
}

// blankCode replaces the inline code of a line by blanks. A backquote without a partner is text.
func blankCode(line string) string {
	var b strings.Builder
	for {
		at := strings.IndexByte(line, '`')
		if at < 0 {
			b.WriteString(line)
			return b.String()
		}
		mark := line[at : len(line)-len(strings.TrimLeft(line[at:], "`"))]
		end := closing(line[at+len(mark):], mark)
		if end < 0 {
			b.WriteString(line[:at+len(mark)])
			line = line[at+len(mark):]
			continue
		}
		// A backquote stays, so that the text around the code is not joined to one name.
		b.WriteString(line[:at] + " ` ")
		line = line[at+len(mark)+end:]
	}
}

// closing returns the end of the inline code that mark began: after the same number of backquotes.
// It returns -1 if the code is not closed.
func closing(rest, mark string) int {
	for from := 0; ; {
		at := strings.Index(rest[from:], mark)
		if at < 0 {
			return -1
		}
		run := len(rest[from+at:]) - len(strings.TrimLeft(rest[from+at:], "`"))
		if run == len(mark) {
			return from + at + run
		}
		from += at + run
	}
}

const inName = `_\-\pL\p{Nd}` // the characters of a name

var (
	// mentionName matches a $ and a name, with the character before it: none of a longer word.
	mentionName = lazyregexp.New(`(?:^|[^\\$` + inName + `])\$([` + inName + `]+)`)
	// mentionEnd matches what may follow a name: the text does not go on as a path, a call, an assignment or an address.
	mentionEnd = lazyregexp.New(`^(?:$|[.:](?:$|[^/` + inName + `])|[^.:/\\=({$\[@])`)
	// mentionLink matches the rest of a Markdown link behind its text.
	mentionLink = lazyregexp.New(`^\]\(([^)]*)\)`)
)

// mentionsIn returns the mentions of one line without code.
func mentionsIn(line string) (found []Mention) {
	for _, at := range mentionName().FindAllStringSubmatchIndex(line, -1) {
		m, rest := Mention{Name: line[at[2]:at[3]]}, line[at[3]:]
		if !mentionEnd().MatchString(rest) {
			continue
		}
		if link := mentionLink().FindStringSubmatch(rest); link != nil && line[at[0]] == '[' {
			m.Path = strings.TrimSpace(link[1])
		}
		found = append(found, m)
	}
	return found
}
