package permission

import "symbio/security/permission/shell"

// mayMatch reports whether some text is meant by both a pattern of the shell, with the marks of
// shell.Word, and a pattern with *. It errs on the side of yes, and then only for texts with a dot in
// front: the shell's * leaves those out.
func mayMatch(word, pattern string) bool {
	w, p := []rune(word), []rune(pattern)
	// reach[j] says that what is left of w can match p from j on; it is filled from the end.
	next := make([]bool, len(p)+1)
	now := make([]bool, len(p)+1)
	next[len(p)] = true
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

// step says whether what is left of w from i on can match what is left of p from j on. next is the answer for i+1, now
// that for i as far as it is known: beyond j.
func step(w, p []rune, i, j int, next, now []bool) bool {
	if j == len(p) {
		return (w[i] == shell.Any || w[i] == shell.Below || w[i] == shell.AnyName) && next[j]
	}
	star := p[j] == '*'
	if star && now[j+1] {
		return true // * is nothing
	}
	name := p[j] != '/' && !hidden(w, i, p, j) // what a pattern for a part of a name stands for
	switch w[i] {
	case shell.Any, shell.Below:
		return next[j] || !star && now[j+1]
	case shell.AnyName:
		return next[j] || !star && name && now[j+1]
	case shell.AnyRune:
		return star && next[j] || !star && name && next[j+1]
	}
	return star && next[j] || p[j] == w[i] && next[j+1]
}

// hidden: a shell's pattern at the beginning of a name does not stand for a dot.
func hidden(w []rune, i int, p []rune, j int) bool {
	return p[j] == '.' && (i == 0 || w[i-1] == '/') && (j == 0 || p[j-1] == '/')
}
