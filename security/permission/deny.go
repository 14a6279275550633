package permission

import (
	"fmt"
	"slices"
	"strings"

	"symbio/internal/security/permission/command"
	"symbio/internal/security/permission/glob"
	"symbio/internal/security/permission/shell"
)

// about returns a sentence that names the command that a rule denies, "" where it would only
// repeat the rule: for a program of one command, and for a rule about a whole tool. lifted marks
// commands that an override lifts.
func (x *execution) about(r *Rule, lifted []bool) string {
	if x == nil || len(x.program.Commands) < 2 || r.form == formTool || !r.namedBy(x.facts.names) {
		return ""
	}
	for i, c := range x.program.Commands {
		if (lifted == nil || !lifted[i]) && (commandRule{r}).deniesCommand(x, i) == yes {
			return fmt.Sprintf(" It means %s.", show(c))
		}
	}
	return ""
}

// lifted returns which commands an override covers, by index; nil if none. rules are the
// overrides of one link. They hold for single commands, so that one of them does not open the
// rest of a script.
func (x *execution) lifted(rules []Rule) []bool {
	if len(rules) == 0 {
		return nil
	}
	all := make([]bool, len(x.program.Commands))
	any := false
	for j := range rules {
		// A rule for the whole tool also means a program without commands, such as x=1.
		any = any || len(all) == 0 && rules[j].form == formTool && rules[j].namedBy(x.facts.names.own())
	}
	for i := range all {
		for j := range rules {
			r := &rules[j]
			if !r.namedBy(x.facts.names.own()) {
				continue
			}
			if _, ok, _ := (commandRule{r}).covers(x, i); ok {
				all[i], any = true, true
			}
		}
	}
	if !any {
		return nil
	}
	return all
}

// deniesExecution returns how certain it is that a deny rule covers something that the call runs.
// Rules for Read and Edit are checked against the files of the commands; files says whether those
// of redirections count. Where the program runs text that the parser does not see, the rule is
// maybe at least.
func (r commandRule) deniesExecution(x *execution, lifted []bool, files bool) reach {
	byTool := r.namedBy(x.facts.names)
	reads, writes := r.namedBy(readers), r.namedBy(writers)
	switch {
	case r.form == formNone:
		return yes
	case byTool && r.form == formTool:
		return is(!allTrue(lifted))
	case byTool && x.unclear && x.facts.subject.matter == matterCommand:
		return maybe
	case byTool && r.form == formOpaque:
		return r.deniesStrings(x.facts)
	case byTool, r.tool == "Git":
	case reads || writes:
		return r.deniesFiles(x, reads, lifted, files)
	default:
		return no
	}
	of := no
	for i := range x.program.Commands {
		if of != yes && (lifted == nil || !lifted[i]) {
			of = max(of, r.deniesCommand(x, i))
		}
	}
	if of != yes && r.form != formTool && (x.runs || x.unclear) && !allTrue(lifted) {
		of = maybe // it may be what the tree does not show
		if r.spec == x.text {
			return yes
		}
	}
	return of
}

var (
	// readers and writers are the tools whose path rules also hold for the files that commands
	// use.
	readers = names{"Read"}
	writers = names{"Edit", "Write"}
)

// allTrue reports whether an override lifts every command. A nil list lifts none.
func allTrue(list []bool) bool { return list != nil && !slices.Contains(list, false) }

// deniesCommand returns how certain it is that a deny rule covers command i. A mention of the denied program is maybe in
// the code that a command is given, such as the text behind python -c, and in the arguments of a program that may run what
// they name: foo --exec rm may run rm. A spec with shell operators is no single command, and is compared with the text of the
// whole program; the first command stands for that.
func (r commandRule) deniesCommand(x *execution, i int) reach {
	c := &x.program.Commands[i]
	if r.form == formTool {
		return is(r.tool != "Git" || c.Name() == "git" || strings.HasPrefix(c.Name(), "git-"))
	}
	how := r.forbids(c)
	whole := r.form == formGlob && strings.ContainsAny(r.spec, "|;&<>$`") || r.form != formGlob && r.form != formOperands && r.words.First == ""
	name := r.words.First
	if name == "" {
		name, _, _ = strings.Cut(glob.Fold(r.commandSpec()), " ")
	}
	switch {
	case how == yes || whole && i == 0 && command.Contains(x.text, r.spec):
		return yes
	case how == no && (command.Names(c.Code, name) || mentions(c, name)):
		return maybe
	}
	return how
}

// mentions reports whether a name stands in an argument that the command may run. Programs that run nothing of their arguments
// may still have an option for it, whose text is more than a name.
func mentions(c *shell.Command, name string) bool {
	program := c.Name()
	if slices.Contains(prints, program) {
		return false
	}
	runs := shell.MayRun(program) || slices.ContainsFunc(c.Words[1:], func(w shell.Word) bool { return w.Dynamic && w.MayBeOption() })
	for i, w := range c.Words[1:] {
		before := c.Words[i].Text
		option := strings.ContainsAny(w.Text, " =!;|\n") || slices.Contains(starters, before) && !shell.Interpreter([]string{program, before})
		if command.Names(w.Text, name) && (runs || option && !slices.Contains(messages, before)) {
			return true
		}
	}
	return false
}

// prints are programs whose words are texts; messages are options whose value is one, and starters words behind which a
// program is given another to run.
var (
	prints   = []string{"echo", "printf", "grep", "egrep", "fgrep", "rg"}
	messages = []string{"-m", "-am", "--message", "--grep"}
	starters = []string{"run", "exec", "foreach", "--exec", "-x"}
)
