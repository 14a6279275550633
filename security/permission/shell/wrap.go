package shell

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// wrapper says how a program is given another to run.
type wrapper struct {
	flags  string   // letters of options without a value
	valued string   // letters of options with one
	long   []string // long options without a value
	longs  []string // long options with one
	skip   int      // operands before the command
	sub    []string // words that have to come first, such as run
	free   bool     // adds nothing that matters when all its options are known
	joined bool     // the rest is joined and given to a shell
	script string   // letters of options whose value is given to a shell
}

// wrappers is the one place that knows programs which run others. Add a line to make one known.
var wrappers = map[string]wrapper{
	"timeout": {flags: "v", valued: "sk", long: []string{"foreground", "preserve-status", "verbose"}, longs: []string{"signal", "kill-after"}, skip: 1, free: true},
	"nice":    {valued: "n", longs: []string{"adjustment"}, free: true},
	"nohup":   {free: true},
	"stdbuf":  {valued: "ioe", longs: []string{"input", "output", "error"}, free: true},
	"ionice":  {flags: "t", valued: "cn", long: []string{"ignore"}, longs: []string{"class", "classdata"}, free: true},
	"time":    {flags: "pv", long: []string{"portability", "verbose"}, free: true},
	"command": {flags: "p", free: true},
	"builtin": {free: true},
	"exec":    {flags: "cl", valued: "a"},
	"setsid":  {flags: "cfw", long: []string{"ctty", "fork", "wait"}},
	"chrt":    {flags: "abfiorRmv", valued: "TPDp", skip: 1},
	"taskset": {flags: "ac", skip: 1},
	"chroot":  {longs: []string{"groups", "userspec"}, long: []string{"skip-chdir"}, skip: 1},
	"sudo":    {flags: "AbEeHKkliNnPSsvV", valued: "CDghpRrTtUu", longs: []string{"user", "group", "host", "prompt", "chdir", "chroot", "role", "type", "other-user", "close-from", "command-timeout"}},
	"doas":    {flags: "nsL", valued: "aCu"},
	"pkexec":  {longs: []string{"user"}, long: []string{"disable-internal-agent"}},
	"runuser": {flags: "flmpP", valued: "ugGs", script: "c"},
	"su":      {flags: "flmpP-", valued: "gGsw", script: "c", skip: 1},
	"sg":      {skip: 1, script: "c", joined: true},
	"setpriv": {longs: []string{"reuid", "regid", "groups", "inh-caps", "ambient-caps", "bounding-set", "securebits", "selinux-label"}, long: []string{"no-new-privs", "clear-groups", "keep-groups", "init-groups", "reset-env"}},
	"watch":   {flags: "bcdegtxpw", valued: "nq", joined: true},
	"flock":   {flags: "esnxuoFv", valued: "wE", script: "c", skip: 1},
	"script":  {flags: "aefqv", valued: "BEIOTmot", script: "c"},
	"busybox": {}, "toybox": {},
	"unshare":  {flags: "imnpuUCTrcf", valued: "SGRw"},
	"nsenter":  {flags: "amnpuiUCTFZ", valued: "tSGrw"},
	"strace":   {flags: "cCdfFhiqrtTvVxyDkwYzZ", valued: "abeEIoOpPsSuUX"},
	"ltrace":   {flags: "bcCfhiLrStTV", valued: "aADeFlnosuwxX"},
	"perf":     {sub: []string{"stat", "record", "trace"}},
	"valgrind": {}, "gdb": {long: []string{"args", "batch"}, valued: "x"},
	"xvfb-run":         {flags: "alh", valued: "enfps"},
	"dbus-run-session": {}, "dbus-launch": {}, "proxychains": {flags: "q", valued: "f"}, "proxychains4": {flags: "q", valued: "f"}, "torsocks": {flags: "i"}, "torify": {},
	"firejail": {}, "bwrap": {}, "fakeroot": {}, "fakechroot": {}, "eatmydata": {}, "unbuffer": {flags: "p"}, "rlwrap": {}, "catchsegv": {}, "caffeinate": {flags: "disu", valued: "tw"},
	"faketime": {skip: 1}, "setarch": {skip: 1}, "arch": {flags: "xacdehrmi0123456789_"}, "linux32": {}, "linux64": {}, "prlimit": {}, "numactl": {}, "cpulimit": {}, "softlimit": {}, "setuidgid": {skip: 1}, "chpst": {}, "envdir": {skip: 1}, "runcon": {}, "capsh": {}, "nsjail": {},
	"systemd-run": {flags: "GqrPtSdh", valued: "uEpMH"}, "systemd-inhibit": {}, "start-stop-daemon": {}, "daemonize": {}, "chronic": {}, "ts": {}, "ifne": {}, "entr": {flags: "acdnprsxz"}, "parallel": {joined: true}, "rush": {}, "hyperfine": {joined: true, flags: "iN", valued: "wmMrLS"}, "gtime": {}, "gtimeout": {valued: "sk", skip: 1}, "watchexec": {}, "nodemon": {}, "reflex": {}, "direnv": {sub: []string{"exec"}, skip: 1}, "dotenv": {}, "with-contenv": {}, "tini": {}, "dumb-init": {}, "gosu": {skip: 1}, "su-exec": {skip: 1}, "mise": {sub: []string{"exec", "x"}}, "asdf": {sub: []string{"exec"}},
	"npx": {flags: "y", valued: "p", long: []string{"yes", "no"}}, "bunx": {}, "pnpx": {}, "uvx": {}, "pipx": {sub: []string{"run"}},
	"npm": {sub: []string{"exec", "x"}, script: "c"}, "pnpm": {sub: []string{"exec", "dlx"}}, "yarn": {sub: []string{"exec", "dlx"}}, "bun": {sub: []string{"x"}},
	"poetry": {sub: []string{"run"}}, "pipenv": {sub: []string{"run"}}, "uv": {sub: []string{"run"}}, "pdm": {sub: []string{"run"}}, "hatch": {sub: []string{"run"}}, "rye": {sub: []string{"run"}}, "conda": {sub: []string{"run"}, valued: "np"}, "bundle": {sub: []string{"exec"}}, "rbenv": {sub: []string{"exec"}}, "pyenv": {sub: []string{"exec"}}, "nix-shell": {}, "nix": {sub: []string{"run", "shell", "develop"}},
}

