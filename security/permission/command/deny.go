package command

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"symbio/security/permission/glob"
	"symbio/security/permission/shell"
)

// The certainties under short names, since deny rules combine them by min and max: a match needs
// all of its parts (min), and one of several candidates is enough (max).
const no, maybe, yes = shell.No, shell.Maybe, shell.Yes

// MayMean returns how certain it is that a deny rule with this pattern means the command, in any
// spelling of it: another path of the program, other or abbreviated options, another order. Maybe
// is for words that only the shell knows. The zero Pattern means no command.
//
// The steps are the program's name, the words before the rule's options, the options, and the
// words behind them; the result is the least certain of these.
func (p *Pattern) MayMean(c *shell.Command) shell.Certainty {
	if p.First == "" {
		return no
	}
	how := yes
	first := c.Words[0]
	switch {
	case first.Dynamic:
		if !mayBeNamed(first, p.First) {
			return no
		}
		how = maybe
		// A path with wildcards names an existing program, so it is taken for the one that the
		// rule names.
		if !first.Split && !strings.ContainsAny(first.Pattern, string(shell.Any)) {
			how = yes // /bin/r?
		}
	default:
		name := first.Text[strings.LastIndexByte(first.Text, '/')+1:]
		if glob.FoldsCase {
			name = glob.Fold(name)
		}
		// git-push is git push. The pattern's names, joined with dashes, may be the whole name.
		if name != p.First {
			if len(name) <= len(p.First) || name[len(p.First)] != '-' || name[:len(p.First)] != p.First {
				return no
			}
			if dashed := strings.ReplaceAll(p.parsed().names, nul, "-"); strings.Contains(p.parsed().names, nul) && (name == path.Base(dashed) || strings.HasPrefix(name, path.Base(dashed)+"-")) {
				return min(how, p.hasOptions(c), p.hasOperands(c))
			}
		}
	}
	named := p.hasNames(c)
	if named == no {
		return no
	}
	return min(how, named, p.hasOptions(c), p.hasOperands(c))
}

// mayBeNamed reports whether a word that only the shell knows can be a path to the program. Only
// the last part of the path counts. If unknown text may hold a slash, every name is possible.
func mayBeNamed(w shell.Word, name string) bool {
	pattern := w.Pattern
	if w.Split || strings.ContainsAny(pattern, string(shell.Any)) {
		return true
	}
	return glob.MayMatch(pattern[strings.LastIndexByte(pattern, '/')+1:], name)
}

// hasNames looks for the rule's words before its options, in their order, with nothing but
// options and the values of options between them: git -C x push is git push. It returns maybe at
// the first word that only the shell knows and that may be the wanted one, or hide it.
func (p *Pattern) hasNames(c *shell.Command) shell.Certainty {
	_, rest, more := strings.Cut(p.parsed().names, nul)
	option := false
	for i := 1; more; i++ {
		if i >= len(c.Words) {
			return no
		}
		want, _, _ := strings.Cut(rest, nul)
		w := c.Words[i]
		switch {
		case w.Dynamic && (w.Split || w.MayBeOption() || glob.MayMatch(w.Pattern, want)):
			return maybe
		// Paths are compared clean, so that rm ./a is rm a.
		case !w.Dynamic && (glob.Fold(w.Text) == want || len(w.Text) > 0 && path.Clean(w.Text) == path.Clean(want)):
			_, rest, more = strings.Cut(rest, nul)
			option = false
		case !w.Dynamic && strings.HasPrefix(w.Text, "-"):
			// If it is not known whether the option takes a value, the next word may be one: it
			// is skipped unless it is the wanted word.
			valued, known := shell.GlobalValue(p.First, w.Text)
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

// hasOperands looks for the words that the rule has behind its options. They may stand anywhere
// in the command, because programs accept operands and options in any order. It returns the
// certainty of the word that is found least.
func (p *Pattern) hasOperands(c *shell.Command) shell.Certainty {
	how := yes
	for _, want := range split(p.parsed().late) {
		found := no
		for _, w := range c.Words[1:] {
			text := w.Text
			// rm -rf /* and rm -rf /. do what rm -rf / does.
			if strings.HasSuffix(text, "/*") || strings.HasSuffix(text, "/.") {
				text = text[:len(text)-1]
			}
			switch {
			case text == want, text != "" && path.Clean(text) == path.Clean(want):
				found = yes
			case w.Dynamic && (w.Split || glob.MayMatch(w.Pattern, want)):
				found = max(found, maybe)
			}
		}
		how = min(how, found)
	}
	return how
}

// hasOptions looks for the rule's options anywhere behind the program's name, in any spelling and
// order: -rf as -r -f, -fr or --recursive --forc. It returns maybe if one is missing but a word
// that only the shell knows may be an option.
func (p *Pattern) hasOptions(c *shell.Command) shell.Certainty {
	if p.parsed().options == "" {
		return yes
	}
	// nil for a program whose options are not in the table. Then any long option with the same
	// first letter counts.
	known := shell.LongNames(p.First)
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
		// git push origin +main forces like --force.
		case p.First == "git" && strings.HasPrefix(w.Text, "+"):
			long = append(long, "force") // a refspec with a plus
		}
	}
	have := letters.String()
	if p.First == "git" {
		// -D is --delete --force.
		// The other direction holds, too: a rule about git branch -D finds --delete --force.
		if strings.ContainsRune(have, 'D') {
			have += "df"
		} else if wanted("-d", have, long, known) && wanted("-f", have, long, known) {
			have += "D"
		}
	}
	for want := range strings.SplitSeq(p.parsed().options, nul) {
		if !wanted(want, have, long, known) {
			if unknown {
				return maybe
			}
			return no
		}
	}
	return yes
}

// wanted reports whether one option of a rule is among those given. want has its dashes. letters
// are the given short options in one text, long the given long ones without dashes, known the
// long names of the program's letters (nil if there are none).
//
// A wanted long option is also found as its letter, and a wanted cluster as long options. Each
// letter of a cluster has to be found.
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
		// Without a table, a letter is taken for each long option that begins with it.
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
		// want[i]|0x20 is the letter in lower case: long options are written so.
		case known == nil && slices.ContainsFunc(long, func(l string) bool { return l != "" && l[0] == want[i]|0x20 }):
		default:
			return false
		}
	}
	return true
}

