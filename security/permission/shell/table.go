package shell

import (
	"bytes"
	_ "embed"
	"fmt"
	"strings"
	"sync"

	"gopkg.in/yaml.v3"
)

//go:embed programs.yaml
var programsYAML []byte

// facts are what programs.yaml says of a program. A part that is nil says nothing. Everything is
// read-only after readPrograms.
type facts struct {
	// Shell is bash or posix, the language that a shell reads, or other, which nothing here reads.
	Shell string
	// Code says how an interpreter is given a program.
	Code *interpreter
	// Obeys are the words with which the program runs what the workspace says; none is any use of it.
	Obeys []string
	// Elsewhere are the words with which the program runs its arguments in another place; none is any word.
	Elsewhere []string
	// Wraps says how the program is given another to run.
	Wraps *wrapper
	// Guard says which arguments a prefix rule for the program does not cover.
	Guard *guard
	// Files says what the program does with the files that its arguments name.
	Files *files
	// Letters are the long names of options of one letter, for deny rules.
	Letters map[string]string
}

// wrapper says how a program is given another to run. The zero wrapper is for a program without
// known options: its first word begins the command, and each option makes the command uncertain.
type wrapper struct {
	// Flags are the letters of options without a value, Valued of those with one: the rest of the
	// word or the next word.
	Flags  string
	Valued string
	// Long are long options without a value, Longs those with one. Neither list has the dashes.
	Long  []string
	Longs []string
	// Skip is how many operands stand before the command, such as the time of timeout.
	Skip int
	// Sub are words of which one has to come first, such as run. Without it the program runs
	// nothing of its arguments.
	Sub []string
	// Free means that the program adds nothing that matters when all its options are known: a
	// rule for the inner command is enough.
	Free bool
	// Joined means that the rest is joined with blanks and given to a shell.
	Joined bool
	// Script are letters of options whose value is given to a shell.
	Script string
	// Each means that each operand is given to a shell.
	Each bool
	// Opaque means that the command is put together in a way that is not read here, so every word
	// may begin it.
	Opaque bool
}

// interpreter says how a program is given code in a language that is not read here. A prefix rule
// for one allows everything that the sandbox permits (security.md 2.3).
type interpreter struct {
	// Code are letters of options with code, Long the names of long ones.
	Code string
	Long []string
	// Operands means that the operands may be code.
	Operands bool
	// Guarded means that the guard reads the code, so a rule for the program allows no more than
	// the guard.
	Guarded bool
}

// guard says which arguments make a program run or write something that a prefix rule for it does not cover, unless the
// rule spells them (security.md 2.3). An empty guard covers all arguments.
type guard struct {
	// Short are the letters of options that are not covered; Long the long ones, which programs take abbreviated too
	// (one that ends in - stands for all that begin so); Single are whole words with one dash, as of find and go.
	Short  string
	Long   []string
	Single []string
	// Output are letters and Outs long options that are followed by a file to write: /dev/null
	// and - are covered.
	Output string
	Outs   []string
	// Below are whole words that are followed by a file to write: files below the working
	// directory and in /tmp are covered.
	Below []string
	// Valued are letters of options with a value, Longs long ones.
	Valued string
	Longs  []string
	// Follow are words of Single's kind that take the next word as a value that is not looked at,
	// Checked those whose value Check looks at.
	Follow  []string
	Checked []string
	// Literal are options whose value has to be known; * is any.
	Literal []string
	// Runs are words of Single's kind that a command follows, up to a ; or {} +. It is a command
	// of its own.
	Runs []string
	// Exact are long options that are covered although they begin like one that is not.
	Exact []string
	// Words are operands that are not covered, wherever they stand.
	Words []string
	// Subs are guards for what follows a sub-command, "" for what precedes it and "*" for every
	// one.
	Subs map[string]guard
	// Banned are sub-commands of which nothing is covered.
	Banned []string
	// Known are sub-commands beside those of Subs and Banned, if no other is covered: one that is not
	// the program's own may be an alias that a repository names.
	Known []string
	// Globals are the options before the sub-command that take the next word as a value.
	Globals []string
	// Operands is how many operands are covered: 0 is any number, a negative number is none.
	Operands int
	// Check names the function of checks that looks at an operand, and at a value of an option
	// with "OPTION=" before it.
	Check string
	// Whole means that the function has to see all of the value, so a beginning that is known is
	// not enough.
	Whole bool
	// Program is the language of the first operand: sed or awk.
	Program string
	// Bundled means that the first word is options even without a dash, as of tar. Leading means
	// that nothing behind the first operand is an option. Dashes means that the program has no
	// --, and takes words with one dash or two for the same.
	Bundled, Leading, Dashes bool
}

