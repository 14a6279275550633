// Package command matches simple commands of the shell against the patterns of permission rules.
//
// An allow rule matches certainly or not at all: Pattern.Match compares words that the shell cannot change. A deny rule
// has to find its command in any spelling: Pattern.MayMean and Text err on the side of a match.
package command

import (
	"path"
	"slices"
	"strings"

	"symbio/internal/security/permission/glob"
	"symbio/internal/security/permission/shell"
)

// Pattern is the words of a rule about commands, such as "git log". It matches simple commands
// that begin with them. The zero Pattern matches nothing. All methods may be called from many goroutines.
type Pattern struct {
	// First is the base name of the first word, folded: most commands are told apart by it
	// without a look at the other words. It is "" in the zero Pattern only.
	First string
	// words are those that a command has to begin with, all literal. Allow rules use them.
	words []shell.Word
	// env are the variables that the pattern sets. Without whole, more of them are harmless only if safe.
	env []shell.Assign
	// operand is the glob for each operand, as *.tmp of rm:*.tmp; "" if there is none.
	operand string
	// A deny rule looks for these: the words before the first option, the options, and the words
	// after it. names are folded where file systems ignore case.
	names, options, late []string
}

// Parse reads the words of a pattern as the shell would, so that quotes mean the same in rules
// and commands. git says that the words follow "git". operand is the pattern for each operand of
// the command, "" if there is none.
//
// It returns the zero Pattern, which matches nothing, for a text that is not one simple command
// of literal words: one with a pipe, a redirection, an expansion or a hard Problem. Commands
// inside the command, as of timeout 5 x, do not count.
func Parse(text, operand string, git bool) Pattern {
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
	p := Pattern{First: glob.Fold(path.Base(c.Words[0].Text)), words: c.Words, env: c.Env, operand: operand}
	for i, w := range c.Words {
		// A word of one dash is an operand.
		switch option := i > 0 && strings.HasPrefix(w.Text, "-") && len(w.Text) > 1; {
		case option:
			p.options = append(p.options, w.Text)
		case len(p.options) > 0:
			p.late = append(p.late, w.Text)
		default:
			p.names = append(p.names, glob.Fold(w.Text))
		}
	}
	if c.Words[0].Text == "" {
		return Pattern{} // '' names no program
	}
	return p
}

// Words returns the words that a command has to begin with.
func (p *Pattern) Words() (all []string) {
	for _, w := range p.words {
		all = append(all, w.Text)
	}
	return all
}

// Match returns how many words of the command the pattern spells; ok is false if the command does
// not begin with them. It serves allow rules, so every compared word has to be literal. With
// whole the command has to consist of the words and of exactly the pattern's variables. With
// dashed a pattern of one word also matches its dashed names: git matches git-lfs.
//
// It does not check variables without whole; see UnsafeVariable.
func (p *Pattern) Match(c *shell.Command, whole, dashed bool) (n int, ok bool) {
	if len(p.words) == 0 || len(p.words) > len(c.Words) {
		return 0, false
	}
	for i, word := range p.words {
		have := c.Words[i]
		plain := !have.Dynamic && have.Tilde == word.Tilde // both have to mean the home, or neither
		longer := dashed && len(p.words) == 1 && strings.HasPrefix(have.Text, word.Text+"-") && len(have.Text) > len(word.Text)+1
		if !plain || have.Text != word.Text && !longer {
			return 0, false
		}
	}
	if whole && (len(p.words) != len(c.Words) || !slices.Equal(c.Env, p.env)) {
		return 0, false
	}
	return len(p.words), true
}

// UnsafeVariable returns a variable that is set for the command, is not known to be harmless, and
// is not in the pattern with the same value; "" if there is none. LD_PRELOAD=x git log is not git
// log.
func (p *Pattern) UnsafeVariable(c *shell.Command) string {
	for _, a := range c.Env {
		if !shell.SafeVariable(a.Name) && !slices.Contains(p.env, a) {
			return a.Name
		}
	}
	return ""
}

// MatchOperands reports whether the words of the command from index from on are operands that the
// pattern means: at least one, no options, each literal, relative, without
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
			slices.Contains(strings.Split(w.Text, "/"), "..") || !glob.Match(p.operand, w.Text)
	})
}