// sameMeaning reports whether one of the given letters is another one for the same long option,
// as -r and -R of rm are.
func sameMeaning(known map[string]string, letter, letters string) bool {
	return slices.ContainsFunc([]byte(letters), func(l byte) bool { return known[string(l)] == known[letter] })
}

// abbreviates reports whether one of the given long options is the name, an abbreviation of it,
// or a longer name that begins with it. The last errs on the safe side.
func abbreviates(name string, given []string) bool {
	return slices.ContainsFunc(given, func(g string) bool { return g != "" && (strings.HasPrefix(name, g) || strings.HasPrefix(g, name)) })
}

// TextMayMean is MayMean for a deny rule that has a * among its words, such as git * --force.
// spec, which includes the program's name, is matched against the command's words joined by
// blanks, of the program the name and the path. A match with marks in place of unknown words is maybe.
func TextMayMean(spec string, c *shell.Command) shell.Certainty {
	var b, marked strings.Builder
	for _, w := range c.Words[1:] {
		b.WriteString(" " + w.Text)
		marked.WriteString(" " + possible(w))
	}
	first := c.Words[0]
	pattern := possible(first)
	of := shell.No
	for _, program := range [...]struct{ text, pattern string }{
		{path.Base(first.Text), pattern[strings.LastIndexByte(pattern, '/')+1:]},
		{located(first.Text), pattern},
	} {
		words, unknown := unquote.Replace(glob.Fold(program.text+b.String())), unquote.Replace(glob.Fold(program.pattern+marked.String()))
		for _, spec := range readings(glob.Fold(spec)) {
			if strings.Trim(words, " ") != "" && glob.Match(spec, words) {
				return yes
			}
			if unknown != words && glob.MayMatch(unknown, spec) {
				of = maybe
			}
		}
	}
	return of
}

// possible returns a pattern for what the shell may make of a word; of one that it splits, more words.
func possible(w shell.Word) string {
	switch {
	case !w.Dynamic:
		return w.Text
	case w.Split:
		return w.Pattern + string(shell.Any)
	}
	return w.Pattern
}

// located returns the path of a program in one spelling; what has no slash is a name.
func located(program string) string {
	if !strings.Contains(program, "/") || program[0] == '*' {
		return program
	}
	clean := path.Clean(program)
	if strings.ContainsAny(program[:1], "/~") {
		return clean
	}
	return "./" + clean
}

// firstWord matches the first word of a command.
var firstWord = regexp.MustCompile(`^(?:[^"' \\]|"[^"]*"|'[^']*'|\\.)*`)

// readings returns what the author of a deny rule may mean: :* as other arguments, as none, or as a colon in a word; the
// program with its directory, and without where its name is known; all without quotes.
func readings(spec string) (all []string) {
	spec = strings.TrimSuffix(strings.TrimSuffix(spec, ":*"), ":")
	program := firstWord.FindString(spec)
	rest := spec[len(program):]
	program = unquote.Replace(program)
	programs := []string{located(program)}
	base := program[strings.LastIndexByte(program, '/')+1:]
	if name, _, _ := strings.Cut(base, ":*"); base != program && name != "" && !strings.Contains(name, "*") {
		programs = append(programs, base)
	}
	for _, program := range programs {
		spec := strings.Join(strings.Fields(program+unquote.Replace(rest)), " ") + "*"
		all = append(all, spec)
		if strings.Contains(spec, ":*") {
			all = append(all, strings.ReplaceAll(spec, ":*", " *"), strings.ReplaceAll(spec, ":* ", " "))
		}
	}
	return all
}
