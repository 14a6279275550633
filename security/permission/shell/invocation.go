package shell

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// invocation is a command of the program that is inspected for other commands that it runs, such
// as those of sudo, xargs, find -exec or sh -c. Its methods are spread over invocation.go,
// wrap.go, interpret.go and builtin.go. It exists for one call of run.
type invocation struct {
	*analysis
	// i is the index of the command in program.Commands.
	i int
	// scope is the scope in which the command runs. Builtins change it.
	scope *scope
}

// command returns the command. The pointer is valid only until another command is added, since
// the slice may move, so callers ask again instead of keeping it.
func (v invocation) command() *Command { return &v.program.Commands[v.i] }

// run adds a command to the program and then the commands that it runs, recursively. Beyond
// maxCommands it adds nothing and makes the program hard: no rule allows it, which bounds the
// time of one decision. c has no directories yet; they and Outer come from the scope.
func (a *analysis) run(c Command, s *scope) {
	if len(a.program.Commands) >= maxCommands {
		if !a.tooMany {
			a.hard("it holds too many commands")
		}
		a.tooMany = true
		return
	}
	c.Dirs, c.Certain, c.Outer = s.dirs, !s.guessed, -1
	if s.inner {
		// The node is not one of the program's tree, so it cannot be printed or rewritten there.
		c.Outer, c.At, c.written = s.outer, s.at, nil
	}
	a.program.Commands = append(a.program.Commands, c)
	if c.Words[0].Dynamic {
		a.runs("only the shell knows the name of a command in it")
		return
	}
	v := invocation{a, len(a.program.Commands) - 1, s}
	name, args := c.Name(), c.Words[1:]
	// A name with a slash is never a builtin.
	if c.Words[0].Text == name && v.builtin(name, args) {
		return
	}
	v.wrapped(name, args)
	v.interpreted(name)
}

// within adds the command that words are, beginning at word at of this command, with env set for
// it. certain says whether it is known that exactly these words run. Empty words add nothing. s
// is the scope in which the outer command runs; a cd of the inner command may hold there, as of
// command cd.
func (v invocation) within(at int, words []Word, env []Assign, s *scope, certain bool) {
	if len(words) == 0 {
		return
	}
	if v.depth >= deepest {
		v.runs("programs are nested too deeply in it")
		return
	}
	inner := s.clone()
	inner.inner, inner.outer, inner.at = true, v.i, at
	inner.guessed = s.guessed || !certain
	v.depth++
	v.run(Command{Words: words, Env: env}, inner)
	v.depth--
	s.dirs = union(s.dirs, inner.dirs)
}

// guess adds every command that the words may be, when it cannot be told at which word the inner
// command begins. They are not certain: deny rules see them, allow rules do not. at is the index
// of words[0] in this command.
func (v invocation) guess(at int, words []Word, env []Assign, s *scope) {
	v.runs("it cannot be told what " + v.command().Name() + " runs here")
	for j := range words {
		v.within(at+j, words[j:], env, s, false)
	}
}

// script analyses a text that the command runs, its word at, in the given dialect. The text
// starts in the command's directories, with no input that is known and without the variables of
// loops.
func (v invocation) script(at int, w Word, lang syntax.LangVariant) {
	if w.Dynamic {
		v.unknownScript()
		return
	}
	inner := v.scope.clone()
	inner.inner, inner.outer, inner.at, inner.stdin = true, v.i, at, nil
	inner.vars = nil // another process, or another time
	v.text(w.Text, lang, inner)
	v.scope.dirs = union(v.scope.dirs, inner.dirs)
}

// unknownScript notes that the command runs a text that only the shell knows.
func (v invocation) unknownScript() {
	v.runs("only the shell knows what it gives " + v.command().Words[0].Text + " to run")
}

// join returns the text that several words form together, with blanks between, as eval and watch
// join them. ok is false when only the shell knows it; then a Problem says so.
func (v invocation) join(args []Word) (text string, ok bool) {
	var texts []string
	for _, w := range args {
		if w.Dynamic {
			v.unknownScript()
			return "", false
		}
		if w.Tilde { // the home's path is read once more, behind what is before it
			v.runs("only the shell knows what ~ is when " + v.command().Words[0].Text + " reads it")
		}
		texts = append(texts, w.Text)
	}
	return strings.Join(texts, " "), true
}

// wrapped adds the commands that a wrapper such as sudo, timeout or xargs runs from its
// arguments. env, xargs, find and fd have readers of their own; the rest is in the table. A
// wrapper with sub-commands, such as npm exec, runs something only behind one of these words.
func (v invocation) wrapped(name string, args []Word) {
	switch name {
	case "env":
		v.env(args)
		return
	case "xargs":
		v.xargs(args)
		return
	case "find", "gfind":
		v.find(args)
		return
	case "fd", "fdfind":
		v.fd(args)
		return
	}
	w := known(name).Wraps
	if isLoader(name) {
		w = new(wrapper)
	}
	if w == nil {
		return
	}
	// command -v NAME only says what NAME is.
	if name == "command" && len(args) > 0 && (args[0].Is("-v") || args[0].Is("-V")) {
		v.command().Free = v.command().Literal()
		return
	}
	at := 0
	if len(w.Sub) > 0 {
		at = 1 + slices.IndexFunc(args, func(word Word) bool { return !word.Dynamic && slices.Contains(w.Sub, word.Text) })
		if at == 0 {
			return
		}
	}
	v.operands(at+1, args[at:], *w)
}

// isLoader reports whether the program is a dynamic loader, such as ld-linux.so.2, which runs the
// program that it is given. Its name has the version in it, so it is not in the table.
func isLoader(name string) bool {
	return strings.HasPrefix(name, "ld-linux") || strings.HasPrefix(name, "ld-musl") || strings.HasPrefix(name, "ld.so")
}