// loaders run the program that they are given, as the kernel would.
func loader(name string) bool {
	return strings.HasPrefix(name, "ld-linux") || strings.HasPrefix(name, "ld-musl") || strings.HasPrefix(name, "ld.so")
}

// wrapped adds the commands that command i runs as its arguments.
func (a *analysis) wrapped(i int, name string, args []Word, s *scope) {
	switch name {
	case "env":
		a.env(i, args, s)
		return
	case "xargs":
		a.xargs(i, args, s)
		return
	case "find", "gfind":
		a.find(i, args, s)
		return
	case "fd", "fdfind":
		a.fd(i, args, s)
		return
	}
	w, ok := wrappers[name]
	if loader(name) {
		w, ok = wrapper{}, true
	}
	if !ok {
		return
	}
	if name == "command" && len(args) > 0 && (args[0].Is("-v") || args[0].Is("-V")) {
		return
	}
	if len(w.sub) > 0 {
		at := -1
		for j, word := range args {
			for _, sub := range w.sub {
				if at < 0 && word.Is(sub) {
					at = j
				}
			}
		}
		if at < 0 {
			return
		}
		a.operands(i, at+2, args[at+1:], w, s)
		return
	}
	a.operands(i, 1, args, w, s)
}

// operands skips the wrapper's options and first operands. What cannot be skipped for certain makes
// every word that follows a possible command.
func (a *analysis) operands(i, at int, args []Word, w wrapper, s *scope) {
	certain, skip := true, w.skip
	for len(args) > 0 {
		word := args[0]
		if word.Dynamic && word.MayBeOption() && (skip == 0 || word.Split) {
			certain = false
			break
		}
		if !strings.HasPrefix(word.Text, "-") || word.Dynamic || word.Text == "-" {
			if skip == 0 {
				break
			}
			skip--
			args, at = args[1:], at+1
			continue
		}
		if word.Text == "--" {
			args, at = args[1:], at+1
			for skip > 0 && len(args) > 0 && !hasScript(w, args) {
				args, at, skip = args[1:], at+1, skip-1
			}
			break
		}
		taken, script, known := w.option(args)
		if !known {
			certain = false
			break
		}
		if script >= 0 && script < len(args) {
			a.script(i, at+script, scriptWord(args[script], script), syntax.LangBash, s)
		}
		args, at = args[min(taken, len(args)):], at+taken
	}
	if !certain {
		name := a.program.Commands[i].Words[0].Text
		a.runs("it cannot be told what " + name + " runs here")
		for j := range args {
			if j < 20 && (args[j].Dynamic || !strings.HasPrefix(args[j].Text, "-")) {
				a.within(i, at+j, args[j:], nil, s, false)
			}
		}
		return
	}
	if w.free {
		a.program.Commands[i].Free = len(args) > 0 && plainOptions(a.program.Commands[i], at)
	}
	if len(args) == 0 {
		return
	}
	if w.joined {
		a.joined(i, at, args, s)
		return
	}
	env := []Assign(nil)
	for len(args) > 0 && (a.program.Commands[i].Name() == "sudo" || a.program.Commands[i].Name() == "doas") {
		name, value, ok := strings.Cut(args[0].Text, "=")
		if !ok || !syntax.ValidName(name) || args[0].Dynamic {
			break
		}
		env = append(env, Assign{name, Word{Text: value}})
		args, at = args[1:], at+1
	}
	a.within(i, at, args, env, s, true)
}

