package shell

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// shells and the language that they read. Of those without one nobody here can read the text.
var shells = map[string]syntax.LangVariant{
	"bash": syntax.LangBash, "rbash": syntax.LangBash, "sh": syntax.LangPOSIX, "dash": syntax.LangPOSIX, "ash": syntax.LangPOSIX,
	"ksh": 0, "mksh": 0, "zsh": 0, "fish": 0, "csh": 0, "tcsh": 0, "yash": 0, "elvish": 0, "nu": 0, "xonsh": 0, "pwsh": 0,
}

// interpreter says which options of a program are followed by code, and which ask it for nothing but
// words about itself.
type interpreter struct {
	code   string // letters
	long   []string
	valued string
}

// interpreters run what they are given, in a language that is not read here. security.md 2.3: a rule
// for one is a rule for everything that the sandbox permits.
var interpreters = map[string]interpreter{
	"python": {code: "c", valued: "WXm"}, "python2": {code: "c", valued: "WXm"}, "python3": {code: "c", valued: "WXm"}, "pypy": {code: "c"}, "pypy3": {code: "c"}, "ipython": {code: "c"},
	"perl": {code: "eE", valued: "IMm"}, "ruby": {code: "e", valued: "Ir"}, "node": {code: "ep", long: []string{"eval", "print"}, valued: "r"}, "nodejs": {code: "ep", long: []string{"eval", "print"}},
	"deno": {}, "bun": {code: "ep"}, "php": {code: "rRBE"}, "lua": {code: "e"}, "luajit": {code: "e"}, "tclsh": {}, "expect": {code: "c"}, "osascript": {code: "e"}, "Rscript": {code: "e"}, "R": {code: "e"}, "julia": {code: "eE"},
	"groovy": {code: "e"}, "scala": {code: "e"}, "jshell": {}, "irb": {}, "ghci": {}, "runghc": {}, "guile": {code: "c"}, "racket": {code: "e"}, "sbcl": {}, "emacs": {}, "vim": {code: "c"}, "vi": {code: "c"}, "nvim": {code: "c"}, "ex": {code: "c"}, "ed": {}, "m4": {}, "gdb": {}, "sqlite3": {}, "psql": {code: "c"}, "mysql": {code: "e"},
	"awk": {}, "gawk": {}, "mawk": {}, "nawk": {},
}

// Interpreter reports whether a program runs what it is given in a language that is not read here, so
// that a prefix rule for it allows everything that the sandbox permits.
func Interpreter(words []string) bool {
	if len(words) == 0 {
		return false
	}
	name := base(words[0])
	if _, ok := shells[name]; ok {
		return true
	}
	if _, ok := language(name); ok {
		return name != "awk" && name != "gawk" && name != "mawk" && name != "nawk" && name != "sqlite3"
	}
	switch name {
	case "make", "gmake", "npx", "bunx", "uvx", "tox", "nox", "pytest", "just", "task", "rake", "gradle", "gradlew", "mvn", "ant", "ninja", "cmake", "bazel", "ansible", "ansible-playbook", "docker", "podman", "kubectl", "ssh", "source", ".", "eval":
		return true
	case "npm", "pnpm", "yarn", "bun":
		return len(words) > 1 && slices.Contains([]string{"run", "run-script", "test", "start", "t", "exec", "x", "dlx"}, words[1]) || len(words) == 1
	case "go":
		return len(words) == 1 || slices.Contains([]string{"run", "test", "generate", "tool"}, words[1])
	case "cargo":
		return len(words) == 1 || slices.Contains([]string{"run", "test", "build", "bench"}, words[1])
	}
	return false
}

// language finds an interpreter by its name, with its version or without.
func language(name string) (interpreter, bool) {
	if in, ok := interpreters[name]; ok {
		return in, true
	}
	in, ok := interpreters[strings.TrimRight(name, "0123456789.-")]
	return in, ok
}

// interpreted adds what a shell runs, and notes the code of other languages.
func (a *analysis) interpreted(i int, name string, s *scope) {
	if lang, ok := shells[name]; ok {
		a.shell(i, lang, s)
		return
	}
	c := a.program.Commands[i]
	switch name {
	case "at", "batch", "crontab":
		if s.stdin != nil {
			a.program.Commands[i].Code = *s.stdin
		}
		if s.piped {
			a.runs(name + " runs what it reads from its input")
		}
		return
	case "ssh", "rsh", "mosh":
		var far []string
		for _, w := range c.Words[1:] {
			far = append(far, w.Text)
		}
		if len(far) > 1 {
			a.program.Commands[i].Code = strings.Join(far, " ")
		}
		return
	}
	if runsElsewhere(name, c.Words[1:]) {
		var words []string
		for _, w := range c.Words[1:] {
			words = append(words, w.Text)
		}
		a.program.Commands[i].Code = strings.Join(words, " ")
		return
	}
	if (name == "make" || name == "gmake") && s.stdin != nil {
		a.program.Commands[i].Code = *s.stdin
		return
	}
	in, ok := language(name)
	if !ok {
		return
	}
	var code []string
	operand := false
	for j := 1; j < len(c.Words); j++ {
		w := c.Words[j]
		switch {
		case w.Dynamic, !strings.HasPrefix(w.Text, "-") || w.Text == "-":
			if !operand && (strings.HasPrefix(w.Prefix(), "/dev/fd/") || w.Is("/dev/stdin")) {
				a.runs(name + " runs what another command gives it")
			}
			operand = operand || w.Dynamic || w.Text != "-"
			if name == "awk" || name == "gawk" || name == "mawk" || name == "nawk" {
				code = append(code, w.Text)
			}
		case !strings.HasPrefix(w.Text, "--"):
			operand = operand || strings.ContainsAny(w.Text, "mVvh") || in.code == ""
			if at := strings.IndexAny(w.Text, in.code); in.code != "" && at > 0 {
				operand = true
				if at == len(w.Text)-1 && j+1 < len(c.Words) {
					j++
					code = append(code, c.Words[j].Text)
				} else {
					code = append(code, w.Text[at+1:])
				}
			}
		default:
			long, value, _ := strings.Cut(w.Text[2:], "=")
			operand = operand || long == "version" || long == "help"
			if slices.Contains(in.long, long) {
				operand = true
				code = append(code, value)
				if value == "" && j+1 < len(c.Words) {
					code = append(code, c.Words[j+1].Text)
				}
			}
		}
	}
	if !operand && s.piped {
		if s.stdin != nil {
			code = append(code, *s.stdin) // as if it stood behind -c
		} else {
			a.runs(name + " runs what it reads from its input")
		}
	}
	a.program.Commands[i].Code = strings.Join(code, "\n")
}

