package builtin_test

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestGlobAndGrepLeaveOutWhatGitIgnores(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{
		".gitignore": "*.log\n!keep.log\n/build/\nnode_modules/\n", ".git/info/exclude": "private\n",
		"a.go": "x\n", "a.log": "x\n", "keep.log": "x\n", "build/out.go": "x\n", "sub/build/in.go": "x\n", "private": "x\n",
		"sub/.gitignore": "!*.log\n/here\n", "sub/b.log": "x\n", "sub/here": "x\n", "node_modules/m/m.js": "x\n", "node_modules/m/m.log": "x\n",
		"other/.git/info/exclude": "z\n", "other/c.log": "x\n", "other/z": "x\n", ".dot/.gitignore": "/only\n", ".dot/only": "y\n", ".dot/d/only": "y\n",
	})
	b := open(t, dir, nil, "")
	if got, want := b.ok(t, "Glob", "pattern", "**"), ".dot/\n.dot/.gitignore\n.dot/d/\n.dot/d/only\n.gitignore\na.go\nkeep.log\nother/\nother/c.log\nsub/\nsub/.gitignore\nsub/b.log\nsub/build/\nsub/build/in.go\n"+
		"# 7 files or directories left out by .gitignore; ignored: true shows all\ntotal\t9 files\t5 directories"; got != want {
		t.Errorf("Glob:\ngot  %q\nwant %q", got, want)
	}
	if got := b.ok(t, "Grep", "pattern", "^x$"); !strings.HasPrefix(got, "a.go\nkeep.log\nother/c.log\nsub/b.log\nsub/build/in.go\n# 7 files") || last(got) != "total\t9\t5\t5" {
		t.Errorf("Grep: %q", got)
	}
	if got := b.ok(t, "Grep", "pattern", "^x$", "ignored", true); last(got) != "total\t17\t12\t12" || strings.Contains(got, "#") {
		t.Errorf("Grep of all: %q", got)
	}
	if got := b.ok(t, "Glob", "pattern", "**", "path", "node_modules"); got != "node_modules/m/\nnode_modules/m/m.js\n# 1 file or directory left out by .gitignore; ignored: true shows all\ntotal\t1 file\t1 directory" {
		t.Errorf("Glob of an ignored directory: %q", got)
	}
	if got := b.ok(t, "Glob", "pattern", "*", "path", "sub"); !strings.Contains(got, "sub/b.log\n") || strings.Contains(got, "here") {
		t.Errorf("Glob below: %q", got)
	}
	if got := b.ok(t, "Grep", "pattern", "^y", "path", ".dot"); !strings.HasPrefix(got, ".dot/d/only\n#") {
		t.Errorf("Grep in a hidden directory: %q", got)
	}
	if got := b.ok(t, "Grep", "pattern", "x", "path", "a.log"); last(got) != "total\t1\t1\t1" {
		t.Errorf("Grep of an ignored file: %q", got)
	}
	if got := open(t, filepath.Join(dir, "sub"), nil, "").ok(t, "Glob", "pattern", "*.log"); last(got) != "total\t1 file\t0 directories" {
		t.Errorf("a workspace below: %q", got)
	}
}
