package gitignore

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"symbio/internal/security/lazyregexp"
)

// A pattern is matched as a regular expression over text in which each byte is the character of that
// number, because git compares bytes, and a slash is a character that no byte is: so no class and
// no range can have it.
const (
	slash   = `\x{100}`
	anyByte = `[^\x{100}]`
	anyName = anyByte + `*`
)

// encode returns path in the form that the expressions match.
func encode(path string) string {
	var b strings.Builder
	for i := range len(path) {
		if path[i] == '/' {
			b.WriteRune(0x100)
		} else {
			b.WriteRune(rune(path[i]))
		}
	}
	return b.String()
}

// compile returns the expression of a pattern without its prefix; false if it can match nothing: it
// ends inside a class or behind a backslash.
func compile(text string) (*regexp.Regexp, bool) {
	var all, name strings.Builder // what is done, and the name after it
	begin := 0                    // of the name in text
	for i := 0; i < len(text); i++ {
		deep := len(text[begin:i]) > 1 && strings.Trim(text[begin:i], "*") == ""
		switch c := text[i]; {
		case c == '/' || c == '\\' && strings.HasPrefix(text[i+1:], "/"):
			if deep { // any number of names, also none
				all.WriteString("(?:" + anyName + slash + ")*")
			}
			if !deep || c == '\\' { // behind a backslash ** is a name like others, too
				all.WriteString(name.String() + slash)
			}
			name.Reset()
			if c == '\\' {
				i++
			}
			begin = i + 1
		case c == '*':
			if !strings.HasSuffix(name.String(), anyName) {
				name.WriteString(anyName)
			}
		case c == '?':
			name.WriteString(anyByte)
		case c == '[':
			class, next := classOf(text, i+1)
			if next < 0 {
				return nil, false
			}
			name.WriteString(class)
			i = next - 1
		case c == '\\' && i+1 == len(text):
			return nil, false
		case c == '\\':
			i++
			fallthrough
		default:
			name.WriteString(character(text[i]))
		}
	}
	if last := text[begin:]; len(last) > 1 && strings.Trim(last, "*") == "" {
		all.WriteString("(?s:.*)")
	} else {
		all.WriteString(name.String())
	}
	re, err := regexp.Compile("^(?:" + all.String() + ")$")
	return re, err == nil
}

// character returns the expression of one byte, also inside a class.
func character(c byte) string { return fmt.Sprintf(`\x{%x}`, c) }

// namedClass matches a named class; classes are the names that git knows.
var (
	namedClass = lazyregexp.New(`^\[:([^]]*):\]`)
	classes    = strings.Fields("alnum alpha blank cntrl digit graph lower print punct space upper xdigit")
)

// classOf returns the expression of the class that begins at text[i], after the [, and the index
// after it; -1 if it is not closed or names an unknown class. A ] in first place is a member.
func classOf(text string, i int) (class string, next int) {
	class = "["
	if i < len(text) && (text[i] == '!' || text[i] == '^') {
		class, i = "[^"+slash, i+1
	}
	// literal returns the byte at i, which a backslash may precede.
	literal := func(i int) (c byte, next int) {
		if i < len(text) && text[i] == '\\' {
			i++
		}
		if i >= len(text) {
			return 0, -1
		}
		return text[i], i + 1
	}
	last := -1 // the byte before, where a range can begin
	for first := true; i >= 0 && i < len(text); first = false {
		var c byte
		switch {
		case text[i] == ']' && !first:
			return class + "]", i + 1
		case text[i] == '-' && last >= 0 && i+1 < len(text) && text[i+1] != ']':
			if c, i = literal(i + 1); last <= int(c) {
				class += character(byte(last)) + "-" + character(c)
			}
			last = -1
		case namedClass().MatchString(text[i:]):
			name := namedClass().FindStringSubmatch(text[i:])[1]
			if !slices.Contains(classes, name) {
				return "", -1
			}
			class, i, last = class+"[:"+name+":]", i+len("[::]")+len(name), -1
		default:
			if c, i = literal(i); i >= 0 {
				class, last = class+character(c), int(c)
			}
		}
	}
	return "", -1
}