// elsewhere are programs that run their arguments in another place, with the words that make them do so; none
// is any word.
var elsewhere = map[string][]string{
	"docker": {"run", "exec"}, "podman": {"run", "exec"}, "nerdctl": {"run", "exec"}, "docker-compose": {"run", "exec"},
	"kubectl": {"run", "exec", "debug"}, "oc": {"run", "exec", "rsh"}, "lxc": {"exec"}, "vagrant": {"ssh"}, "machinectl": {"shell"},
	"screen": nil, "tmux": {"new", "new-session", "send-keys", "send", "neww", "new-window", "split-window", "splitw", "run-shell", "run", "if-shell", "pipe-pane", "respawn-pane"},
	"socat": nil, "byobu": nil, "dtach": nil, "abduco": nil,
}

// runsElsewhere reports whether a program is given something to run that only deny rules look at.
func runsElsewhere(name string, args []Word) bool {
	subs, ok := elsewhere[name]
	if !ok || len(args) == 0 {
		return false
	}
	return subs == nil || slices.ContainsFunc(args, func(w Word) bool { return w.Dynamic || slices.Contains(subs, w.Text) })
}

// shell adds what sh -c and its like run.
func (a *analysis) shell(i int, lang syntax.LangVariant, s *scope) {
	c := a.program.Commands[i]
	name := c.Name()
	commandText := false
	j := 1
	for ; j < len(c.Words); j++ {
		w := c.Words[j]
		if w.Dynamic {
			if w.MayBeOption() && !commandText {
				a.runs("only the shell knows what it gives " + name + " to run")
			}
			break
		}
		if w.Text == "--" || w.Text == "-" {
			j++
			break
		}
		if len(w.Text) < 2 || w.Text[0] != '-' && w.Text[0] != '+' {
			break
		}
		if strings.HasPrefix(w.Text, "--") {
			switch w.Text {
			case "--norc", "--noprofile", "--posix", "--version", "--help":
			case "--rcfile", "--init-file":
				a.runs(name + " is given a file to begin with")
				j++
			default:
				a.runs(name + " is given an option that is not known here")
			}
			continue
		}
		if w.Text[0] == '-' && strings.Contains(w.Text, "c") {
			commandText = true
		}
		if strings.Trim(w.Text[1:], "ceuxl") != "" && !(strings.HasSuffix(w.Text, "o") && strings.Trim(w.Text[1:], "ceuxlo") == "") {
			a.runs(name + " is given an option that changes how it reads")
		}
		if strings.HasSuffix(w.Text, "o") || strings.HasSuffix(w.Text, "O") {
			j++
			if w.Text[len(w.Text)-1] == 'o' && j < len(c.Words) && !c.Words[j].Is("pipefail") {
				a.runs(name + " is given an option that changes how it reads")
			}
		}
	}
	switch {
	case commandText && j < len(c.Words):
		a.shellText(i, j, c.Words[j], lang, s)
	case !commandText && j >= len(c.Words) && len(c.Words) > 1 && (c.Words[1].Is("--version") || c.Words[1].Is("--help")):
	case !commandText && (j >= len(c.Words) || c.Words[j].Is("/dev/stdin")):
		if s.stdin != nil {
			a.shellText(i, len(c.Words), Word{Text: *s.stdin}, lang, s)
		}
		a.runs(name + " runs what it reads from its input")
	case !commandText && !c.Words[j].Dynamic:
		a.program.Commands[i].Unread = true // a file
	case !commandText:
		a.runs("only the shell knows which program it gives " + name + " to run")
	}
}

func (a *analysis) shellText(i, at int, w Word, lang syntax.LangVariant, s *scope) {
	switch lang {
	case 0:
		a.runs("it gives " + a.program.Commands[i].Name() + " a program that cannot be read here")
		a.script(i, at, w, syntax.LangBash, s)
	case syntax.LangPOSIX:
		// sh may be bash or not: what both would read has to be right.
		a.script(i, at, w, syntax.LangPOSIX, s)
		a.script(i, at, w, syntax.LangBash, s)
	default:
		a.script(i, at, w, lang, s)
	}
}
