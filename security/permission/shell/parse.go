package shell

import (
	"fmt"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// deepest is how often a program may hold another as text (sh -c, eval, trap).
const deepest = 8

// mostCommands is more than any text of MostBytes that a person could check.
const mostCommands = 400

// Parse reads a program for bash.
func Parse(text string) (p Program) {
	defer func() {
		if r := recover(); r != nil {
			p = Program{Problems: []Problem{{Reason: "it cannot be read: " + fmt.Sprint(r), Hard: true, Runs: true}}}
		}
	}()
	if words, ok := plainWords(text); ok {
		a := analysis{assigned: map[string]bool{}, looped: map[string]bool{}}
		a.run(Command{Words: words, plain: text}, new(scope{dirs: here()}))
		a.program.Canonical = text + "\n"
		return a.program
	}
	a := analysis{assigned: map[string]bool{}, looped: map[string]bool{}}
	if reason := unclear(text, true); reason != "" {
		a.hard(reason)
	}
	if len(text) > 100*MostBytes || strings.ContainsAny(text, "\x00\r"+Marks) {
		return a.program
	}
	file, canonical, reason := read(text, syntax.LangBash)
	if reason != "" {
		a.hard(reason)
	}
	if file == nil {
		return a.program
	}
	a.stmts(file.Stmts, new(scope{dirs: here()}))
	a.checkUses()
	a.program.Canonical = canonical
	return a.program
}

// plainWords reads the commonest programs: one command of plain words with one blank between them. Such
// a text is its own print. Anything that could be a keyword or an assignment is left to the parser.
func plainWords(text string) ([]Word, bool) {
	if len(text) == 0 || len(text) > MostBytes || text[0] < 'a' && text[0] != '/' && text[0] != '.' || text[len(text)-1] == ' ' {
		return nil, false
	}
	n := 1
	for i := range len(text) {
		switch c := text[i]; {
		case c >= 'a' && c <= 'z', c >= '-' && c <= '9', c >= 'A' && c <= 'Z', c == '_', c == ':', c == '@', c == '%', c == '+', c == ',':
		case c == '=' && n > 1:
		case c == ' ' && text[i+1] != ' ':
			n++
		default:
			return nil, false
		}
	}
	words := make([]Word, 0, n)
	for w := range strings.SplitSeq(text, " ") {
		words = append(words, Word{Text: w})
	}
	if !plainProgram(words[0].Text) {
		return nil, false
	}
	return words, true
}

// plainProgram reports whether a word is no keyword, and nothing that the shell reads in a way of its own.
func plainProgram(name string) bool {
	switch name {
	case "export", "declare", "typeset", "local", "readonly", "nameref", "let", "time", "coproc", "function", "select":
		return false
	}
	return !syntax.IsKeyword(name)
}

// read parses a text until its print is what it was printed from, so that the tree is the one that the
// shell will see.
func read(text string, lang syntax.LangVariant) (file *syntax.File, canonical, problem string) {
	comments := false
	if strings.Contains(text, "#") {
		// The parser joins lines in a comment that ends in a backslash; the shell does not.
		withComments, err := parse(text, lang, true)
		if err != nil {
			return nil, "", unreadable(err)
		}
		if comments = hasComments(withComments); comments && slashed(withComments) {
			problem = "a comment with a backslash in it is read differently by different shells"
		}
	}
	file, err := parse(text, lang, false)
	if err != nil {
		return nil, "", unreadable(err)
	}
	if problem == "" && (strings.Contains(text, "<(") || strings.Contains(text, ">(")) && joinedSubstitution(file) {
		problem = "a <( stands behind something else in its word, which reads differently when it is printed"
	}
	printed, err := printTree(file)
	if err != nil {
		return nil, "", unreadable(err)
	}
	if printed == text+"\n" || printed == text {
		return file, printed, problem
	}
	again, err := parse(printed, lang, false)
	if err != nil {
		return file, "", "it cannot be written down in a way that reads the same"
	}
	if twice, err := printTree(again); err != nil || twice != printed {
		return file, "", "it cannot be written down in a way that reads the same"
	}
	return again, printed, problem
}

func unreadable(err error) string {
	return "it cannot be read as a shell program: " + err.Error()
}

func parse(text string, lang syntax.LangVariant, comments bool) (*syntax.File, error) {
	return syntax.NewParser(syntax.Variant(lang), syntax.KeepComments(comments)).Parse(strings.NewReader(text), "")
}

func printTree(node syntax.Node) (string, error) {
	var b strings.Builder
	err := syntax.NewPrinter().Print(&b, node)
	return b.String(), err
}

// joinedSubstitution finds a <( or >( behind something else in its word: printed, it may be a word of its own.
func joinedSubstitution(f *syntax.File) bool {
	found := false
	syntax.Walk(f, func(n syntax.Node) bool {
		if w, is := n.(*syntax.Word); is && len(w.Parts) > 1 {
			found = found || slices.ContainsFunc(w.Parts[1:], func(p syntax.WordPart) bool { _, is := p.(*syntax.ProcSubst); return is })
		}
		return !found
	})
	return found
}

func hasComments(f *syntax.File) bool {
	found := false
	syntax.Walk(f, func(n syntax.Node) bool {
		_, is := n.(*syntax.Comment)
		found = found || is
		return !found
	})
	return found
}

func slashed(f *syntax.File) bool {
	found := false
	syntax.Walk(f, func(n syntax.Node) bool {
		c, is := n.(*syntax.Comment)
		found = found || is && strings.Contains(c.Text, `\`)
		return !found
	})
	return found
}

// analysis gathers what a program does.
type analysis struct {
	program  Program
	assigned map[string]bool // variables that the program itself sets
	looped   map[string]bool // variables that loops over words set
	used     []string        // variables whose value it uses
	depth    int
	rounds   int // of loops over words, walked one by one
	tooMany  bool
	trapped  bool // a trap may run at any time
}

// scope is what the statements that follow each other share.
type scope struct {
	dirs Dirs
	// stdin is a literal program text on the standard input; piped says that something is.
	stdin *string
	piped bool
	// outer and at are for the commands of a text that another command runs.
	outer, at int
	inner     bool
	guessed   bool // commands are not certain
	// vars are the values of the variables of the loops around.
	vars map[string]Word
}

func (s scope) clone() *scope { return &s }

func (a *analysis) hard(reason string) { a.add(Problem{Reason: reason, Hard: true, Runs: true}) }

// runs notes that something unknown may run.
func (a *analysis) runs(reason string) { a.add(Problem{Reason: reason, Runs: true}) }

func (a *analysis) doubt(reason string) { a.add(Problem{Reason: reason}) }

func (a *analysis) add(p Problem) {
	for _, have := range a.program.Problems {
		if have == p {
			return
		}
	}
	a.program.Problems = append(a.program.Problems, p)
}

// checkUses finds values that the program itself may have made.
func (a *analysis) checkUses() {
	for _, name := range a.used {
		switch {
		case (a.assigned[name] || a.trapped) && a.looped[name]:
			a.runs("it sets the variable " + name + ", which is a loop's, and uses it") // it is not what the loop says
		case a.assigned[name]:
			a.doubt("it sets the variable " + name + " and uses it")
		}
	}
}

// text analyses a program that another command is given as an argument.
func (a *analysis) text(text string, lang syntax.LangVariant, s *scope) {
	if a.depth >= deepest {
		a.runs("programs are nested too deeply in it")
		return
	}
	file, _, problem := read(text, lang)
	if problem != "" {
		a.runs(problem)
	}
	if file == nil {
		return
	}
	a.depth++
	a.stmts(file.Stmts, s)
	a.depth--
}
