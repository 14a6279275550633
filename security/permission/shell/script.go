package shell

import (
	"regexp"
	"strings"
	"unicode"
)

// sedIsPlain reports whether a program for sed only edits what flows through it. It accepts a
// positive list of commands, so w, W, r, R, e, the flags e and w of s, comments, and whatever is
// not known are not plain. A false no costs a question, a false yes would let sed run a command
// or write a file.
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

// addresses skips the lines or patterns that a command applies to: none, one, or two with a comma
// between, and a ! behind them. A pattern may have any delimiter behind a backslash.
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
// bytes. It returns false if there is none, for delimiters that are special, and for a delimiter
// inside a set of characters: some seds end the pattern there and others do not, so the rest of
// the program would have two readings.
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

// command reads one command with its arguments. w, W, r, R and e touch files or run programs, and
// a, i and c take text to the end of the line; all of these are refused.
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
	// Both halves must end, and only known flags may follow: e runs the result as a command, w
	// writes it to a file.
	if !p.until(delim, 2) || !p.untilNext(delim) {
		return false
	}
	p.text = strings.TrimLeft(p.text, "gpiIM0123456789")
	return p.ends()
}

// untilNext skips the replacement of s or the second set of y, up to and with the delimiter. A
// bracket does not begin a set of characters there. It returns false if the delimiter is missing.
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

// ends reports whether a command ends here, by the end of the text, a newline, a ; or a }.
// Anything else would be read as its argument.
func (p *sedProgram) ends() bool {
	p.blanks()
	return p.text == "" || strings.IndexByte(";\n}", p.text[0]) >= 0
}

// awkToken matches one token that a program for awk may consist of, beside regular expressions
// and divisions. It matches no comment, no backslash outside of a string, no @, and no single &
// or |: awks read these differently, or they run something.
var awkToken = regexp.MustCompile(`^(?:[ \t]+|"(?:[^"\\\n]|\\[^\n])*"|[0-9.]+|[A-Za-z_][A-Za-z0-9_]*|&&|\|\||[-+*%^<>=!~?:$,;(){}[\]\n])`)

// awkRegexp matches a regular expression of which all awks find the same end: its sets are
// closed, and hold no slash and no backslash.
var awkRegexp = regexp.MustCompile(`^/(?:[^][\\/\n]|\\[^\n]|\[\^?(?:[^][\\/\n]|\[:[a-z]+:\])+\])+/`)

// awkAssigns matches what follows a name that is assigned to. A variable that was assigned is a
// number or a text, so a / behind it divides.
var awkAssigns = regexp.MustCompile(`^[ \t]*[-+*%^]?=[^=]`)

// awkCalls are keywords and functions, which may stand before a parenthesis; awkSpecial are the variables that the
// awks know themselves and that read or write nothing.
var (
	// awkCalls are the keywords and functions that may stand before a parenthesis. A function
	// that the program defines is not among them, nor are system, close and getline.
	awkCalls = set("BEGIN END if else while for do in next exit break continue delete print printf length substr index split sub gsub gensub match sprintf tolower toupper int sqrt exp log sin cos atan2 rand srand strftime systime mktime strtonum")
	// awkSpecial are names in upper case that read or write nothing by being used or set. Others,
	// such as ENVIRON, ARGV and PROCINFO, are refused.
	awkSpecial = set("NR NF FNR FS OFS ORS RS RT FILENAME SUBSEP RSTART RLENGTH IGNORECASE CONVFMT OFMT BEGIN END")
)

// awkIsPlain reports whether a program for awk consists only of constructs that neither run nor
// write nor load anything, in gawk, mawk and the BSD awk alike. It cuts the text into tokens and
// does not parse it, so what matters is that all awks cut it in the same way. A false no costs a
// question, a false yes would run a command.
func awkIsPlain(text string) bool {
	// At the beginning a pattern may stand, so a / begins a regular expression.
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

// awkProgram is what is left of a program for awk, and what matters of the part before. A / is
// the difficulty: it begins a regular expression or divides, and an awk that decides otherwise
// than this package would see another end of a string.
type awkProgram struct {
	text string
	// before is the last token that is not blank.
	before string
	// operand means that before is a number or a variable that was assigned: a / behind it
	// divides.
	operand bool
	// newline means that a newline stands behind before. There awks differ on what a / means.
	newline bool
	// prints is true behind print or printf, up to the next ; or }. A > there writes a file.
	prints bool
	// assigned are the names that were assigned to so far.
	assigned map[string]bool
}

// token returns the token that the text begins with; "" if it is none that is known here. A /
// begins a regular expression behind tokens after which no awk divides, and divides behind an
// operand. Anywhere else it must be the last / of the text, so that an awk that takes it for a
// regular expression finds no end and fails.
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

// take updates the state with a token that was cut off the text. It returns false for what may
// run, write or load something.
func (p *awkProgram) take(token string) bool {
	switch c := token[0]; {
	case c == '\n':
		p.newline = true
		return true
	case c == ' ' || c == '\t':
		return true
	case c >= '0' && c <= '9' || c == '.':
		p.operand = true
		// In 1system("x") some awks read the number and then the call.
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

// name updates the state with a name. It returns false for functions and variables that may run,
// read or load something, such as system, getline and ENVIRON. Functions of the program itself
// are refused, too, because a parenthesis behind an unknown name is.
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
