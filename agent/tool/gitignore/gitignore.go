package gitignore

import (
	"bytes"
	"strings"
)

const (
	// maxPatterns and maxPattern are far more than people write. Lines beyond them are ignored, so
	// that a hostile file costs little time.
	maxPatterns = 10_000
	maxPattern  = 4096
)

// Patterns are the patterns of one file. They may be used from many goroutines.
type Patterns struct {
	base string // the directory of the file, with slashes; "" = the top
	list []pattern
}

// Stack is the pattern files that apply in a directory, the weakest first: .git/info/exclude, then
// the .gitignore files from the top down.
type Stack []*Patterns

// Parse parses a file that lies in the directory base, whose name is relative to the top, with
// slashes; "" is the top. Lines that are not patterns are skipped.
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

// Ignored reports whether an entry is ignored. name is relative to the top. The directory that
// contains the entry must not be ignored itself.
func (s Stack) Ignored(name string, dir bool) bool {
	for i := len(s) - 1; i >= 0; i-- {
		if ignored, said := s[i].match(name, dir); said {
			return ignored
		}
	}
	return false
}

// match returns the decision of the last pattern that matches; decided is false if none does.
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

// pattern is one line of a file.
type pattern struct {
	negated  bool // it takes back in what others leave out
	onlyDirs bool
	anyDepth bool   // it is held against the last name of a path
	literal  string // what it is, where it means nothing but itself
	suffix   string // what names end with, where it is * and then nothing special
	prefix   string // what paths begin with; parts are for the rest
	parts    []part
}

// read parses one line; ok is false if it has no pattern.
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
		// As git does it, so that the ** of a**/b is as the one of **/b.
		n := strings.IndexAny(line, `*?[\`)
		p.prefix, line = line[:n], line[n:]
	}
	p.parts, ok = compile(line)
	return p, ok
}

// trim removes trailing spaces, except one after a backslash.
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
func (p *pattern) matches(name string) bool {
	if p.anyDepth {
		name = name[strings.LastIndexByte(name, '/')+1:]
	}
	switch {
	case p.literal != "":
		return name == p.literal
	case p.parts == nil:
		return strings.HasSuffix(name, p.suffix)
	}
	rest, ok := strings.CutPrefix(name, p.prefix)
	return ok && matchPath(p.parts, rest)
}
