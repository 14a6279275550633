package file_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"symbio/internal/security/permission/file"
)

func TestBelowComparesWholeNames(t *testing.T) {
	for _, c := range []struct {
		dir, path, rel string
		ok             bool
	}{{"/a", "/a", "", true}, {"/a", "/a/b/c", "b/c", true}, {"/a", "/ab", "", false}, {"", "/a", "a", true}, {"/a/b", "/a", "", false}} {
		if rel, ok := file.Below(c.dir, c.path); rel != c.rel || ok != c.ok {
			t.Errorf("Below(%q, %q) = %q, %v, want %q, %v", c.dir, c.path, rel, ok, c.rel, c.ok)
		}
	}
}

func TestPattern(t *testing.T) {
	for _, c := range []struct {
		from, spec, path               string
		matches, inTree, covers, below bool
	}{
		{"/w", "a.go", "/w/a.go", true, true, true, false},
		{"/w", "a.go", "/w/a.go/x", false, false, true, false},
		{"/w", "*.go", "/w/d/a.go", true, true, true, true},
		{"/w", "d/*", "/w/d", false, true, true, true},
		{"/w", "d/*", "/w/e", false, false, false, false},
		{"/w*", "x", "/wide/x", false, false, false, false}, // a * in a directory's name is literal
		{"/", "etc", "/", false, false, false, true},
	} {
		p := file.NewPattern(c.from, c.spec)
		path := file.Clean(c.path)
		if m, tree, covers, below := p.Matches(path, false), p.Matches(path, true), p.Covers(path),
			p.MayMatchBelow(path); m != c.matches || tree != c.inTree || covers != c.covers || below != c.below {
			t.Errorf("%s in %s against %s: matches %v, as a tree %v, covers %v, below %v", c.spec, c.from, c.path, m, tree, covers, below)
		}
	}
}

func TestLinksResolve(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{"dangling": "missing/x", "loop": "loop", "up": "sub/.."} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Skipf("needs a file system with symbolic links: %v", err)
		}
	}
	var l file.Links
	if got, err := l.Resolve(filepath.Join(dir, "dangling")); err != nil || got != filepath.Join(dir, "missing", "x") {
		t.Errorf("a dangling link = %q, %v", got, err)
	}
	if at := l.Locate("up/../y", dir); at.Lexical != file.Clean(dir)+"/y" || !at.Known {
		t.Errorf("a cleaned path = %+v", at)
	}
	if _, err := l.Resolve(filepath.Join(dir, "loop")); err != syscall.ELOOP {
		t.Errorf("a loop: %v, want %v", err, syscall.ELOOP)
	}
	if at := l.Locate("a\x00b", dir); at != (file.Location{}) {
		t.Errorf("a path with a zero byte = %+v", at)
	}
}

func TestExceptLeavesOutDeniedFiles(t *testing.T) {
	at := file.Location{Lexical: "/w", Real: "/w", Known: true}
	e := file.NewExcept(at, []file.Denials{{},
		{Deny: []file.Pattern{file.NewPattern("/w", "*.env")}, Overrides: []file.Pattern{file.NewPattern("/w", "test/*")}}})
	var got []string
	for _, rel := range []string{"a.env", "a.go", "test/a.env", "d/a.env"} {
		if e.Covers(rel) {
			got = append(got, rel)
		}
	}
	if want := "a.env d/a.env"; strings.Join(got, " ") != want {
		t.Errorf("covers %v, want %v", got, want)
	}
	if file.NewExcept(at, []file.Denials{{}}).Covers("a.env") {
		t.Error("exceptions of no rules cover a file")
	}
}
