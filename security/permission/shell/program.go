package shell

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"

	"symbio/security/visible"
)

// Program is what a text may do.
type Program struct {
	// Canonical is what to execute: the tree, printed. "" when the text could not be read.
	Canonical string
	Commands  []Command
	Files     []File // what redirections open
	Problems  []Problem
	// Computes says that it uses variables that it sets itself: what only the shell knows may be anything.
	Computes bool

	tree *syntax.File // that Canonical is the print of
}

// Command is a simple command that may run.
type Command struct {
	Words []Word // the first names the program; never empty
	Env   []Assign
	Dirs  Dirs
	// Outer is the command that runs this one as its argument, such as timeout; -1 for none. At is the
	// word of Outer that this command begins with.
	Outer, At int
	// Certain is false when the command was only guessed at, for deny rules.
	Certain bool
	// Free says that the command can do nothing that matters, such as true or timeout 5, apart from
	// what it runs, which is a command of its own.
	Free bool
	// Code is text in another language that the command runs, such as of python -c. Unread says that it
	// runs commands from a file in this very shell.
	Code   string
	Unread bool

	written syntax.Node // nil for a command inside another
}

// Source is the simple command in the shell's own writing, with its assignments but without its
// redirections; "" for a command that another is given to run.
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

// Word is an argument.
type Word struct {
	// Text is the value of a literal word. Of a dynamic one it is how it was written.
	Text string
	// Dynamic says that only the shell knows the value. Pattern is then what it looks like, with the
	// marks below in it.
	Dynamic bool
	Pattern string
	// Split says that the shell may make several words of it, or none.
	Split bool
	// Tilde says that Text begins with an unquoted ~, which is the home directory.
	Tilde bool
}

// The marks in a Pattern. They cannot be typed into a command: such bytes are a hard Problem.
const (
	Any     = '\x01' // any characters
	AnyName = '\x02' // any but /
	AnyRune = '\x03' // one, but not /
	Below   = '\x04' // any, but without ..: what find found
)

// Marks are all of them.
const Marks = "\x01\x02\x03\x04"

// Assign is a variable set for one command.
type Assign struct {
	Name  string
	Value Word
}

// File is what a redirection opens, in one of the directories.
type File struct {
	Path        Word
	Read, Write bool
	Dirs        Dirs
}

// Dirs are the directories that a command may run in: absolute, below the home (~/…), or relative to
// where the program started. cd may fail, so there are usually several.
type Dirs struct {
	Paths   []string
	Unknown bool // and others
}

// Problem is a reason why no rule for single commands can allow the program.
type Problem struct {
	Reason string
	Hard   bool // no rule at all may
	Runs   bool // something may run that is not among the Commands
}

// MostBytes is the longest text that can be allowed without asking.
const MostBytes = 10_000

// Is reports whether the word is literally text.
func (w Word) Is(text string) bool { return !w.Dynamic && w.Text == text }

// Prefix is what the value begins with, whatever the rest is.
func (w Word) Prefix() string {
	if !w.Dynamic {
		return w.Text
	}
	if i := strings.IndexAny(w.Pattern, Marks); i >= 0 {
		return w.Pattern[:i]
	}
	return w.Pattern
}

// MayBeOption reports whether the value could begin with a dash.
func (w Word) MayBeOption() bool {
	if !w.Dynamic {
		return strings.HasPrefix(w.Text, "-")
	}
	p := w.Prefix()
	return w.Split || p == "" || p[0] == '-'
}

// Rest is the text of all words but the first.
func (c Command) Rest() string {
	var words []string
	for _, w := range c.Words[1:] {
		words = append(words, w.Text)
	}
	return strings.Join(words, " ")
}

// Name is the program's name: the last part of the first word, when that is literal.
func (c Command) Name() string {
	if c.Words[0].Dynamic {
		return ""
	}
	return base(c.Words[0].Text)
}

func base(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

// Literal reports whether every word and every assignment is literal.
func (c Command) Literal() bool {
	return !slices.ContainsFunc(c.Words, func(w Word) bool { return w.Dynamic }) &&
		!slices.ContainsFunc(c.Env, func(a Assign) bool { return a.Value.Dynamic })
}

// Runs reports whether something may run that is not among the Commands.
func (p Program) Runs() bool {
	return slices.ContainsFunc(p.Problems, func(q Problem) bool { return q.Runs || q.Hard }) ||
		slices.ContainsFunc(p.Commands, func(c Command) bool {
			return slices.ContainsFunc(c.Env, func(e Assign) bool { return !SafeVariable(e.Name) && steers(e.Name) })
		})
}

// Hard finds the reason why no rule may allow the program; "" is none.
func (p Program) Hard() string {
	if i := slices.IndexFunc(p.Problems, func(q Problem) bool { return q.Hard }); i >= 0 {
		return p.Problems[i].Reason
	}
	return ""
}

// Argv is the Program of one command that no shell reads.
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

func here() Dirs { return Dirs{Paths: []string{""}} }

// unclear says what stands in a text that people cannot see, or that a shell may read differently.
func unclear(text string, newlines bool) string {
	if len(text) > MostBytes {
		return fmt.Sprintf("it is longer than %d bytes", MostBytes)
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
