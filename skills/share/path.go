package share

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"

	"symbio/security/visible"
)

const (
	// maxPath is in bytes. It leaves room for the store's own directory where a path may have 260
	// characters, as on Windows.
	maxPath = 200
	// maxDeep is how many names a path may have.
	maxDeep = 8
)

// checkPath returns ErrPath unless path means the same file on every operating system. The sender's
// system decides nothing: a skill that is written on Linux may be unpacked on Windows, where "aux"
// is a device and "a:b" a stream.
func checkPath(path string) error {
	bad := func(why string) error { return fmt.Errorf("%w: %q: %s", ErrPath, clip(path), why) }
	switch {
	case len(path) > maxPath:
		return bad(fmt.Sprintf("it has more than %d bytes", maxPath))
	case !utf8.ValidString(path):
		return bad("it is not UTF-8")
	}
	parts := strings.Split(path, "/")
	if len(parts) > maxDeep {
		return bad(fmt.Sprintf("it is more than %d names deep", maxDeep))
	}
	for _, part := range parts {
		if why := checkName(part); why != "" {
			return bad(why)
		}
	}
	return nil
}

// checkName returns what is wrong with one name of a path; "" = nothing. It also refuses names that
// are hidden, and names whose end some file systems drop.
func checkName(name string) string {
	switch {
	case name == "":
		return "a name in it is empty"
	case name[0] == '.':
		return "a name in it begins with a dot"
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

// foldName returns the same text for names that some file system treats as equal: it folds case and
// normalizes Unicode. Folding can undo the normalization, so that comes again.
func foldName(path string) string {
	return norm.NFKC.String(cases.Fold().String(norm.NFKC.String(path)))
}

// checkTogether returns ErrPath if two paths are one file on some system, or a file is also a
// directory. It compares every directory of every path, so that a/x and A/y are found as well.
func checkTogether(files []File) error {
	// spelled has the first spelling of each folded path, isFile whether it is a file.
	spelled := map[string]string{}
	isFile := map[string]bool{}
	for _, f := range files {
		for i := 0; i <= len(f.Path); i++ {
			if i < len(f.Path) && f.Path[i] != '/' {
				continue
			}
			path, key := f.Path[:i], foldName(f.Path[:i])
			if other, ok := spelled[key]; ok && (other != path || isFile[key] || i == len(f.Path)) {
				return fmt.Errorf("%w: %q and %q are one file on some system", ErrPath, clip(other), clip(f.Path))
			}
			spelled[key] = path
			isFile[key] = i == len(f.Path)
		}
	}
	return nil
}

// clip limits what a message quotes of another node's text, and removes invisible characters.
func clip(s string) string {
	const most = 80
	return visible.Truncate(s, most)
}
