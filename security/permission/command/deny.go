package command

import (
	"path"
	"slices"
	"strings"

	"symbio/security/permission/glob"
	"symbio/security/permission/shell"
)

const no, maybe, yes = shell.No, shell.Maybe, shell.Yes

// MayMean returns how certain it is that a deny rule with this pattern means the command, in any spelling of it.
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
		if !first.Split && !strings.ContainsAny(first.Pattern, string([]rune{shell.Any, shell.Below})) {
			how = yes // /bin/r?
		}
	default:
		name := first.Text[strings.LastIndexByte(first.Text, '/')+1:]
		if glob.FoldsCase {
			name = glob.Fold(name)
		}
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

// mayBeNamed reports whether a word that only the shell knows can be a path to the program.
func mayBeNamed(w shell.Word, name string) bool {
	pattern := w.Pattern
	if w.Split || strings.ContainsAny(pattern, string([]rune{shell.Any, shell.Below})) {
		return true
	}
	return glob.MayMatch(pattern[strings.LastIndexByte(pattern, '/')+1:], name)
}

// hasNames looks for the rule's words in their order, with nothing but options between them.
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
		case !w.Dynamic && (glob.Fold(w.Text) == want || len(w.Text) > 0 && path.Clean(w.Text) == path.Clean(want)):
			_, rest, more = strings.Cut(rest, nul)
			option = false
		case !w.Dynamic && strings.HasPrefix(w.Text, "-"):
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

// hasOperands looks for the words that the rule has after its options, anywhere.
func (p *Pattern) hasOperands(c *shell.Command) shell.Certainty {
	how := yes
	for _, want := range split(p.parsed().late) {
		found := no
		for _, w := range c.Words[1:] {
			text := w.Text
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

// hasOptions looks for the rule's options from a word on, in any spelling and order: -rf as -r -f, -fr
// or --recursive --forc.
func (p *Pattern) hasOptions(c *shell.Command) shell.Certainty {
	if p.parsed().options == "" {
		return yes
	}
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
		case p.First == "git" && strings.HasPrefix(w.Text, "+"):
			long = append(long, "force") // a refspec with a plus
		}
	}
	have := letters.String()
	if p.First == "git" {
		// -D is --delete --force.
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

// TextMayMean is MayMean for a deny rule that has a * among its words.
func TextMayMean(spec string, c *shell.Command) shell.Certainty {
	var b, marked strings.Builder
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
			marked.WriteByte(' ')
		}
		b.WriteString(text)
		marked.WriteString(pattern)
	}
	spec = strings.ReplaceAll(glob.Fold(spec), ":*", " *")
	spec = strings.Join(strings.Fields(spec), " ") + "*"
	if strings.Trim(b.String(), " ") != "" && glob.Match(spec, glob.Fold(b.String())) {
		return yes
	}
	if marked.String() != b.String() && glob.MayMatch(glob.Fold(marked.String()), spec) {
		return maybe
	}
	return no
}
