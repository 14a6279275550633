//go:build system && linux

package pages_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"symbio/internal/community/waittest"
)

// TestModuleHasAnotherName gives a copy of the module another name, and imports it from another module.
func TestModuleHasAnotherName(t *testing.T) {
	dir := t.TempDir()
	symbio, program := filepath.Join(dir, "symbio"), filepath.Join(dir, "program")
	copySources(t, repository, symbio)
	run := func(dir string, args ...string) string {
		t.Helper()
		c := exec.CommandContext(waittest.Context(t), "go", args...)
		c.Dir = dir
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("in %s: %v: %v\n%s", dir, c.Args, err, out)
		}
		return string(out)
	}
	if out := run(filepath.Join(symbio, ".tools"), "run", "./module", "example.org/you/symbio"); !strings.Contains(out, "symbio is example.org/you/symbio now") {
		t.Errorf("it said %s", out)
	}
	if left := run(symbio, "list", "-test", "-deps", "./..."); strings.Contains(left, "\nsymbio") {
		t.Errorf("packages have the old name:\n%s", left)
	}
	run(symbio, "test", "-run", "TestPackagesImportOnlyWhatTheirLayerMay|TestPerceptionCarriesGoValues", "./community")

	files := map[string]string{
		"go.mod":  "module example.org/you/program\n\ngo 1.26.0\n\nrequire example.org/you/symbio v0.1.0\n\nreplace example.org/you/symbio => ../symbio\n",
		"main.go": "package main\n\nimport \"example.org/you/symbio/agent/node\"\n\nfunc main() { println(node.Protocol) }\n",
	}
	for name, text := range files {
		if err := os.MkdirAll(program, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(program, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	run(program, "list", "-mod=mod", "-deps", ".")
}

// copySources copies a checkout without its history.
func copySources(t *testing.T, from, to string) {
	t.Helper()
	root := os.DirFS(from)
	err := fs.WalkDir(root, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if d.Name() == ".git" {
				return fs.SkipDir
			}
			return os.MkdirAll(filepath.Join(to, path), 0o755)
		}
		if !d.Type().IsRegular() {
			return nil
		}
		text, err := fs.ReadFile(root, path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, path), text, 0o644)
	})
	if err != nil {
		t.Fatal(err)
	}
}
