package shell

import "strings"

// sedIsPlain reports whether a program for sed only edits what flows through it: a positive list, so
// that w, W, r, R, e, the flags e and w of s, and whatever is not known, are not plain.
func sedIsPlain(text string) bool {
	p := sedProgram{text}
	for {
		p.text = strings.TrimLeft(p.text, " \t\n;}")
		if p.text == "" {
			return true
		}
		if p.text[0] == '#' || !p.addresses() || !p.command() {
			return false
		}
	}
}

type sedProgram struct{ text string }

func (p *sedProgram) blanks() { p.text = strings.TrimLeft(p.text, " \t") }

func (p *sedProgram) addresses() bool {
	for range 2 {
		p.blanks()
		if p.text == "" {
			return false
		}
		switch c := p.text[0]; {
		case c >= '0' && c <= '9', c == '$', c == '+', c == '~':
			p.text = strings.TrimLeft(p.text, "0123456789$+~")
		case c == '/':
			if !p.until('/', 1) {
				return false
			}
			p.text = strings.TrimLeft(p.text, "IM")
		case c == '\\':
			if len(p.text) < 3 || !p.until(p.text[1], 2) {
				return false
			}
			p.text = strings.TrimLeft(p.text, "IM")
		}
		p.blanks()
		if !strings.HasPrefix(p.text, ",") {
			break
		}
		p.text = p.text[1:]
	}
	p.blanks()
	p.text = strings.TrimLeft(p.text, "! \t")
	return p.text != ""
}

// until skips from after the first skip bytes to behind the next delim that no backslash precedes.
func (p *sedProgram) until(delim byte, skip int) bool {
	if delim == '\n' || delim == '\\' {
		return false
	}
	inSet := false
	for i := skip; i < len(p.text); i++ {
		switch c := p.text[i]; {
		case c == '\\':
			i++
		case c == '[' && delim != '[':
			// In a set the delimiter may or may not count, by the sed: then nobody can tell.
			inSet = true
		case c == ']':
			inSet = false
		case c == delim && inSet:
			return false
		case c == delim:
			p.text = p.text[i+1:]
			return true
		}
	}
	return false
}

func (p *sedProgram) command() bool {
	c := p.text[0]
	switch {
	case c == '{':
		p.text = p.text[1:]
		return true
	case strings.IndexByte("pdDgGhHnNxPl=zF", c) >= 0:
		p.text = p.text[1:]
		return p.ends()
	case c == 'q' || c == 'Q':
		p.text = strings.TrimLeft(p.text[1:], " 0123456789")
		return p.ends()
	case c == 's':
		return len(p.text) > 3 && p.substitute()
	case c == 'y':
		if len(p.text) < 4 {
			return false
		}
		delim := p.text[1]
		return p.until(delim, 2) && p.untilNext(delim) && p.ends()
	}
	return false
}

func (p *sedProgram) substitute() bool {
	delim := p.text[1]
	if !p.until(delim, 2) || !p.untilNext(delim) {
		return false
	}
	p.text = strings.TrimLeft(p.text, "gpiIM0123456789")
	return p.ends()
}

// untilNext skips the second part, in which a bracket is a bracket.
func (p *sedProgram) untilNext(delim byte) bool {
	for i := 0; i < len(p.text); i++ {
		switch p.text[i] {
		case '\\':
			i++
		case delim:
			p.text = p.text[i+1:]
			return true
		}
	}
	return false
}

func (p *sedProgram) ends() bool {
	p.blanks()
	return p.text == "" || strings.IndexByte(";\n}", p.text[0]) >= 0
}

// awkIsPlain reports whether a program for awk neither runs nor writes nor loads anything.
func awkIsPlain(text string) bool {
	code, ok := awkCode(text)
	if !ok {
		return false
	}
	for _, word := range []string{"system", "getline", "close", "fflush", "@", "|&", "extension", "printf >", "include", "ENVIRON", "PROCINFO"} {
		if strings.Contains(code, word) {
			return false
		}
	}
	if strings.Contains(strings.ReplaceAll(code, "||", ""), "|") {
		return false
	}
	for rest := code; ; {
		i := strings.Index(rest, "print")
		if i < 0 {
			return true
		}
		rest = rest[i+len("print"):]
		end := strings.IndexAny(rest, ";}\n")
		if end < 0 {
			end = len(rest)
		}
		if strings.Contains(rest[:end], ">") {
			return false
		}
	}
}

// awkCode takes strings and regular expressions away. ok is false when it cannot be told where one ends.
func awkCode(text string) (string, bool) {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case c == '"', c == '/' && beginsPattern(b.String()):
			end := closing(text[i+1:], c)
			if end < 0 {
				return "", false
			}
			i += end + 1
			b.WriteString(`""`)
		case c == '#', c == '\\':
			return "", false // rare, and read differently by different awks
		default:
			b.WriteByte(c)
		}
	}
	return b.String(), true
}

// beginsPattern reports whether a slash behind this code begins a regular expression; else it divides.
func beginsPattern(code string) bool {
	code = strings.TrimRight(code, " \t")
	return code == "" || strings.IndexByte("(,~!&|{};\n?:=", code[len(code)-1]) >= 0
}

// closing finds the end of a string or a regular expression; -1 when there is none, or when a bracket
// makes it uncertain.
func closing(text string, delim byte) int {
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\':
			i++
		case c == '\n':
			return -1
		case c == delim:
			return i
		case c == '[' && delim == '/':
			set := strings.IndexByte(text[i:], ']')
			if set < 0 || strings.ContainsAny(text[i:i+set], `/\`) {
				return -1
			}
		}
	}
	return -1
}