// operands adds the command that follows the wrapper's options and first operands. args begin at
// word at of the command. When the options cannot be skipped for certain, each of the next 20
// words may begin the command, and the program counts as one that runs something unknown.
func (v invocation) operands(at int, args []Word, w wrapper) {
	all := len(args)
	args, certain := v.skip(at, args, w)
	at += all - len(args)
	v.shellArguments(at, args, w)
	if !certain {
		v.runs("it cannot be told what " + v.command().Words[0].Text + " runs here")
		for j := range min(20, len(args)) {
			if args[j].Dynamic || !strings.HasPrefix(args[j].Text, "-") {
				v.within(at+j, args[j:], nil, v.scope, false)
			}
		}
		return
	}
	if w.Free {
		v.command().Free = len(args) > 0 && v.command().plainUntil(at)
	}
	switch {
	case len(args) == 0:
	case w.Joined:
		if text, ok := v.join(args); ok {
			v.script(at, Word{Text: text}, syntax.LangBash)
		}
	case w.Each:
		for j, word := range args {
			v.script(at+j, word, syntax.LangBash)
		}
	default:
		var env []Assign
		// sudo A=b cmd sets A for cmd.
		for name := v.command().Name(); len(args) > 0 && (name == "sudo" || name == "doas"); args, at = args[1:], at+1 {
			variable, value, ok := strings.Cut(args[0].Text, "=")
			if !ok || !syntax.ValidName(variable) || args[0].Dynamic {
				break
			}
			env = append(env, Assign{variable, Word{Text: value}})
		}
		v.within(at, args, env, v.scope, true)
	}
}

// shellArguments adds the scripts behind -c in args, the words behind the wrapper's options and
// first operands. su and runuser (Flags has -) look for options in all words, and pass those behind
// -- to a shell. Others pass a -c only where the command would begin.
func (v invocation) shellArguments(at int, args []Word, w wrapper) {
	for j := 0; j+1 < len(args) && w.Script == "c" && (j == 0 || strings.Contains(w.Flags, "-")); j++ {
		text := args[j].Text
		if text == "--command" || strings.HasPrefix(text, "-") && !strings.HasPrefix(text, "--") && strings.HasSuffix(text, "c") {
			v.script(at+j+1, args[j+1], syntax.LangBash)
		}
	}
}

// skip returns the words behind the wrapper's options and first operands, and adds the scripts
// among them (su -c TEXT). certain is false when an option is not known, since it may take the
// next word as its value, and for opaque wrappers. rest then begins at the word that is in doubt.
func (v invocation) skip(at int, args []Word, w wrapper) (rest []Word, certain bool) {
	if w.Opaque {
		return args, false
	}
	operands := w.Skip
	for len(args) > 0 {
		word, taken := args[0], 1
		switch {
		case word.Dynamic && word.MayBeOption():
			return args, false
		case word.Dynamic || word.Text == "-" && !strings.Contains(w.Flags, "-") || !strings.HasPrefix(word.Text, "-"):
			if operands == 0 {
				return args, true
			}
			operands--
		case word.Text == "--":
			// Behind -- the operands of the wrapper come first, then the command. Some programs
			// still accept their -c there.
			for args = args[1:]; operands > 0 && len(args) > 0 && (w.Script == "" || !args[0].Is("-"+w.Script)); operands-- {
				args = args[1:]
			}
			return args, true
		default:
			var script int
			var ok bool
			if taken, script, ok = w.option(args); !ok {
				return args, false
			}
			if script >= 0 && script < len(args) {
				v.script(at+script, args[script], syntax.LangBash)
			}
		}
		taken = min(taken, len(args))
		args, at = args[taken:], at+taken
	}
	return args, true
}

// plainUntil reports whether the words of the wrapper itself, up to index to, are literal, and
// its name has no slash. Only then is it known that the wrapper does nothing but run the rest.
func (c Command) plainUntil(to int) bool {
	return c.Words[0].Text == c.Name() && !slices.ContainsFunc(c.Words[:min(to, len(c.Words))], func(w Word) bool { return w.Dynamic })
}

// option reads one option at args[0]. taken is the number of words that it has, script the index
// of the word that is a program for a shell, or -1. known is false for options that are not in
// the table, and where the value may be several words.
func (w wrapper) option(args []Word) (taken, script int, known bool) {
	text := args[0].Text
	single := len(args) < 2 || !args[1].Split // the word behind the option is one word
	if long, ok := strings.CutPrefix(text, "--"); ok {
		name, _, valued := strings.Cut(long, "=")
		switch {
		case !valued && slices.Contains(w.Long, name):
			return 1, -1, true
		case slices.Contains(w.Longs, name) && valued:
			return 1, -1, true
		case slices.Contains(w.Longs, name):
			return 2, -1, single
		// --command TEXT is the long form of -c in all programs of the table that have one.
		case name == "command" && w.Script != "" && !valued:
			return 2, 1, true
		}
		return 1, -1, false
	}
	// Programs with an option -n N accept -N for it.
	if strings.Trim(text[1:], "0123456789") == "" && strings.Contains(w.Valued, "n") {
		return 1, -1, true // nice -5
	}
	for j := 1; j < len(text); j++ {
		letter := text[j : j+1]
		last := j+1 == len(text)
		switch {
		case strings.Contains(w.Script, letter):
			if !last {
				return 1, -1, false // -cTEXT
			}
			return 2, 1, true
		case strings.Contains(w.Valued, letter):
			if !last {
				return 1, -1, true
			}
			return 2, -1, single
		case !strings.Contains(w.Flags, letter):
			return 1, -1, false
		}
	}
	return 1, -1, true
}
