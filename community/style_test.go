package community_test

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"
)

// maxColumns is how wide a line of the product may be. A tab counts as 4 columns. A string of over maxShortText columns is not
// counted: it cannot be broken without harm.
const (
	maxColumns   = 170
	maxShortText = 40
)

// maxFileLines is how many lines a hand-written file may have; more is probably two subjects.
const maxFileLines = 600

// The limits of the product's code: all but tests, the packages for tests (isForTests), and generated files.
const (
	maxMethods       = 30      // of one type
	maxComplexity    = 30      // cyclomatic, of one function
	maxComplexityP95 = 11      // that 95 of 100 functions keep to
	maxCode          = 110_823 // lines that are neither blank nor a comment
)

// vague package names say where code was put, not what it does.
var vague = map[string]bool{"util": true, "utils": true, "common": true, "helpers": true, "misc": true, "base": true, "types": true,
	"shared": true}

// atRoot is what the repository's root holds, beside dot-files.
var atRoot = []string{
	"Makefile", "README.md", "go.mod", "go.sum", "symbio", // symbio: what `make build` writes
	"proto", "actor", "security", "discovery", "community", "skills", "transport", "agent", "internal", "cmd", "deploy",
}

func TestRootHoldsWhatTheDesignLists(t *testing.T) {
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
	walkCode(t, func(path string, files *token.FileSet, f *ast.File, _ []byte) {
		test := strings.HasSuffix(path, "_test.go") || strings.HasSuffix(filepath.Dir(path), "test")
		if n := files.File(f.Pos()).LineCount(); n > maxFileLines && !test {
			t.Errorf("%s: %d lines; split it by subject", path, n)
		}
		if vague[f.Name.Name] {
			t.Errorf("%s: package name %q does not say what it is for", path, f.Name.Name)
		}
		checkStatements(t, files, f, test)
	})
}

func TestLinesFitAWindow(t *testing.T) {
	for _, f := range sources(t) {
		if f.isTest() {
			continue
		}
		counted := countedColumns(f.text)
		for i, columns := range counted {
			if columns > maxColumns {
				t.Errorf("%s:%d: %d columns, want at most %d; break the line", f.path, i+1, columns, maxColumns)
			}
		}
	}
}

// countedColumns returns the width of each line of a Go file, without long strings.
func countedColumns(text []byte) (columns []int) {
	for line := range bytes.Lines(text) {
		line = bytes.TrimRight(line, "\r\n")
		columns = append(columns, utf8.RuneCount(line)+3*bytes.Count(line, []byte("\t")))
	}
	file := token.NewFileSet().AddFile("", -1, len(text))
	var s scanner.Scanner
	s.Init(file, text, nil, 0)
	for {
		pos, kind, literal := s.Scan()
		if kind == token.EOF {
			return columns
		}
		if kind != token.STRING {
			continue
		}
		line := file.Line(pos) - 1
		for part := range strings.SplitSeq(literal, "\n") {
			if width := utf8.RuneCountInString(part); width > maxShortText {
				columns[line] -= width
			}
			line++
		}
	}
}

func TestCountedColumns(t *testing.T) {
	long := strings.Repeat("x", maxShortText)
	text := "package p\n\tvar a = \"" + long + "\"\nvar b = `y\n" + long + "yy`\n// é\n"
	if got, want := countedColumns([]byte(text)), []int{9, 12, 10, 0, 4}; !slices.Equal(got, want) {
		t.Errorf("columns %v, want %v", got, want)
	}
}

