package community_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// longestFile is how many lines a hand-written file may have; more is probably two subjects.
const longestFile = 600

// vague package names say where code was put, not what it does.
var vague = map[string]bool{"util": true, "utils": true, "common": true, "helpers": true, "misc": true, "base": true, "types": true, "shared": true}

// atRoot is what the repository's root holds, beside dot-files.
var atRoot = []string{
	"Makefile", "README.md", "go.mod", "go.sum", "symbio", // symbio: what `make build` writes
	"proto", "actor", "security", "discovery", "community", "skills", "transport", "agent", "cmd", "deploy",
}

func TestTheRootHoldsWhatTheDesignLists(t *testing.T) {
	entries, err := os.ReadDir("..")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), ".") && !slices.Contains(atRoot, e.Name()) {
			t.Errorf("%s does not belong in the root", e.Name())
		}
	}
}

func TestCodeKeepsTheHouseStyle(t *testing.T) {
	files := token.NewFileSet()
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name := d.Name(); name != ".." && (strings.HasPrefix(name, ".") || name == "testdata") {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		f, err := parser.ParseFile(files, path, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		if ast.IsGenerated(f) {
			return nil
		}
		if n := files.File(f.Pos()).LineCount(); n > longestFile && !strings.HasSuffix(path, "_test.go") {
			t.Errorf("%s: %d lines; split it by subject", path, n)
		}
		if vague[f.Name.Name] {
			t.Errorf("%s: package name %q does not say what it is for", path, f.Name.Name)
		}
		checkStatements(t, files, f, strings.HasSuffix(path, "_test.go"))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func checkStatements(t *testing.T, files *token.FileSet, f *ast.File, test bool) {
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			if !test {
				t.Errorf("%s: bare go statement; use a group somebody waits for", files.Position(n.Pos()))
			}
		case *ast.FuncDecl:
			if n.Name.Name == "init" && n.Recv == nil {
				t.Errorf("%s: init function; build it where it is used", files.Position(n.Pos()))
			}
		}
		return true
	})
}
