package permission

import (
	"strings"

	"symbio/internal/security/permission/command"
	"symbio/internal/security/permission/shell"
)

// everyWord is the number of words that a rule spells which means the whole command: more than
// any command has.
const everyWord = 1 << 30

// commandWords reads the words of a spec about commands. If they are not one simple command of
// literal words, it returns the zero Pattern, and the rule allows nothing.
func commandWords(tool, spec string, f form) command.Pattern {
	text, operand := spec, ""
	if f == formOperands {
		if i := strings.Index(text, ":*"); i >= 0 {
			text, operand = text[:i], text[i+1:]
		} else {
			i = strings.LastIndex(text, " ")
			text, operand = text[:i], text[i+1:]
		}
	}
	return command.Parse(text, operand, tool == "Git")
}

// commandRule is a rule that is compared with the commands of a call of Bash or Git.
type commandRule struct{ *Rule }

// commandSpec returns the spec with the program's name, which a rule about Git leaves out.
func (r commandRule) commandSpec() string {
	if r.tool == "Git" {
		return "git " + r.spec
	}
	return r.spec
}

// covers reports whether the rule allows command i for certain, and how many of its words it
// spells. but says why it does not although its words match, for a message; "" if they do not
// match either.
//
// Besides the words it checks that the program is the one that is meant, and that no variable changes its effect. What the
// other words of the command do is held by a box (allowedBox); where there is none, git has to be plain, since a repository and
// its options name programs.
func (r commandRule) covers(x *execution, i int) (spelled int, ok bool, but string) {
	c := &x.program.Commands[i]
	switch r.form {
	case formTool:
		if x.facts.subject.matter == matterGit && !x.facts.call.holds() {
			but = gitUnheld(c, 1)
			return 1, but == "", but
		}
		return everyWord, true, ""
	case formExact, formPrefix, formOperands:
	default:
		return 0, false, ""
	}
	if r.words.First == "" || !c.Certain {
		return 0, false, ""
	}
	n, ok := r.words.Match(c, r.form == formExact, r.form == formPrefix && !r.granted)
	if !ok {
		return 0, false, ""
	}
	// ./build in another directory is another program.
	if name := c.Words[0].Text; strings.Contains(name, "/") && !strings.HasPrefix(name, "/") && !c.Words[0].Tilde && !atHome(c.Dirs) {
		return n, false, "it runs " + name + " in another directory"
	}
	if name := r.words.UnsafeVariable(c); name != "" {
		return n, false, "it sets the variable " + name
	}
	if r.form == formOperands && !r.words.MatchOperands(c, n) {
		return n, false, ""
	}
	switch {
	case r.form == formExact:
		return everyWord, true, ""
	case (c.Name() == "git" || strings.HasPrefix(c.Name(), "git-")) && !x.facts.call.holds():
		but = gitUnheld(c, n)
	}
	return n, but == "", but
}

// atHome reports whether the command certainly runs in the directory of the call.
func atHome(d shell.Dirs) bool { return !d.Unknown && len(d.Paths) == 1 && d.Paths[0] == "" }

// forbids returns how certain it is that a deny rule means this simple command.
func (r commandRule) forbids(c *shell.Command) reach {
	if r.form == formGlob || r.form == formOperands {
		return command.TextMayMean(r.commandSpec(), c)
	}
	return r.words.MayMean(c)
}