func TestCodeStaysSmall(t *testing.T) {
	lines, methods, complexities := 0, map[string]int{}, map[string]int{}
	var all []int
	walkCode(t, func(file string, _ *token.FileSet, f *ast.File, text []byte) {
		if strings.HasSuffix(file, "_test.go") || isForTests(path.Dir(file)) {
			return
		}
		for line := range bytes.Lines(text) {
			if line = bytes.TrimSpace(line); len(line) > 0 && !bytes.HasPrefix(line, []byte("//")) {
				lines++
			}
		}
		for _, d := range f.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			name := f.Name.Name
			if receiver := receiverOf(f); receiver != "" {
				methods[path.Dir(file)+" "+receiver]++
				name = receiver + "." + name
			}
			n := complexity(f)
			all = append(all, n)
			complexities[file+" "+name] = n
		}
	})
	checkLimit(t, "methods", methods, maxMethods)
	checkLimit(t, "cyclomatic complexity", complexities, maxComplexity)
	slices.Sort(all)
	if p95 := all[len(all)-1-len(all)*5/100]; p95 > maxComplexityP95 {
		t.Errorf("5 of 100 functions have a cyclomatic complexity of %d, want at most %d", p95, maxComplexityP95)
	}
	if lines > maxCode {
		t.Errorf("%d lines of code, want at most %d: what can go?", lines, maxCode)
	}
}

func checkLimit(t *testing.T, what string, figures map[string]int, limit int) {
	for name, n := range figures {
		if n > limit {
			t.Errorf("%s: %s %d, want at most %d; split it by subject", name, what, n, limit)
		}
	}
}

// receiverOf returns the name of a method's type, "" for a function.
func receiverOf(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return ""
	}
	name := ""
	ast.Inspect(f.Recv.List[0].Type, func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		if ok && name == "" {
			name = id.Name
		}
		return name == ""
	})
	return name
}

// complexity returns 1 and the number of decisions in a function.
func complexity(f *ast.FuncDecl) int {
	decisions := 1
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.IfStmt, *ast.ForStmt, *ast.RangeStmt:
			decisions++
		case *ast.CaseClause:
			if n.List != nil {
				decisions++
			}
		case *ast.CommClause:
			if n.Comm != nil {
				decisions++
			}
		case *ast.BinaryExpr:
			if n.Op == token.LAND || n.Op == token.LOR {
				decisions++
			}
		}
		return true
	})
	return decisions
}

// sourceFile is a hand-written Go file.
type sourceFile struct {
	path    string // from the root
	text    []byte
	parsed  *ast.File
	imports map[string]string // the folders of our packages that it imports, by the name of the package
	set     *token.FileSet
}

// isTest reports whether a file is of tests only.
func (f *sourceFile) isTest() bool {
	return strings.HasSuffix(f.path, "_test.go") || strings.HasSuffix(path.Dir(f.path), "test")
}

func (f *sourceFile) position(p token.Pos) string { return f.set.Position(p).String() }

// sources returns all hand-written Go files.
func sources(t *testing.T) []*sourceFile {
	t.Helper()
	all, err := parseSources()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// parseSources parses each file once for all tests of the house's rules.
var parseSources = sync.OnceValues(func() (all []*sourceFile, err error) {
	root, files := os.DirFS(".."), token.NewFileSet()
	err = fs.WalkDir(root, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name := d.Name(); name != "." && (strings.HasPrefix(name, ".") || name == "testdata") {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		f := &sourceFile{path: path, set: files, imports: map[string]string{}}
		if f.text, err = fs.ReadFile(root, path); err != nil {
			return err
		}
		if f.parsed, err = parser.ParseFile(files, path, f.text, parser.ParseComments); err != nil {
			return err
		}
		for _, i := range f.parsed.Imports {
			if folder, ours := ourName(strings.Trim(i.Path.Value, `"`)); ours {
				f.imports[folder[strings.LastIndex(folder, "/")+1:]] = folder
			}
		}
		if !ast.IsGenerated(f.parsed) {
			all = append(all, f)
		}
		return nil
	})
	return all, err
})

// walkCode calls f with each hand-written Go file.
func walkCode(t *testing.T, f func(path string, files *token.FileSet, parsed *ast.File, text []byte)) {
	t.Helper()
	for _, s := range sources(t) {
		f(s.path, s.set, s.parsed, s.text)
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
