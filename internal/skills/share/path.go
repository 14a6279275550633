package share

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"symbio/internal/security/filename"
	"symbio/internal/security/visible"
)

const (
	// maxPath is in bytes. It leaves room for the store's own directory where a path may have 260
	// characters, as on Windows.
	maxPath = 200
	// maxDeep is how many names a path may have.
	maxDeep = 8
)

// checkPath returns ErrPath unless path means the same file on every operating system (package
// filename).
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
// are hidden.
func checkName(name string) string {
	if strings.HasPrefix(name, ".") {
		return "a name in it begins with a dot"
	}
	return filename.Check(name)
}

// checkTogether returns ErrPath if two paths are one file on some system, or a file is also a
// directory.
func checkTogether(files []File) error {
	var names filename.Set
	for _, f := range files {
		if other := names.Add(f.Path); other != "" {
			return fmt.Errorf("%w: %q and %q are one file on some system", ErrPath, clip(other), clip(f.Path))
		}
	}
	return nil
}

// clip limits what a message quotes of another node's text, and removes invisible characters.
func clip(s string) string {
	const most = 80
	return visible.Truncate(s, most)
}
