package shell

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"

	"symbio/internal/security/visible"
)

// Program is what a text may do, as the rules see it. Parse and Argv make it. Apart from Rewrite
// nothing changes it, so many goroutines may read one Program.
type Program struct {
	// Canonical is the text to execute: the tree, printed without comments. It is "" if the text
	// could not be read, and always for Argv.
	Canonical string
	// Commands are the simple commands that may run, in the order of the walk. A command that
	// another one runs comes after it (Outer). There are at most maxCommands.
	Commands []Command
	// Files are those that redirections open. Duplicated descriptors, /dev/null, /dev/stdout and
	// /dev/stderr are left out.
	Files []File
	// Problems has each reason once, in the order of the walk.
	Problems []Problem
	// tree is the tree that Canonical is the print of. Rewrite changes it.
	tree *syntax.File
}

// Command is a simple command that may run.
type Command struct {
	// Words has the program's name first and is never empty. Braces are expanded; a pattern such
	// as *.go stays one Dynamic word.
	Words []Word
	// Env are the variables that are set for this command only (A=b cmd, env A=b cmd).
	Env []Assign
	// Dirs are the directories that the command may start in.
	Dirs Dirs
	// Outer is the command that runs this one as its argument, such as timeout; -1 for none. At is the
	// word of Outer that this command begins with.
	Outer, At int
	// Certain is false if it is only guessed that this command runs, because the arguments of a
	// wrapper could not be cut for certain. Deny rules look at such commands; allow rules neither
	// need nor cover them.
	Certain bool
	// Free says that the command only controls what else runs, such as true, cd or timeout 5: the program that it runs is a command of its
	// own.
	Free bool
	// Code is text in another language that the command is given to run, as by python -c; "" for
	// none. Several texts are joined with newlines. Deny rules search it for names.
	//
	// Unread is true if the command runs a script from a file, as sh FILE and source do.
	Code   string
	Unread bool

	// written is the node in Program.tree; nil for a command that is an argument or a script of
	// another.
	written syntax.Node
}

// Source returns the simple command as it stands in the program, with its assignments but without
// its redirections; "" for a command that another one is given to run. Each call prints the tree
// anew.
func (c Command) Source() string {
	if c.written == nil {
		return ""
	}
	text, err := printTree(c.written)
	if err != nil {
		return ""
	}
	return text
}

// Word is one argument, or the part of a redirection or assignment that a shell expands like one.
type Word struct {
	// Text is the value of a literal word, with quotes and backslashes removed. For a Dynamic
	// word it is the source text, which is for messages only.
	Text string
	// Dynamic means that only the shell knows the value. Every value then begins with Begin, which is
	// literal and counts for Dynamic words only.
	Dynamic bool
	Begin   string
	// Split means that the shell may make several words of it, or none: unquoted expansions are
	// split at blanks.
	Split bool
	// Tilde says that Text begins with an unquoted ~, which is the home directory.
	Tilde bool
}

// Assign is a variable that is set for one command. Value is the zero Word for a variable that is
// removed (env -u) or set to nothing.
type Assign struct {
	Name  string
	Value Word
}

// File is a file that a redirection opens. A relative Path is relative to one of Dirs; it cannot
// be told which, so a rule has to hold for each.
type File struct {
	Path        Word
	Read, Write bool
	Dirs        Dirs
}

// Dirs is the set of directories that a command may run in. Each path is absolute, below the home
// (~ or ~/…), or relative to the directory that the program starts in, which is "". A set is
// needed because a cd may fail and the program goes on: after cd d it is {old, old/d}.
type Dirs struct {
	Paths []string
	// Unknown means that it may be any other directory, too, as after cd "$X" or popd.
	Unknown bool
}

// Problem is a reason why rules for single commands are not enough to allow the program. Reason
// is a clause for messages, such as "it starts a coprocess".
type Problem struct {
	Reason string
	// Hard means that no rule of any kind may allow the program: the text is ambiguous, or the
	// print of the tree may read differently.
	Hard bool
	// Runs means that something may run that is not among the Commands. Deny rules then also
	// search the text itself.
	Runs bool
}

// MaxBytes is the largest text, in bytes, that a rule can allow; a larger one is a hard Problem. A person can still approve it.
const MaxBytes = 10_000

// Is reports whether the value is certainly text. It is false for every Dynamic word.
func (w Word) Is(text string) bool { return !w.Dynamic && w.Text == text }

// Prefix returns the text that every possible value begins with: the whole value of a literal word.
func (w Word) Prefix() string {
	if w.Dynamic {
		return w.Begin
	}
	return w.Text
}

