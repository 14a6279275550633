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

// words is the parsed text of a Pattern. Lists are joined with NUL, which no word can hold, so
// that a Pattern can be compared with == and interned. Many rules of a chain have the same words.
type words struct {
	// head are the words that a command has to begin with, each as encode writes it. Allow rules
	// use it.
	head string
	// env are the variables that the pattern sets, as NAME=VALUE. Without whole, more of them are
	// harmless only if safe.
	env string
	// operand is the glob for each operand, as *.tmp of rm:*.tmp; "" if there is none.
	operand string
	// A deny rule looks for these: the words before the first option, the options, and the words
	// after it. names are folded where file systems ignore case.
	names, options, late string
}

// nul separates the words of a list. shell.Parse gives no word with a NUL.
const nul = "\x00"

// Pattern is the words of a rule about commands, such as "git log". It matches simple commands
// that begin with them. Patterns are small values that can be compared with ==. The zero Pattern
// matches nothing. All methods may be called from many goroutines.
type Pattern struct {
	words unique.Handle[words]
	// First is the base name of the first word, folded: most commands are told apart by it
	// without a look at the other words. It is "" in the zero Pattern only.
	First string
}

// Parse reads the words of a pattern as the shell would, so that quotes mean the same in rules
// and commands. git says that the words follow "git". operand is the pattern for each operand of
// the command, "" if there is none.
//
// It returns the zero Pattern, which matches nothing, for a text that is not one simple command
// of literal words: one with a pipe, a redirection, an expansion or a hard Problem. Commands
// inside the command, as of timeout 5 x, do not count.
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
		// A word of one dash is an operand.
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

// parsed returns the words; the zero words for the zero Pattern, whose handle must not be asked.
func (p *Pattern) parsed() words {
	if p.First == "" {
		return words{}
	}
	return p.words.Value()
}

// Words returns the words that a command has to begin with. A word whose ~ stands for the home
// directory begins with the byte 1.
func (p *Pattern) Words() []string { return split(p.parsed().head) }

// SetsVariables reports whether the pattern has variables before its first word, as in LANG=C sort.
func (p *Pattern) SetsVariables() bool { return p.parsed().env != "" }

// encode writes a word so that ~/x differs from '~/x', which is a file in a directory named ~.
// The byte 1 cannot stand in a command (shell.Marks).
func encode(w shell.Word) string {
	if w.Tilde {
		return "\x01" + w.Text
	}
	return w.Text
}

// split returns the words of a list that was joined with nul; nil for "".
func split(joined string) []string {
	if joined == "" {
		return nil
	}
	return strings.Split(joined, nul)
}

// Match returns how many words of the command the pattern spells; ok is false if the command does
// not begin with them. It serves allow rules, so every compared word has to be literal. With
// whole the command has to consist of the words and of exactly the pattern's variables. With
// dashed a pattern of one word also matches its dashed names: git matches git-lfs (security.md
// 2.1).
//
// It does not check variables without whole; see UnsafeVariable.
func (p *Pattern) Match(c *shell.Command, whole, dashed bool) (n int, ok bool) {
	for rest, more := p.parsed().head, true; more; n++ {
		var word string
		word, rest, more = strings.Cut(rest, nul)
		if n >= len(c.Words) || c.Words[n].Dynamic {
			return 0, false
		}
		have := c.Words[n].Text
		// Both have to mean the home, or neither.
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

// sameVariables reports whether the command sets exactly the pattern's variables, in the same
// order.
func (p *Pattern) sameVariables(c *shell.Command) bool {
	var have []string
	for _, a := range c.Env {
		have = append(have, a.Name+"="+encode(a.Value))
	}
	return strings.Join(have, nul) == p.parsed().env
}

// UnsafeVariable returns a variable that is set for the command, is not known to be harmless, and
// is not in the pattern with the same value; "" if there is none. LD_PRELOAD=x git log is not git
// log.
func (p *Pattern) UnsafeVariable(c *shell.Command) string {
	for _, a := range c.Env {
		if !shell.SafeVariable(a.Name) && (a.Value.Dynamic || !slices.Contains(split(p.parsed().env), a.Name+"="+encode(a.Value))) {
			return a.Name
		}
	}
	return ""
}

// MatchOperands reports whether the words of the command from index from on are operands that the
// pattern means (security.md 2.1, 8.3): at least one, no options, each literal, relative, without
// .. and matching. The command must also run in the working directory or below it, or a relative
// name would mean a file elsewhere.
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
