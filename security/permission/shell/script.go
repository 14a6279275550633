package shell

import (
	"regexp"
	"strings"
	"unicode"
)

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

// sedProgram is the rest of a program for sed that is still to be read. Its methods return
// false for whatever is not on the list of harmless commands.
type sedProgram struct{ text string }

// blanks skips blanks, which may stand before and between addresses.
func (p *sedProgram) blanks() { p.text = strings.TrimLeft(p.text, " \t") }

// addresses skips the lines or patterns that a command applies to.
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

// until skips to behind the next delimiter that no backslash precedes, beginning after skip
// bytes. It returns false for a delimiter inside a set of characters, of which different seds
// find different ends.
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
			// Inside a set the delimiter counts in some seds and not in others.
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

// command reads one command with its arguments. w, W, r, R and e touch files or run programs,
// and are refused.
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

// substitute reads an s command with any delimiter. Its flags e and w run a command and write
// a file, and are refused.
func (p *sedProgram) substitute() bool {
	delim := p.text[1]
	if !p.until(delim, 2) || !p.untilNext(delim) {
		return false
	}
	p.text = strings.TrimLeft(p.text, "gpiIM0123456789")
	return p.ends()
}

// untilNext skips the replacement, in which a bracket does not begin a set of characters.
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

// ends reports whether a command ends here, so that nothing unknown follows it.
func (p *sedProgram) ends() bool {
	p.blanks()
	return p.text == "" || strings.IndexByte(";\n}", p.text[0]) >= 0
}

// awkToken is what a program for awk may consist of beside regular expressions and divisions: no comment, no
// backslash outside of a string, no @, no single & or |, which awks read differently or which run something.
var awkToken = regexp.MustCompile(`^(?:[ \t]+|"(?:[^"\\\n]|\\[^\n])*"|[0-9.]+|[A-Za-z_][A-Za-z0-9_]*|&&|\|\||[-+*%^<>=!~?:$,;(){}[\]\n])`)

// awkRegexp is a regular expression of which all awks find the same end: sets are closed, and hold no / or backslash.
var awkRegexp = regexp.MustCompile(`^/(?:[^][\\/\n]|\\[^\n]|\[\^?(?:[^][\\/\n]|\[:[a-z]+:\])+\])+/`)

// awkAssigns matches an assignment, by which a special variable could be set.
var awkAssigns = regexp.MustCompile(`^[ \t]*[-+*%^]?=[^=]`)

// awkCalls are keywords and functions, which may stand before a parenthesis; awkSpecial are the variables that the
// awks know themselves and that read or write nothing.
var (
	awkCalls   = set("BEGIN END if else while for do in next exit break continue delete print printf length substr index split sub gsub gensub match sprintf tolower toupper int sqrt exp log sin cos atan2 rand srand strftime systime mktime strtonum")
	awkSpecial = set("NR NF FNR FS OFS ORS RS RT FILENAME SUBSEP RSTART RLENGTH IGNORECASE CONVFMT OFMT BEGIN END")
)

// awkIsPlain reports whether a program for awk consists only of constructs that neither run
// nor write nor load anything, in gawk, mawk and the BSD awk alike. A false no costs a
// question, a false yes would run a command.
func awkIsPlain(text string) bool {
	p := awkProgram{text: text, before: ";", assigned: map[string]bool{}}
	for p.text != "" {
		token := p.token()
		p.text = p.text[len(token):]
		if token == "" || !p.take(token) {
			return false
		}
	}
	return true
}

// awkProgram is what is left of a program for awk, and what matters of the part before.
type awkProgram struct {
	text     string
	before   string // the last token but blanks
	operand  bool   // it is a number or a variable that was assigned: a / behind it divides
	newline  bool   // a new line has begun behind it
	prints   bool   // a > is a redirection: it stands behind print, up to the next ; or }
	assigned map[string]bool
}

// token is what the text begins with; "" is nothing that is known here. A / begins a regular expression behind what no
// awk divides, and divides behind an operand; anywhere else it must be the last one, so that an awk that takes it for a
// regular expression finds no end.
func (p *awkProgram) token() string {
	if p.text[0] != '/' {
		return awkToken.FindString(p.text)
	}
	switch {
	case strings.Contains(" { } ( , ; ~ ! && || ", " "+p.before+" "):
		return awkRegexp.FindString(p.text)
	case p.operand && !p.newline, strings.LastIndexByte(p.text, '/') == 0:
		return "/"
	}
	return ""
}

// take notes a token. It returns false for what may run, write or load something.
func (p *awkProgram) take(token string) bool {
	switch c := token[0]; {
	case c == '\n':
		p.newline = true
		return true
	case c == ' ' || c == '\t':
		return true
	case c >= '0' && c <= '9' || c == '.':
		p.operand = true
		if p.text != "" && (p.text[0] == '_' || unicode.IsLetter(rune(p.text[0]))) {
			return false
		}
	case c == '_' || unicode.IsLetter(rune(c)):
		if !p.name(token) {
			return false
		}
	case c == '>' && p.prints:
		return false
	default:
		p.operand = c == ']'
		p.prints = p.prints && c != ';' && c != '}'
	}
	p.before, p.newline = token, false
	return true
}

// name notes a name. It returns false for functions that run or load something, such as system
// and getline.
func (p *awkProgram) name(name string) bool {
	called := strings.HasPrefix(strings.TrimLeft(p.text, " \t\n"), "(")
	if name == "getline" || called && !awkCalls[name] || len(name) > 1 && name == strings.ToUpper(name) && !awkSpecial[name] {
		return false
	}
	p.assigned[name] = p.assigned[name] || awkAssigns.MatchString(p.text)
	p.operand = p.assigned[name] || awkSpecial[name] && name != "BEGIN" && name != "END"
	p.prints = p.prints || strings.HasPrefix(name, "print")
	return true
}
