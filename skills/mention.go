package skills

import (
	"strings"
	"unicode"
)

// Mention is a skill that a person names in a message: $name, or [$name](path).
type Mention struct {
	Name string
	Path string // "" unless the link gives one; it counts before the name
}

// mostMentions bounds what one message can name.
const mostMentions = 16

// Mentions finds the skills that a message names, each once, in order (skills.md R51). What stands in a
// fenced or an inline code, or after a backslash, is not meant; nor is what goes on as a path, a call or
// an assignment. Whether there is such a skill, the caller has to see: much that looks so is a shell
// variable.
func Mentions(text string) []Mention {
	var found []Mention
	seen := map[Mention]bool{}
	for _, line := range outsideFences(text) {
		for _, m := range mentionsIn(blankCode(line)) {
			if !seen[m] && len(found) < mostMentions {
				seen[m] = true
				found = append(found, m)
			}
		}
	}
	return found
}

// outsideFences are the lines that no fence encloses. A fence that is not closed reaches to the end.
func outsideFences(text string) (lines []string) {
	fence := ""
	for line := range strings.SplitSeq(text, "\n") {
		start := strings.TrimLeft(line, " ")
		mark := start[:len(start)-len(strings.TrimLeft(start, "`"))]
		if mark == "" {
			mark = start[:len(start)-len(strings.TrimLeft(start, "~"))]
		}
		switch {
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

// blankCode replaces the inline code of a line by blanks. Marks without a partner are text.
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
		b.WriteString(line[:at] + " ` ")
		line = line[at+len(mark)+end:]
	}
}

// closing finds where the code ends that the mark began: behind as many backquotes, no more.
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

func mentionsIn(line string) (found []Mention) {
	runes := []rune(line)
	for i := 0; i < len(runes); i++ {
		if runes[i] != '$' || i > 0 && (runes[i-1] == '\\' || runes[i-1] == '$' || partOfName(runes[i-1])) {
			continue
		}
		end := i + 1
		for end < len(runes) && partOfName(runes[end]) {
			end++
		}
		name := string(runes[i+1 : end])
		if name == "" || !ends(runes[end:]) {
			continue
		}
		m := Mention{Name: name}
		if i > 0 && runes[i-1] == '[' {
			m.Path = target(string(runes[end:]))
		}
		found = append(found, m)
		i = end - 1
	}
	return found
}

func partOfName(r rune) bool {
	return r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r)
}

// ends reports whether a name is over where rest begins, and was not the start of something else.
func ends(rest []rune) bool {
	if len(rest) == 0 {
		return true
	}
	switch rest[0] {
	case '/', '\\', '=', '(', '{', '$', '[', '@':
		return false
	case '.', ':':
		return len(rest) == 1 || !partOfName(rest[1]) && rest[1] != '/'
	}
	return true
}

// target is the path of a link that begins behind its text: ](path).
func target(rest string) string {
	inner, ok := strings.CutPrefix(rest, "](")
	if !ok {
		return ""
	}
	path, _, ok := strings.Cut(inner, ")")
	if !ok {
		return ""
	}
	return strings.TrimSpace(path)
}
