package community_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// shown is a test as the page names it: a folder, a function, and maybe a case of it.
var shown = regexp.MustCompile("`([a-z/]+)\\.((?:Test|Fuzz)[A-Za-z0-9]+)(?:/([^`]+))?`")

// A page that says which test shows what is of no use when they are gone.
func TestPageOfFailuresNamesTestsThatExist(t *testing.T) {
	var page []byte
	for _, name := range []string{"failures", "invariants", "attacks"} {
		text, err := os.ReadFile("design/" + name + ".md")
		if err != nil {
			t.Fatal(err)
		}
		page = append(page, text...)
	}
	folders := map[string]*tests{}
	for i, line := range strings.Split(string(page), "\n") {
		named := shown.FindAllStringSubmatch(line, -1)
		if row := strings.HasPrefix(line, "| ") && !strings.HasSuffix(line, "| shown by |"); row && len(named) == 0 {
			t.Errorf("line %d promises something that no test shows: %s", i+1, line)
		}
		if loose := strings.Count(shown.ReplaceAllString(line, ""), "`Test"); loose > 0 {
			t.Errorf("line %d names a test without its folder: %s", i+1, line)
		}
		for _, m := range named {
			folder, function, name := m[1], m[2], m[3]
			if folders[folder] == nil {
				folders[folder] = testsIn(t, "../"+folder)
			}
			if in := folders[folder]; !in.functions[function] {
				t.Errorf("line %d: %s has no %s", i+1, folder, function)
			} else if name != "" && !in.words[name] {
				t.Errorf("line %d: %s of %s has no case %q", i+1, function, folder, name)
			}
		}
	}
	if len(folders) < 10 {
		t.Errorf("tests of %d folders were found on the page, want those of most of them: has its form changed?", len(folders))
	}
}

// tests are what a folder's test files have: functions, and strings that may name cases.
type tests struct{ functions, words map[string]bool }

func testsIn(t *testing.T, folder string) *tests {
	t.Helper()
	in := &tests{map[string]bool{}, map[string]bool{}}
	files, err := filepath.Glob(folder + "/*_test.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("%s has %d test files: %v", folder, len(files), err)
	}
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				in.functions[n.Name.Name] = n.Recv == nil
			case *ast.BasicLit:
				if word, err := strconv.Unquote(n.Value); err == nil && n.Kind == token.STRING {
					in.words[word] = true
				}
			}
			return true
		})
	}
	return in
}
