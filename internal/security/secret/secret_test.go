package secret_test

import (
	"path"
	"path/filepath"
	"strings"
	"testing"

	"symbio/internal/security/secret"
)

func TestProtectedPlacesAreUniqueAndBelowHome(t *testing.T) {
	home := t.TempDir()
	seen := map[string]bool{}
	for _, at := range secret.Paths(home) {
		name, err := filepath.Rel(home, at)
		name = filepath.ToSlash(name)
		if err != nil || name == "." || strings.HasPrefix(name, "..") || path.Clean(name) != name {
			t.Errorf("%s does not lie below the home: %q, %v", at, name, err)
		}
		if seen[strings.ToLower(name)] {
			t.Errorf("%s is there twice", name)
		}
		seen[strings.ToLower(name)] = true
		for above := path.Dir(name); above != "."; above = path.Dir(above) {
			if got := secret.In(above); got != "" {
				t.Errorf("%s lies in %s, which is there already", name, got)
			}
		}
		if got := secret.In(name + "/x"); got != name {
			t.Errorf("what is below %s lies in %q", name, got)
		}
	}
	if got := secret.Paths("ann"); got != nil {
		t.Errorf("a home that is nowhere has %v", got)
	}
}

func TestPathIsFoundInItsPlace(t *testing.T) {
	for below, want := range map[string]string{
		".ssh": ".ssh", ".ssh/id": ".ssh", ".SSH/id": ".ssh", ".sshd": "", "src/.ssh": "", "": "", ".config": "", ".config/gh/hosts.yml": ".config/gh",
		".config/ghost": "", ".Netrc": ".netrc", ".netrc.old": "", ".docker/config.json": ".docker/config.json", ".docker/contexts": "",
		"library/keychains/login": "Library/Keychains",
	} {
		if got := secret.In(below); got != want {
			t.Errorf("%q lies in %q, want %q", below, got, want)
		}
	}
}
