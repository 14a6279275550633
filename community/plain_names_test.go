package community_test

import (
	"go/ast"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The dialect that the project spoke once. A name that means one of these is searched for in vain: see
// community/design for what each became. They are refused as the last word of a type, as an exported name, and as a word of
// a file's name.
var dialect = words(`
	life brood unborn reborn conceive born duty claim forgo masters strangers guests behalf served deed meant nearest outlook
	shelf scene player doing happening judgerun permitrun bounded narrow narrowing patience pace said told heard hear say
	crew crier tongue doorkeeper voucher hose liar here away stranger`)

// participles without -ed or -ing: as a type they say what was done to a value, not what it is.
var irregular = words(`asked told heard held said known meant born given taken kept sent seen made done lent left shown spoken`)

// nouns end in -ed or -ing and are what the field calls a thing.
var nouns = words(`setting settings mapping string binding thing ring warning finding heading listing encoding embedding pricing timing
	rating padding spelling steering thinking lending sighting reading seed feed speed embed building logging`)

// maxPronouns is how many comment lines may say nobody, somebody or whom instead of naming the type.
const maxPronouns = 10

func words(text string) []string { return strings.Fields(text) }

func TestNamesArePlain(t *testing.T) {
	walkCode(t, func(file string, files *token.FileSet, f *ast.File, _ []byte) {
		if strings.HasSuffix(file, "_test.go") {
			return
		}
		bad := func(pos token.Pos, name, why string) { t.Errorf("%s: %s: %s", files.Position(pos), name, why) }
		checkFileName(f, file, bad)
		for _, d := range f.Decls {
			checkDeclaration(d, bad)
		}
	})
}

func checkFileName(f *ast.File, file string, bad func(token.Pos, string, string)) {
	base := strings.TrimSuffix(path.Base(file), ".go")
	for word := range strings.SplitSeq(base, "_") {
		if slices.Contains(dialect, word) {
			bad(f.Package, base+".go", "the file's name is not a word of the field")
		}
	}
}

// checkDeclaration reports the names of one declaration that are not plain.
func checkDeclaration(d ast.Decl, bad func(token.Pos, string, string)) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		checkExported(d.Name, bad)
	case *ast.GenDecl:
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.TypeSpec:
				checkExported(s.Name, bad)
				checkType(s.Name, bad)
			case *ast.ValueSpec:
				for _, id := range s.Names {
					checkExported(id, bad)
					if superlative.MatchString(id.Name) {
						bad(id.Pos(), id.Name, "a limit is called maxX")
					}
				}
			}
		}
	}
}

var (
	superlative = regexp.MustCompile(`^([mM]ost|[lL]ongest)[A-Z]`)
	lastWord    = regexp.MustCompile(`[A-Z]?[a-z]+$`)
)

func checkExported(id *ast.Ident, bad func(token.Pos, string, string)) {
	if id.IsExported() && slices.Contains(dialect, strings.ToLower(id.Name)) {
		bad(id.Pos(), id.Name, "an exported name is a word of the field")
	}
}

func checkType(id *ast.Ident, bad func(token.Pos, string, string)) {
	last := strings.ToLower(lastWord.FindString(id.Name))
	switch {
	case slices.Contains(dialect, last):
		bad(id.Pos(), id.Name, "a type is called with a word of the field")
	case isParticiple(last):
		bad(id.Pos(), id.Name, "a type is a noun that says what the value is, not a participle")
	}
}

func isParticiple(word string) bool {
	if slices.Contains(nouns, word) {
		return false
	}
	return slices.Contains(irregular, word) || len(word) > 4 && (strings.HasSuffix(word, "ed") || strings.HasSuffix(word, "ing"))
}

func TestNamesOfParticiplesAreFound(t *testing.T) {
	for word, want := range map[string]bool{"asked": true, "held": true, "doing": true, "bounded": true, "setting": false, "string": false,
		"seed": false, "red": false, "queue": false} {
		if got := isParticiple(word); got != want {
			t.Errorf("%s is a participle: %v, want %v", word, got, want)
		}
	}
}

var pronoun = regexp.MustCompile(`(?i)\b(nobody|somebody|whom)\b`)

// A comment that names the type says more than one that speaks of somebody.
func TestCommentsNameTheirSubject(t *testing.T) {
	found := 0
	walkCode(t, func(file string, files *token.FileSet, f *ast.File, _ []byte) {
		if strings.HasSuffix(file, "_test.go") {
			return
		}
		for _, group := range f.Comments {
			for line := range strings.Lines(group.Text()) {
				if pronoun.MatchString(line) {
					found++
					t.Logf("%s: %s", files.Position(group.Pos()), strings.TrimSpace(line))
				}
			}
		}
	})
	if found > maxPronouns {
		t.Errorf("%d comment lines speak of nobody, somebody or whom, want at most %d: name the type", found, maxPronouns)
	}
}

// Of 1,000 comment lines this many may have a roundabout phrase instead of subject, verb and object. The limits only go down.
const (
	maxRoundabout     = 2  // of the product
	maxRoundaboutTest = 67 // of tests
)

var roundabout = regexp.MustCompile(`(?:^|[.:] )What\b|\bof which\b|\bthose of\b|\bthat of\b|\bof what\b|\bwhat it\b`)

// "What the node keeps is X" reads worse than "The node keeps X", and "those of peers" worse than "peers' rules".
func TestCommentsArePlainSentences(t *testing.T) {
	lines, found := map[bool]int{}, map[bool]int{} // by: is of tests
	for _, f := range sources(t) {
		for _, group := range f.parsed.Comments {
			n, phrases := roundaboutPhrases(group.Text())
			lines[f.isTest()] += n
			found[f.isTest()] += len(phrases)
			for _, p := range phrases {
				t.Logf("%s: %s", f.position(group.Pos()), p)
			}
		}
	}
	for test, limit := range map[bool]int{false: maxRoundabout, true: maxRoundaboutTest} {
		if found[test]*1000 > limit*lines[test] {
			t.Errorf("tests %v: %d of %d comment lines have a roundabout phrase, want at most %d of 1,000", test, found[test], lines[test], limit)
		}
	}
}

// roundaboutPhrases returns the number of lines of a comment, and its roundabout phrases.
func roundaboutPhrases(comment string) (lines int, phrases []string) {
	goesOn := false
	for line := range strings.Lines(comment) {
		lines++
		line = strings.TrimSpace(line)
		at := roundabout.FindAllStringIndex(line, -1)
		for _, p := range at {
			if p[0] > 0 || !goesOn || !strings.HasPrefix(line, "What") {
				phrases = append(phrases, line)
			}
		}
		goesOn = line != "" && !strings.HasSuffix(line, ".") && !strings.HasSuffix(line, ":")
	}
	return lines, phrases
}

func TestRoundaboutPhrases(t *testing.T) {
	for comment, want := range map[string]int{
		"What it keeps is X.":           1,
		"The node keeps X.":             0,
		"The rules are those of peers.": 1,
		"Limit is one\nWhat there is.":  0,
		"It is done. What is left goes": 1,
	} {
		if _, got := roundaboutPhrases(comment); len(got) != want {
			t.Errorf("%q: %q, want %d phrases", comment, got, want)
		}
	}
}
