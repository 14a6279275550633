package gitignore

import "strings"

// part matches one name of a path. A deep part is a ** that matches any number of names; it has no
// tokens.
type part struct {
	deep   bool
	tokens []token
}

// token matches one byte, or with star any number of them, also none.
type token struct {
	star bool
	// set has the bytes that match; nil means just c.
	set *[256]bool
	c   byte
}

// matches reports whether a token without star matches a byte.
func (t *token) matches(c byte) bool {
	if t.set != nil {
		return t.set[c]
	}
	return t.c == c
}

// compile parses a pattern into its names; ok is false if it can match nothing, such as a [ without
// its end or a \ at the end. Several stars in a row become one token, which keeps the time of a
// match bounded. Only a name of stars alone is deep: the ** in a**b means the same as one *.
func compile(text string) (parts []part, ok bool) {
	var now part
	// literal is true if the present name is more than stars.
	literal := false
	// stars is the number of stars of the present name.
	stars := 0
	// end closes the present name at a slash or at the end of the pattern.
	end := func() {
		if !literal && stars >= 2 {
			now = part{deep: true}
		}
		parts = append(parts, now)
		now, literal, stars = part{}, false, 0
	}
	for i := 0; i < len(text); i++ {
		switch c := text[i]; c {
		case '/':
			end()
			continue
		case '*':
			stars++
			if n := len(now.tokens); n == 0 || !now.tokens[n-1].star {
				now.tokens = append(now.tokens, token{star: true})
			}
			continue
		case '?':
			now.tokens = append(now.tokens, token{set: &anyByte})
		case '[':
			set, next, closed := class(text, i+1)
			if !closed {
				return nil, false
			}
			now.tokens = append(now.tokens, token{set: set})
			// The loop adds 1 to get behind the ].
			i = next - 1
		case '\\':
			if i++; i == len(text) {
				return nil, false
			}
			if text[i] == '/' {
				// Before a slash with a backslash git's ** stands for at least one name.
				if end(); parts[len(parts)-1].deep {
					parts = append(parts, part{tokens: []token{{star: true}}})
				}
				continue
			}
			now.tokens = append(now.tokens, token{c: text[i]})
		default:
			now.tokens = append(now.tokens, token{c: c})
		}
		literal = true
	}
	end()
	return parts, true
}

// anyByte is the set that ? matches. It must not be written to.
var anyByte = func() (set [256]bool) {
	for c := range set {
		set[c] = c != '/'
	}
	return set
}()

// class parses a set of bytes from the position after its [. next is the position after its ]. A ]
// right at the beginning is a member of the set. No set has the slash, even if it is inverted: * ?
// and [ match within one name only. closed is false if there is no ].
func class(text string, i int) (set *[256]bool, next int, closed bool) {
	set = new([256]bool)
	not := i < len(text) && (text[i] == '!' || text[i] == '^')
	if not {
		i++
	}
	// last is the byte before, with which a range may begin; -1 if there is none.
	last := -1
	for first := true; i < len(text); first = false {
		if text[i] == ']' && !first {
			for b := range set {
				set[b] = set[b] != not && b != '/'
			}
			return set, i + 1, true
		}
		var ok bool
		if i, last, ok = element(set, text, i, last); !ok {
			break
		}
	}
	return nil, 0, false
}

// element adds a byte, a range or a named class to a set. It returns the next position and the byte
// with which a range may begin (-1: none). ok is false for an incomplete or unknown element; the
// whole pattern then matches nothing, as in git. A range that ends before its beginning adds
// nothing.
func element(set *[256]bool, text string, i, last int) (next, now int, ok bool) {
	// literal returns the byte at i, or after a backslash at i the next one.
	literal := func(i int) (c byte, next int, ok bool) {
		if i < len(text) && text[i] == '\\' {
			i++
		}
		if i >= len(text) {
			return 0, 0, false
		}
		return text[i], i + 1, true
	}
	switch c := text[i]; {
	// A - at the beginning, at the end or after a range is an ordinary byte.
	case c == '-' && last >= 0 && i+1 < len(text) && text[i+1] != ']':
		to, next, ok := literal(i + 1)
		for b := last; b <= int(to); b++ {
			set[b] = true
		}
		return next, -1, ok
	case c == '[' && i+1 < len(text) && text[i+1] == ':':
		has, known, end := named(text, i+2)
		// Without :] the [ is an ordinary byte.
		if end < 0 {
			set['['] = true
			return i + 1, '[', true
		}
		for b := range set {
			set[b] = set[b] || known && has(byte(b))
		}
		return end + 1, -1, known
	}
	c, next, ok := literal(i)
	set[c] = true
	return next, int(c), ok
}

