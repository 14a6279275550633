package shell

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"symbio/internal/security/lazyregexp"
)

// invocation is a command of the program that is inspected for other commands that it runs, such
// as the commands of sudo, xargs, find -exec or sh -c. Its methods are spread over invocation.go,
// wrap.go, interpret.go and builtin.go. It exists for one call of run.
type invocation struct {
	// analysis is that of the program, i the index of the command in its program.Commands.
	analysis *analysis
	i        int
	// scope is the scope in which the command runs.
	scope scope
}

// command returns the command. The pointer is valid only until another command is added, since
// the slice may move, so callers ask again instead of keeping it.
func (v invocation) command() *Command { return &v.analysis.program.Commands[v.i] }

// run adds a command to the program and then the commands that it runs, recursively. Beyond
// maxCommands it adds nothing and makes the program hard: no rule allows it, which bounds the
// time of one decision. c has no directories yet; they and Outer come from the scope.
func (a *analysis) run(c Command, s scope) {
	if len(a.program.Commands) >= maxCommands {
		if !a.tooMany {
			a.hard("it holds too many commands")
		}
		a.tooMany = true
		return
	}
	c.Dirs, c.Certain, c.Outer = a.dirs, !s.guessed, -1
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
// it. Empty words add nothing. s is the scope in which the outer command runs.
func (v invocation) within(at int, words []Word, env []Assign, s scope) {
	if len(words) == 0 {
		return
	}
	if v.analysis.depth >= deepest {
		v.analysis.runs("programs are nested too deeply in it")
		return
	}
	inner := s
	inner.inner, inner.outer, inner.at = true, v.i, at
	v.analysis.depth++
	v.analysis.run(Command{Words: words, Env: env}, inner)
	v.analysis.depth--
}

// guess adds every command that the words may be, when it cannot be told at which of the first 20 the inner command begins,
// and every text that one of them may be for a shell. They are not certain: deny rules see them, allow rules do not. at is
// the index of words[0] in this command.
func (v invocation) guess(at int, words []Word, env []Assign, s scope) {
	v.analysis.runs("it cannot be told what " + v.command().Name() + " runs here")
	unsure := s
	unsure.guessed = true
	for j, w := range words[:min(20, len(words))] {
		v.within(at+j, words[j:], env, unsure)
		if !w.Dynamic && strings.ContainsAny(w.Text, " \t\n;|") {
			invocation{v.analysis, v.i, unsure}.script(at+j, w, syntax.LangBash)
		}
	}
}

// script analyses a text that the command runs, its word at, in the given dialect.
func (v invocation) script(at int, w Word, lang syntax.LangVariant) {
	if w.Dynamic {
		v.unknownScript()
		return
	}
	inner := v.scope
	inner.inner, inner.outer, inner.at = true, v.i, at
	v.analysis.text(w.Text, lang, inner)
}

// unknownScript notes that the command runs a text that only the shell knows.
func (v invocation) unknownScript() {
	v.analysis.runs("only the shell knows what it gives " + v.command().Words[0].Text + " to run")
}

// wrapped adds the commands that a wrapper such as sudo, timeout or xargs runs from its
// arguments. env, xargs and find have readers of their own; the rest is in the table. A
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
	}
	if name == "command" && len(args) > 0 && (args[0].Is("-v") || args[0].Is("-V")) {
		v.command().Free = v.command().Literal()
		return
	}
	w, wraps := programs().wraps[name]
	if !wraps && !loader().MatchString(name) {
		return
	}
	at := 0
	if len(w.sub) > 0 {
		at = 1 + slices.IndexFunc(args, func(word Word) bool {
			return word.Dynamic || !strings.HasPrefix(word.Text, "-") || slices.Contains(w.sub, word.Text)
		})
		if at == 0 || !args[at-1].Dynamic && !slices.Contains(w.sub, args[at-1].Text) {
			return
		}
	}
	v.operands(at+1, args[at:], w)
}

// loader matches the names of dynamic loaders, which run the program that they are given.
var loader = lazyregexp.New(`^(ld-linux|ld-musl|ld\.so)`)

// operands adds the command that follows the wrapper's options and first operands. args begin at
// word at of the command.
func (v invocation) operands(at int, args []Word, w wrapper) {
	all := len(args)
	args, certain := w.skip(args)
	at += all - len(args)
	switch {
	case !certain || len(args) > 0 && strings.Contains(args[0].Prefix(), "="):
		v.guess(at, args, nil, v.scope)
	case len(args) == 0:
	default:
		v.command().Free = w.Free && v.command().plainUntil(at)
		v.within(at, args, nil, v.scope)
	}
}

// skip returns the words behind the wrapper's options and first operands. certain is false when an option is not known,
// since it may take the next word as its value, and for opaque wrappers. rest then begins at the word that is in doubt.
func (w wrapper) skip(args []Word) (rest []Word, certain bool) {
	for operands := w.Skip; len(args) > 0 && !w.opaque; {
		word, taken := args[0], 1
		switch {
		case word.Dynamic && word.MayBeOption():
			return args, false
		case word.Is("--"):
			return args[min(1+operands, len(args)):], true
		case word.Dynamic || word.Is("-") || !strings.HasPrefix(word.Text, "-"):
			if operands == 0 {
				return args, true
			}
			operands--
		default:
			var ok bool
			if taken, ok = w.option(args); !ok {
				return args, false
			}
		}
		args = args[min(taken, len(args)):]
	}
	return args, !w.opaque
}

// plainUntil reports whether the words of the wrapper itself, up to index to, are literal, and
// its name has no slash. Only then is it known that the wrapper does nothing but run the rest.
func (c Command) plainUntil(to int) bool {
	return c.Words[0].Text == c.Name() && !slices.ContainsFunc(c.Words[:min(to, len(c.Words))], func(w Word) bool { return w.Dynamic })
}

// option reads one option at args[0]. taken is the number of words that it has. known is false for options that are not in
// the table, and where the value may be several words.
func (w wrapper) option(args []Word) (taken int, known bool) {
	text := args[0].Text
	single := len(args) < 2 || !args[1].Split // the word behind the option is one word
	if strings.HasPrefix(text, "--") {
		return 1, strings.Contains(text, "=") && !strings.HasPrefix(text, "--replace") || slices.Contains(w.Long, text[2:])
	}
	// Programs with an option -n N accept -N for it.
	if strings.Trim(text[1:], "0123456789") == "" && strings.Contains(w.Valued, "n") {
		return 1, true // nice -5
	}
	for j := 1; j < len(text); j++ {
		switch letter := text[j : j+1]; {
		case strings.Contains(w.Valued, letter) && j+1 < len(text):
			return 1, true
		case strings.Contains(w.Valued, letter):
			return 2, single
		case !strings.Contains(w.Flags, letter):
			return 1, false
		}
	}
	return 1, true
}
