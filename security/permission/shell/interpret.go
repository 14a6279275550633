package shell

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// Interpreter reports whether a prefix rule that spells these words allows everything that the
// sandbox permits, because the program runs what it is given in a language that is not read here,
// or what the workspace says (make, npm run). Rule.Warning tells the person that writes such a
// rule. words are literal; the first is the program.
func Interpreter(words []string) bool {
	if len(words) == 0 {
		return false
	}
	f := known(base(words[0]))
	switch code, ok := language(base(words[0])); {
	case f.Shell != "":
		return true
	case ok:
		return !code.Guarded
	}
	return f.Obeys != nil && (len(f.Obeys) == 0 || len(words) == 1 || slices.Contains(f.Obeys, words[1]))
}

// language returns how an interpreter is given code. A name with a version, such as python3.12,
// is looked up without it. Then Operands and Guarded are false, because the entry was not made
// for that version.
func language(name string) (code interpreter, ok bool) {
	if c := known(name).Code; c != nil {
		return *c, true
	}
	if c := known(strings.TrimRight(name, "0123456789.-")).Code; c != nil {
		return interpreter{Code: c.Code, Long: c.Long}, true
	}
	return code, false
}

// interpreted adds the commands of a script that the command runs as a shell, and sets Code for
// interpreters of other languages. The programs named here are those whose use of arguments or
// standard input does not fit the table.
func (v invocation) interpreted(name string) {
	f := known(name)
	if f.Shell != "" {
		v.shell(f.Shell)
		return
	}
	c, s := v.command(), v.scope
	switch name {
	case "run-parts":
		c.Unread = true
	// These run their standard input later, in a shell, so the text is not a part of this
	// program.
	case "at", "batch", "crontab":
		if s.stdin != nil {
			c.Code = *s.stdin
		}
		if s.piped {
			v.runs(name + " runs what it reads from its input")
		}
		return
	// ssh HOST COMMAND runs the command on another machine, so it is kept as Code and not
	// analysed.
	case "ssh", "rsh", "mosh":
		if len(c.Words) > 2 {
			c.Code = c.Rest()
		}
		return
	// make -f - reads a makefile.
	case "make", "gmake":
		if s.stdin != nil {
			c.Code = *s.stdin
		}
		return
	}
	// docker run and its like: the arguments are a command, but in another file system.
	if args := c.Words[1:]; len(args) > 0 && f.Elsewhere != nil && (len(f.Elsewhere) == 0 ||
		slices.ContainsFunc(args, func(w Word) bool { return w.Dynamic || slices.Contains(f.Elsewhere, w.Text) })) {
		c.Code = c.Rest()
		return
	}
	if in, ok := language(name); ok {
		v.code(name, in)
	}
}

// code sets the command's Code to the texts that an interpreter is given by options (-c TEXT), as
// operands of awk and its like, and on the standard input. It adds a Problem if the program comes
// from a pipe or from <(…), where nothing here sees its text.
func (v invocation) code(name string, in interpreter) {
	words := v.command().Words
	var code []string
	// Without a program an interpreter reads its standard input. A program may be a file, an
	// option's text, or there is none because it only prints its version.
	given := false
	for j := 1; j < len(words); j++ {
		w := words[j]
		if w.Dynamic || !strings.HasPrefix(w.Text, "-") || w.Text == "-" {
			if !given && (strings.HasPrefix(w.Prefix(), "/dev/fd/") || w.Is("/dev/stdin")) {
				v.runs(name + " runs what another command gives it")
			}
			given = given || w.Dynamic || w.Text != "-"
			if in.Operands {
				code = append(code, w.Text)
			}
			continue
		}
		texts, taken, isGiven := in.option(words[j:])
		code, j, given = append(code, texts...), j+taken, given || isGiven
	}
	if !given && v.scope.piped {
		if v.scope.stdin != nil {
			code = append(code, *v.scope.stdin) // as if it stood behind -c
		} else {
			v.runs(name + " runs what it reads from its input")
		}
	}
	v.command().Code = strings.Join(code, "\n")
}

