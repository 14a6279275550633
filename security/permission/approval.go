package permission

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"symbio/internal/security/permission/shell"
	"symbio/internal/security/visible"
)

// Plan is what a call that runs commands has to execute, and nothing else: it is what was judged.
type Plan struct {
	// Script is what Bash has to run instead of the text that it was given: the syntax tree that was
	// judged, printed. When Printed is false the text could not be read; then it is the text itself,
	// the verdict is never Allow, and only a person's approval of that very text may let it run.
	Script  string
	Printed bool
	// Argv is what Git has to run, beginning with git; nil for Bash. For Git Script is "" and
	// Printed is false. Both are empty for a script of a skill, which its tool knows.
	Argv []string
	// Approve are the simple commands and files that no rule allows, when the verdict is Ask.
	Approve []Approval
	// Reads are the directories beside the working directory that Read may read without a question, for BoxLook.
	Reads []string
	// Denied are the files that it must not use, to be held to that by a sandbox. It is never
	// nil.
	Denied *FileDenials
}

// Approval is one thing to approve.
type Approval struct {
	// Command is how to show it.
	Command string
	// Rule is the exact rule that allows it from now on; "" when there can be none, because parts of it
	// are known to the shell alone: then there is no "always".
	Rule string
}

// Always reports whether an answer can hold for the same call the next time. It cannot if parts of a command are known to
// the shell alone, which may mean something else then. Without a command, as in a nil Plan, the call is all that there is.
func (p *Plan) Always() bool {
	if p == nil || p.Script == "" && p.Argv == nil {
		return true
	}
	return len(p.Approve) > 0 && !slices.ContainsFunc(p.Approve, func(a Approval) bool { return a.Rule == "" })
}

// plan returns what a judged call has to execute; nil for a call that runs no commands. v is the
// verdict of the chain: only for Ask it lists what to approve.
func plan(c Chain, f *facts, v Verdict) *Plan {
	x := f.ran()
	if x == nil && f.subject.program {
		return &Plan{Denied: c.denied(f, false)}
	}
	if x == nil {
		return nil
	}
	p := &Plan{Argv: x.argv, Denied: c.denied(f, false)}
	if f.subject.matter == matterCommand {
		p.Script, p.Printed = cmp.Or(x.program.Canonical, x.text), x.program.Canonical != ""
	}
	defer p.withoutDenied(x) // last, since it changes the tree
	if v.Box == BoxLook {
		p.Reads = c.readable(f.call)
		p.Denied.shown = p.Reads
	}
	if v.Action != Ask {
		return p
	}
	// Links of a chain often lack the same rule. A person is shown each command once.
	seen := map[string]bool{}
	for _, l := range c {
		for _, a := range l.open(x) {
			if !seen[a.Command] {
				seen[a.Command] = true
				p.Approve = append(p.Approve, a)
			}
		}
	}
	if len(p.Approve) == 0 || len(x.program.Problems) > 0 {
		// Something beside the single commands makes it a question, and no rule for them answers it.
		text := p.Script
		if f.subject.matter == matterGit {
			text = strings.Join(p.Argv, " ")
		}
		p.Approve = append(p.Approve, Approval{Command: strings.TrimSpace(text)})
	}
	return p
}

// open returns the commands and files that no rule of the link allows; nil if a grant for this
// call or a rule for the whole tool allows all. Of a command inside another the outermost is
// listed, since that is what a person recognises.
func (l Link) open(x *execution) []Approval {
	allow := l.allowRules(x)
	whole, _ := allow.whole()
	if _, kept := x.facts.byCall(allow.granted); kept || whole != nil {
		return nil
	}
	commands := x.program.Commands
	asked := make([]bool, len(commands))
	for i := range commands {
		if allow.command(i, Ask).Action == Allow {
			continue
		}
		top := i
		for commands[top].Outer >= 0 {
			top = commands[top].Outer
		}
		asked[top] = true
	}
	var all []Approval
	for i, c := range commands {
		if asked[i] {
			all = append(all, Approval{Command: strings.Trim(show(c), "`"), Rule: exactRule(x, i)})
		}
	}
	for _, o := range x.files {
		if l.allowFile(o, Ask, allow.granted).Action == Allow {
			continue
		}
		a := Approval{Command: fmt.Sprintf("%s(%s)", o.call.Tool, o.path)}
		if at := o.locations()[0]; at.Known && at.Lexical == at.Real {
			if text := fmt.Sprintf("%s(%s)", o.call.Tool, at.Real); parses(text, func(r Rule) bool { return !strings.Contains(text, "*") && r.allows(o.facts) == yes }) {
				a.Rule = text
			}
		}
		all = append(all, a)
	}
	return all
}

