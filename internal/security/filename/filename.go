// Package filename says which names mean the same file on every operating system. The sender's system decides nothing: a
// file that is written on Linux may arrive on Windows, where "aux" is a device and "a:b" a stream, or on a file system
// where README and Readme are one.
//
// It looks at no file. Names are UTF-8, of paths with slashes.
package filename

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"

	"symbio/internal/security/visible"
)

// Check returns what is wrong with one name of a path, such as "a name in it is empty"; "" = nothing. It refuses "." and
// "..", and names whose end some file systems drop. Hidden names, such as ".profile", are right.
func Check(name string) string {
	switch {
	case name == "":
		return "a name in it is empty"
	case strings.HasSuffix(name, ".") || strings.HasSuffix(name, " ") || name[0] == ' ':
		return "a name in it begins or ends with what some systems drop"
	}
	for _, c := range name {
		if strings.ContainsRune(`\:*?"<>|`, c) {
			return fmt.Sprintf("%q has a meaning of its own on some system", c)
		}
		if visible.Hidden(c) || c == utf8.RuneError || unicode.IsSpace(c) && c != ' ' {
			return fmt.Sprintf("it has the character %U, which cannot be seen", c)
		}
	}
	// Windows ignores the extension and blanks before it: "aux .txt" is the device, too.
	base, _, _ := strings.Cut(strings.ToLower(name), ".")
	base = strings.TrimRight(base, " ")
	if device[base] {
		return "a name in it is a device on Windows"
	}
	return ""
}

// device has the names that mean a device on Windows, with any extension.
var device = devices()

// devices returns the reserved names: consoles, and the serial and printer ports with their
// superscript forms, which Windows also reserves.
func devices() map[string]bool {
	all := map[string]bool{"con": true, "prn": true, "aux": true, "nul": true, "conin$": true, "conout$": true}
	for _, port := range []string{"com", "lpt"} {
		for _, n := range []string{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "¹", "²", "³"} {
			all[port+n] = true
		}
	}
	return all
}

// Fold returns the same text for names that some file system treats as equal: it folds case and
// normalizes Unicode. Folding can undo the normalization, so that comes again.
func Fold(path string) string { return norm.NFKC.String(cases.Fold().String(norm.NFKC.String(path))) }

// Set are paths that are different files on every system. The zero value is empty. One goroutine uses it.
type Set struct {
	// spelled has the first spelling of each folded path and of each directory above one.
	spelled map[string]string
	// files and dirs are the folded files, and the directories as they are spelled.
	files, dirs map[string]bool
}

// Add adds a file. It returns the path in the set that is the same file on some system, or is a file where path needs a
// directory or the other way round; "" if there is none. It compares every directory of path, so that a/x and A/y
// are found as well.
func (s *Set) Add(path string) (other string) {
	if s.spelled == nil {
		*s = Set{map[string]string{}, map[string]bool{}, map[string]bool{}}
	}
	for i := 0; i <= len(path); i++ {
		if i < len(path) && (path[i] != '/' || s.dirs[path[:i]]) {
			continue
		}
		part, key := path[:i], Fold(path[:i])
		if first, ok := s.spelled[key]; ok && (first != part || s.files[key] || i == len(path)) {
			return first
		}
		s.spelled[key] = part
		if s.files[key] = i == len(path); i < len(path) {
			s.dirs[part] = true
		}
	}
	return ""
}
