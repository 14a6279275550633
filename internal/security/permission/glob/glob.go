// Package glob matches texts against the patterns of permission rules, in which * stands for any characters.
package glob

import (
	"runtime"
	"strings"
)

// Match reports whether s matches pattern. Each * stands for any run of any characters, newlines
// and slashes included. Every other character stands for itself. It compares bytes, allocates
// nothing, and takes at most the product of the lengths, so a hostile pattern cannot hold up a
// decision.
func Match(pattern, s string) bool {
	// star is the last * that was passed, and back where in s it stopped to match. On a mismatch
	// only that * has to take one byte more: what the ones before it took stays right.
	star, back := -1, 0
	p, i := 0, 0
	for i < len(s) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, back = p, i
			p++
		case p < len(pattern) && pattern[p] == s[i]:
			p++
			i++
		case star >= 0:
			back++
			p, i = star+1, back
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}

// FoldsCase says that the usual file systems of this system ignore case, so that a deny rule has
// to, too. Allow rules never fold.
const FoldsCase = runtime.GOOS == "darwin" || runtime.GOOS == "windows"

// Fold returns s in lower case where FoldsCase is true, else s. Both sides of a comparison have
// to be folded.
func Fold(s string) string {
	if FoldsCase {
		return strings.ToLower(s)
	}
	return s
}
