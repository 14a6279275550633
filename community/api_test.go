package community_test

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
)

var updateAPI = flag.Bool("update-api", false, "write testdata/api.txt anew")

// maxPublic is how many packages users of the library can import.
const maxPublic = 35

// TestExportedAPIIsTheRecordedOne compares what the packages outside of internal directories export with testdata/api.txt,
// so that a change of it is seen where it is made. `go test ./community -run API -update-api` records a change that is meant.
func TestExportedAPIIsTheRecordedOne(t *testing.T) {
	api := map[string][]string{}
	for _, s := range sources(t) {
		if dir := path.Dir(s.path); isPublic(dir) && !strings.HasSuffix(s.path, "_test.go") {
			api[dir] = append(api[dir], exportedBy(t, s)...)
		}
	}
	if len(api) > maxPublic {
		t.Errorf("%d packages are public, want at most %d; move a package that no library user needs below internal", len(api), maxPublic)
	}
	var now bytes.Buffer
	for _, dir := range slices.Sorted(maps.Keys(api)) {
		slices.Sort(api[dir])
		fmt.Fprintf(&now, "package %s\n\t%s\n\n", dir, strings.Join(api[dir], "\n\t"))
	}
	const file = "testdata/api.txt"
	if *updateAPI {
		if err := os.WriteFile(file, now.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	recorded, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, after := strings.Split(string(recorded), "\n"), strings.Split(now.String(), "\n")
	for _, line := range before {
		if !slices.Contains(after, line) {
			t.Errorf("it is not exported any more: %s", strings.TrimSpace(line))
		}
	}
	for _, line := range after {
		if !slices.Contains(before, line) {
			t.Errorf("it is exported now: %s", strings.TrimSpace(line))
		}
	}
	if string(recorded) != now.String() {
		t.Error("go test ./community -run API -update-api records the change")
	}
}

// isPublic reports whether users of the library can import a package.
func isPublic(dir string) bool {
	return !within(dir, "cmd") && !slices.Contains(strings.Split(dir, "/"), "internal")
}

// exportedBy returns a line for each exported declaration, field and method of a file.
func exportedBy(t *testing.T, s *sourceFile) (lines []string) {
	files := token.NewFileSet()
	f, err := parser.ParseFile(files, s.path, s.text, parser.SkipObjectResolution) // a copy, which is changed
	if err != nil {
		t.Fatal(err)
	}
	ast.FileExports(f)
	print := func(prefix string, node any) {
		var b bytes.Buffer
		if err := printer.Fprint(&b, files, node); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, prefix+strings.Join(strings.Fields(b.String()), " "))
	}
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if receiver := receiverOf(d); receiver == "" || ast.IsExported(receiver) {
				d.Body = nil
				print("", d)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				printSpec(print, d.Tok.String()+" ", spec)
			}
		}
	}
	return lines
}

// printSpec prints a constant or a variable without its value, and a struct with a line for each field.
func printSpec(print func(string, any), kind string, spec ast.Spec) {
	switch spec := spec.(type) {
	case *ast.ValueSpec:
		for _, name := range spec.Names {
			if spec.Type == nil {
				print(kind, name)
			} else {
				print(kind+name.Name+" ", spec.Type)
			}
		}
	case *ast.TypeSpec:
		fields, is := spec.Type.(*ast.StructType)
		if !is {
			print(kind, spec)
			return
		}
		spec.Type = &ast.StructType{Fields: &ast.FieldList{}}
		print(kind, spec)
		for _, f := range fields.Fields.List {
			for _, name := range f.Names {
				print("field "+spec.Name.Name+"."+name.Name+" ", f.Type)
			}
			if len(f.Names) == 0 {
				print("field "+spec.Name.Name+" embeds ", f.Type)
			}
		}
	}
}
