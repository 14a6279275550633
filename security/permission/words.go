package permission

import (
	"cmp"
	"path"
	"slices"
	"strings"
	"unique"

	"mvdan.cc/sh/v3/syntax"

	"symbio/security/permission/shell"
)

// program is the spec of a rule about commands, read once. Words are joined with NUL, so that rules can
// be compared.
type program struct {
	head    string // the words that a command has to begin with; "" when the spec is no simple command
	env     string // NAME=VALUE that it has to be given
	operand string // for formOperands: what each operand has to match
	first   string // the base name of the first word, also in the rule itself: most commands are told apart by it
	// What a deny rule looks for: the words before the first option, the options, the words after it.
	names, options, late string
}

const nul = "\x00"

// everyWord is how many words a rule spells that spells them all.
const everyWord = 1 << 30

// readProgram reads the words of a spec about commands; git says that they follow "git".
func (r *Rule) readProgram(git bool) {
	r.program, r.first = unique.Handle[program]{}, ""
	var p program
	text := r.spec
	if r.form == formOperands {
		var tail string
		if i := strings.Index(text, ":*"); i >= 0 {
			text, tail = text[:i], text[i+1:]
		} else {
			i = strings.LastIndex(text, " ")
			text, tail = text[:i], text[i+1:]
		}
		p.operand = tail
	}
	if git {
		text = "git " + text
	}
	parsed := shell.Parse(text)
	var c *shell.Command
	for i := range parsed.Commands {
		if parsed.Commands[i].Outer < 0 {
			if c != nil {
				return
			}
			c = &parsed.Commands[i]
		}
	}
	if c == nil || !c.Literal() || len(parsed.Files) > 0 || parsed.Hard() != "" {
		return
	}
	var words, env, names, options, late []string
	for i, w := range c.Words {
		words = append(words, encode(w))
		switch option := i > 0 && strings.HasPrefix(w.Text, "-") && len(w.Text) > 1; {
		case option:
			options = append(options, w.Text)
		case len(options) > 0:
			late = append(late, w.Text)
		default:
			names = append(names, fold(w.Text))
		}
	}
	for _, a := range c.Env {
		env = append(env, a.Name+"="+encode(a.Value))
	}
	p.head, p.env = strings.Join(words, nul), strings.Join(env, nul)
	p.first = fold(path.Base(c.Words[0].Text))
	p.names, p.options, p.late = strings.Join(names, nul), strings.Join(options, nul), strings.Join(late, nul)
	r.program, r.first = unique.Make(p), p.first
}

// words is what the rule's spec means as a command; the zero program when it is none.
func (r *Rule) words() program {
	if r.program == (unique.Handle[program]{}) {
		return program{}
	}
	return r.program.Value()
}

// encode tells ~/x from '~/x'.
func encode(w shell.Word) string {
	if w.Tilde {
		return "\x01" + w.Text
	}
	return w.Text
}

func split(joined string) []string {
	if joined == "" {
		return nil
	}
	return strings.Split(joined, nul)
}

// commandRule is a rule that is held against commands.
type commandRule struct{ *Rule }

// covers says whether the rule allows this simple command for certain, and how many of its words it
// spells. but says why it does not although its words match.
func (r commandRule) covers(f *facts, i int) (spelled int, ok bool, but string) {
	c := &f.shell.program.Commands[i]
	switch r.form {
	case formTool:
		if f.subject.matter == matterGit {
			but = cmp.Or(f.guard(i, 1), f.outside(i))
			return 1, but == "", but
		}
		return everyWord, true, ""
	case formExact, formPrefix, formOperands:
	default:
		return 0, false, ""
	}
	if r.words().head == "" || !c.Certain {
		return 0, false, ""
	}
	n, ok := r.spells(c)
	if !ok {
		return 0, false, ""
	}
	if name := c.Words[0].Text; strings.Contains(name, "/") && !strings.HasPrefix(name, "/") && !c.Words[0].Tilde && !atHome(c.Dirs) {
		return n, false, "it runs " + name + " in another directory"
	}
	if name := r.strangeVariable(c); name != "" {
		return n, false, "it sets the variable " + name
	}
	switch r.form {
	case formExact:
		return everyWord, true, ""
	case formOperands:
		if !r.operandsMatch(c, n) {
			return n, false, ""
		}
	}
	guarded := n
	if name := c.Name(); strings.HasPrefix(name, "git-") && strings.HasPrefix(r.words().head, c.Words[0].Text) {
		guarded++ // git-log is git log
	}
	if but = cmp.Or(f.guard(i, guarded), f.outside(i)); but == "" {
		if name := f.writesProtected(i, n); name != "" {
			but = "it writes " + name + ", which other programs run or obey"
		}
	}
	return n, but == "", but
}

// atHome reports whether the command runs where the call does.
func atHome(d shell.Dirs) bool { return !d.Unknown && len(d.Paths) == 1 && d.Paths[0] == "" }

