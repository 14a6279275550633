package shell

import (
	"fmt"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// deepest is how many programs may be nested as text or as arguments (sh -c, eval, trap, sudo,
// xargs). Deeper ones are not read, and become a Problem. It bounds the recursion for texts made
// to be slow.
const deepest = 8

// maxCommands bounds the commands of one Program, and so the time of one decision, in which every
// rule is compared with every command. More than 400 is more than a person could check.
const maxCommands = 400

// Parse reads a program for bash. It never fails: a text that cannot be read gives a Program with
// a hard Problem and without Canonical. It does no I/O but to look at the environment for names
// of variables (assign), and may be called from many goroutines.
func Parse(text string) (p Program) {
	// The parser has panicked on hostile texts. A panic must become a question
	// to a person, and must not end the node.
	defer func() {
		if r := recover(); r != nil {
			p = Program{Problems: []Problem{{Reason: "it cannot be read: " + fmt.Sprint(r), Hard: true, Runs: true}}}
		}
	}()
	a := new(analysis)
	a.parse(text)
	a.program.Problems = a.problems
	return a.program
}

// parse fills the program from a text. Beyond MaxBytes it still walks the commands, so that deny
// rules see them, but not beyond a hundred times that: then the cost of parsing would be the
// attack. It also gives up on NUL and CR, which the parser drops but bash does not, and on the byte 1, which package
// command writes before a home directory.
func (a *analysis) parse(text string) {
	if reason := unclear(text, true); reason != "" {
		a.hard(reason)
	}
	if len(text) > 100*MaxBytes || strings.ContainsAny(text, "\x00\x01\r") {
		return
	}
	file, canonical, reason := read(text, syntax.LangBash)
	if reason != "" {
		a.hard(reason)
	}
	if file == nil {
		return
	}
	a.dirs = here()
	a.stmts(file.Stmts, scope{})
	a.program.Canonical, a.program.tree = canonical, file
}

// Start returns the argument list that executes a Program's Canonical text: bash, for which it
// was parsed, without any start-up file. If there is no bash, the program must not be executed:
// another shell reads the text differently.
func Start(canonical string) []string {
	return []string{"bash", "--norc", "--noprofile", "-c", canonical}
}

// read parses a text and returns a tree that prints as canonical and that canonical parses to. So
// the tree that is judged is the one that bash builds from canonical. problem is the reason for a
// hard Problem, "" for none. file is nil if the text cannot be parsed; canonical is "" if the
// print is not stable, and the tree then serves deny rules only.
//
// It costs one parse and one print for a text that is written as the printer writes it, else two
// more of each.
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
	if problem == "" && contains(file, ambiguous) {
		problem = "a <( stands behind something else in its word, or a {NAME[ may name a file's number, which reads differently when it is printed"
	}
	// The print of a text that is formatted in the printer's way is the text. Then it needs no
	// second parse.
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
	// A stable print is needed: the print of a tree may be read as another program, which would
	// be judged as the first.
	if twice, err := printTree(again); err != nil || twice != printed {
		return file, "", "it cannot be written down in a way that reads the same"
	}
	return again, printed, problem
}

// unreadable returns the reason for a text with a syntax error. err has the line and column.
func unreadable(err error) string { return "it cannot be read as a shell program: " + err.Error() }

// parse parses a text in one dialect. It never uses RecoverErrors, which panics on some inputs. Comments are
// dropped unless comments is true, and so they are not in
// Canonical.
func parse(text string, lang syntax.LangVariant, comments bool) (*syntax.File, error) {
	return syntax.NewParser(syntax.Variant(lang), syntax.KeepComments(comments)).Parse(strings.NewReader(text), "")
}

// printTree prints a node in the printer's default style. It fails for nodes that the printer
// does not know.
func printTree(node syntax.Node) (string, error) {
	var b strings.Builder
	err := syntax.NewPrinter().Print(&b, node)
	return b.String(), err
}

// ambiguous reports whether a word reads differently when it is printed. The printer may put a blank before a <( or >( that
// stands behind something else, as in a<(b). A word such as {a['x']} directly before a redirection is the variable of the
// descriptor to bash, which evaluates the subscript; the parser does not see that if there are quotes in it.
func ambiguous(w *syntax.Word) bool {
	if len(w.Parts) == 0 {
		return false
	}
	lit, is := w.Parts[0].(*syntax.Lit)
	return is && strings.HasPrefix(lit.Value, "{") && strings.Contains(lit.Value, "[") ||
		slices.ContainsFunc(w.Parts[1:], func(p syntax.WordPart) bool { _, is := p.(*syntax.ProcSubst); return is })
}

// contains reports whether the node or one below it has type N and satisfies means. top must not
// be split by syntax.SplitBraces: syntax.Walk panics on a BraceExp.
func contains[N syntax.Node](top syntax.Node, means func(N) bool) (found bool) {
	syntax.Walk(top, func(node syntax.Node) bool {
		n, is := node.(N)
		found = found || is && means(n)
		return !found
	})
	return found
}

// analysis collects what one program does. It belongs to one call of Parse and one goroutine.
type analysis struct {
	problems
	program Program
	// dirs are the directories that the shell may have been in so far. One that it was in stays: a cd may fail, and which
	// branches and subshells run is not followed.
	dirs Dirs
	// depth counts the programs and commands that contain the one that is walked, up to deepest.
	depth int
	// tooMany is true once maxCommands was exceeded, so that the Problem is added once.
	tooMany bool
}

// scope says where in the program the walk is.
type scope struct {
	// piped is true if the standard input is redirected or a pipe, stdin its text if that is a literal here-document. An
	// interpreter may run it.
	piped bool
	stdin string
	// outer and at are Command.Outer and Command.At of the commands in this scope. They count
	// only if inner is true.
	outer, at int
	inner     bool
	// guessed means that the commands in this scope are not Certain.
	guessed bool
}

// problems has each Problem once, in the order in which they were found. Looking through the
// slice is cheap: there are few different reasons.
type problems []Problem

// hard adds a reason for which only a person may allow the program. Such a text may mean
// something else to the shell, so it counts as running unknown commands, too.
func (p *problems) hard(reason string) { p.add(Problem{Reason: reason, Hard: true, Runs: true}) }

// runs adds a reason to believe that something runs which is not among the Commands.
func (p *problems) runs(reason string) { p.add(Problem{Reason: reason, Runs: true}) }

// doubt adds a reason why the program is not plain, although everything that runs is known.
func (p *problems) doubt(reason string) { p.add(Problem{Reason: reason}) }

// add appends a Problem that is not in the list yet.
func (p *problems) add(one Problem) {
	if !slices.Contains(*p, one) {
		*p = append(*p, one)
	}
}

// text walks a program that a command is given as text, such as the argument of sh -c or eval, in
// scope s. If the text cannot be read, that is a Problem of kind Runs and not Hard: the program
// around it still prints as it was judged, and a rule for that whole command may allow it.
func (a *analysis) text(text string, lang syntax.LangVariant, s scope) {
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
