package shell

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// call walks a simple command: its assignments, then its words, in the order in which bash
// expands them. A CallExpr without words only assigns.
func (a *analysis) call(c *syntax.CallExpr, s scope) {
	var env []Assign
	for _, as := range c.Assigns {
		env = append(env, a.assignment(as, s, len(c.Args) > 0)...)
	}
	if len(c.Args) == 0 {
		return
	}
	var words []Word
	for _, w := range c.Args {
		words = append(words, a.word(w, s))
	}
	a.run(Command{Words: words, Env: env, written: c}, s)
}

// assignment walks NAME=VALUE. before says that a command follows, for which alone the variable
// is set; then it returns the variable. Else, and for arrays and +=, it records that the program
// sets the variable and returns nil.
//
// Subscripts are arithmetic and may run commands. Elements of an array are expanded like
// arguments.
func (a *analysis) assignment(as *syntax.Assign, s scope, before bool) []Assign {
	if as.Name == nil || !syntax.ValidName(as.Name.Value) {
		a.hard("it holds an assignment that is not known here")
		return nil
	}
	var value Word
	if as.Value != nil {
		value = a.word(as.Value, s)
	}
	if as.Index != nil {
		a.arithm(as.Index, s)
	}
	if as.Array != nil {
		for _, e := range as.Array.Elems {
			if e.Index != nil {
				a.arithm(e.Index, s)
			}
			if e.Value != nil {
				a.word(e.Value, s)
			}
		}
	}
	name := as.Name.Value
	if as.Array != nil || as.Index != nil {
		a.runs("it sets an array, whose elements and subscripts may be expanded once more")
	}
	if !before || as.Index != nil || as.Array != nil || as.Append {
		a.assign(name)
		return nil
	}
	return []Assign{{Name: name, Value: value}}
}

// declare walks export, declare, typeset, local, readonly and nameref, which the parser has as a
// node of their own because their arguments may be assignments. It adds the command, too, with
// each assignment as one word NAME=VALUE, so that rules can name it.
func (a *analysis) declare(c *syntax.DeclClause, s scope) {
	words := []Word{{Text: c.Variant.Value}}
	for _, as := range c.Args {
		switch {
		case as.Name == nil && as.Value != nil: // an option, or a name that only the shell knows
			words = append(words, a.word(as.Value, s))
		case as.Name == nil:
			a.hard("it holds a declaration that is not known here")
		default:
			a.assignment(as, s, false)
			w := Word{Text: as.Name.Value}
			if as.Value != nil {
				v := a.word(as.Value, s)
				w = Word{Text: as.Name.Value + "=" + v.Text, Dynamic: v.Dynamic, Begin: as.Name.Value + "=" + v.Begin}
			} else if as.Array != nil || as.Index != nil {
				w = Word{Text: as.Name.Value, Dynamic: true, Begin: as.Name.Value}
			}
			words = append(words, w)
		}
	}
	a.run(Command{Words: words, written: c}, s)
}

// arithm walks an arithmetic expression, which is a Problem unless it has only numbers: bash evaluates the value of a
// variable as an expression again, and a subscript in that may have a command substitution.
func (a *analysis) arithm(x syntax.ArithmExpr, s scope) {
	if !a.wordsIn(x, s) {
		a.runs("it calculates, which may run commands")
	}
}

// wordsIn walks the words in a part of the program, and reports whether all are decimal numbers.
func (a *analysis) wordsIn(part syntax.Node, s scope) (numbers bool) {
	numbers = true
	syntax.Walk(part, func(n syntax.Node) bool {
		w, is := n.(*syntax.Word)
		if is {
			numbers = numbers && w.Lit() != "" && strings.Trim(w.Lit(), "0123456789") == ""
			a.word(w, s)
		}
		return !is
	})
	return numbers
}

// calculates reports whether a [[ … ]] evaluates its words, or the subscript of a name.
func calculates(c *syntax.TestClause) bool {
	return contains(c, func(b *syntax.BinaryTest) bool { return b.Op >= syntax.TsEql && b.Op <= syntax.TsGtr }) ||
		contains(c, func(u *syntax.UnaryTest) bool { return u.Op == syntax.TsVarSet || u.Op == syntax.TsRefVar })
}

// SafeVariable reports whether a variable may be set for any program without a rule that spells
// it: none of these makes a program run or write something.
func SafeVariable(name string) bool {
	return safe[name] || strings.HasPrefix(name, "LC_") && len(name) > 3
}

// safe is a positive list. A variable that is missing here costs a question; one that is wrongly
// here lets a command load code.
var safe = set(`LANG LANGUAGE TZ NO_COLOR FORCE_COLOR CLICOLOR CLICOLOR_FORCE COLORTERM CI TERM COLUMNS LINES
GOOS GOARCH GOARM GOAMD64 GOARM64 CGO_ENABLED GO111MODULE GOMAXPROCS GOGC GOMEMLIMIT GOTRACEBACK GORACE
NODE_ENV DEBUG VERBOSE RUST_LOG RUST_BACKTRACE CARGO_TERM_COLOR CARGO_INCREMENTAL
PYTHONUNBUFFERED PYTHONDONTWRITEBYTECODE PYTHONHASHSEED PYTHONIOENCODING PYTHONUTF8 PIP_NO_INPUT PIP_DISABLE_PIP_VERSION_CHECK
GIT_TERMINAL_PROMPT GIT_OPTIONAL_LOCKS GIT_AUTHOR_NAME GIT_AUTHOR_EMAIL GIT_AUTHOR_DATE GIT_COMMITTER_NAME GIT_COMMITTER_EMAIL GIT_COMMITTER_DATE
DEBIAN_FRONTEND SOURCE_DATE_EPOCH LOG_LEVEL PY_COLORS OMP_NUM_THREADS RAILS_ENV RACK_ENV APP_ENV FLASK_ENV DJANGO_DEBUG`)
