package file

import (
	"os"
	"path"
	"path/filepath"
	"strings"

	"symbio/internal/security/protected"
)

// protectedNames are the names, in lower case, of files that other programs of the user execute
// or obey. They count at any depth. HEAD is one because a directory with a HEAD
// file becomes a git directory, whose hooks git runs. They are package protected's, so that rules
// and the sandbox agree.
var protectedNames = func() []string {
	names := append(protected.Names(), "HEAD", ".local/state/symbio")
	for i, name := range names {
		names[i] = strings.ToLower(name)
	}
	return names
}()

// Protected returns the protected name that the path is, or leads through; "" if none. Besides
// the names of the table it finds .git itself, and the hooks and configuration of a bare
// repository, which has a HEAD file beside them. For that it reads the file system; the path
// itself need not exist.
func (at Location) Protected() string {
	// A link with a harmless name may lead to a protected one, and the other way round.
	for _, p := range [2]string{at.Lexical, at.Real} {
		if name := ProtectedIn(p + "/"); name != "" {
			return name
		}
		dir, base := path.Split(p)
		if under := strings.TrimSuffix(dir, "/hooks/"); under != dir {
			dir, base = under, "hooks"
		}
		switch base {
		case ".git":
			return base
		case "hooks", "config", "config.worktree":
			if _, err := os.Lstat(filepath.Join(filepath.FromSlash(dir), "HEAD")); err == nil {
				return base
			}
		}
	}
	return ""
}

// ProtectedIn returns the first protected name that stands between slashes in a text; "" if none. Case is ignored, since
// a file system may accept a name in any case.
func ProtectedIn(text string) string {
	text = strings.ToLower(text)
	for _, name := range protectedNames {
		if strings.Contains(text, "/"+name+"/") {
			return name
		}
	}
	return ""
}
