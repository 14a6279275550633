package shell

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// stmts walks statements in order.
func (a *analysis) stmts(list []*syntax.Stmt, s scope) {
	for _, st := range list {
		a.stmt(st, s)
	}
}

// stmt walks one statement: its redirections, its command and how it is run.
// Redirections are resolved before the command runs, in the directories from before it.
func (a *analysis) stmt(st *syntax.Stmt, s scope) {
	if st.Coprocess || st.Disown {
		a.hard("it is not written for bash")
	}
	a.redirects(st.Redirs, s)
	for _, r := range st.Redirs {
		if (r.N == nil || r.N.Value == "0") && slices.Contains(inputs, r.Op) {
			s.piped, s.stdin = true, ""
			if r.Hdoc != nil {
				s.stdin, _ = literals(r.Hdoc)
			}
		}
	}
	a.command(st.Cmd, s)
}

// inputs are the redirections of the standard input.
var inputs = []syntax.RedirOperator{syntax.Hdoc, syntax.DashHdoc, syntax.WordHdoc, syntax.RdrIn, syntax.RdrInOut, syntax.DplIn}

// command walks a compound or simple command; nil stands for a statement of redirections alone. A
// construct that is not known here makes the program hard, so new syntax in the parser is never
// allowed by accident.
func (a *analysis) command(c syntax.Command, s scope) {
	switch c := c.(type) {
	case nil:
	case *syntax.CallExpr:
		a.call(c, s)
	case *syntax.BinaryCmd:
		a.binary(c, s)
	case *syntax.Subshell:
		a.stmts(c.Stmts, s)
	case *syntax.Block:
		a.stmts(c.Stmts, s)
	case *syntax.IfClause:
		for ; c != nil; c = c.Else {
			a.stmts(c.Cond, s)
			a.stmts(c.Then, s)
		}
	case *syntax.WhileClause:
		a.loop(s, c.Cond, c.Do)
	case *syntax.ForClause:
		a.forLoop(c, s)
	case *syntax.CaseClause:
		a.word(c.Word, s)
		for _, item := range c.Items {
			for _, w := range item.Patterns {
				a.word(w, s)
			}
			a.stmts(item.Stmts, s)
		}
	case *syntax.TimeClause:
		a.time(c, s)
	case *syntax.CoprocClause:
		// The parser takes the first of two words for the name; the shell does not.
		a.hard("it starts a coprocess")
		a.stmt(c.Stmt, s)
	case *syntax.FuncDecl:
		a.runs("it defines a function, which may stand in for a program")
		a.loop(s, []*syntax.Stmt{c.Body})
	case *syntax.ArithmCmd:
		a.arithm(c.X, s)
	case *syntax.LetClause:
		for _, x := range c.Exprs {
			a.arithm(x, s)
		}
	case *syntax.TestClause:
		if calculates(c) {
			a.runs("it compares numbers or asks whether a variable is set in [[, which may run commands")
		}
		a.wordsIn(c.X, s)
	case *syntax.DeclClause:
		a.declare(c, s)
	default:
		a.hard("it holds something that is not known here")
	}
}

// binary walks both sides of && and ||, and of a pipe, which feeds the right one.
func (a *analysis) binary(c *syntax.BinaryCmd, s scope) {
	a.stmt(c.X, s)
	if c.Op == syntax.Pipe || c.Op == syntax.PipeAll {
		s.piped, s.stdin = true, ""
	}
	a.stmt(c.Y, s)
}

// time walks the command behind the keyword time. If that begins with a dash, the parser sees a
// command and bash an option of time, or the other way round; and behind a | time is a program. So the program is hard.
func (a *analysis) time(c *syntax.TimeClause, s scope) {
	if c.Stmt == nil {
		return
	}
	if call, is := c.Stmt.Cmd.(*syntax.CallExpr); is && len(call.Args) > 0 && strings.HasPrefix(call.Args[0].Lit(), "-") || s.piped {
		a.hard("time is given something that only the shell knows to be an option or a command")
	}
	a.stmt(c.Stmt, s)
}

// loop walks statements that may run again. If they change the directory, the next round begins wherever the last one ended.
func (a *analysis) loop(s scope, lists ...[]*syntax.Stmt) {
	for round := range 2 {
		before, commands, files := a.dirs, len(a.program.Commands), len(a.program.Files)
		for _, list := range lists {
			a.stmts(list, s)
		}
		if round > 0 || slices.Equal(before.Paths, a.dirs.Paths) {
			return
		}
		a.dirs.Unknown = true
		a.program.Commands, a.program.Files = a.program.Commands[:commands], a.program.Files[:files]
	}
}

