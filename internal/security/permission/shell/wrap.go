package shell

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// env reads env [-i] [NAME=VALUE] COMMAND and adds the command with these variables. Behind another option each following
// word may begin the command.
func (v invocation) env(args []Word) {
	at := 1
	var env []Assign
	for len(args) > 0 {
		w := args[0]
		name, value, isAssign := strings.Cut(w.Prefix(), "=")
		switch {
		case w.Is("-i"), w.Is("-"), w.Is("--ignore-environment"):
			// An empty environment also drops the variables that harden git in the sandbox.
			// Setting one of these is what a rule has to spell, so -i counts as setting it.
			env = append(env, Assign{Name: "GIT_CONFIG_COUNT"})
		case w.Is("-0"), w.Is("-v"), w.Is("--null"), w.Is("--"):
		case w.Split, w.Dynamic && !isAssign, strings.HasPrefix(w.Text, "-"), isAssign && !syntax.ValidName(name):
			v.guess(at, args, env, v.scope)
			return
		case isAssign:
			word := Word{Text: value}
			if w.Dynamic {
				word = w
			}
			env = append(env, Assign{name, word})
		default:
			v.command().Free = v.command().plainUntil(1)
			v.within(at, args, env, v.scope)
			return
		}
		args, at = args[1:], at+1
	}
}

// xargsOptions are the options of xargs in the form of the table. -i, --replace and others
// whose value is optional are not read.
var xargsOptions = wrapper{Flags: "0rtpxo", Valued: "aPLnsdEI", Long: []string{"null", "no-run-if-empty", "verbose", "interactive", "exit", "open-tty"}}

// xargs adds the command of xargs. Its arguments come from the input, so a Dynamic word that may
// be split stands at the end, or unknown text takes the place of the replacement mark. Without a
// command xargs prints like echo.
func (v invocation) xargs(args []Word) {
	at, mark := 1, ""
	for len(args) > 0 && !args[0].Dynamic && strings.HasPrefix(args[0].Text, "-") && !args[0].Is("--") {
		text := args[0].Text
		taken, ok := xargsOptions.option(args)
		if in, is := strings.CutPrefix(text, "-I"); is && in != "" {
			mark = in
		} else if is && len(args) > 1 {
			mark, ok = args[1].Text, !args[1].Dynamic
		}
		if !ok {
			v.guess(at, args, nil, v.scope)
			return
		}
		args, at = args[min(taken, len(args)):], at+taken
	}
	if len(args) > 0 && args[0].Is("--") {
		args, at = args[1:], at+1
	}
	if len(args) == 0 {
		return
	}
	inner := make([]Word, 0, len(args)+1)
	for _, word := range args {
		inner = append(inner, fill(word, mark, ""))
	}
	if mark == "" {
		inner = append(inner, Word{Text: "…", Dynamic: true, Split: true})
	}
	v.command().Free = v.command().plainUntil(at)
	v.within(at, inner, nil, v.scope)
}

// fill returns a literal word that contains mark as a Dynamic word, in which the text for the mark begins with start; any
// other word as it is. An empty mark replaces nothing.
func fill(w Word, mark, start string) Word {
	before, _, found := strings.Cut(w.Text, mark)
	if mark == "" || w.Dynamic || !found {
		return w
	}
	return Word{Text: w.Text, Dynamic: true, Begin: before + start}
}

// find adds the commands of -exec, -execdir, -ok and -okdir. -execdir runs in the directory
// of the file that was found, which is not known.
func (v invocation) find(args []Word) {
	start := startOf(args)
	for at := 0; at < len(args); at++ {
		option := args[at].Text
		if args[at].Dynamic || option != "-exec" && option != "-execdir" && option != "-ok" && option != "-okdir" {
			continue
		}
		end := at + endOf(args[at:])
		var inner []Word
		for _, w := range args[at+1 : end] {
			inner = append(inner, fill(w, "{}", start))
		}
		if strings.HasSuffix(option, "dir") {
			v.analysis.dirs.Unknown = true
		}
		v.within(at+2, inner, nil, v.scope)
		at = end
	}
}

// startOf returns what the names that find puts in for {} begin with; "" if that is not known, as with several starting points.
func startOf(args []Word) string {
	switch {
	case len(args) == 0 || !args[0].Dynamic && strings.HasPrefix(args[0].Text, "-"):
		return "./" // the working directory
	case args[0].Dynamic || args[0].Tilde || len(args) > 1 && !strings.HasPrefix(args[1].Text, "-"):
		return ""
	}
	return args[0].Text
}

// endOf returns the index of the ; or of the + behind {} that ends find's -exec, which stands at
// args[0]; len(args) if there is none.
func endOf(args []Word) int {
	for i := 1; i < len(args); i++ {
		if args[i].Is(";") || args[i].Is("+") && args[i-1].Is("{}") {
			return i
		}
	}
	return len(args)
}
