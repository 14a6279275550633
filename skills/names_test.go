package skills_test

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

// TestEveryOperationOfTheSpecsExistsHere holds the table of community/design/skill-operations.md: each name in its last column is
// one of a Go package.
func TestEveryOperationOfTheSpecsExistsHere(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "community", "design", "skill-operations.md"))
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for name, dir := range map[string]string{
		"skills": ".", "choice": "../internal/skills/choice", "format": "format", "permission": "../security/permission", "definition": "../agent/definition", "agent": "../agent", "skill": "../agent/tool/skill", "config": "../agent/node/config",
		"install": "../internal/skills/install", "share": "../internal/skills/share", "trigger": "../internal/skills/trigger", "skilluse": "../internal/agent/skilluse",
	} {
		declared(t, name, filepath.FromSlash(dir), names)
	}
	specs, held := map[string]int{}, 0
	quoted := regexp.MustCompile("`([^`]+)`")
	for line := range strings.SplitSeq(string(text), "\n") {
		cells := strings.Split(line, "|")
		if len(cells) != 5 || strings.HasPrefix(cells[1], "-") || strings.TrimSpace(cells[1]) == "spec" {
			continue
		}
		here := quoted.FindAllStringSubmatch(cells[3], -1)
		if len(here) == 0 {
			t.Errorf("nothing here for%s", cells[2])
		}
		for _, name := range here {
			held++
			if !names[name[1]] {
				t.Errorf("%s does not exist; the table has it for%s", name[1], cells[2])
			}
		}
		specs[strings.TrimSpace(cells[1])]++
	}
	if len(specs) != 4 || held < 90 {
		t.Errorf("the table has %v and %d names; was it read?", specs, held)
	}
}

// declared collects the exported names of a package, members as TYPE.MEMBER.
func declared(t *testing.T, pkg, dir string, to map[string]bool) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range parsed.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				name := pkg + "."
				if d.Recv != nil {
					name += receiver(d.Recv.List[0].Type) + "."
				}
				to[name+d.Name.Name] = true
			case *ast.GenDecl:
				for _, s := range d.Specs {
					specified(pkg, s, to)
				}
			}
		}
	}
}

func specified(pkg string, s ast.Spec, to map[string]bool) {
	switch s := s.(type) {
	case *ast.ValueSpec:
		for _, n := range s.Names {
			to[pkg+"."+n.Name] = true
		}
	case *ast.TypeSpec:
		to[pkg+"."+s.Name.Name] = true
		if st, ok := s.Type.(*ast.StructType); ok {
			for _, f := range st.Fields.List {
				for _, n := range f.Names {
					to[pkg+"."+s.Name.Name+"."+n.Name] = true
				}
			}
		}
	}
}

func receiver(e ast.Expr) string {
	if star, ok := e.(*ast.StarExpr); ok {
		e = star.X
	}
	if id, ok := e.(*ast.Ident); ok {
		return id.Name
	}
	return ""
}