// named parses the name of a class such as alpha, from the position after its [:. end is the
// position of its ]; it is negative if there is no :]. known is false for an unknown name.
func named(text string, i int) (has func(byte) bool, known bool, end int) {
	n := strings.IndexByte(text[i:], ']')
	if n < 1 || text[i+n-1] != ':' {
		return nil, false, -1
	}
	has, known = classes[text[i:i+n-1]]
	return has, known, i + n
}

// between returns a predicate for the bytes of a range.
func between(from, to byte) func(byte) bool { return func(c byte) bool { return from <= c && c <= to } }

// either returns a predicate that is true if one of all is.
func either(all ...func(byte) bool) func(byte) bool {
	return func(c byte) bool {
		for _, has := range all {
			if has(c) {
				return true
			}
		}
		return false
	}
}

// classes are the named classes of ASCII. The map must not be written to.
var classes = map[string]func(byte) bool{
	"lower":  between('a', 'z'),
	"upper":  between('A', 'Z'),
	"digit":  between('0', '9'),
	"alpha":  either(between('a', 'z'), between('A', 'Z')),
	"alnum":  either(between('a', 'z'), between('A', 'Z'), between('0', '9')),
	"xdigit": either(between('a', 'f'), between('A', 'F'), between('0', '9')),
	"blank":  func(c byte) bool { return c == ' ' || c == '\t' },
	"space":  func(c byte) bool { return strings.IndexByte(" \t\n\v\f\r", c) >= 0 },
	"cntrl":  either(between(0, 31), between(127, 127)),
	"print":  between(32, 126),
	"graph":  between(33, 126),
	"punct":  either(between(33, 47), between(58, 64), between(91, 96), between(123, 126)),
}

// matchPath matches a path against the parts: ** matches any number of names, at the end at least
// one. parts must not be empty and is not changed.
func matchPath(parts []part, path string) bool {
	names := strings.Split(path, "/")
	if parts[len(parts)-1].deep && len(parts) > 1 {
		// a/** matches everything in a, but not a itself: a part for one name goes before the **.
		// The slice is cut to its length, so that append copies it; patterns are shared by
		// goroutines.
		return matchNames(append(parts[:len(parts)-1:len(parts)-1], part{tokens: []token{{star: true}}}, part{deep: true}), names)
	}
	return matchNames(parts, names)
}

// matchNames matches names with parts, of which the deep ones stand for any number of names.
func matchNames(parts []part, names []string) bool {
	return matchAll(parts, len(names), func(p *part) bool { return p.deep }, func(p *part, n int) bool { return matchName(p.tokens, names[n]) })
}

// matchName matches the bytes of one name with tokens, of which the stars stand for any number.
func matchName(tokens []token, name string) bool {
	return matchAll(tokens, len(name), func(t *token) bool { return t.star }, func(t *token, n int) bool { return t.matches(name[n]) })
}

// matchAll matches n items with a pattern from left to right and, when one does not fit, backtracks
// only to the last element that stands for any number of items. That is enough, because everything
// before it has been matched as early as possible; it also makes the time quadratic at most.
func matchAll[T any](pattern []T, n int, any func(*T) bool, fits func(*T, int) bool) bool {
	// p and i are the next element and item. back is the last element for any number, -1 if there
	// was none; from is the first item that it does not cover yet.
	p, i, back, from := 0, 0, -1, 0
	for i < n {
		switch {
		case p < len(pattern) && any(&pattern[p]):
			back, from = p, i
			p++
		case p < len(pattern) && fits(&pattern[p], i):
			p, i = p+1, i+1
		// The last one takes one more item, and the elements after it start again.
		case back >= 0:
			from++
			p, i = back+1, from
		default:
			return false
		}
	}
	for p < len(pattern) && any(&pattern[p]) {
		p++
	}
	return p == len(pattern)
}
