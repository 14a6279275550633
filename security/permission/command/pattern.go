// Package command matches simple commands of the shell against the patterns of permission rules.
//
// An allow rule matches certainly or not at all: Pattern.Match compares words that the shell cannot change. A deny rule
// has to find its command in any spelling: Pattern.MayMean and Text err on the side of a match.
package command

import (
	"path"
	"slices"
	"strings"
	"unique"

	"symbio/security/permission/glob"
	"symbio/security/permission/shell"
)

// words is the parsed text of a Pattern. Lists are joined with NUL, so that a Pattern can be compared.
type words struct {
	head    string // the words that a command has to begin with
	env     string // the variables that it has to be given, as NAME=VALUE
	operand string // the pattern for each operand; "" = there is none
	// A deny rule looks for these: the words before the first option, the options, the words after it.
	names, options, late string
}

const nul = "\x00"

// Pattern is the words of a rule about commands, such as "git log". It matches simple commands that begin with them.
// Patterns can be compared with ==. The zero Pattern matches nothing.
type Pattern struct {
	words unique.Handle[words]
	// First is the base name of the first word: most commands are told apart by it. "" in the zero Pattern.
	First string
}

// Parse reads the words of a pattern; git says that they follow "git". operand is the pattern for each operand of the
// command, "" if there is none. A text that is not one simple command of literal words gives the zero Pattern.
func Parse(text, operand string, git bool) Pattern {
	p := words{operand: operand}
	if git {
		text = "git " + text
	}
	parsed := shell.Parse(text)
	var c *shell.Command
	for i := range parsed.Commands {
		if parsed.Commands[i].Outer < 0 {
			if c != nil {
				return Pattern{}
			}
			c = &parsed.Commands[i]
		}
	}
	if c == nil || !c.Literal() || len(parsed.Files) > 0 || parsed.Hard() != "" {
		return Pattern{}
	}
	var head, env, names, options, late []string
	for i, w := range c.Words {
		head = append(head, encode(w))
		switch option := i > 0 && strings.HasPrefix(w.Text, "-") && len(w.Text) > 1; {
		case option:
			options = append(options, w.Text)
		case len(options) > 0:
			late = append(late, w.Text)
		default:
			names = append(names, glob.Fold(w.Text))
		}
	}
	for _, a := range c.Env {
		env = append(env, a.Name+"="+encode(a.Value))
	}
	if c.Words[0].Text == "" {
		return Pattern{} // '' names no program
	}
	p.head, p.env = strings.Join(head, nul), strings.Join(env, nul)
	p.names, p.options, p.late = strings.Join(names, nul), strings.Join(options, nul), strings.Join(late, nul)
	return Pattern{unique.Make(p), glob.Fold(path.Base(c.Words[0].Text))}
}

func (p *Pattern) parsed() words {
	if p.First == "" {
		return words{}
	}
	return p.words.Value()
}

// Words are the words that a command has to begin with. A word whose ~ stands for the home directory begins with the
// byte 1.
func (p *Pattern) Words() []string { return split(p.parsed().head) }

// SetsVariables reports whether the pattern has variables before its first word, as in LANG=C sort.
func (p *Pattern) SetsVariables() bool { return p.parsed().env != "" }

// encode writes a word so that ~/x differs from '~/x'.
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

// Match returns how many words of the command the pattern spells; ok is false if the command does not begin with them.
// With whole it has to consist of them and of the pattern's variables. With dashed, git also matches git-anything.
func (p *Pattern) Match(c *shell.Command, whole, dashed bool) (n int, ok bool) {
	for rest, more := p.parsed().head, true; more; n++ {
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
		if !dashed || n > 0 || more || len(have) <= len(word)+1 || have[:len(word)] != word || have[len(word)] != '-' {
			return 0, false
		}
	}
	if whole && (n != len(c.Words) || !p.sameVariables(c)) {
		return 0, false
	}
	return n, true
}

func (p *Pattern) sameVariables(c *shell.Command) bool {
	var have []string
	for _, a := range c.Env {
		have = append(have, a.Name+"="+encode(a.Value))
	}
	return strings.Join(have, nul) == p.parsed().env
}

// UnsafeVariable returns a variable that is set for the command, is not known to be harmless, and is not in the
// pattern; "" if there is none.
func (p *Pattern) UnsafeVariable(c *shell.Command) string {
	for _, a := range c.Env {
		if !shell.SafeVariable(a.Name) && (a.Value.Dynamic || !slices.Contains(split(p.parsed().env), a.Name+"="+encode(a.Value))) {
			return a.Name
		}
	}
	return ""
}

// MatchOperands reports whether the words of the command from that one on are operands that the pattern means
// (security.md 8.3): at least one, no options, each literal, relative, without .. and matching.
func (p *Pattern) MatchOperands(c *shell.Command, from int) bool {
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
			slices.Contains(strings.Split(w.Text, "/"), "..") || !glob.Match(p.parsed().operand, w.Text)
	})
}