// forLoop walks a for loop over words, a select, or one with arithmetic. Any other kind makes the
// program hard.
func (a *analysis) forLoop(c *syntax.ForClause, s scope) {
	switch l := c.Loop.(type) {
	case *syntax.WordIter:
		a.assign(l.Name.Value)
		for _, w := range l.Items {
			a.word(w, s)
		}
	case *syntax.CStyleLoop:
		for _, x := range []syntax.ArithmExpr{l.Init, l.Cond, l.Post} {
			if x != nil {
				a.arithm(x, s)
			}
		}
	default:
		a.hard("it holds a loop that is not known here")
	}
	a.loop(s, c.Do)
}

// redirects records the files that redirections open, and walks the words and here-documents in
// them.
func (a *analysis) redirects(list []*syntax.Redirect, s scope) {
	for _, r := range list {
		// {NAME}>file assigns the number of the new descriptor to NAME.
		if r.N != nil && strings.Trim(r.N.Value, "0123456789") != "" {
			a.assign(strings.Trim(r.N.Value, "{}"))
			a.runs("it keeps a file's number in a variable, whose subscript may run commands")
		}
		switch r.Op {
		case syntax.Hdoc, syntax.DashHdoc:
			a.document(r, s)
		case syntax.WordHdoc:
			a.word(r.Word, s)
		default:
			a.redirect(r.Op, a.word(r.Word, s), s)
		}
	}
}

// document walks the commands in a here-document. One that is evaluated beyond plain variables is read by rules of its own,
// which are not followed here.
func (a *analysis) document(r *syntax.Redirect, s scope) {
	if r.Hdoc == nil {
		return
	}
	evaluated := slices.ContainsFunc(r.Hdoc.Parts, func(p syntax.WordPart) bool {
		x, is := p.(*syntax.ParamExp)
		_, isText := p.(*syntax.Lit)
		return !isText && !(is && (x.Short || !operates(x)))
	})
	if evaluated && !quotedDelimiter(r.Word) {
		a.runs("a here-document runs something")
	}
	a.word(r.Hdoc, s)
}

// redirect records the file that one redirection opens, unless it duplicates a descriptor or
// names /dev/null or a standard stream. It adds a Problem for a file whose name only the shell
// knows and for /dev/tcp and /dev/udp, which bash itself turns into connections.
func (a *analysis) redirect(op syntax.RedirOperator, w Word, s scope) {
	f := File{Path: w, Dirs: a.dirs}
	switch op {
	case syntax.DplOut, syntax.DplIn:
		// >&2, >&- and >&2- duplicate, close and move a descriptor. >&file opens a file.
		if number := strings.TrimSuffix(w.Text, "-"); !w.Dynamic && strings.Trim(number, "0123456789") == "" {
			return
		}
		if strings.HasPrefix(w.Text, "-") {
			a.hard("a redirection to a name that begins with - is read differently when it is printed")
		}
		if !w.Dynamic && strings.Trim(w.Text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-") != "" {
			// The shell expands this word once more: >&'\x' writes x.
			w.Dynamic = true
			f.Path = w
		}
		f.Write, f.Read = op == syntax.DplOut, op == syntax.DplIn
	case syntax.RdrIn:
		f.Read = true
	case syntax.RdrInOut:
		f.Read, f.Write = true, true
	default:
		f.Write = true
	}
	switch {
	case w.Dynamic:
		a.doubt("only the shell knows which file a redirection opens")
	case w.Text == "/dev/null", w.Text == "/dev/stdout", w.Text == "/dev/stderr":
		return
	case strings.HasPrefix(w.Text, "/dev/tcp/"), strings.HasPrefix(w.Text, "/dev/udp/"):
		a.doubt("it opens a network connection by a redirection")
	}
	a.program.Files = append(a.program.Files, f)
}

// maxDirs is how many directories a command may run in before the rest counts as unknown. Each
// multiplies the files that rules are compared with.
const maxDirs = 16

// enter adds the directories to which cd w leads from those before. The old ones remain, since a cd can fail and the
// program goes on (measured: cd nosuch; echo x > ../f). A word that only the shell knows, an
// option, and ~name make the set Unknown. It never writes to the slice of d, which commands share.
func (d Dirs) enter(w Word) Dirs {
	if w.Dynamic || strings.HasPrefix(w.Text, "-") || strings.HasPrefix(w.Text, "~") && !w.Tilde {
		return Dirs{Paths: d.Paths, Unknown: true}
	}
	all := slices.Clone(d.Paths)
	for _, p := range d.Paths {
		if next := join(p, w); !slices.Contains(all, next) {
			all = append(all, next)
		}
	}
	if len(all) > maxDirs {
		return Dirs{Paths: all[:maxDirs], Unknown: true}
	}
	return Dirs{Paths: all, Unknown: d.Unknown}
}