func hasScript(w wrapper, args []Word) bool {
	return w.script != "" && args[0].Is("-"+w.script)
}

func scriptWord(w Word, at int) Word {
	if at > 0 || w.Dynamic {
		return w
	}
	return Word{Text: w.Text[min(2, len(w.Text)):]}
}

// plainOptions reports whether the words of the wrapper itself are literal, so that it is known to do
// nothing but to run the rest.
func plainOptions(c Command, to int) bool {
	for _, w := range c.Words[:min(to, len(c.Words))] {
		if w.Dynamic {
			return false
		}
	}
	return c.Words[0].Text == c.Name()
}

// option reads one option. script is the word that is a program for a shell, or -1.
func (w wrapper) option(args []Word) (taken, script int, known bool) {
	text := args[0].Text
	if long, ok := strings.CutPrefix(text, "--"); ok {
		name, _, valued := strings.Cut(long, "=")
		for _, l := range w.long {
			if l == name && !valued {
				return 1, -1, true
			}
		}
		for _, l := range w.longs {
			if l == name {
				return 2 - b2i(valued), -1, true
			}
		}
		if name == "command" && w.script != "" && !valued {
			return 2, 1, true
		}
		return 1, -1, false
	}
	if strings.Trim(text[1:], "0123456789") == "" && strings.Contains(w.valued, "n") {
		return 1, -1, true // nice -5
	}
	for j := 1; j < len(text); j++ {
		letter := text[j : j+1]
		rest := j + 1
		switch {
		case strings.Contains(w.script, letter):
			if rest < len(text) {
				return 1, -1, false // -cTEXT
			}
			return 2, 1, true
		case strings.Contains(w.valued, letter):
			if rest < len(text) {
				return 1, -1, true
			}
			return 2, -1, true
		case !strings.Contains(w.flags, letter):
			return 1, -1, false
		}
	}
	return 1, -1, true
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// joined is for programs that give their arguments, put together, to a shell.
func (a *analysis) joined(i, at int, args []Word, s *scope) {
	var texts []string
	for _, w := range args {
		if w.Dynamic {
			a.runs("only the shell knows what it gives " + a.program.Commands[i].Words[0].Text + " to run")
			return
		}
		if w.Tilde {
			a.runs("only the shell knows what ~ is when " + a.program.Commands[i].Words[0].Text + " reads it")
		}
		texts = append(texts, w.Text)
	}
	a.script(i, at, Word{Text: strings.Join(texts, " ")}, syntax.LangBash, s)
}

// env is env [OPTION] [NAME=VALUE] COMMAND.
func (a *analysis) env(i int, args []Word, s *scope) {
	at, free := 1, true
	inner := s.clone()
	var env []Assign
	for len(args) > 0 {
		w := args[0]
		name, value, isAssign := strings.Cut(w.Prefix(), "=")
		switch {
		case w.Dynamic && (w.Split || !isAssign):
			a.runs("it cannot be told what env runs here")
			for j := range args {
				a.within(i, at+j, args[j:], env, inner, false)
			}
			return
		case w.Is("-i"), w.Is("-"), w.Is("-0"), w.Is("-v"), w.Is("--ignore-environment"), w.Is("--null"), w.Is("--"):
		case w.Is("-u"), w.Is("--unset"):
			free = false
			args, at = args[min(1, len(args)-1):], at+1
		case w.Is("-C"), w.Is("--chdir"):
			free = false
			inner.dirs = Dirs{Unknown: true}
			args, at = args[min(1, len(args)-1):], at+1
		case !w.Dynamic && strings.HasPrefix(w.Text, "-u") || strings.HasPrefix(w.Text, "--unset="):
			free = false
		case !w.Dynamic && (strings.HasPrefix(w.Text, "-C") || strings.HasPrefix(w.Text, "--chdir=")):
			free = false
			inner.dirs = Dirs{Unknown: true}
		case !w.Dynamic && splitString(args) != nil:
			a.envSplit(i, at, args, env, inner)
			return
		case !w.Dynamic && strings.HasPrefix(w.Text, "-"):
			a.runs("it cannot be told what env runs here")
			for j := range args[1:] {
				a.within(i, at+j+1, args[j+1:], env, inner, false)
			}
			return
		case isAssign:
			if !syntax.ValidName(name) {
				a.runs("env sets a variable with a strange name")
			}
			if w.Dynamic {
				env = append(env, Assign{name, w})
			} else {
				env = append(env, Assign{name, Word{Text: value}})
			}
		default:
			a.program.Commands[i].Free = free && plainOptions(a.program.Commands[i], 1)
			a.within(i, at, args, env, inner, true)
			return
		}
		args, at = args[1:], at+1
	}
}

// splitString is the text of env -S, with the words that follow it.
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

func (a *analysis) envSplit(i, at int, args []Word, env []Assign, s *scope) {
	words := splitString(args)
	if words[0].Dynamic || strings.ContainsAny(words[0].Text, "\\$'\"#") {
		a.runs("it cannot be told what env -S runs here")
	}
	var all []Word
	for _, f := range strings.FieldsFunc(words[0].Text, func(c rune) bool { return strings.ContainsRune(" \t\n\v\f\r\\'\"", c) }) {
		all = append(all, Word{Text: f})
	}
	all = append(all, words[1:]...)
	a.within(i, at, append([]Word{{Text: "env"}}, all...), env, s, true)
}

// xargs appends words that only it knows, or puts them where it is told.
func (a *analysis) xargs(i int, args []Word, s *scope) {
	at, replace := 1, ""
	w := wrapper{flags: "0rtpxo", valued: "aPLlnsdEeI", long: []string{"null", "no-run-if-empty", "verbose", "interactive", "exit", "open-tty"},
		longs: []string{"arg-file", "max-procs", "max-lines", "max-args", "max-chars", "delimiter", "process-slot-var"}}
	for len(args) > 0 {
		word := args[0]
		if word.Dynamic || !strings.HasPrefix(word.Text, "-") {
			break
		}
		if word.Text == "--" {
			args, at = args[1:], at+1
			break
		}
		taken, _, known := w.option(args)
		switch {
		case word.Text == "-I" && len(args) > 1:
			replace = args[1].Text
		case strings.HasPrefix(word.Text, "-I"):
			replace = word.Text[2:]
		case word.Text == "-i" || word.Text == "--replace":
			replace, taken, known = "{}", 1, true
		case strings.HasPrefix(word.Text, "-i"):
			replace, taken, known = word.Text[2:], 1, true
		case strings.HasPrefix(word.Text, "--replace="):
			replace, taken, known = word.Text[len("--replace="):], 1, true
		case word.Text == "-l" || word.Text == "-e":
			taken = 1
		}
		if !known {
			a.runs("it cannot be told what xargs runs here")
			for j := range args {
				a.within(i, at+j, args[j:], nil, s, false)
			}
			return
		}
		args, at = args[min(taken, len(args)):], at+taken
	}
	if len(args) == 0 {
		return // it echoes
	}
	inner := make([]Word, 0, len(args)+1)
	for _, word := range args {
		inner = append(inner, fill(word, replace, string(Any)))
	}
	if replace == "" {
		inner = append(inner, Word{Text: "…", Dynamic: true, Split: true, Pattern: string(Any)})
	}
	a.program.Commands[i].Free = plainOptions(a.program.Commands[i], at)
	a.within(i, at, inner, nil, s, true)
}

// fill makes dynamic the words in which a program puts something.
func fill(w Word, mark, pattern string) Word {
	if mark == "" || w.Dynamic || !strings.Contains(w.Text, mark) {
		return w
	}
	return Word{Text: w.Text, Dynamic: true, Pattern: strings.ReplaceAll(w.Text, mark, pattern)}
}

// find adds what -exec and its like run. The names that it puts in begin with one of its starting
// points, so never with a dash.
func (a *analysis) find(i int, args []Word, s *scope) {
	found := startingPoint(args)
	for at := 0; at < len(args); at++ {
		switch args[at].Text {
		case "-exec", "-execdir", "-ok", "-okdir":
		default:
			continue
		}
		if args[at].Dynamic {
			continue
		}
		var inner []Word
		end := at + 1
		for ; end < len(args) && !args[end].Is(";"); end++ {
			if args[end].Is("+") && args[end-1].Is("{}") {
				break
			}
			inner = append(inner, fill(args[end], "{}", found))
		}
		dirs := s.clone()
		if strings.HasSuffix(args[at].Text, "dir") {
			dirs.dirs = Dirs{Unknown: true}
		}
		a.within(i, at+2, inner, nil, dirs, true)
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
func (a *analysis) fd(i int, args []Word, s *scope) {
	for at, w := range args {
		if w.Is("-x") || w.Is("-X") || w.Is("--exec") || w.Is("--exec-batch") {
			var inner []Word
			for _, word := range args[at+1:] {
				if word.Is(";") {
					break
				}
				inner = append(inner, fill(word, "{}", "./"+string(Any)))
			}
			a.within(i, at+2, append(inner, Word{Text: "…", Dynamic: true, Pattern: "./" + string(Any)}), nil, s, true)
			return
		}
	}
}
