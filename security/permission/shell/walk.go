package shell

import (
	"maps"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// stmts walks statements in order, in the same scope: a later one starts in the directories in
// which an earlier one may have ended.
func (a *analysis) stmts(list []*syntax.Stmt, s *scope) {
	for _, st := range list {
		a.stmt(st, s)
	}
}

// stmt walks one statement: its redirections, its command and how it is run. A statement in the
// background has a scope of its own, since a cd in it does not change the shell's directory.
// Redirections are resolved before the command runs, in the directories from before it.
func (a *analysis) stmt(st *syntax.Stmt, s *scope) {
	if st.Coprocess || st.Disown {
		a.hard("it is not written for bash")
	}
	at := s
	if st.Background {
		at = s.clone()
	}
	if len(st.Redirs) > 0 {
		a.redirects(st.Redirs, at)
		inner := at.clone()
		a.standardInput(st.Redirs, inner)
		a.command(st.Cmd, inner)
		// Only the directory outlives the command. The input that was redirected for it does not.
		at.dirs = inner.dirs
		return
	}
	a.command(st.Cmd, at)
}

// command walks a compound or simple command; nil stands for a statement of redirections alone. A
// construct that is not known here makes the program hard, so new syntax in the parser is never
// allowed by accident.
func (a *analysis) command(c syntax.Command, s *scope) {
	switch c := c.(type) {
	case nil:
	case *syntax.CallExpr:
		a.call(c, s)
	case *syntax.BinaryCmd:
		if c.Op == syntax.Pipe || c.Op == syntax.PipeAll {
			a.pipe(c, s)
			return
		}
		a.stmt(c.X, s)
		a.stmt(c.Y, s)
	case *syntax.Subshell:
		a.stmts(c.Stmts, s.clone())
	case *syntax.Block:
		a.stmts(c.Stmts, s)
	case *syntax.IfClause:
		a.conditional(c, s)
	case *syntax.WhileClause:
		a.loop(s, [][]*syntax.Stmt{c.Cond, c.Do})
	case *syntax.ForClause:
		a.forLoop(c, s)
	case *syntax.CaseClause:
		a.caseClause(c, s)
	case *syntax.TimeClause:
		a.time(c, s)
	case *syntax.CoprocClause:
		// The parser takes the first of two words for the name; the shell does not.
		a.hard("it starts a coprocess")
		if c.Name != nil {
			a.word(c.Name, s)
		}
		a.stmt(c.Stmt, s.clone())
	case *syntax.FuncDecl:
		a.function(c, s)
	case *syntax.ArithmCmd:
		a.arithm(c.X, s)
	case *syntax.LetClause:
		for _, x := range c.Exprs {
			a.arithm(x, s)
		}
	case *syntax.TestClause:
		a.test(c.X, s)
	case *syntax.DeclClause:
		a.declare(c, s)
	default:
		a.hard("it holds something that is not known here")
	}
}

// pipe walks both sides of a pipe, each in a scope of its own, since bash runs them in subshells.
// If echo or printf feeds literal text to the right side, an interpreter there is analysed with
// that text as its standard input.
func (a *analysis) pipe(c *syntax.BinaryCmd, s *scope) {
	if _, is := c.Y.Cmd.(*syntax.TimeClause); is {
		a.hard("time behind a | is a program, not the shell's own") // the parser reads both alike
	}
	left, right := s.clone(), s.clone()
	a.stmt(c.X, left)
	right.piped, right.stdin = true, echoed(c.X)
	a.stmt(c.Y, right)
	if !fixed(left.dirs, s.dirs) || !fixed(right.dirs, s.dirs) {
		// shopt -s lastpipe aside, neither side's cd holds beyond the pipe.
		s.dirs = union(s.dirs, right.dirs)
	}
}

// caseClause walks the patterns and all branches of a case, since it is not known which one runs.
// Patterns are expanded by the shell, so the commands in them count.
func (a *analysis) caseClause(c *syntax.CaseClause, s *scope) {
	a.word(c.Word, s)
	before := s.dirs
	for _, item := range c.Items {
		for _, w := range item.Patterns {
			a.word(w, s)
		}
		branch := s.clone()
		branch.dirs = union(before, s.dirs) // ;& falls through
		a.stmts(item.Stmts, branch)
		s.dirs = union(s.dirs, branch.dirs)
	}
}

// time walks the command behind the keyword time. If that begins with a dash, the parser sees a
// command and bash an option of time, or the other way round, so the program is hard.
func (a *analysis) time(c *syntax.TimeClause, s *scope) {
	if c.Stmt == nil {
		return
	}
	if call, is := c.Stmt.Cmd.(*syntax.CallExpr); is && len(call.Args) > 0 && len(call.Assigns) == 0 && strings.HasPrefix(call.Args[0].Lit(), "-") {
		a.hard("time is given something that only the shell knows to be an option or a command")
	}
	a.stmt(c.Stmt, s)
}

// function walks a function's body as if it ran where it is declared. Calls are not followed, so
// the directory and the loop variables in the body are unknown. The program counts as one that
// runs something unknown, because the function may have the name of a program: git() { rm -rf .;
// } changes what git means.
func (a *analysis) function(c *syntax.FuncDecl, s *scope) {
	a.runs("it defines a function, which may stand in for a program")
	body := s.clone()
	body.vars = nil
	body.dirs = Dirs{Paths: s.dirs.Paths, Unknown: true}
	a.stmt(c.Body, body)
	s.dirs = union(s.dirs, body.dirs)
}

// conditional walks the condition and all branches of an if; an elif or else is the Else of the
// clause before. Afterwards the directories are those to which any branch may lead, and those in
// which no branch ran.
func (a *analysis) conditional(c *syntax.IfClause, s *scope) {
	a.stmts(c.Cond, s)
	then := s.clone()
	a.stmts(c.Then, then)
	if c.Else != nil {
		a.conditional(c.Else, s)
	}
	s.dirs = union(s.dirs, then.dirs)
}

// loop walks the statements of a loop once, parts in order. If they change the directory, a
// second round begins wherever the first one ended, so the directories are unknown from the
// start. Afterwards the loop may also have run no round at all.
func (a *analysis) loop(s *scope, parts [][]*syntax.Stmt) {
	inside := s.clone()
	for _, list := range parts {
		if !inside.dirs.Unknown && moves(list) {
			inside.dirs = Dirs{Paths: s.dirs.Paths, Unknown: true}
		}
	}
	for _, list := range parts {
		a.stmts(list, inside)
	}
	s.dirs = union(s.dirs, inside.dirs)
}

// moves reports whether statements may change the shell's directory, by a look at the names of
// their commands. "" stands for a name that is not a plain literal. It may be true too often,
// which costs a question.
func moves(list []*syntax.Stmt) bool {
	return slices.ContainsFunc(list, func(st *syntax.Stmt) bool {
		return contains(st, func(c *syntax.CallExpr) bool {
			if len(c.Args) == 0 {
				return false
			}
			name, _ := plain(c.Args[0])
			return slices.Contains([]string{"", "cd", "pushd", "popd", "eval", "source", ".", "builtin", "command", "trap"}, name)
		})
	})
}

// forLoop walks a for loop over words, a select, or one with arithmetic. Any other kind makes the
// program hard.
func (a *analysis) forLoop(c *syntax.ForClause, s *scope) {
	switch l := c.Loop.(type) {
	case *syntax.WordIter:
		a.each(c, l, s)
		return
	case *syntax.CStyleLoop:
		for _, x := range []syntax.ArithmExpr{l.Init, l.Cond, l.Post} {
			if x != nil {
				a.arithm(x, s)
			}
		}
	default:
		a.hard("it holds a loop that is not known here")
	}
	a.loop(s, [][]*syntax.Stmt{c.Do})
}

// maxRounds is how many rounds of a loop over words are walked one by one. A longer loop is
// walked once, with a variable that only the shell knows. Each round adds all commands of the
// body to the Program.
const maxRounds = 20

// each walks a loop over literal words: the body once for each, with the variable set to that
// word, so that rm $f is judged with the files that it removes. Too many rounds, a loop without
// words (which runs over $@) and a select are walked once, with an unknown value.
func (a *analysis) each(c *syntax.ForClause, l *syntax.WordIter, s *scope) {
	a.looped[l.Name.Value] = true
	a.steered(l.Name.Value)
	var items []Word
	for _, w := range l.Items {
		items = append(items, a.words(w, s)...)
	}
	// After the inner loop the outer body would see the inner value, and this walk the outer one.
	if _, nested := s.vars[l.Name.Value]; nested {
		a.runs("a loop in it sets the variable of the loop around it")
	}
	a.rounds += len(items)
	if len(items) == 0 || len(items) > maxRounds || a.rounds > maxCommands || c.Select {
		items = []Word{{Dynamic: true, Split: true, Pattern: string(Any)}}
	}
	for _, item := range items {
		round := s.clone()
		// The map is shared with the scope around, which must not see this round's value.
		round.vars = maps.Clone(s.vars)
		if round.vars == nil {
			round.vars = map[string]Word{}
		}
		round.vars[l.Name.Value] = item
		a.loop(round, [][]*syntax.Stmt{c.Do})
		s.dirs = union(s.dirs, round.dirs)
	}
}

// redirects records the files that redirections open, and walks the words and here-documents in
// them.
func (a *analysis) redirects(list []*syntax.Redirect, s *scope) {
	for _, r := range list {
		// {NAME}>file assigns the number of the new descriptor to NAME.
		if r.N != nil && strings.Trim(r.N.Value, "0123456789") != "" {
			name := strings.Trim(r.N.Value, "{}")
			a.assign(name)
			a.doubt("it keeps a file's number in a variable")
			if !syntax.ValidName(name) {
				a.runs("it keeps a file's number in an array, whose subscript may run commands")
			}
		}
		if r.Hdoc != nil {
			if text, busy := busyHeredoc(r.Hdoc); busy && !quotedDelimiter(r.Word) {
				// The shell takes these away before it reads what runs in the document.
				switch {
				case strings.Contains(text, `\`):
					a.hard("a here-document with a backslash runs something")
				case r.Op == syntax.DashHdoc:
					a.hard("a here-document without its tabs (<<-) runs something")
				}
			}
			a.word(r.Hdoc, s)
		}
		switch r.Op {
		case syntax.Hdoc, syntax.DashHdoc:
			continue
		case syntax.WordHdoc:
			a.word(r.Word, s)
			continue
		}
		words := a.words(r.Word, s)
		// bash refuses a redirection to several words. Here each of them counts.
		if len(words) != 1 {
			a.doubt("a redirection has not one target")
		}
		for _, w := range words {
			a.redirect(r.Op, w, s)
		}
	}
}

// redirect records the file that one redirection opens, unless it duplicates a descriptor or
// names /dev/null or a standard stream. It adds a Problem for a file whose name only the shell
// knows and for /dev/tcp and /dev/udp, which bash itself turns into connections.
func (a *analysis) redirect(op syntax.RedirOperator, w Word, s *scope) {
	f := File{Path: w, Dirs: s.dirs}
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
			w.Dynamic, w.Pattern = true, string(Any)
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
	if !w.Dynamic {
		switch w.Text {
		case "/dev/null", "/dev/stdout", "/dev/stderr":
			return
		}
		if strings.HasPrefix(w.Text, "/dev/tcp/") || strings.HasPrefix(w.Text, "/dev/udp/") {
			a.doubt("it opens a network connection by a redirection")
		}
	} else {
		a.doubt("only the shell knows which file a redirection opens")
	}
	a.program.Files = append(a.program.Files, f)
}

// standardInput sets scope.stdin and scope.piped for a command with redirections, as in sh <<EOF.
// stdin is the text of a here-document or here-string, nil when only the shell knows it. The last
// redirection of descriptor 0 wins.
func (a *analysis) standardInput(list []*syntax.Redirect, s *scope) {
	for _, r := range list {
		if r.N != nil && r.N.Value != "0" {
			continue
		}
		switch r.Op {
		case syntax.Hdoc, syntax.DashHdoc, syntax.WordHdoc:
			w := r.Word
			if r.Op != syntax.WordHdoc {
				w = r.Hdoc
			}
			s.piped, s.stdin = true, nil
			if w == nil {
				s.stdin = new("")
			} else if text, ok := staticText(w.Parts, r.Op != syntax.WordHdoc); ok {
				// With a quoted delimiter the backslashes that staticText has removed are part of
				// the text.
				if r.Op != syntax.WordHdoc && quotedDelimiter(r.Word) {
					text, _ = literals(w)
				}
				s.stdin = &text
			}
		case syntax.RdrIn, syntax.RdrInOut, syntax.DplIn:
			s.piped, s.stdin = true, nil
		}
	}
}

// echoed returns the text that echo or printf on the left of a pipe feeds to the command on the
// right; nil if it is not that simple. It takes \n for a newline and interprets no other escape
// or format. That is exact enough for deny rules, the only ones that it serves: a shell that
// reads a pipe is a Problem in any case.
func echoed(st *syntax.Stmt) *string {
	c, ok := st.Cmd.(*syntax.CallExpr)
	if !ok || len(c.Args) < 2 || len(st.Redirs) > 0 {
		return nil
	}
	var words []string
	for _, w := range c.Args {
		text, ok := staticText(w.Parts, false)
		if !ok {
			return nil
		}
		words = append(words, text)
	}
	// Only to find what is denied: what is fed to a shell by a pipe is never allowed by a rule.
	if words[0] == "echo" || words[0] == "printf" {
		return new(strings.ReplaceAll(strings.Join(words[1:], " "), `\n`, "\n"))
	}
	return nil
}

// maxDirs is how many directories a command may run in before the rest counts as unknown. Each
// multiplies the files that rules are compared with.
const maxDirs = 16

// union returns the directories of two branches, each once, those of x first. Beyond maxDirs the
// set is cut and becomes Unknown. It never writes to the slices of x and y, which scopes share.
func union(x, y Dirs) Dirs {
	if fixed(x, y) {
		return x
	}
	all := slices.Clone(x.Paths)
	for _, p := range y.Paths {
		if !slices.Contains(all, p) {
			all = append(all, p)
		}
	}
	if len(all) > maxDirs {
		return Dirs{Paths: all[:maxDirs], Unknown: true}
	}
	return Dirs{Paths: all, Unknown: x.Unknown || y.Unknown}
}

// fixed reports whether two sets of directories are equal and in the same order. A difference in
// order only costs a union.
func fixed(x, y Dirs) bool { return x.Unknown == y.Unknown && slices.Equal(x.Paths, y.Paths) }

// enter returns the directories after cd w. The old ones remain, since a cd can fail and the
// program goes on (measured: cd nosuch; echo x > ../f). A word that only the shell knows, an
// option, and ~name make the set Unknown.
func (d Dirs) enter(w Word) Dirs {
	if w.Dynamic || strings.HasPrefix(w.Text, "-") || strings.HasPrefix(w.Text, "~") && !w.Tilde {
		return Dirs{Paths: d.Paths, Unknown: true}
	}
	var next []string
	for _, p := range d.Paths {
		next = append(next, join(p, w))
	}
	return union(d, Dirs{Paths: next, Unknown: d.Unknown})
}

// busyHeredoc reports whether something in a here-document is evaluated beyond plain variables,
// such as a command substitution, and returns the document's source. If the source cannot be
// printed, it is a backslash, which the caller refuses.
func busyHeredoc(w *syntax.Word) (text string, busy bool) {
	plain := true
	for _, p := range w.Parts {
		switch p := p.(type) {
		case *syntax.Lit:
		case *syntax.ParamExp:
			plain = plain && (p.Short || p.Exp == nil && p.Repl == nil && p.Index == nil && p.Slice == nil)
		default:
			plain = false
		}
	}
	if plain {
		return "", false
	}
	text, err := printTree(w)
	if err != nil {
		text = `\`
	}
	return text, true
}
