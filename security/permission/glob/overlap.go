package glob

import "symbio/security/permission/shell"

// MayMatch reports whether a shell word and a pattern with * can mean the same text. The word has
// the marks of shell.Word where only the shell knows the text. A wrong answer is always true, and
// only for names that begin with a dot, which the shell's * does not match.
//
// Both sides have wildcards, so it fills a table of all pairs of positions, one row at a time.
// Time is the product of the lengths, space the length of the pattern.
func MayMatch(word, pattern string) bool {
	w, p := []rune(word), []rune(pattern)
	// next[j] says that the rest of w can match p[j:]. Both are filled from the end.
	next := make([]bool, len(p)+1)
	now := make([]bool, len(p)+1)
	next[len(p)] = true
	// An empty rest of the word matches nothing but stars.
	for j := len(p) - 1; j >= 0 && p[j] == '*'; j-- {
		next[j] = true
	}
	for i := len(w) - 1; i >= 0; i-- {
		for j := len(p); j >= 0; j-- {
			now[j] = step(w, p, i, j, next, now)
		}
		next, now = now, next
	}
	return next[0]
}

// step reports whether w[i:] can match p[j:]. next has the results for i+1; now has those for i
// and every position after j. A mark may take one more character of the pattern and stay
// (now[j+1]), or end here (next[j]).
func step(w, p []rune, i, j int, next, now []bool) bool {
	if j == len(p) {
		return (w[i] == shell.Any || w[i] == shell.AnyName) && next[j]
	}
	star := p[j] == '*'
	if star && now[j+1] {
		return true // * is nothing
	}
	name := p[j] != '/' && !hidden(w, i, p, j) // what a pattern for a part of a name matches
	switch w[i] {
	case shell.Any:
		return next[j] || !star && now[j+1]
	case shell.AnyName:
		return next[j] || !star && name && now[j+1]
	case shell.AnyRune:
		return star && next[j] || !star && name && next[j+1]
	}
	return star && next[j] || p[j] == w[i] && next[j+1]
}

// hidden reports whether p[j] is a dot at the beginning of a name in both texts: no pattern of
// the shell matches that (POSIX; dotglob is not set).
func hidden(w []rune, i int, p []rune, j int) bool {
	return p[j] == '.' && (i == 0 || w[i-1] == '/') && (j == 0 || p[j-1] == '/')
}
