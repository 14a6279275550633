// Package glob matches texts against the patterns of permission rules, in which * stands for any characters.
package glob

import (
	"runtime"
	"strings"
)

// Match reports whether s matches pattern. Each * stands for any run of any characters, newlines and slashes
// included. Every other character stands for itself.
func Match(pattern, s string) bool {
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

// FoldsCase says that the usual file systems of this system ignore case, so that a deny rule has to, too.
const FoldsCase = runtime.GOOS == "darwin" || runtime.GOOS == "windows"

// Fold returns s in lower case where FoldsCase is true, else s.
func Fold(s string) string {
	if FoldsCase {
		return strings.ToLower(s)
	}
	return s
}
