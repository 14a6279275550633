package shell

import (
	"fmt"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// deepest is how often a program may hold another as text (sh -c, eval, trap).
const deepest = 8

// maxCommands is more than any text of MostBytes that a person could check.
const maxCommands = 400

// Parse reads a program for bash.
func Parse(text string) (p Program) {
	defer func() {
		if r := recover(); r != nil {
			p = Program{Problems: []Problem{{Reason: "it cannot be read: " + fmt.Sprint(r), Hard: true, Runs: true}}}
		}
	}()
	a := newAnalysis()
	a.parse(text)
	a.program.Problems = a.problems
	return a.program
}

func (a *analysis) parse(text string) {
	if reason := unclear(text, true); reason != "" {
		a.hard(reason)
	}
	if len(text) > 100*MostBytes || strings.ContainsAny(text, "\x00\r"+Marks) {
		return
	}
	file, canonical, reason := read(text, syntax.LangBash)
	if reason != "" {
		a.hard(reason)
	}
	if file == nil {
		return
	}
	a.stmts(file.Stmts, new(scope{dirs: here()}))
	a.checkUses()
	a.program.Canonical, a.program.tree = canonical, file
}

// Start is how to execute a Program's Canonical text: by the shell that it was parsed for, without any
// file that the shell would read first. Without bash nothing may be executed: another shell reads the
// text differently.
func Start(canonical string) []string {
	return []string{"bash", "--norc", "--noprofile", "-c", canonical}
}

// read parses a text until its print is what it was printed from, so that the tree is the one that the
// shell will see.
func read(text string, lang syntax.LangVariant) (file *syntax.File, canonical, problem string) {
	if strings.Contains(text, "#") {
		// The parser joins lines in a comment that ends in a backslash; the shell does not.
		withComments, err := parse(text, lang, true)
		if err != nil {
			return nil, "", unreadable(err)
		}
		if contains(withComments, func(c *syntax.Comment) bool { return strings.Contains(c.Text, `\`) }) {
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
	return contains(f, func(w *syntax.Word) bool {
		return len(w.Parts) > 1 && slices.ContainsFunc(w.Parts[1:], func(p syntax.WordPart) bool { _, is := p.(*syntax.ProcSubst); return is })
	})
}

// contains reports whether something below a node, or the node itself, is meant.
func contains[N syntax.Node](top syntax.Node, means func(N) bool) (found bool) {
	syntax.Walk(top, func(node syntax.Node) bool {
		n, is := node.(N)
		found = found || is && means(n)
		return !found
	})
	return found
}

// analysis gathers what a program does.
type analysis struct {
	problems
	variables
	program Program
	depth   int
	rounds  int // of loops over words, walked one by one
	tooMany bool
}

func newAnalysis() *analysis {
	return &analysis{variables: variables{assigned: map[string]bool{}, exported: map[string]bool{}, looped: map[string]bool{}}}
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

// problems are the reasons why no rule for single commands can allow the program, each once.
type problems []Problem

func (p *problems) hard(reason string) { p.add(Problem{Reason: reason, Hard: true, Runs: true}) }

// runs notes that something unknown may run.
func (p *problems) runs(reason string) { p.add(Problem{Reason: reason, Runs: true}) }

func (p *problems) doubt(reason string) { p.add(Problem{Reason: reason}) }

func (p *problems) add(one Problem) {
	if !slices.Contains(*p, one) {
		*p = append(*p, one)
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