// MayBeOption reports whether a program could take the word for an option. That is so for each
// Dynamic word that may be split or has no literal beginning.
func (w Word) MayBeOption() bool {
	if !w.Dynamic {
		return strings.HasPrefix(w.Text, "-")
	}
	p := w.Prefix()
	return w.Split || p == "" || p[0] == '-'
}

// Rest returns the text of all words but the first, joined with blanks. It is for deny rules that
// search a text, not for execution: nothing is quoted.
func (c Command) Rest() string {
	var words []string
	for _, w := range c.Words[1:] {
		words = append(words, w.Text)
	}
	return strings.Join(words, " ")
}

// Name returns the last part of the first word's path (rm for /bin/rm); "" if only the shell
// knows it.
func (c Command) Name() string {
	if c.Words[0].Dynamic {
		return ""
	}
	return base(c.Words[0].Text)
}

// base is path.Base without its special cases: it returns "" for a path that ends in a slash.
func base(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

// Literal reports whether every word and every variable's value is literal, so that the command
// can be named by an exact rule.
func (c Command) Literal() bool {
	return !slices.ContainsFunc(c.Words, func(w Word) bool { return w.Dynamic }) &&
		!slices.ContainsFunc(c.Env, func(a Assign) bool { return a.Value.Dynamic })
}

// Runs reports whether something may run that is not among the Commands: a Problem says so, or a
// command is given a variable by which programs or the shell may load other code.
func (p Program) Runs() bool {
	return slices.ContainsFunc(p.Problems, func(q Problem) bool { return q.Runs || q.Hard }) ||
		slices.ContainsFunc(p.Commands, func(c Command) bool {
			return slices.ContainsFunc(c.Env, func(e Assign) bool { return !SafeVariable(e.Name) })
		})
}

// Hard returns the reason of the first hard Problem; "" if there is none and rules may decide.
func (p Program) Hard() string {
	if i := slices.IndexFunc(p.Problems, func(q Problem) bool { return q.Hard }); i >= 0 {
		return p.Problems[i].Reason
	}
	return ""
}

// Argv returns the Program of a command that is executed directly, as the Git tool does, so every
// word is literal and nothing is expanded. Without words it has no Commands. Words with
// characters that cannot be seen are hard Problems, as in Parse.
func Argv(words ...string) Program {
	c := Command{Dirs: here(), Outer: -1, Certain: true}
	var p Program
	for _, w := range words {
		if reason := unclear(w, true); reason != "" {
			p.Problems = append(p.Problems, Problem{Reason: reason, Hard: true})
		}
		c.Words = append(c.Words, Word{Text: w})
	}
	if len(words) > 0 {
		p.Commands = []Command{c}
	}
	return p
}

// here returns the set that has only the directory in which the program starts.
func here() Dirs { return Dirs{Paths: []string{""}} }

// unclear returns why a text cannot be shown to a person as it is, or why a shell may read it
// differently: it is too long, not UTF-8, or has control, format or non-ASCII space characters. It returns "" for
// a clear text. newlines says whether \n is allowed.
func unclear(text string, newlines bool) string {
	if len(text) > MaxBytes {
		return fmt.Sprintf("it is longer than %d bytes", MaxBytes)
	}
	if !utf8.ValidString(text) {
		return "it is not valid UTF-8"
	}
	for _, c := range text {
		switch {
		case c == '\n' && newlines, c == '\t', c == ' ':
		case visible.Hidden(c), unicode.Is(unicode.Z, c):
			return fmt.Sprintf("it holds the character %U, which cannot be seen", c)
		}
	}
	return ""
}

// Certainty is how sure something is. Values are ordered, so min and max combine them. The zero
// value is No.
type Certainty int

// The certainties. Maybe is for what cannot be told.
const (
	No Certainty = iota
	Maybe
	Yes
)

// Rewrite replaces the words of commands, by their index in Commands, and prints Canonical anew.
// It serves Without. Commands keeps the old words. It changes the tree, so it must run after
// everything that prints a node, and not while other goroutines use the Program. If a word cannot
// be quoted, or the command is inside another, Canonical becomes "" and nothing may be executed.
func (p *Program) Rewrite(words map[int][]string) {
	for i, all := range words {
		call, ok := p.Commands[i].written.(*syntax.CallExpr)
		var text []string
		for _, w := range all {
			q, err := syntax.Quote(w, syntax.LangBash)
			ok = ok && err == nil
			text = append(text, q)
		}
		again, err := parse(strings.Join(text, " "), syntax.LangBash, false)
		if !ok || err != nil {
			p.Canonical = ""
			return
		}
		call.Args = again.Stmts[0].Cmd.(*syntax.CallExpr).Args
	}
	text, err := printTree(p.tree)
	if err != nil {
		text = ""
	}
	p.Canonical = text
}
