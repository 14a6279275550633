package permission

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"symbio/security/permission/glob"
	"symbio/security/secret"
)

// homeDir is the user's home as patterns are compared with it; "" if it is not known.
func homeDir() string {
	home, err := os.UserHomeDir()
	if err != nil || !filepath.IsAbs(home) {
		return ""
	}
	return slashed(home)
}

// secret finds the place with keys or passwords that a path leads to or into: a rule allows a file tool to use it only
// when it spells it. "" if none.
func (f *facts) secret(at place) string {
	for _, name := range secret.System() {
		for _, path := range [2]string{at.lexical, at.real} {
			if _, ok := inside(name, path); ok {
				return name[1:]
			}
		}
	}
	home := homeDir()
	if home == "" {
		return ""
	}
	in := func(home, path string) string {
		below, ok := inside(home, path)
		if !ok {
			return ""
		}
		return secret.In(below)
	}
	for _, path := range [2]string{at.lexical, at.real} {
		if name := in(home, path); name != "" {
			return name
		}
	}
	if !strings.Contains(at.real, "/.") {
		return "" // most paths, and most names begin with a dot
	}
	if real, ok := f.follow(home); ok && real != home {
		return in(real, at.real)
	}
	return ""
}

// secretsBelow are the patterns of the places with keys or passwords that a walk would come to, but of those that one
// of the rules about it spells. A skill's rules name no place in the home directory.
func (f *facts) secretsBelow(allow []Rule) (all []pattern) {
	home, at := homeDir(), f.places[0]
	if home == "" {
		return nil
	}
	homes := []string{home}
	if real, ok := f.follow(home); ok && real != home {
		homes = append(homes, real)
	}
	for _, home := range homes {
		if !overlaps(home, at.lexical) && !overlaps(home, at.real) {
			continue // most walks are elsewhere
		}
		for _, path := range secret.Paths(filepath.FromSlash(home + "/")) {
			path = slashed(path)
			_, lexical := inside(at.lexical, path)
			_, real := inside(at.real, path)
			if name := strings.TrimPrefix(path, home+"/"); (lexical || real) && !f.spelled(name, allow) {
				cut := strings.LastIndexByte(path, '/')
				all = append(all, pattern{glob.Fold(path[:cut]), glob.Fold(path[cut+1:]), true})
			}
		}
	}
	return all
}

func overlaps(a, b string) bool {
	_, below := inside(a, b)
	_, above := inside(b, a)
	return below || above
}

func (f *facts) spelled(name string, allow []Rule) bool {
	return slices.ContainsFunc(allow, func(r Rule) bool { return r.namedBy(&f.names) && r.spellsPath(name) })
}