// spells reports whether the command begins with the rule's words, or is them.
func (r commandRule) spells(c *shell.Command) (n int, ok bool) {
	for rest, more := r.words().head, true; more; n++ {
		var word string
		word, rest, more = strings.Cut(rest, nul)
		if n >= len(c.Words) || c.Words[n].Dynamic {
			return 0, false
		}
		have := c.Words[n].Text
		if c.Words[n].Tilde != strings.HasPrefix(word, "\x01") {
			return 0, false
		}
		if word = strings.TrimPrefix(word, "\x01"); have == word {
			continue
		}
		dashed := n == 0 && !more && !r.granted && r.form == formPrefix && len(have) > len(word)+1 && have[:len(word)] == word && have[len(word)] == '-'
		if !dashed {
			return 0, false
		}
	}
	if r.form == formExact && (n != len(c.Words) || !r.sameVariables(c)) {
		return 0, false
	}
	return n, true
}

func (r commandRule) sameVariables(c *shell.Command) bool {
	var have []string
	for _, a := range c.Env {
		have = append(have, a.Name+"="+encode(a.Value))
	}
	return strings.Join(have, nul) == r.words().env
}

// strangeVariable finds a variable that is set for the command, and that is neither known to be
// harmless nor spelled by the rule.
func (r commandRule) strangeVariable(c *shell.Command) string {
	for _, a := range c.Env {
		if !shell.SafeVariable(a.Name) && (a.Value.Dynamic || !slices.Contains(split(r.words().env), a.Name+"="+encode(a.Value))) {
			return a.Name
		}
	}
	return ""
}

// operandsMatch is security.md 8.3: no options, at least one operand, each literal, relative, without
// .., and matching.
func (r commandRule) operandsMatch(c *shell.Command, from int) bool {
	if len(c.Words) == from || c.Dirs.Unknown {
		return false
	}
	if slices.ContainsFunc(c.Dirs.Paths, func(d string) bool {
		return strings.HasPrefix(d, "/") || strings.HasPrefix(d, "~") || d == ".." || strings.HasPrefix(d, "../")
	}) {
		return false
	}
	return !slices.ContainsFunc(c.Words[from:], func(w shell.Word) bool {
		return w.Dynamic || w.Tilde || w.Text == "" || w.Text[0] == '-' || w.Text[0] == '/' ||
			slices.Contains(strings.Split(w.Text, "/"), "..") || !glob(r.words().operand, w.Text)
	})
}

// forbids says whether a deny rule may mean this simple command.
func (r commandRule) forbids(c *shell.Command) reach {
	if r.form == formGlob || r.form == formOperands {
		return r.forbidsPattern(c)
	}
	if r.first == "" {
		return no // only as a text
	}
	how := yes
	first := c.Words[0]
	switch {
	case first.Dynamic:
		if !mayBeNamed(first, r.first) {
			return no
		}
		how = maybe
		if !first.Split && !strings.ContainsAny(first.Pattern, string([]rune{shell.Any, shell.Below})) {
			how = yes // /bin/r?
		}
	default:
		name := first.Text[strings.LastIndexByte(first.Text, '/')+1:]
		if foldsCase {
			name = fold(name)
		}
		if name != r.first {
			if len(name) <= len(r.first) || name[len(r.first)] != '-' || name[:len(r.first)] != r.first {
				return no
			}
			if dashed := strings.ReplaceAll(r.words().names, nul, "-"); strings.Contains(r.words().names, nul) && (name == path.Base(dashed) || strings.HasPrefix(name, path.Base(dashed)+"-")) {
				return min(how, r.hasOptions(c), r.hasOperands(c))
			}
		}
	}
	named := r.hasNames(c)
	if named == no {
		return no
	}
	return min(how, named, r.hasOptions(c), r.hasOperands(c))
}

// mayBeNamed reports whether a word that only the shell knows can be a path to the program.
func mayBeNamed(w shell.Word, name string) bool {
	p := w.Pattern
	if w.Split || strings.ContainsAny(p, string([]rune{shell.Any, shell.Below})) {
		return true
	}
	return mayMatch(p[strings.LastIndexByte(p, '/')+1:], name)
}

// hasNames looks for the rule's words in their order, with nothing but options between them.
func (r commandRule) hasNames(c *shell.Command) reach {
	_, rest, more := strings.Cut(r.words().names, nul)
	option := false
	for i := 1; more; i++ {
		if i >= len(c.Words) {
			return no
		}
		want, _, _ := strings.Cut(rest, nul)
		w := c.Words[i]
		switch {
		case w.Dynamic && (w.Split || w.MayBeOption() || mayMatch(w.Pattern, want)):
			return maybe
		case !w.Dynamic && (fold(w.Text) == want || len(w.Text) > 0 && path.Clean(w.Text) == path.Clean(want)):
			_, rest, more = strings.Cut(rest, nul)
			option = false
		case !w.Dynamic && strings.HasPrefix(w.Text, "-"):
			valued, known := shell.GlobalValue(r.first, w.Text)
			option = !known && !strings.Contains(w.Text, "=") && w.Text != "--"
			if valued {
				i++
			}
		case option:
			option = false
		default:
			return no
		}
	}
	return yes
}

