package shell

import (
	"regexp"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// envOption are options of env with a value.
var envOption = regexp.MustCompile(`^(-[uC].*|--(unset|chdir)(=.*)?)$`)

// env reads env [OPTION] [NAME=VALUE] COMMAND and adds the command with these variables.
func (v invocation) env(args []Word) {
	at, free := 1, true
	inner := v.scope.clone()
	var env []Assign
	for len(args) > 0 {
		w := args[0]
		name, _, isAssign := strings.Cut(w.Prefix(), "=")
		switch {
		case w.Dynamic && (w.Split || !isAssign), envTakesNext(w) && len(args) > 1 && args[1].Split:
			v.guess(at, args, env, inner)
			return
		case w.Is("-i"), w.Is("-"), w.Is("--ignore-environment"):
			env = append(env, Assign{Name: "GIT_CONFIG_COUNT"}) // what hardens git is gone too
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
			v.command().Free = free && v.command().plainUntil(1)
			v.within(at, args, env, inner, true)
			return
		}
		args, at = args[1:], at+1
	}
}

// envTakesNext reports whether the next word is the value of an option of env.
func envTakesNext(w Word) bool { return w.Is("-u") || w.Is("-C") || w.Is("--unset") || w.Is("--chdir") }

// envValue returns the value of an option of env; taken is 1 when it is the next word.
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

// assigned returns the value of an argument NAME=VALUE.
func assigned(w Word) Word {
	if w.Dynamic {
		return w
	}
	_, value, _ := strings.Cut(w.Text, "=")
	return Word{Text: value}
}

// splitString returns the words of env -S, which splits its value by rules of its own, and the
// words that follow.
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

// envSplit adds the command of env -S. env splits the value by rules of its own, so a value
// with quotes or backslashes also marks the program as one that runs something unknown.
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

// xargsOptions are the options of xargs. -I, -i, --replace, -l and -e are read by replacement.
var xargsOptions = wrapper{Flags: "0rtpxo", Valued: "aPLlnsdEeI", Long: []string{"null", "no-run-if-empty", "verbose", "interactive", "exit", "open-tty"},
	Longs: []string{"arg-file", "max-procs", "max-lines", "max-args", "max-chars", "delimiter", "process-slot-var"}}

// xargs adds the command of xargs. Its arguments come from the input, so words that only the
// program knows follow at the end, or stand in place of the replacement mark.
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
		return // it echoes
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

// replacement returns the mark that an option of xargs replaces, and how many words the option
// has; 0 if it is no such option.
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

// fill returns a word with a mark replaced by text that only the program knows.
func fill(w Word, mark, pattern string) Word {
	if mark == "" || w.Dynamic || !strings.Contains(w.Text, mark) {
		return w
	}
	return Word{Text: w.Text, Dynamic: true, Pattern: strings.ReplaceAll(w.Text, mark, pattern)}
}

// find adds what -exec and its like run. The names that it puts in begin with one of its starting
// points, so never with a dash.
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

// startingPoint is what the names begin with that find puts in for {}.
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
	if start == "" {
		start = "./"
	}
	return start + string(Below)
}

// fd adds what -x and -X run.
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
