package command

import (
	"path"
	"slices"
	"strings"

	"symbio/internal/security/lazyregexp"
	"symbio/internal/security/permission/glob"
	"symbio/internal/security/permission/shell"
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
	if first := c.Words[0]; first.Dynamic {
		if first.Split || strings.ContainsAny(first.Text, "$`<~") || !strings.HasPrefix(p.First, glob.Fold(base(first.Begin))) {
			return maybe
		}
		// A path with wildcards, as /bin/r?, is taken for the program that the rule names.
		return min(p.hasNames(c), p.hasOptions(c), p.hasOperands(c))
	}
	name := glob.Fold(c.Name())
	// git-push is git push. The pattern's names, joined with dashes, may be the whole name.
	if name != p.First {
		if !strings.HasPrefix(name, p.First+"-") {
			return no
		}
		dashed := strings.Join(append([]string{p.First}, p.names[1:]...), "-")
		if len(p.names) > 1 && strings.HasPrefix(name+"-", dashed+"-") {
			return min(p.hasOptions(c), p.hasOperands(c))
		}
	}
	named := p.hasNames(c)
	if named == no {
		return no
	}
	return min(named, p.hasOptions(c), p.hasOperands(c))
}

// hasNames looks for the rule's words before its options, in their order, with nothing but
// options and the values of options between them: git -C x push is git push. It returns maybe at
// the first word that only the shell knows and that may be the wanted one, or hide it.
func (p *Pattern) hasNames(c *shell.Command) shell.Certainty {
	option := false
	for i, wanted := 1, p.names[1:]; len(wanted) > 0; i++ {
		if i >= len(c.Words) {
			return no
		}
		want, w := wanted[0], c.Words[i]
		switch {
		case w.Dynamic && (w.MayBeOption() || strings.HasPrefix(want, w.Begin)):
			return maybe
		// Paths are compared clean, so that rm ./a is rm a.
		case !w.Dynamic && (glob.Fold(w.Text) == want || len(w.Text) > 0 && path.Clean(w.Text) == path.Clean(want)):
			wanted, option = wanted[1:], false
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
	for _, want := range p.late {
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
			case w.Dynamic && (w.Split || strings.HasPrefix(want, w.Begin)):
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
	if len(p.options) == 0 {
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
	for _, want := range p.options {
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

// TextMayMean is MayMean for a deny rule that has a * among its words, such as git * --force. spec, which includes the
// program's name, is compared with the command's words joined by blanks: without quotes, with :* as *, and without the
// program's directory where its name is known. It is maybe if the words up to one that only the shell knows may be
// the beginning of a match.
func TextMayMean(spec string, c *shell.Command) shell.Certainty {
	if c.Words[0].Dynamic {
		return maybe
	}
	spec = strings.TrimSuffix(strings.TrimSuffix(glob.Fold(spec), ":*"), ":")
	at := len(firstWord().FindString(spec))
	if i := strings.Index(spec[:at], ":*"); i >= 0 {
		at = i
	}
	program, rest := unquote.Replace(spec[:at]), strings.ReplaceAll(unquote.Replace(spec[at:]), ":*", "*")
	words, sure := "", true
	for _, w := range c.Words[1:] {
		if sure {
			words, sure = words+" "+w.Prefix(), !w.Dynamic
		}
	}
	match := func(program, name string) shell.Certainty {
		pattern, words := strings.Join(strings.Fields(program+rest), " ")+"*", unquote.Replace(glob.Fold(name+words))
		of := no
		for i := range pattern {
			if !sure && glob.Match(pattern[:i], words) {
				of = maybe
			}
		}
		if glob.Match(pattern, words) {
			of = yes
		}
		return of
	}
	of := match(located(program), located(c.Words[0].Text))
	if name := base(program); name == program || name != "" && !strings.Contains(name, "*") {
		of = max(of, match(name, c.Name()))
	}
	return of
}

// base returns what follows the last slash.
func base(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

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
var firstWord = lazyregexp.New(`^(?:[^"' \\]|"[^"]*"|'[^']*'|\\.)*`)
