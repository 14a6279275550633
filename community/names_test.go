package community_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// tableFolders are the folders whose names are in the table of the package documentation.
var tableFolders = []string{
	".", "../actor", "../agent", "../agent/conversation", "../agent/llm", "../agent/step", "../agent/tool", "../agent/tool/builtin", "../agent/tool/guardrail", "../agent/tool/mcp", "../agent/tool/security",
	"../discovery", "../security/permission", "../security/sandbox", "../skills", "../transport/grpcpeer",
}

// A table of names is of no use when they are gone: each name of its second column is declared in one of the folders.
func TestTableOfTheSpecsNamesIsTrue(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	declared := map[string]bool{}
	for _, folder := range tableFolders {
		declaredIn(t, folder, declared)
	}
	rows := 0
	_, table, _ := strings.Cut(string(doc), "# The spec's names")
	for _, line := range strings.Split(table, "\n") {
		columns := regexp.MustCompile(`\s{2,}`).Split(strings.TrimPrefix(line, "//\t"), -1)
		if !strings.HasPrefix(line, "//\t") || columns[0] == "spec" {
			continue
		}
		rows++
		names := regexp.MustCompile(`\b[A-Z][A-Za-z0-9]+`).FindAllString(columns[1], -1)
		if len(names) == 0 {
			t.Errorf("%q has no name of ours", line)
		}
		for _, name := range names {
			if !declared[name] {
				t.Errorf("%q: there is no %s", columns[0], name)
			}
		}
	}
	if rows < 30 {
		t.Errorf("the table has %d rows: has its form changed?", rows)
	}
}

// declaredIn adds the exported names that a folder declares.
func declaredIn(t *testing.T, folder string, names map[string]bool) {
	t.Helper()
	files, err := filepath.Glob(folder + "/*.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("%s has %d Go files: %v", folder, len(files), err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				names[n.Name.Name] = true
			case *ast.TypeSpec:
				names[n.Name.Name] = true
			case *ast.ValueSpec:
				for _, id := range n.Names {
					names[id.Name] = true
				}
			case *ast.Field:
				for _, id := range n.Names {
					names[id.Name] = true
				}
			}
			return true
		})
	}
}
