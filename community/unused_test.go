package community_test

import (
	"go/ast"
	"go/token"
	"path"
	"strings"
	"testing"
)

// What only tests use passes its tests and does nothing. An unexported name counts as used if the package's own code, on
// whatever system, has it somewhere else than where it is declared.
func TestCodeUsesWhatItDeclares(t *testing.T) {
	declared, seen := map[string]token.Position{}, map[string]int{}
	walkCode(t, func(file string, files *token.FileSet, f *ast.File, _ []byte) {
		if strings.HasSuffix(file, "_test.go") {
			return
		}
		dir := path.Dir(file) + "."
		declare := func(name *ast.Ident) {
			if !name.IsExported() && name.Name != "_" && name.Name != "main" {
				declared[dir+name.Name] = files.Position(name.Pos())
				seen[dir+name.Name]--
			}
		}
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				declare(d.Name)
			case *ast.GenDecl:
				for _, s := range d.Specs {
					switch s := s.(type) {
					case *ast.TypeSpec:
						declare(s.Name)
					case *ast.ValueSpec:
						for _, name := range s.Names {
							declare(name)
						}
					}
				}
			}
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if name, ok := n.(*ast.Ident); ok {
				seen[dir+name.Name]++
			}
			return true
		})
	})
	for name, at := range declared {
		if seen[name] == 0 {
			t.Errorf("%v: nothing but tests uses %s", at, name)
		}
	}
}
