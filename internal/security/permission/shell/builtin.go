package shell

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"symbio/internal/security/lazyregexp"
)

// builtin handles the commands that bash runs by itself. done is false for a program, and for a
// builtin that runs another command (exec with words), which the caller must look through. It is
// called only for a name without a slash, because /bin/echo is a program.
//
// Free is set for builtins that only control the flow, so that no rule is needed for them.
func (v invocation) builtin(name string, args []Word) (done bool) {
	c := v.command()
	switch name {
	case "true", "false", ":", "exit", "return", "break", "continue", "wait":
		c.Free = c.Literal() && len(c.Env) == 0 && !slices.ContainsFunc(args, func(w Word) bool { return w.Is("-p") })
	case "set":
		v.set(args)
	case "cd":
		v.cd(args)
	case "eval":
		v.eval(args)
	case "trap":
		v.trap(args)
	case "source", ".":
		// The script runs in this very shell, so it may also change the directory.
		c.Unread = true
		v.analysis.dirs.Unknown = true
		if !c.Literal() { // as of source <(cmd)
			v.unknownScript()
		}
	case "export", "declare", "typeset", "readonly", "local", "read", "unset":
		problems := len(v.analysis.problems)
		v.sets(name, args)
		v.command().Free = len(v.analysis.problems) == problems && len(args) > 0 && len(v.command().Env) == 0
	case "printf":
		v.printf(args)
	case "[", "test":
		v.test(name, args)
	case "pushd", "popd", "alias", "bind", "complete", "compgen", "compopt", "enable", "fc", "hash", "history", "shopt", "unalias", "let",
		"mapfile", "readarray", "getopts", "nameref":
		v.analysis.runs(name + " may change what later commands mean, or run some")
	case "exec":
		c.Free = len(args) == 0 // then only its redirections count
		return c.Free
	default:
		return false
	}
	return true
}

// sets records the variables that a builtin sets. It is read only with valid names and the options -r and -x: a subscript
// and the values of arrays are evaluated, and may run commands.
func (v invocation) sets(builtin string, args []Word) {
	for _, w := range args {
		name, value, _ := strings.Cut(w.Prefix(), "=")
		switch {
		case w.Is("-r"), w.Is("-x"):
		case w.Split, !syntax.ValidName(name), strings.HasPrefix(value, "("):
			v.analysis.runs(builtin + " is given something that is no variable's name, which may run commands")
		case builtin == "export", builtin == "declare", builtin == "typeset":
			v.analysis.export(name)
		default:
			v.analysis.assign(name)
		}
	}
	if c := v.command(); builtin == "read" { // a blank IFS only says how it cuts a line
		c.Env = slices.DeleteFunc(slices.Clone(c.Env), func(e Assign) bool { return e.Name == "IFS" })
	}
}

// setsByFormat matches %n in a format of printf, by which bash sets the variable that an argument
// names. %% is removed before.
var setsByFormat = lazyregexp.New(`%[^%a-zA-Z]*[hjlLqtz]*n`)

// printf is read only with a literal format that sets no variable.
func (v invocation) printf(args []Word) {
	if len(args) > 0 && (args[0].Dynamic || args[0].MayBeOption() || setsByFormat().MatchString(strings.ReplaceAll(args[0].Text, "%%", ""))) {
		v.analysis.runs("printf may set a variable")
	}
}

// test is read only if no word is split, and none is or may be an operator that evaluates the subscript of a name, as -v does:
// one that only the shell knows may be an operator, unless another word stands where the operator is (POSIX: test decides by
// the number of arguments).
func (v invocation) test(name string, args []Word) {
	if name == "[" && len(args) > 0 && args[len(args)-1].Is("]") {
		args = args[:len(args)-1]
	}
	evaluates := false
	for i, w := range args {
		value := len(args) == 1 || len(args) == 2 && i == 1 || len(args) == 3 && i != 1
		evaluates = evaluates || w.Split || w.Is("-v") || w.Is("-R") || w.Dynamic && !value
	}
	if evaluates {
		v.analysis.runs("test is given something that may run commands")
	}
	v.command().Free = !evaluates && len(v.command().Env) == 0
}

// setFlags matches the options of set that only make the shell stricter or more talkative.
var setFlags = lazyregexp.New(`^([-+][eux]*o?|pipefail|errexit|nounset|xtrace)$`)

// set makes the command Free if it has only setFlags. Other options and positional parameters are Problems: set -a exports
// every variable.
func (v invocation) set(args []Word) {
	if slices.ContainsFunc(args, func(w Word) bool { return w.Dynamic || !setFlags().MatchString(w.Text) }) {
		v.analysis.runs("set changes how the shell reads commands, or its arguments")
		return
	}
	v.command().Free = len(args) > 0 && len(v.command().Env) == 0
}

// cd adds to the directories. Under -P, and behind options that are not known, .. follows
// the links of the file system, which this package does not see, so the directory is unknown. cd
// alone leads to the home.
func (v invocation) cd(args []Word) {
	c := v.command()
	if len(args) > 0 && args[0].Is("--") {
		args = args[1:]
	}
	switch {
	case len(args) == 0:
		v.analysis.dirs = v.analysis.dirs.enter(Word{Text: "~", Tilde: true})
	case len(args) > 1 || args[0].Split:
		v.analysis.dirs.Unknown = true
	default:
		v.analysis.dirs = v.analysis.dirs.enter(args[0])
		c.Free = !v.analysis.dirs.Unknown && len(c.Env) == 0
	}
}

// eval walks the text that its arguments form together. It runs in the same shell.
func (v invocation) eval(args []Word) {
	var texts []string
	for _, w := range args {
		if w.Dynamic || w.Tilde {
			v.unknownScript()
			return
		}
		texts = append(texts, w.Text)
	}
	v.script(1, Word{Text: strings.TrimPrefix(strings.Join(texts, " "), "--")}, syntax.LangBash)
}

// trap walks the text that runs at a signal or at the end, between any two commands and in any directory.
func (v invocation) trap(args []Word) {
	v.analysis.dirs.Unknown = true
	for i, w := range args[:min(2, len(args))] {
		if !w.Is("--") {
			v.script(1+i, w, syntax.LangBash)
			return
		}
	}
}
