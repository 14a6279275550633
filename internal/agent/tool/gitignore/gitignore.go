package gitignore

import (
	"bytes"
	"regexp"
	"strings"
)

// Limits against hostile files. Both are far more than people write.
const (
	// maxPatterns limits the patterns of a file. Later ones are left out.
	maxPatterns = 10_000
	// maxPattern limits a line, in bytes. A longer one is left out: the time of a match grows with
	// it.
	maxPattern = 4096
)

// Patterns are the patterns of one file. They may be used from many goroutines.
type Patterns struct {
	// base is the directory of the file, with slashes; "" is the top. Patterns apply below it only.
	base string
	// list has the patterns in the order of the lines.
	list []pattern
}

// Stack is the pattern files that apply in a directory, the weakest first: .git/info/exclude, then
// the .gitignore files from the top down.
type Stack []*Patterns

// Parse parses a file that lies in the directory base, whose name is relative to the top, with
// slashes; "" is the top. Lines that are not patterns are skipped, so there is no error. A byte
// order mark and CR LF are accepted, as by git.
func Parse(base string, text []byte) *Patterns {
	p := &Patterns{base: base}
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	for line := range bytes.SplitSeq(text, []byte("\n")) {
		if one, ok := read(string(bytes.TrimSuffix(line, []byte("\r")))); ok && len(p.list) < maxPatterns {
			p.list = append(p.list, one)
		}
	}
	return p
}

// Ignored reports whether an entry is ignored. name is relative to the top, with slashes. dir is
// whether it is a directory: a pattern with a slash at its end matches only those. The directory
// that contains the entry must not be ignored itself; the caller has to check that on the way down.
func (s Stack) Ignored(name string, dir bool) bool {
	// The strongest file comes last, and the first one with a matching pattern decides.
	for i := len(s) - 1; i >= 0; i-- {
		if ignored, said := s[i].match(name, dir); said {
			return ignored
		}
	}
	return false
}

// match returns the decision of the last pattern that matches; said is false if none does. Entries
// outside of base never match.
func (p *Patterns) match(name string, dir bool) (ignored, said bool) {
	rel := name
	if p.base != "" {
		var below bool
		if rel, below = strings.CutPrefix(name, p.base+"/"); !below {
			return false, false
		}
	}
	for i := len(p.list) - 1; i >= 0; i-- {
		if one := &p.list[i]; (dir || !one.onlyDirs) && one.matches(rel) {
			return !one.negated, true
		}
	}
	return false, false
}

// pattern is one line of a file. The frequent forms (a plain name, *.suffix) are matched by
// comparing texts: literal is set for the first, and rest is nil for the second.
type pattern struct {
	// negated is true for a line with ! in front, which includes again what earlier lines exclude.
	negated bool
	// onlyDirs is true for a line with a slash at its end.
	onlyDirs bool
	// anyDepth is true for a line without another slash. It is matched against the last name of a
	// path only, so it applies at any depth.
	anyDepth bool
	// literal is the whole path or name if nothing in it is special; else "".
	literal string
	// suffix is the text after the * if the line is a * and then nothing special.
	suffix string
	// prefix is the text before the first special character of a line with a slash. rest matches what
	// follows, as encode writes it; nil if literal or suffix is used.
	prefix string
	rest   *regexp.Regexp
}

// read parses one line, without its end; ok is false if it has no pattern: it is empty, a comment,
// too long, or can match nothing. The order of the steps matters: trailing spaces first, then !,
// then the slash at the end, and only then the question whether another slash is left.
func read(line string) (p pattern, ok bool) {
	if strings.HasPrefix(line, "#") || len(line) > maxPattern {
		return p, false
	}
	line = trim(line)
	line, p.negated = strings.CutPrefix(line, "!")
	line, p.onlyDirs = strings.CutSuffix(line, "/")
	p.anyDepth = !strings.Contains(line, "/")
	line = strings.TrimPrefix(line, "/")
	if line == "" {
		return p, false
	}
	if !strings.ContainsAny(line, `*?[\`) {
		p.literal = line
		return p, true
	}
	if end, star := strings.CutPrefix(line, "*"); star && p.anyDepth && !strings.ContainsAny(end, `*?[\`) {
		p.suffix = end
		return p, true
	}
	if !p.anyDepth {
		// git compares the part before the first special character as text and matches the rest on
		// its own. So the ** in a**/b is at the beginning of the rest and means the same as in
		// **/b.
		n := strings.IndexAny(line, `*?[\`)
		p.prefix, line = line[:n], line[n:]
	}
	p.rest, ok = compile(line)
	return p, ok
}

// trim removes trailing spaces, except one after a backslash. The backslash stays; compile removes
// it.
func trim(line string) string {
	end := 0
	for i := 0; i < len(line); i++ {
		switch line[i] {
		case ' ':
			continue
		case '\\':
			i++
		}
		end = min(i+1, len(line))
	}
	return line[:end]
}

// matches reports whether the pattern matches a path that is relative to the directory of its file.
// It does not look at onlyDirs and negated.
func (p *pattern) matches(name string) bool {
	if p.anyDepth {
		name = name[strings.LastIndexByte(name, '/')+1:]
	}
	switch {
	case p.literal != "":
		return name == p.literal
	case p.rest == nil:
		return strings.HasSuffix(name, p.suffix)
	}
	rest, ok := strings.CutPrefix(name, p.prefix)
	return ok && p.rest.MatchString(encode(rest))
}
