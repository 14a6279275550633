package shell

import (
	"regexp"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// builtin handles the commands that bash runs by itself. done is false for a program, and for a
// builtin that runs another command (exec with words), which the caller must look through. It is
// called only for a name without a slash, because /bin/echo is a program.
//
// Free is set for builtins that do nothing but print or control the flow, so that no rule is
// needed for them.
func (v invocation) builtin(name string, args []Word) (done bool) {
	c := v.command()
	switch name {
	case "true", "false", ":":
		c.Free = c.isPlain()
	case "exit", "return", "break", "continue":
		c.Free = c.isPlain() && numbers(args)
	case "[", "test":
		v.test(name, args)
	case "set":
		v.set(args)
	case "cd":
		v.cd(args)
	case "eval":
		v.eval(args)
	case "trap":
		v.trap(args)
	case "alias", "bind", "complete", "compgen", "compopt", "enable", "fc", "history", "shopt", "unalias":
		v.runs(name + " changes what commands mean or runs some")
	// hash -p FILE NAME makes NAME run FILE; only -r is harmless.
	case "hash":
		if options(args, "-r") {
			v.runs("hash says which file a command means")
		}
	// The directory stack is not followed.
	case "pushd", "popd":
		v.scope.dirs.Unknown = true
	// The script runs in this very shell, so it may also change the directory.
	case "source", ".":
		c.Unread = true
		v.scope.dirs.Unknown = true
		if !c.Literal() { // as of source <(cmd)
			v.unknownScript()
		}
	case "unset":
		v.unset(args)
	// wait -p NAME sets a variable.
	case "wait":
		v.sets(name, args)
		c.Free = c.isPlain() && numbers(args, "-n", "-f")
	case "read", "export", "declare", "typeset", "readonly":
		if name == "read" { // a blank IFS only says how it cuts a line
			c.Env = slices.DeleteFunc(slices.Clone(c.Env), func(e Assign) bool { return e.Name == "IFS" })
		}
		// Free only if setting the variables was found to be harmless, and no value has anything
		// in it that bash might expand once more.
		problems := len(v.problems)
		v.sets(name, args)
		c.Free = len(v.problems) == problems && len(args) > 0 && c.isPlain() && !options(args, "-r", "-x", "-a") &&
			!slices.ContainsFunc(args, func(w Word) bool { return strings.ContainsAny(w.Text, "($`<") })
	case "local", "mapfile", "readarray", "getopts", "printf", "nameref", "let":
		v.sets(name, args)
	case "exec":
		c.Free = len(args) == 0 // then only its redirections count
		return c.Free
	default:
		return false
	}
	return true
}

// isPlain reports whether the command has only literal words and sets no variables.
func (c Command) isPlain() bool { return c.Literal() && len(c.Env) == 0 }

// number matches the number of a status, a loop, a job (%1) or a process.
var number = regexp.MustCompile(`^[-%]?[0-9]+$`)

func (w Word) mayBeNumber() bool { return w.Dynamic || number.MatchString(w.Text) }

// numbers reports whether all words are numbers, as far as they are literal, or among the options.
func numbers(args []Word, options ...string) bool {
	return !slices.ContainsFunc(args, func(w Word) bool { return !w.mayBeNumber() && !slices.Contains(options, w.Text) })
}

// options reports whether one of the words may be an option that is not in but.
func options(args []Word, but ...string) bool {
	return slices.ContainsFunc(args, func(w Word) bool { return w.MayBeOption() && (w.Dynamic || !slices.Contains(but, w.Text)) })
}

// unset records the variables that are removed, since removing one changes what later commands
// see. A subscript, as in unset 'a[$(cmd)]', is evaluated.
func (v invocation) unset(args []Word) {
	for _, w := range args {
		if w.Dynamic || strings.Contains(w.Text, "[") {
			v.runs("unset may evaluate what it is given")
		} else if !strings.HasPrefix(w.Text, "-") {
			v.assign(w.Text)
		}
	}
}

// test makes a test Free unless a word may be -v or -R, which evaluate the subscript of a name. It is
// a Problem if the name behind these is not plain, or a literal beside -eq no number.
func (v invocation) test(name string, args []Word) {
	c := v.command()
	certain := c.Literal() && Guard(*c, 1) == "" || comparison(name, args)
	v.unclearTest = v.unclearTest || !certain
	for i, w := range args[min(1, len(args)):] {
		before := args[i]
		if (before.Is("-v") || before.Is("-R")) && (w.Dynamic || !syntax.ValidName(w.Text)) || calculates[before.Text] && !w.mayBeNumber() || calculates[w.Text] && !before.mayBeNumber() {
			v.runs("test is given something that may run commands")
			certain = false
		}
	}
	c.Free = certain && len(c.Env) == 0
}

// calculates are the operators of test that compare numbers.
var calculates = set("-eq -ne -lt -le -gt -ge")

// comparison reports whether test or [ has as many words as make its operator certain (POSIX:
// test decides by the number of arguments). Then a word that only the shell knows is compared and
// not evaluated. A word that may be split, or whose value may be an operator, makes the number or
// the operator uncertain.
func comparison(name string, args []Word) bool {
	if name == "[" {
		if len(args) == 0 || !args[len(args)-1].Is("]") {
			return false
		}
		args = args[:len(args)-1]
	}
	for _, w := range args {
		if w.Split || w.Dynamic && strings.ContainsAny(w.Pattern, string([]rune{AnyName, AnyRune})) && w.Prefix() == "" {
			return false
		}
	}
	if len(args) > 1 && args[0].Is("!") {
		args = args[1:]
	}
	is := func(w Word, operators string) bool {
		return !w.Dynamic && w.Text != "" && strings.Contains(" "+operators+" ", " "+w.Text+" ")
	}
	switch len(args) {
	case 1:
		return true
	case 2:
		return is(args[0], "-n -z -e -f -d -r -w -x -s -L -h -p -S -b -c -g -u -k -O -G -N")
	case 3:
		return is(args[1], "= == != -eq -ne -lt -le -gt -ge -nt -ot -ef")
	}
	return false
}

// setOptions are the values of set -o and +o that are harmless: they make the shell stricter,
// quieter or more talkative, and do not change how it parses.
var setOptions = []string{"pipefail", "errexit", "nounset", "xtrace", "noglob"}

// set makes the command Free if it only sets options of setOptions or their letters. Other
// options, positional parameters, and dynamic words are Problems: set -- changes $1 and $@, and
// set -a exports every variable.
func (v invocation) set(args []Word) {
	named := false // the word before was -o
	for _, w := range args {
		// -euxf and o are the letters of those options; o takes the next word as a name, so it
		// must be last.
		letters := len(w.Text) > 1 && strings.ContainsAny(w.Text[:1], "+-") && strings.Trim(w.Text[1:], "euxfo") == ""
		switch {
		case w.Dynamic:
			v.runs("only the shell knows how set changes it")
			return
		case named && !slices.Contains(setOptions, w.Text), !named && letters && strings.Contains(w.Text, "o") && !strings.HasSuffix(w.Text, "o"):
			v.runs("set changes how the shell reads commands")
			return
		case !named && !letters:
			v.runs("set changes the shell's arguments")
			return
		}
		named = !named && strings.HasSuffix(w.Text, "o")
	}
	v.command().Free = len(args) > 0 && len(v.command().Env) == 0
}

// cd changes the scope's directories. Under -P, and behind options that are not known, .. follows
// the links of the file system, which this package does not see, so the directory is unknown. cd
// alone leads to the home.
func (v invocation) cd(args []Word) {
	s := v.scope
	for len(args) > 0 && !args[0].Dynamic && slices.Contains([]string{"-P", "-L", "--", "-e", "-@"}, args[0].Text) {
		s.dirs.Unknown = s.dirs.Unknown || !args[0].Is("--") && !args[0].Is("-L")
		args = args[1:]
	}
	switch {
	case len(args) == 0:
		s.dirs = union(s.dirs, Dirs{Paths: []string{"~"}})
	case len(args) > 1 || args[0].Split:
		s.dirs.Unknown = true
	default:
		s.dirs = s.dirs.enter(args[0])
	}
}

// eval walks the text that its arguments form together. It runs in the same shell, so assignments
// and loops around it keep their values, and a cd in it holds afterwards.
func (v invocation) eval(args []Word) {
	text, ok := v.join(args)
	if !ok {
		return
	}
	if len(args) > 0 && args[0].Is("--") {
		text = strings.TrimPrefix(text[2:], " ")
	}
	inner := v.scope.clone()
	inner.inner, inner.outer, inner.at = true, v.i, 1
	v.text(text, syntax.LangBash, inner)
	v.scope.dirs = union(v.scope.dirs, inner.dirs)
}

// trap walks the text that runs at a signal or at the end. It may run between any two commands
// and in any directory, so variables that it sets are in doubt everywhere (checkUses). The forms
// that print or reset traps do nothing.
func (v invocation) trap(args []Word) {
	at := 1
	if len(args) > 0 && args[0].Is("--") {
		args, at = args[1:], 2
	}
	switch {
	case len(args) == 0 || args[0].Is("-p") || args[0].Is("-l") || args[0].Is("-") || args[0].Is(""):
		return
	case args[0].MayBeOption():
		v.runs("only the shell knows what it gives trap to run")
		return
	}
	v.trapped = true
	late := v.scope.clone()
	late.dirs = Dirs{Paths: v.scope.dirs.Paths, Unknown: true} // it runs later, wherever the shell is then
	invocation{v.analysis, v.i, late}.script(at, args[0], syntax.LangBash)
}

// setsByFormat matches %n in a format of printf, by which bash sets the variable that an argument
// names. %% is removed before.
var setsByFormat = regexp.MustCompile(`%[^%a-zA-Z]*[hjlLqtz]*n`)

// valuedOptions are the letters of options with a value, by builtin. It decides which words are
// names of variables.
var valuedOptions = map[string]string{"read": "adnNptui", "mapfile": "dnOsuCc", "readarray": "dnOsuCc", "printf": "v", "wait": "p"}

// sets records the variables that a builtin sets: those named by its words, and by options such
// as printf -v. A name with a subscript is evaluated as arithmetic and may run commands, so only
// valid names pass without a Problem. A name that only the shell knows is a Problem, too.
func (v invocation) sets(name string, args []Word) {
	for i := 0; i < len(args); i++ {
		w := args[i]
		isOption := strings.HasPrefix(w.Text, "-")
		switch {
		// The format is the first word that is no option. Everything behind it is data.
		case name == "printf" && (i > 0 && (w.Dynamic || args[i-1].Is("--")) || !w.MayBeOption() || w.Is("-")):
			if w.Dynamic && (w.Split || i+1 < len(args)) || setsByFormat.MatchString(strings.ReplaceAll(w.Text, "%%", "")) {
				v.runs("printf may set a variable by %n")
			}
			return
		// The operands of wait are processes.
		case name == "wait" && (w.Dynamic || !isOption), w.Is("--"):
		// export NAME=$VALUE: the name is literal.
		case w.Dynamic && !w.Split && strings.Contains(w.Prefix(), "="):
			v.setsName(name, w)
		case w.Dynamic:
			v.runs("only the shell knows which variable " + name + " sets")
			return
		// The first operand of getopts is a list of letters.
		case name == "getopts" && i == 0:
		case isOption && name != "let":
			i += v.setsByOption(name, args[i:])
		case name == "let":
			if strings.Trim(w.Text, "0123456789+-*/ ()<>=!&|%") != "" {
				v.runs("let calculates with something that is no number, which may run commands")
			}
		default:
			v.setsName(name, w)
		}
	}
}

// setsByOption records what the option at args[0] sets: read -a, printf -v and wait -p name a
// variable, mapfile -C and -c a command to call back. taken is 1 when the option's value is the
// next word, which the caller then skips.
func (v invocation) setsByOption(name string, args []Word) (taken int) {
	text := args[0].Text
	// -i evaluates later values as arithmetic, -n makes a reference to another variable, -f is about
	// functions.
	if declares[name] && strings.Trim(text, "-aAFglprtux") != "" {
		v.runs("it declares a variable in a way that may run something")
	}
	letter := strings.IndexAny(text, valuedOptions[name])
	if letter < 1 {
		return 0
	}
	value := text[letter+1:]
	if value == "" && len(args) > 1 {
		value, taken = args[1].Text, 1
		if args[1].Split { // then the words behind the value have another meaning
			v.runs("only the shell knows which variable " + name + " sets")
		}
	}
	switch c := text[letter]; {
	case c == 'C' || c == 'c':
		v.runs(name + " runs what it is given")
	case c == 'a' || name != "read" && (c == 'v' || c == 'p'):
		v.setsName(name, Word{Text: value})
	}
	return taken
}

// setsName records the variable of a word NAME or NAME=VALUE of a builtin. Builtins that declare
// may export it (declare -x), so programs may see it afterwards. They expand the elements of an array,
// a value in parentheses, once more (declare -a 'x=($(cmd))'), also if it was made an array before.
func (v invocation) setsName(builtin string, w Word) {
	name, value, assigns := strings.Cut(w.Prefix(), "=")
	if !syntax.ValidName(name) {
		v.runs(builtin + " is given something that is no variable's name, which may run commands")
		return
	}
	v.assign(name)
	v.arrays[name] = v.arrays[name] || builtin == "mapfile" || builtin == "readarray" || v.command().hasLetter("aA")
	if !declares[builtin] {
		return
	}
	if strings.HasPrefix(value, "(") {
		v.runs(builtin + " may expand a value in parentheses once more")
	}
	v.unread[name] = v.unread[name] || assigns && value == "" && w.Dynamic
	v.exported[name] = v.exported[name] || !SafeVariable(name)
}

// declares are the builtins that give variables attributes, such as that programs see them.
var declares = set("export declare typeset readonly local")