// hasOperands looks for the words that the rule has after its options, anywhere.
func (r commandRule) hasOperands(c *shell.Command) reach {
	how := yes
	for _, want := range split(r.words().late) {
		found := no
		for _, w := range c.Words[1:] {
			text := w.Text
			if strings.HasSuffix(text, "/*") || strings.HasSuffix(text, "/.") {
				text = text[:len(text)-1]
			}
			switch {
			case text == want, text != "" && path.Clean(text) == path.Clean(want):
				found = yes
			case w.Dynamic && (w.Split || mayMatch(w.Pattern, want)):
				found = max(found, maybe)
			}
		}
		how = min(how, found)
	}
	return how
}

// hasOptions looks for the rule's options from a word on, in any spelling and order: -rf as -r -f, -fr
// or --recursive --forc.
func (r commandRule) hasOptions(c *shell.Command) reach {
	if r.words().options == "" {
		return yes
	}
	known := shell.LongNames(r.first)
	var letters strings.Builder
	var long []string
	unknown := false
	for _, w := range c.Words[1:] {
		switch {
		case w.Dynamic:
			unknown = unknown || w.MayBeOption()
		case w.Text == "--":
		case strings.HasPrefix(w.Text, "--"):
			name, _, _ := strings.Cut(w.Text[2:], "=")
			long = append(long, name)
		case strings.HasPrefix(w.Text, "-"):
			letters.WriteString(w.Text[1:])
		case r.first == "git" && strings.HasPrefix(w.Text, "+"):
			long = append(long, "force") // a refspec with a plus
		}
	}
	have := letters.String()
	if r.first == "git" {
		// -D is --delete --force.
		if strings.ContainsRune(have, 'D') {
			have += "df"
		} else if wanted("-d", have, long, known) && wanted("-f", have, long, known) {
			have += "D"
		}
	}
	for want := range strings.SplitSeq(r.words().options, nul) {
		if !wanted(want, have, long, known) {
			if unknown {
				return maybe
			}
			return no
		}
	}
	return yes
}

// wanted reports whether one option of a rule is among those given.
func wanted(want, letters string, long []string, known map[string]string) bool {
	if name, ok := strings.CutPrefix(want, "--"); ok {
		name, _, _ = strings.Cut(name, "=")
		if abbreviates(name, long) {
			return true
		}
		for letter, means := range known {
			if means == name && strings.Contains(letters, letter) {
				return true
			}
		}
		return known == nil && name != "" && strings.Contains(strings.ToLower(letters), name[:1])
	}
	if strings.Contains(letters, want[1:]) {
		return true // -delete, or the same letters
	}
	for i := 1; i < len(want); i++ {
		letter := want[i : i+1]
		switch {
		case strings.Contains(letters, letter):
		case known != nil && known[letter] != "" && (abbreviates(known[letter], long) || sameMeaning(known, letter, letters)):
		case known == nil && slices.ContainsFunc(long, func(l string) bool { return l != "" && l[0] == want[i]|0x20 }):
		default:
			return false
		}
	}
	return true
}

func sameMeaning(known map[string]string, letter, letters string) bool {
	return slices.ContainsFunc([]byte(letters), func(l byte) bool { return known[string(l)] == known[letter] })
}

func abbreviates(name string, given []string) bool {
	return slices.ContainsFunc(given, func(g string) bool { return g != "" && (strings.HasPrefix(name, g) || strings.HasPrefix(g, name)) })
}

// forbidsPattern is for deny rules with a * in the words.
func (r commandRule) forbidsPattern(c *shell.Command) reach {
	var b, p strings.Builder
	for i, w := range c.Words {
		text, pattern := w.Text, w.Text
		if w.Dynamic {
			pattern = w.Pattern
			if w.Split {
				pattern += string(shell.Any)
			}
		}
		if i == 0 {
			text, pattern = path.Base(text), pattern[strings.LastIndexByte(pattern, '/')+1:]
		} else {
			b.WriteByte(' ')
			p.WriteByte(' ')
		}
		b.WriteString(text)
		p.WriteString(pattern)
	}
	spec := strings.ReplaceAll(fold(r.spec), ":*", " *")
	if r.tool == "Git" {
		spec = "git " + spec
	}
	spec = strings.Join(strings.Fields(spec), " ") + "*"
	if strings.Trim(b.String(), " ") != "" && glob(spec, fold(b.String())) {
		return yes
	}
	if p.String() != b.String() && mayMatch(fold(p.String()), spec) {
		return maybe
	}
	return no
}

// quoted writes a directory so that a shell reads it as one word.
func quoted(dir string) string {
	if q, err := syntax.Quote(dir, syntax.LangBash); err == nil {
		return q
	}
	return "''"
}
