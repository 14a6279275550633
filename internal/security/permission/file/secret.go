package file

import (
	"os"
	"path/filepath"
	"strings"

	"symbio/internal/security/permission/glob"
	"symbio/internal/security/secret"
)

// homeDir returns the user's home in the form of Clean; "" if it is not known. It is read at each
// call, because tests and some programs change $HOME.
func homeDir() string {
	home, err := os.UserHomeDir()
	if err != nil || !filepath.IsAbs(home) {
		return ""
	}
	return Clean(home)
}

// Secret returns the name of the place with keys or passwords (package secret) that a location is
// or lies in; "" if none. Names of the system's places have no leading slash, names of the home
// are relative to it. Both names of the location count, and so does a home directory that is
// reached through a link.
func (l *Links) Secret(at Location) string {
	for _, name := range secret.System() {
		for _, path := range [2]string{at.Lexical, at.Real} {
			if _, ok := Below(name, path); ok {
				return name[1:]
			}
		}
	}
	home := homeDir()
	if home == "" {
		return ""
	}
	in := func(home, path string) string {
		below, ok := Below(home, path)
		if !ok {
			return ""
		}
		return secret.In(below)
	}
	for _, path := range [2]string{at.Lexical, at.Real} {
		if name := in(home, path); name != "" {
			return name
		}
	}
	// Nearly all names of the table begin with a dot, and most paths have none: this spares them the links of the home.
	if !strings.Contains(at.Real, "/.") {
		return ""
	}
	if real, ok := l.Follow(home); ok && real != home {
		return in(real, at.Real)
	}
	return ""
}

// SecretsBelow returns patterns for the places with keys or passwords below
// a directory, so that a walk from there leaves them out. allowed gets a name relative to the
// home, and returns true for one that a rule names; it is skipped. The patterns are folded. It
// returns nil if the home is not known.
func (l *Links) SecretsBelow(at Location, allowed func(name string) bool) (all []Pattern) {
	home := homeDir()
	if home == "" {
		return nil
	}
	// The walk may come to the home under its real name.
	homes := []string{home}
	if real, ok := l.Follow(home); ok && real != home {
		homes = append(homes, real)
	}
	for _, home := range homes {
		if !overlap(home, at.Lexical) && !overlap(home, at.Real) {
			continue // most walks are outside the home directory
		}
		for _, path := range secret.Paths(filepath.FromSlash(home + "/")) {
			path = Clean(path)
			_, lexical := Below(at.Lexical, path)
			_, real := Below(at.Real, path)
			if name := strings.TrimPrefix(path, home+"/"); (lexical || real) && !allowed(name) {
				// The pattern is exact: a * in a file's name would be a wildcard otherwise.
				cut := strings.LastIndexByte(path, '/')
				all = append(all, Pattern{glob.Fold(path[:cut]), glob.Fold(path[cut+1:]), true})
			}
		}
	}
	return all
}

// overlap reports whether one of two directories contains the other, or they are the same. Both
// are in the form of Clean.
func overlap(a, b string) bool {
	_, below := Below(a, b)
	_, above := Below(b, a)
	return below || above
}
