package shell

import (
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Guard returns why a prefix rule that spells only the first words of a command does not cover
// the rest, as a clause for messages; "" when it does. A rule Bash(find:*) does not cover find
// -exec, because that option turns a reader into a program that runs others (security.md 2.3).
//
// spelled is how many words the rule spells; git-log counts as two. Words that a rule spells are
// not looked at. A program without a guard in programs.yaml is covered as it is: its arguments
// may only mean files, which the rules about files decide on. Guard may be called from many
// goroutines.
func Guard(c Command, spelled int) string {
	name := c.Name()
	g := known(name).Guard
	args := c.Words[1:]
	if g == nil {
		first, second, dashed := strings.Cut(name, "-")
		if g = known(first).Guard; g == nil || !dashed || first != "git" {
			return ""
		}
		// git-log is git log.
		args = append([]Word{{Text: second}}, args...)
		name = first
	}
	if g.isEmpty() {
		return ""
	}
	w := guardedCommand{guard: *g, name: name, spelled: spelled - 1, args: args}
	if name != c.Name() {
		w.Known = nil // a program of its own is no alias
	}
	if len(g.Subs) == 0 && len(g.Banned) == 0 {
		return w.scan(0)
	}
	return w.subcommand()
}

// isEmpty reports whether the guard lists nothing, so that a rule for the command covers all its
// arguments. Values and values to skip do not count: they matter only beside something that is
// banned.
func (g guard) isEmpty() bool {
	return g.Short == "" && g.Output == "" && len(g.Long)+len(g.Single)+len(g.Outs)+len(g.Words)+len(g.Subs)+len(g.Banned) == 0 && g.Operands == 0 && g.Check == ""
}

// check calls the guard's function for a value, and returns why the value is dangerous; "" if
// it is not.
func (g guard) check(value string) string {
	if g.Check == "" {
		return ""
	}
	return checks[g.Check](value)
}

// guardedCommand is a command that is compared with a guard, and the state of one scan over its
// arguments. It is used once.
type guardedCommand struct {
	guard
	name string
	args []Word
	// spelled counts the words of args that the rule spells, without the program's name.
	spelled int

	// operands counts the operands seen so far.
	operands int
	ended    bool // options are over
	scripted bool // the program for sed or awk was seen
}

// by returns the command with other arguments or another guard, such as those of a
// sub-command.
func (w guardedCommand) by(g guard, args []Word) *guardedCommand {
	return &guardedCommand{guard: g, name: w.name, args: args, spelled: w.spelled}
}

// gitGlobal reports whether an option of git before the sub-command takes the next word as its
// value.
func gitGlobal(option string) bool { return slices.Contains(known("git").Guard.Globals, option) }

// subcommand finds the sub-command, and compares what precedes it with the program's guard and
// what follows it with its own. Options before it matter: git -c core.pager=CMD log runs CMD. The
// entry "" of Subs replaces the program's guard for them, "*" adds to that of every sub-command.
func (w guardedCommand) subcommand() string {
	at := 0
	before, has := w.Subs[""]
	if !has {
		before = w.guard
		before.Subs, before.Banned = nil, nil
	}
	for ; at < len(w.args); at++ {
		word := w.args[at]
		// The word may be any sub-command, or an option before it.
		if word.Dynamic && at >= w.spelled {
			return "only the shell knows what it is asked to do"
		}
		if word.Dynamic || !strings.HasPrefix(word.Text, "-") {
			break
		}
		// The value of a global option is not the sub-command. A value that may be several words
		// hides where that is.
		if slices.Contains(w.Globals, word.Text) {
			at++
			if at < len(w.args) && at >= w.spelled && w.args[at].Split {
				return unsureOfWords(w.args[at])
			}
		}
	}
	at = min(at, len(w.args))
	if reason := w.by(before, w.args[:at]).scan(0); reason != "" || at == len(w.args) {
		return reason
	}
	sub := w.args[at].Text
	if slices.Contains(w.Banned, sub) && at >= w.spelled {
		return "it is asked to " + sub
	}
	if _, own := w.Subs[sub]; !own && len(w.Known) > 0 && at >= w.spelled && !slices.Contains(w.Known, sub) {
		return "it is asked to " + sub + ", which may be an alias"
	}
	// Whether git config writes depends on its words as a whole, not on single options.
	if w.name == "git" && sub == "config" {
		if w.spelled <= at+1 {
			return gitConfig(w.args[at+1:])
		}
		return ""
	}
	all, ok := w.Subs["*"]
	if !ok && !has {
		all = before
	}
	return w.by(merge(w.Subs[sub], all), w.args).scan(at + 1)
}

// merge returns the guard of a sub-command (a) with what holds for all of them (b). Letters with a
// value are a's alone: git commit -m takes one, git diff-tree -m does not.
func merge(a, b guard) guard {
	a.Long, a.Single = slices.Concat(a.Long, b.Long), slices.Concat(a.Single, b.Single)
	a.Exact, a.Longs, a.Outs = slices.Concat(a.Exact, b.Exact), slices.Concat(a.Longs, b.Longs), slices.Concat(a.Outs, b.Outs)
	a.Checked, a.Below, a.Literal = slices.Concat(a.Checked, b.Checked), slices.Concat(a.Below, b.Below), slices.Concat(a.Literal, b.Literal)
	a.Short += b.Short
	a.Output += b.Output
	a.Dashes = a.Dashes || b.Dashes
	if a.Check == "" {
		a.Check = b.Check
	}
	return a
}

// scan looks at the words from index at on that the rule does not spell, and returns why one of
// them is dangerous; "" if none is. Spelled words are counted as operands only. Words behind --
// are operands.
func (w *guardedCommand) scan(at int) string {
	// Then no value has to be looked at either.
	if w.isEmpty() {
		w.Valued, w.Longs = "", nil
	}
	for i := at; i < len(w.args); i++ {
		word := w.args[i]
		var reason string
		taken := 0
		switch {
		case word.Is("--") && !w.Dashes && !w.ended:
			w.ended = true
		case i < w.spelled:
			if !strings.HasPrefix(word.Text, "-") {
				w.operands++
			}
		case word.Dynamic:
			reason = w.dynamic(word)
		case w.ended || !strings.HasPrefix(word.Text, "-") || word.Text == "-":
			// The first word of tar is letters of options even without a dash: tar xIf CMD.
			if i > at || !w.Bundled || w.ended {
				reason = w.operand(word)
			} else if strings.ContainsAny(word.Text, w.Short) {
				reason = "it is given " + word.Text
			}
		default:
			taken, reason = w.option(i)
		}
		if reason != "" {
			return reason
		}
		i += taken
	}
	return ""
}

// dynamic looks at a word that only the shell knows. It is harmless only if its literal beginning
// shows that it cannot be an option, that the guard's function accepts it, and that it is not one
// operand too many.
func (w *guardedCommand) dynamic(word Word) string {
	if !w.ended && word.MayBeOption() {
		return "only the shell knows whether " + word.Text + " is an option of it"
	}
	if w.Check != "" {
		p := word.Prefix()
		if w.Whole || p == "" || strings.ContainsRune(word.Pattern, Any) && !strings.ContainsAny(p, "=/") {
			return "only the shell knows what " + word.Text + " is"
		}
		if reason := w.check(p); reason != "" {
			return reason
		}
	}
	if reason := w.operand(word); reason != "" {
		return reason
	}
	if word.Split && w.Operands != 0 {
		return "only the shell knows how many files it is given"
	}
	return ""
}

// operand returns why an operand is dangerous: it is a word that makes the program act, it is one
// operand more than the program only reads (uniq IN OUT), or the guard's function refuses it. It
// returns "" if none of these holds. The first operand of sed and awk is a program.
func (w *guardedCommand) operand(word Word) string {
	w.ended = w.ended || w.Leading
	w.operands++
	switch {
	case slices.Contains(w.Words, word.Text):
		return "it is asked to " + word.Text
	case w.Operands != 0 && w.operands > max(w.Operands, 0):
		return "it writes to " + word.Text
	case w.Program != "" && w.scripted, w.Program == "" && word.Dynamic:
		return ""
	case w.Program != "":
		return w.program(word)
	}
	return w.check(word.Text)
}

// program returns why a program for sed or awk is dangerous: unless it is known to only edit
// text, it may run commands or write files.
func (w *guardedCommand) program(word Word) string {
	w.scripted = true
	if word.Dynamic {
		return "only the shell knows its program"
	}
	if w.Program == "sed" && sedIsPlain(word.Text) || w.Program == "awk" && awkIsPlain(word.Text) {
		return ""
	}
	return "its program may run or write something"
}

// option looks at argument i, an option, and returns why it is dangerous; "" if it is not. taken
// is how many following words belong to it, as a value or as the command of find -exec; the
// caller skips them.
//
// The order of the cases matters: whole words with one dash (find, go) come before clusters of
// letters, since -exec is no cluster there.
func (w *guardedCommand) option(i int) (taken int, reason string) {
	text := w.args[i].Text
	name, attached, hasValue := strings.Cut(text, "=")
	var next *Word
	if i+1 < len(w.args) {
		next = &w.args[i+1]
	}
	bad := "it is given " + text
	switch {
	case slices.Contains(w.Single, name) || w.Dashes && strings.HasPrefix(name, "--") && slices.Contains(w.Single, name[1:]):
		// The command behind -exec is a Command of its own (invocation.find), and rules decide on
		// it.
		if slices.Contains(w.Runs, name) {
			return endOf(w.args[i:]), ""
		}
		return 0, bad
	case slices.Contains(w.Follow, name) && next != nil && !next.Split:
		return 1, ""
	case slices.Contains(w.Below, name):
		to := &Word{Text: attached}
		if !hasValue {
			to, taken = next, 1
		}
		// Other directories have rules of their own. A tilde leads out.
		if to == nil || to.Dynamic || to.Tilde || !isBelow(to.Text) {
			return 0, bad
		}
		return taken, ""
	case w.Dashes && w.Check != "" && hasValue:
		return 0, w.value(text, Word{Text: attached})
	case w.Dashes && slices.Contains(w.Checked, name) && next != nil:
		return 1, w.value(text, *next)
	case w.Dashes && w.Short == "":
		return 0, ""
	case strings.HasPrefix(name, "--"):
		taken, reason = w.long(text, next)
	default:
		taken, reason = w.cluster(text, next)
	}
	// A value that looks like an option is compared as one, too: the value may be optional.
	if taken > 0 && next != nil && next.Text != "-" && !next.Dynamic && strings.HasPrefix(next.Text, "-") {
		taken = 0
	}
	return taken, reason
}

// long looks at a long option. Programs accept unique abbreviations (--out for --output), so
// every banned option that begins with the text counts. An entry of Long that ends in a dash also
// bans all that begin with it.
func (w *guardedCommand) long(text string, next *Word) (taken int, reason string) {
	option, attached, hasValue := strings.Cut(text, "=")
	name := option[2:]
	abbreviates := func(l string) bool { return strings.HasPrefix(l, name) }
	valued := slices.Contains(w.Longs, name)
	banned := slices.ContainsFunc(w.Long, func(l string) bool {
		return abbreviates(l) || l[len(l)-1] == '-' && strings.HasPrefix(name, l)
	})
	switch {
	case slices.Contains(w.Exact, name):
		return 0, ""
	case banned && !valued:
		return 0, "it is given " + text
	case !banned && slices.ContainsFunc(w.Outs, abbreviates):
		if hasValue {
			return 0, nowhere(&Word{Text: attached}, text)
		}
		return 1, nowhere(next, text)
	case hasValue:
		return 0, w.value(text, Word{Text: attached})
	case valued && next != nil:
		return 1, w.value(text, *next)
	}
	return 0, ""
}

// cluster looks at the letters behind one dash, such as -xzf: each may be an option, and the rest
// of the word, or the next word, the value of one. The first letter with a value ends the
// cluster. Unknown letters are harmless.
func (w *guardedCommand) cluster(text string, next *Word) (taken int, reason string) {
	for j, letter := range text[1:] {
		value, taken := next, 1
		if rest := text[1+j+len(string(letter)):]; rest != "" {
			value, taken = &Word{Text: rest}, 0
		}
		switch {
		case strings.ContainsRune(w.Short, letter):
			return 0, "it is given " + text
		case strings.ContainsRune(w.Output, letter):
			return taken, nowhere(value, text)
		case strings.ContainsRune(w.Valued, letter) && value == nil:
			return 0, ""
		case strings.ContainsRune(w.Valued, letter):
			return taken, w.value(text, *value)
		}
	}
	return 0, ""
}

// value looks at the value of an option that is harmless by itself but takes a value that may not
// be, such as sed -e or curl --data. The guard's function gets the value alone and with "OPTION="
// before it, because some values are dangerous for one option only.
func (w *guardedCommand) value(option string, value Word) string {
	if value.Split {
		return unsureOfWords(value)
	}
	long := strings.HasPrefix(option, "--")
	if w.Program == "sed" && (strings.HasPrefix(option, "-e") || strings.HasPrefix(option, "--e") || strings.HasSuffix(option, "e") && !long) {
		return w.program(value)
	}
	if w.Check == "" {
		return ""
	}
	// The name for the function: --data of --data=x, -d of -dx.
	if long {
		option, _, _ = strings.Cut(option, "=")
	} else {
		option = option[:min(2, len(option))]
	}
	if value.Dynamic {
		if p := value.Prefix(); p == "" || p == "@" || w.Whole || slices.Contains(w.Literal, "*") || slices.Contains(w.Literal, option) {
			return "only the shell knows what " + value.Text + " is"
		}
		value.Text = value.Prefix()
	}
	// In curl's format for -w an @ is judged with the option's name below.
	if reason := w.check(value.Text); reason != "" && option != "-w" && option != "--write-out" {
		return reason
	}
	return w.check(option + "=" + value.Text)
}

// unsureOfWords returns the reason for a word that the shell may split into several. One of them
// could be an option, and the words after it have another meaning then.
func unsureOfWords(w Word) string { return "only the shell knows how many words " + w.Text + " is" }

// isBelow reports whether an output path stays below the working directory or in /tmp, or is
// discarded (/dev/null). It looks at the text only; links are the sandbox's task.
func isBelow(name string) bool {
	return name == "/dev/null" || strings.HasPrefix(path.Clean(name), "/tmp/") || filepath.IsLocal(name)
}

// nowhere returns why an option that names a file to write is dangerous; "" if it names /dev/null
// or standard output (-). w is nil when the value is missing. Another file is only covered by a
// rule that spells the option.
func nowhere(w *Word, option string) string {
	switch {
	case w == nil:
		return "it is given " + option
	case w.Is("/dev/null"), w.Is("-"):
		return ""
	}
	return "it writes a file (" + option + ")"
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

// gitReading are options with which git config still only reads, if it has at most one operand or
// is told to get or list. Any other option may write.
var gitReading = set("--show-origin --show-scope --global --local --system --worktree --name-only -z --null --includes --no-includes --all --regexp --bool --int --path")

// gitConfig returns why a call of git config is dangerous; "" if it only reads. args are the
// words behind config. With one operand git prints a value, with two it writes one; a written
// core.pager or alias is run by a later git.
func gitConfig(args []Word) string {
	operands, reads := 0, false
	for i, w := range args {
		switch {
		case w.Dynamic:
			return "it may write git's configuration"
		case strings.HasPrefix(w.Text, "--get"), w.Is("--list"), w.Is("-l"), (w.Is("get") || w.Is("list")) && (i == 0 || operands == 0):
			reads = true
		case w.Is("get"), w.Is("list"), gitReading[w.Text], strings.HasPrefix(w.Text, "--type="), strings.HasPrefix(w.Text, "--default="):
		case strings.HasPrefix(w.Text, "-"):
			return "it may write git's configuration"
		default:
			operands++
		}
	}
	if reads || operands <= 1 {
		return ""
	}
	return "it writes git's configuration"
}