// exactRule returns the rule for exactly command i; "" if every such rule would cover something
// else, too: a part of the command, or of one that it runs, is known to the shell alone. The rule
// is tried before it is returned.
func exactRule(x *execution, i int) string {
	c := x.program.Commands[i]
	for j, inner := range x.program.Commands {
		for top := j; top >= i; top = x.program.Commands[top].Outer {
			if top == i && !inner.Literal() {
				return ""
			}
		}
	}
	text := source(c)
	if x.facts.subject.matter == matterGit {
		var words []string
		for _, w := range c.Words[1:] {
			words = append(words, quoted(w.Text))
		}
		text = strings.Join(words, " ")
	}
	rule := fmt.Sprintf("%s(%s)", x.facts.call.Tool, text)
	if !parses(rule, func(r Rule) bool { _, ok, _ := (commandRule{&r}).covers(x, i); return r.form == formExact && ok }) {
		return ""
	}
	return rule
}

// parses reports whether the text is a rule and satisfies means.
func parses(text string, means func(Rule) bool) bool {
	r, err := ParseRule(text)
	return err == nil && means(r)
}

// Warning returns what a person should know before allowing this rule, as a clause that begins
// with "this"; "" if nothing. It is meant for allow rules.
func (r Rule) Warning() string {
	switch {
	case r.form == formTool && r.tool == "Bash":
		return "this allows everything that the sandbox permits"
	case r.form == formGlob:
		return "a * inside a command is understood in deny rules only: this allows nothing"
	case (r.form == formExact || r.form == formPrefix) && r.words.First == "" && subjectOf(r.tool).matter == matterCommand:
		if r.form == formPrefix {
			return "this is no simple command with literal words: it allows nothing"
		}
		return ""
	case r.form == formPrefix && shell.Interpreter(r.words.Words()):
		return "this allows everything that the sandbox permits, because " + strings.Join(r.words.Words(), " ") + " runs what it is given"
	}
	return ""
}

// source returns a command as a shell reads it: as it was written, unless it names a loop's
// variable or stands inside another command; then it is quoted anew from the resolved words. A
// person is shown this, so rm $f appears with the file.
func source(c shell.Command) string {
	if text := strings.TrimSpace(c.Source()); text != "" && !(c.Literal() && strings.Contains(text, "$")) {
		return text
	}
	var words []string
	for _, a := range c.Env {
		words = append(words, a.Name+"="+written(a.Value))
	}
	for _, w := range c.Words {
		words = append(words, written(w))
	}
	return strings.Join(words, " ")
}

// written returns a word as it would be typed, quoted where needed. A Dynamic word is returned in
// its source form.
func written(w shell.Word) string {
	switch {
	case w.Dynamic:
		return w.Text
	case w.Tilde && w.Text == "~":
		return "~"
	case w.Tilde:
		return "~/" + quoted(strings.TrimPrefix(w.Text, "~/"))
	}
	return quoted(w.Text)
}

// show returns a command for messages: on one line, at most 80 cells, between backquotes.
// Newlines become ⏎, so that a command cannot fake a line of its own.
func show(c shell.Command) string {
	text := visible.Truncate(source(c), 80)
	return "`" + strings.ReplaceAll(text, "\n", "⏎") + "`"
}

// quoted returns a text as one word of a shell. A text that cannot be quoted, such as one with
// a zero byte, becomes an empty word.
func quoted(dir string) string {
	if q, err := syntax.Quote(dir, syntax.LangBash); err == nil {
		return q
	}
	return "''"
}