// option reads the option at words[0]. code are the texts that it gives; taken is the number of
// further words that belong to it, 0 or 1. given is true if it gives a program or makes the
// interpreter print something about itself, so that the standard input is not run.
func (in interpreter) option(words []Word) (code []string, taken int, given bool) {
	text := words[0].Text
	if long, value, _ := strings.Cut(text, "="); strings.HasPrefix(text, "--") {
		long = long[2:]
		if !slices.Contains(in.Long, long) {
			return nil, 0, long == "version" || long == "help"
		}
		code = []string{value}
		// In --eval TEXT the text is the next word. taken stays 0, so the caller looks at that
		// word once more, as an operand.
		if value == "" && len(words) > 1 {
			code = append(code, words[1].Text)
		}
		return code, 0, true
	}
	at := strings.IndexAny(text, in.Code)
	switch {
	case at < 1:
		return nil, 0, in.Code == "" || strings.ContainsAny(text, "mVvh")
	case at == len(text)-1 && len(words) > 1:
		return []string{words[1].Text}, 1, true
	}
	return []string{text[at+1:]}, 0, true
}

// shell adds the commands that a shell runs: the text behind -c or the literal standard input.
// For a script file it sets Unread. Whatever cannot be told becomes a Problem. lang is
// facts.Shell.
func (v invocation) shell(lang string) {
	c := *v.command()
	name := c.Name()
	j, commandText := v.shellOptions(c)
	switch {
	case commandText && j < len(c.Words):
		v.shellText(j, c.Words[j], lang)
	case commandText:
	case j >= len(c.Words) && len(c.Words) > 1 && (c.Words[1].Is("--version") || c.Words[1].Is("--help")):
	// The text on the standard input is read for deny rules only, so the Problem is added in any
	// case.
	case j >= len(c.Words) || c.Words[j].Is("/dev/stdin"):
		if v.scope.stdin != nil {
			v.shellText(len(c.Words), Word{Text: *v.scope.stdin}, lang)
		}
		v.runs(name + " runs what it reads from its input")
	case !c.Words[j].Dynamic:
		v.command().Unread = true // a file
	default:
		v.runs("only the shell knows which program it gives " + name + " to run")
	}
}

// shellOptions returns the index of the first word behind a shell's options, and whether -c is
// among these. That word is then the command's text, else a script file. Options that change how
// the shell parses, or that are not known, are Problems.
func (v invocation) shellOptions(c Command) (j int, commandText bool) {
	name := c.Name()
	for j = 1; j < len(c.Words); j++ {
		w := c.Words[j]
		if w.Dynamic && w.MayBeOption() && !commandText {
			v.runs("only the shell knows what it gives " + name + " to run")
		}
		switch {
		case w.Dynamic:
			return j, commandText
		case w.Text == "--" || w.Text == "-":
			return j + 1, commandText
		case len(w.Text) < 2 || w.Text[0] != '-' && w.Text[0] != '+':
			return j, commandText
		}
		switch w.Text {
		case "--norc", "--noprofile", "--posix", "--version", "--help":
			continue
		case "--rcfile", "--init-file":
			v.runs(name + " is given a file to begin with")
			j++
			continue
		}
		if strings.HasPrefix(w.Text, "--") {
			v.runs(name + " is given an option that is not known here")
			continue
		}
		// Letters may be combined: -ec, -xeuo pipefail.
		commandText = commandText || w.Text[0] == '-' && strings.Contains(w.Text, "c")
		letters, named := strings.CutSuffix(w.Text[1:], "o")
		if strings.Trim(letters, "ceuxlo") != "" || !named && strings.Contains(letters, "o") {
			v.runs(name + " is given an option that changes how it reads")
		}
		// -o and -O take the next word as a name. Of these only pipefail is known to be harmless.
		if named || strings.HasSuffix(w.Text, "O") {
			j++
		}
		if named && j < len(c.Words) && !c.Words[j].Is("pipefail") {
			v.runs(name + " is given an option that changes how it reads")
		}
	}
	return j, commandText
}

// shellText walks the text that a shell runs, word at of the command. sh may be bash or a smaller
// shell, so its text is read in both dialects and the commands of both count. Texts for other
// shells, such as zsh and fish, are read as bash for deny rules only, with a Problem.
func (v invocation) shellText(at int, w Word, lang string) {
	switch lang {
	case "bash":
	case "posix": // sh may be bash or not: what both would read has to be right
		v.script(at, w, syntax.LangPOSIX)
	default:
		v.runs("it gives " + v.command().Name() + " a program that cannot be read here")
	}
	v.script(at, w, syntax.LangBash)
}