// files says what a program does with the files that its operands name.
type files struct {
	Read, Write Certainty
	// Skip is how many operands are no files, such as grep's pattern.
	Skip int
	// Last says that only the last operand is written, and the others are read, as of cp.
	Last bool
	// Trees are the letters of options that make it go below a directory; Always says that it does.
	Trees  string
	Always bool
	// Writes are the letters of options that make it write what it otherwise reads, or write a file.
	Writes string
	// Hidden says that it looks into files with a dot by itself.
	Hidden bool
	// From are letters, Froms long names of options whose value is a file to read, even if the
	// operands are no files. Operands are read, too, behind one of Opens.
	From         string
	Froms, Opens []string
}

// Certainty is how sure something is. Values are ordered, so min and max combine them. The zero
// value is No.
type Certainty int

// The certainties. Maybe is for what cannot be told.
const (
	// Maybe is for what cannot be told.
	No Certainty = iota
	Maybe
	Yes
)

// UnmarshalText reads maybe and yes.
func (c *Certainty) UnmarshalText(text []byte) error {
	switch string(text) {
	case "maybe":
		*c = Maybe
	case "yes":
		*c = Yes
	default:
		return fmt.Errorf("%q is not maybe or yes", text)
	}
	return nil
}

// programs is programs.yaml by the names of programs. It is read once, when it is first needed.
var programs = sync.OnceValue(readPrograms)

// readPrograms panics when programs.yaml is wrong: it is part of this package.
func readPrograms() map[string]facts {
	var families map[string]facts
	d := yaml.NewDecoder(bytes.NewReader(programsYAML))
	d.KnownFields(true)
	if err := d.Decode(&families); err != nil {
		panic(fmt.Sprintf("programs.yaml: %v", err))
	}
	all := map[string]facts{}
	for names, f := range families {
		for name := range strings.FieldsSeq(names) {
			if _, twice := all[name]; twice || !f.Guard.checksExist() {
				panic("programs.yaml: " + name + " stands in two lines, or names a check that there is not")
			}
			all[name] = f
		}
	}
	return all
}

func (g *guard) checksExist() bool {
	if g == nil {
		return true
	}
	for _, sub := range g.Subs {
		if !sub.checksExist() {
			return false
		}
	}
	return g.Check == "" || checks[g.Check] != nil
}

// known returns what is known of a program; the zero facts are nothing.
func known(name string) facts { return programs()[name] }

// LongNames returns the long names of a program's options of one letter; nil if none is known.
func LongNames(program string) map[string]string { return known(program).Letters }

// Strange reports whether nothing is known here about what the program does with its arguments.
func Strange(name string) bool {
	f := known(name)
	_, interprets := language(name)
	return f.Guard == nil && f.Wraps == nil && f.Files == nil && !interprets
}

// Writes reports whether the program is known to write files that it names.
func Writes(name string) bool {
	f := known(name).Files
	return f != nil && (f.Write == Yes || f.Writes != "" || f.Last)
}

// GlobalValue reports whether an option before a sub-command takes the next word as its value. known is false for programs
// that nothing is known of.
func GlobalValue(program, option string) (valued, known bool) {
	return program == "git" && gitGlobal(option), program == "git"
}

func set(names string) map[string]bool {
	all := map[string]bool{}
	for name := range strings.FieldsSeq(names) {
		all[name] = true
	}
	return all
}
