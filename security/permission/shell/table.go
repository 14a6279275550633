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

// facts are what programs.yaml says of a program. A part that is nil says nothing.
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

// wrapper says how a program is given another to run.
type wrapper struct {
	// Flags are the letters of options without a value, Valued of those with one: the rest of the
	// word or the next word.
	Flags  string
	Valued string
	// Long are long options without a value, Longs those with one. Neither list has the dashes.
	Long   []string
	Longs  []string
	Skip   int      // operands before the command
	Sub    []string // words that have to come first, such as run
	Free   bool     // adds nothing that matters when all its options are known
	Joined bool     // the rest is joined and given to a shell
	Script string   // letters of options whose value is given to a shell
	Each   bool     // each operand is given to a shell
	Opaque bool     // what it runs is put together in a way that is not read here
}

// interpreter says how a program is given code in a language that is not read here. security.md 2.3: a rule for one is a
// rule for everything that the sandbox permits.
type interpreter struct {
	Code     string   // letters of options with code
	Long     []string // long options with code
	Operands bool     // the operands may be code
	Guarded  bool     // the guard reads the code, so a rule for the program allows no more than the guard
}

// guard says which arguments make a program run or write something that a prefix rule for it does not cover, unless the
// rule spells them (security.md 2.3). An empty guard covers all arguments.
type guard struct {
	// Short are the letters of options that are not covered; Long the long ones, which programs take abbreviated too
	// (one that ends in - stands for all that begin so); Single are whole words with one dash, as of find and go.
	Short  string
	Long   []string
	Single []string
	// Output are letters and Outs long options that are followed by a file to write: /dev/null and - are covered. Below
	// are whole words that are followed by one: files below the working directory are covered.
	Output string
	Outs   []string
	Below  []string
	// Valued are letters of options with a value, Longs long ones. Follow are words of Single's kind that take the next
	// word as a value that is not looked at, Checked those whose value Check looks at. Literal are options whose value
	// has to be known; * is any.
	Valued  string
	Longs   []string
	Follow  []string
	Checked []string
	Literal []string
	// Runs are words of Single's kind behind which a command stands, up to a ; or {} +: it is a command of its own.
	Runs []string
	// Exact are long options that are covered although they begin like one that is not.
	Exact []string
	// Words are operands that are not covered, wherever they stand.
	Words []string
	// Subs are guards for what follows a sub-command, "" for what precedes it and "*" for every one. Nothing of a
	// sub-command in Banned is covered. Globals are the options before it that take the next word as a value.
	Subs    map[string]guard
	Banned  []string
	Globals []string
	// Operands is how many operands are covered: 0 is any number, less is none.
	Operands int
	// Check names the function of checks that looks at an operand, and at a value of an option with "OPTION=" before it.
	// Whole says that it has to see all of the value.
	Check string
	Whole bool
	// Program is the language of the first operand: sed or awk.
	Program string
	// Bundled says that the first word is options even without a dash, as of tar; Leading that nothing behind the first
	// operand is an option; Dashes that the program has no --.
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
}

// Certainty is how sure something is.
type Certainty int

// The certainties. Maybe is for what cannot be told.
const (
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
