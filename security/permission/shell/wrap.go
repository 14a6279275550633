package shell

import (
	"regexp"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// envOption matches the options of env with a value, which may stand in the same word: -u, -C,
// --unset and --chdir.
var envOption = regexp.MustCompile(`^(-[uC].*|--(unset|chdir)(=.*)?)$`)

// env reads env [OPTION] [NAME=VALUE] COMMAND and adds the command with these variables. It is
// not read by a table, since a word NAME=VALUE and -S have a meaning of their own. If an option
// is not known, each following word may begin the command (guess).
func (v invocation) env(args []Word) {
	at, free := 1, true
	inner := v.scope.clone()
	var env []Assign
	for len(args) > 0 {
		w := args[0]
		name, _, isAssign := strings.Cut(w.Prefix(), "=")
		switch {
		// The word may be an option, a variable or the command.
		case w.Dynamic && (w.Split || !isAssign), envTakesNext(w) && len(args) > 1 && args[1].Split:
			v.guess(at, args, env, inner)
			return
		case w.Is("-i"), w.Is("-"), w.Is("--ignore-environment"):
			// An empty environment also drops the variables that harden git in the sandbox.
			// Setting one of these is what a rule has to spell, so -i counts as setting it.
			env = append(env, Assign{Name: "GIT_CONFIG_COUNT"})
		case w.Is("-0"), w.Is("-v"), w.Is("--null"), w.Is("--"):
		case !w.Dynamic && envOption.MatchString(w.Text):
			free = false
			value, taken := envValue(args)
			if strings.HasPrefix(w.Text, "-C") || strings.HasPrefix(w.Text, "--c") {
				inner.dirs = Dirs{Unknown: true}
			} else {
				env = append(env, Assign{Name: value})
			}
			args, at = args[taken:], at+taken
		// -S splits its value into words. Any other option is not known.
		case !w.Dynamic && strings.HasPrefix(w.Text, "-"):
			if words := splitString(args); words != nil {
				v.envSplit(at, words, env, inner)
			} else {
				v.guess(at+1, args[1:], env, inner)
			}
			return
		case isAssign:
			if !syntax.ValidName(name) {
				v.runs("env sets a variable with a strange name")
			}
			env = append(env, Assign{name, assigned(w)})
		default:
			// -u and -C are not free: a removed variable may matter, and the directory is
			// unknown.
			v.command().Free = free && v.command().plainUntil(1)
			v.within(at, args, env, inner, true)
			return
		}
		args, at = args[1:], at+1
	}
}

// envTakesNext reports whether the word is an option of env whose value is the next word.
func envTakesNext(w Word) bool { return w.Is("-u") || w.Is("-C") || w.Is("--unset") || w.Is("--chdir") }

// envValue returns the value of an option that envOption matches, at args[0]; taken is 1 when it
// is the next word.
func envValue(args []Word) (value string, taken int) {
	w := args[0]
	switch {
	case envTakesNext(w) && len(args) > 1:
		return args[1].Text, 1
	case envTakesNext(w):
		return w.Text, 0
	case strings.HasPrefix(w.Text, "--"):
		_, value, _ = strings.Cut(w.Text, "=")
		return value, 0
	}
	return w.Text[2:], 0
}

// assigned returns the value of an argument NAME=VALUE. Of a Dynamic word it returns all of the
// word, since the value is not known either.
func assigned(w Word) Word {
	if w.Dynamic {
		return w
	}
	_, value, _ := strings.Cut(w.Text, "=")
	return Word{Text: value}
}

// splitString returns the value of env -S and the words that follow it; nil if args does not
// begin with that option.
func splitString(args []Word) []Word {
	text, rest := args[0].Text, args[1:]
	for _, head := range []string{"-S", "-vS", "-iS", "-0S", "--split-string=", "--split-string"} {
		if value, ok := strings.CutPrefix(text, head); ok {
			if value == "" && len(rest) > 0 {
				return rest
			}
			return append([]Word{{Text: value}}, rest...)
		}
	}
	return nil
}

// envSplit adds the command of env -S. env splits the value by rules of its own, so a value with
// quotes, backslashes or $ also marks the program as one that runs something unknown. words[0] is
// the value; what it is split into is read as a call of env again, because options and variables
// may stand in it.
func (v invocation) envSplit(at int, words []Word, env []Assign, s *scope) {
	if words[0].Dynamic || strings.ContainsAny(words[0].Text, "\\$'\"#") {
		v.runs("it cannot be told what env -S runs here")
	}
	all := []Word{{Text: "env"}}
	for _, f := range strings.FieldsFunc(words[0].Text, func(c rune) bool { return strings.ContainsRune(" \t\n\v\f\r\\'\"", c) }) {
		all = append(all, Word{Text: f})
	}
	v.within(at, append(all, words[1:]...), env, s, true)
}

// xargsOptions are the options of xargs in the form of the table. -I, -i, --replace, -l and -e
// are read by replacement and xargs, because their value is optional or changes the command.
var xargsOptions = wrapper{Flags: "0rtpxo", Valued: "aPLlnsdEeI", Long: []string{"null", "no-run-if-empty", "verbose", "interactive", "exit", "open-tty"},
	Longs: []string{"arg-file", "max-procs", "max-lines", "max-args", "max-chars", "delimiter", "process-slot-var"}}

// xargs adds the command of xargs. Its arguments come from the input, so a Dynamic word that may
// be split stands at the end, or unknown text takes the place of the replacement mark. Without a
// command xargs prints like echo.
func (v invocation) xargs(args []Word) {
	at, mark := 1, ""
	for len(args) > 0 && !args[0].Dynamic && strings.HasPrefix(args[0].Text, "-") {
		if args[0].Text == "--" {
			args, at = args[1:], at+1
			break
		}
		taken, _, ok := xargsOptions.option(args)
		if found, words := replacement(args); words > 0 {
			mark, taken, ok = found, words, words == 1 || ok && !args[1].Dynamic
			// The value of -l and -e is optional, and then in the same word.
		} else if args[0].Text == "-l" || args[0].Text == "-e" {
			taken = 1
		}
		if !ok {
			v.guess(at, args, nil, v.scope)
			return
		}
		args, at = args[min(taken, len(args)):], at+taken
	}
	if len(args) == 0 {
		// xargs without a command runs echo.
		return
	}
	inner := make([]Word, 0, len(args)+1)
	for _, word := range args {
		inner = append(inner, fill(word, mark, string(Any)))
	}
	if mark == "" {
		inner = append(inner, Word{Text: "…", Dynamic: true, Split: true, Pattern: string(Any)})
	}
	v.command().Free = v.command().plainUntil(at)
	v.within(at, inner, nil, v.scope, true)
}

// replacement returns the text that an option of xargs makes xargs replace by the input, and how
// many words the option has; 0 if it is no such option. The default of -i and --replace is {}.
func replacement(args []Word) (mark string, words int) {
	text := args[0].Text
	if text == "-I" && len(args) > 1 {
		return args[1].Text, 2
	}
	for _, option := range []string{"-I", "-i", "--replace=", "--replace"} {
		if mark, ok := strings.CutPrefix(text, option); ok && (mark == "" && option != "-I" || mark != "" && option != "--replace") {
			if mark == "" && option != "--replace=" {
				mark = "{}"
			}
			return mark, 1
		}
	}
	return "", 0
}

// fill returns a literal word that contains mark as a Dynamic word with pattern in place of each
// mark; any other word as it is. An empty mark replaces nothing.
func fill(w Word, mark, pattern string) Word {
	if mark == "" || w.Dynamic || !strings.Contains(w.Text, mark) {
		return w
	}
	return Word{Text: w.Text, Dynamic: true, Pattern: strings.ReplaceAll(w.Text, mark, pattern)}
}

// find adds the commands of -exec, -execdir, -ok and -okdir. The names that find puts in for {}
// begin with one of its starting points, so they are no options. -execdir runs in the directory
// of the file that was found, which is not known.
func (v invocation) find(args []Word) {
	found := startingPoint(args)
	for at := 0; at < len(args); at++ {
		option := args[at].Text
		if args[at].Dynamic || option != "-exec" && option != "-execdir" && option != "-ok" && option != "-okdir" {
			continue
		}
		end := at + endOf(args[at:])
		var inner []Word
		for _, w := range args[at+1 : end] {
			inner = append(inner, fill(w, "{}", found))
		}
		dirs := v.scope.clone()
		if strings.HasSuffix(option, "dir") {
			dirs.dirs = Dirs{Unknown: true}
		}
		v.within(at+2, inner, nil, dirs, true)
		at = end
	}
}

// startingPoint returns the text that the names begin with that find puts in for {}, followed by
// a mark for the rest. With several starting points, or one that only the shell knows, nothing is
// known of the beginning.
func startingPoint(args []Word) string {
	start := ""
	for _, w := range args {
		if w.Dynamic && w.MayBeOption() {
			return string(Any)
		}
		if w.Dynamic || strings.HasPrefix(w.Text, "-") || w.Is("(") || w.Is("!") {
			break
		}
		if start != "" {
			return string(Any)
		}
		start = w.Text
		if w.Tilde {
			return "/" + string(Any)
		}
	}
	// GNU find starts in the working directory, and prints names with ./ before them.
	if start == "" {
		start = "./"
	}
	return start + string(Below)
}

// fd adds the command of fd's -x and -X, which runs up to a ; or the end. fd appends the name
// that it found. The name is taken to begin with ./, so that it is no option.
func (v invocation) fd(args []Word) {
	for at, w := range args {
		if !w.Is("-x") && !w.Is("-X") && !w.Is("--exec") && !w.Is("--exec-batch") {
			continue
		}
		var inner []Word
		for _, word := range args[at+1:] {
			if word.Is(";") {
				break
			}
			inner = append(inner, fill(word, "{}", "./"+string(Any)))
		}
		v.within(at+2, append(inner, Word{Text: "…", Dynamic: true, Pattern: "./" + string(Any)}), nil, v.scope, true)
		return
	}
}
