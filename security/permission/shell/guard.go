package shell

import (
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Guard says why a rule that spells only the first words of a command does not cover the rest; "" when
// it does. spelled is how many words the rule spells; git-log counts as two.
func Guard(c Command, spelled int) string {
	name := c.Name()
	g, ok := guards[name]
	args := c.Words[1:]
	if !ok {
		first, second, dashed := strings.Cut(name, "-")
		if g, ok = guards[first]; !ok || !dashed || first != "git" {
			return ""
		}
		// git-log is git log.
		args = append([]Word{{Text: second}}, args...)
		name = first
	}
	if g.empty() {
		return ""
	}
	w := guarded{name: name, spelled: spelled - 1, args: args}
	if len(g.subs) == 0 && len(g.banned) == 0 {
		return w.scan(g, 0)
	}
	return w.subcommand(g)
}

// guarded is a command on its way past its guard. spelled counts without the program's name.
type guarded struct {
	name    string
	args    []Word
	spelled int
}

// subcommand finds the sub-command, and holds what precedes and what follows it against its guards.
func (w guarded) subcommand(g guard) string {
	at := 0
	before, has := g.subs[""]
	if !has {
		before = g
		before.subs, before.banned = nil, nil
	}
	for at < len(w.args) {
		word := w.args[at]
		if word.Dynamic {
			if at >= w.spelled {
				return "only the shell knows what it is asked to do"
			}
			break
		}
		if !strings.HasPrefix(word.Text, "-") {
			break
		}
		if w.name == "git" && gitGlobals[word.Text] {
			at++
			if at < len(w.args) && at >= w.spelled && w.args[at].Split {
				return "only the shell knows how many words " + w.args[at].Text + " is"
			}
		}
		at++
	}
	at = min(at, len(w.args))
	head := guarded{w.name, w.args[:at], w.spelled}
	if reason := head.scan(before, 0); reason != "" || at == len(w.args) {
		return reason
	}
	sub := w.args[at].Text
	if slices.Contains(g.banned, sub) && at >= w.spelled {
		return "it is asked to " + sub
	}
	if w.name == "git" && sub == "config" {
		if w.spelled <= at+1 {
			return gitConfig(w.args[at+1:])
		}
		return ""
	}
	own := g.subs[sub]
	all, ok := g.subs["*"]
	if !ok && !has {
		all = before
	}
	return w.scan(merge(own, all), at+1)
}

func merge(a, b guard) guard {
	a.long = append(append([]string(nil), a.long...), b.long...)
	a.single = append(append([]string(nil), a.single...), b.single...)
	a.exact = append(append([]string(nil), a.exact...), b.exact...)
	a.longs = append(append([]string(nil), a.longs...), b.longs...)
	a.outs = append(append([]string(nil), a.outs...), b.outs...)
	for _, letter := range b.valued {
		if !strings.ContainsRune(a.short, letter) && a.valued == "" {
			a.valued += string(letter)
		}
	}
	a.short += b.short
	a.output += b.output
	a.dashes = a.dashes || b.dashes
	if a.check == nil {
		a.check = b.check
	}
	return a
}

// scan looks at the words from at on that the rule does not spell.
func (w guarded) scan(g guard, at int) string {
	operands := 0
	scripted := false // sed's and awk's first operand is a program
	ended := false
	if g.empty() && w.name != "sed" && w.name != "awk" {
		g.valued, g.longs = "", nil
	}
	for i := at; i < len(w.args); i++ {
		word := w.args[i]
		spelled := i < w.spelled
		switch {
		case word.Is("--") && !g.dashes && !ended:
			ended = true
			continue
		case spelled:
			if !strings.HasPrefix(word.Text, "-") {
				operands++
			}
			continue
		case word.Dynamic:
			if !ended && word.MayBeOption() {
				return "only the shell knows whether " + word.Text + " is an option of it"
			}
			if g.check != nil && (word.Prefix() == "" || word.Prefix() == "@" || word.Prefix() == "+") {
				return "only the shell knows what " + word.Text + " is"
			}
			ended = ended || g.leading
			if reason := w.operand(g, word, &operands, &scripted); reason != "" {
				return reason
			}
			if word.Split && g.operands != 0 {
				return "only the shell knows how many files it is given"
			}
		case ended || !strings.HasPrefix(word.Text, "-") || word.Text == "-":
			if i == at && g.bundled && !ended {
				if reason := letters(g, word.Text, ""); reason != "" {
					return reason
				}
				continue
			}
			ended = ended || g.leading
			if reason := w.operand(g, word, &operands, &scripted); reason != "" {
				return reason
			}
		default:
			value, taken, reason := w.option(g, i)
			if reason != "" {
				return reason
			}
			if value != nil && value.Split {
				return "only the shell knows how many words " + value.Text + " is"
			}
			if value != nil {
				if reason := w.value(g, word.Text, *value, &scripted); reason != "" {
					return reason
				}
			}
			i += taken
		}
	}
	return ""
}

func (w guarded) operand(g guard, word Word, operands *int, scripted *bool) string {
	*operands++
	if slices.Contains(g.words, word.Text) {
		return "it is asked to " + word.Text
	}
	if g.operands != 0 && *operands > max(g.operands, 0) {
		return "it writes to " + word.Text
	}
	if (w.name == "sed" || isAwk(w.name)) && !*scripted {
		*scripted = true
		return w.program(word)
	}
	if isAwk(w.name) || w.name == "sed" {
		return ""
	}
	if g.check != nil && !word.Dynamic {
		if reason := g.check(word.Text); reason != "" {
			return reason
		}
	}
	return ""
}

func isAwk(name string) bool {
	return name == "awk" || name == "gawk" || name == "mawk" || name == "nawk"
}

// program looks at a program for sed or awk.
func (w guarded) program(word Word) string {
	if word.Dynamic {
		return "only the shell knows its program"
	}
	if w.name == "sed" {
		if !sedIsPlain(word.Text) {
			return "its program may run or write something"
		}
		return ""
	}
	if !awkIsPlain(word.Text) {
		return "its program may run or write something"
	}
	return ""
}

// value looks at the value of an option that is fine by itself.
func (w guarded) value(g guard, option string, value Word, scripted *bool) string {
	if w.name == "sed" && (strings.HasPrefix(option, "-e") || strings.HasPrefix(option, "--e") || strings.HasSuffix(option, "e") && !strings.HasPrefix(option, "--")) {
		*scripted = true
		return w.program(value)
	}
	if g.check == nil {
		return ""
	}
	if value.Dynamic {
		if p := value.Prefix(); p == "" || p == "@" {
			return "only the shell knows what " + value.Text + " is"
		}
		return ""
	}
	if strings.HasPrefix(option, "--") {
		option, _, _ = strings.Cut(option, "=")
	} else {
		option = option[:min(2, len(option))]
	}
	if reason := g.check(value.Text); reason != "" && option != "-w" && option != "--write-out" {
		return reason
	}
	return g.check(option + "=" + value.Text)
}

// option reads one option. value is what belongs to it; taken is 1 when that is the next word.
func (w guarded) option(g guard, i int) (value *Word, taken int, reason string) {
	text := w.args[i].Text
	bad := func() (*Word, int, string) { return nil, 0, "it is given " + text }
	next := func() *Word {
		if i+1 < len(w.args) {
			return &w.args[i+1]
		}
		return nil
	}
	name, attached, hasValue := strings.Cut(text, "=")
	if slices.Contains(g.single, name) || strings.HasPrefix(name, "--") && slices.Contains(g.single, name[1:]) && g.dashes {
		if w.name == "find" && slices.Contains([]string{"-exec", "-execdir", "-ok", "-okdir"}, name) {
			return nil, endOf(w.args[i:]), "" // what it runs is a command of its own
		}
		return bad()
	}
	if slices.Contains(g.follow, name) && next() != nil && !next().Split {
		return nil, 1, ""
	}
	if w.name == "go" && (name == "-o" || name == "--o") {
		to, taken := &Word{Text: attached}, 0
		if !hasValue {
			to, taken = next(), 1
		}
		if to == nil || to.Dynamic || to.Tilde || !below(to.Text) {
			return bad()
		}
		return nil, taken, ""
	}
	if g.dashes {
		if g.check != nil {
			if hasValue {
				return &Word{Text: attached}, 0, ""
			}
			if n := next(); n != nil && w.name == "go" && (name == "-ldflags" || name == "--ldflags" || name == "-gcflags" || name == "-asmflags") {
				return n, 1, ""
			}
		}
		if g.short == "" {
			return nil, 0, ""
		}
	}
	if long, ok := strings.CutPrefix(name, "--"); ok {
		switch {
		case slices.Contains(g.exact, long):
			return nil, 0, ""
		case slices.ContainsFunc(g.long, func(l string) bool {
			return strings.HasPrefix(l, long) || l[len(l)-1] == '-' && strings.HasPrefix(long, l)
		}):
			if slices.Contains(g.longs, long) {
				break
			}
			return bad()
		case slices.ContainsFunc(g.outs, func(l string) bool { return strings.HasPrefix(l, long) }):
			if hasValue {
				return nil, 0, nowhere(Word{Text: attached}, text)
			}
			if n := next(); n != nil {
				return nil, 1, nowhere(*n, text)
			}
			return bad()
		}
		if hasValue {
			return &Word{Text: attached}, 0, ""
		}
		if slices.Contains(g.longs, long) && next() != nil {
			return next(), 1, ""
		}
		return nil, 0, ""
	}
	return w.cluster(g, text, next())
}

// below reports whether what is written there is below the working directory, or for a moment.
func below(name string) bool {
	return name == "/dev/null" || strings.HasPrefix(path.Clean(name), "/tmp/") || filepath.IsLocal(name)
}

// cluster reads letters behind one dash.
func (w guarded) cluster(g guard, text string, next *Word) (value *Word, taken int, reason string) {
	for j, letter := range text[1:] {
		rest := text[1+j+len(string(letter)):]
		switch {
		case strings.ContainsRune(g.short, letter):
			return nil, 0, "it is given " + text
		case strings.ContainsRune(g.output, letter):
			if rest != "" {
				return nil, 0, nowhere(Word{Text: rest}, text)
			}
			if next == nil {
				return nil, 0, "it is given " + text
			}
			return nil, 1, nowhere(*next, text)
		case strings.ContainsRune(g.valued, letter):
			if rest != "" {
				return &Word{Text: rest}, 0, ""
			}
			return next, b2i(next != nil), ""
		}
	}
	return nil, 0, ""
}

// letters looks at options without a dash.
func letters(g guard, text, _ string) string {
	if i := strings.IndexAny(text, g.short); g.short != "" && i >= 0 {
		return "it is given " + text
	}
	return ""
}

func nowhere(w Word, option string) string {
	if w.Is("/dev/null") || w.Is("-") {
		return ""
	}
	return "it writes a file (" + option + ")"
}

// endOf is how many words a find -exec takes.
func endOf(args []Word) int {
	for i := 1; i < len(args); i++ {
		if args[i].Is(";") || args[i].Is("+") && args[i-1].Is("{}") {
			return i
		}
	}
	return len(args)
}
