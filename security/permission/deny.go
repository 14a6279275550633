package permission

import (
	"fmt"
	"slices"
	"strings"

	"symbio/security/permission/command"
	"symbio/security/permission/glob"
	"symbio/security/permission/shell"
)

// about returns a sentence that names the command that a rule denies, "" where it would only
// repeat the rule: for a program of one command, and for a rule about a whole tool. lifted marks
// commands that an override lifts.
func (f *facts) about(r *Rule, lifted []bool) string {
	if f.shell == nil || len(f.shell.program.Commands) < 2 || r.form == formTool || !r.namedBy(&f.denied) {
		return ""
	}
	for i, c := range f.shell.program.Commands {
		if (lifted == nil || !lifted[i]) && (commandRule{r}).deniesCommand(f, i) == yes {
			return fmt.Sprintf(" It means %s.", show(c))
		}
	}
	return ""
}

// lifted returns which commands an override covers, by index; nil if none. rules are the
// overrides of one link. They hold for single commands, so that one of them does not open the
// rest of a script.
func (f *facts) lifted(rules []Rule) []bool {
	if len(rules) == 0 {
		return nil
	}
	all := make([]bool, len(f.shell.program.Commands))
	any := false
	for j := range rules {
		// A rule for the whole tool also means a program without commands, such as x=1.
		any = any || len(all) == 0 && rules[j].form == formTool && rules[j].namedBy(&f.names)
	}
	for i := range all {
		for j := range rules {
			r := &rules[j]
			if !r.namedBy(&f.names) {
				continue
			}
			if _, ok, _ := (commandRule{r}).covers(f, i); ok {
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
// also searched for in the text itself, and is maybe at least.
func (r commandRule) deniesExecution(f *facts, lifted []bool, files bool) reach {
	s := f.shell
	byTool := r.namedBy(&f.denied)
	reads, writes := r.namedBy(&readers), r.namedBy(&writers)
	switch {
	case r.form == formNone:
		return yes
	case byTool && r.form == formTool:
		return is(!allTrue(lifted))
	case byTool && s.unclear && f.subject.matter == matterCommand:
		return maybe
	case byTool && r.form == formOpaque:
		return r.deniesStrings(f)
	case byTool, r.tool == "Git":
	case reads || writes:
		return r.deniesFiles(f, reads, writes, lifted, files)
	default:
		return no
	}
	of := r.deniesAny(f, lifted)
	if of != yes && r.form != formTool && s.unknown() && !allTrue(lifted) {
		// What the tree does not show may still stand in the text.
		of = maybe
		if r.spec == s.text || r.heldBy(s.words()) {
			return yes
		}
	}
	return of
}

// deniesAny returns the highest certainty over the commands that are not lifted. It stops at yes.
func (r commandRule) deniesAny(f *facts, lifted []bool) reach {
	of := no
	for i := range f.shell.program.Commands {
		if of != yes && (lifted == nil || !lifted[i]) {
			of = max(of, r.deniesCommand(f, i))
		}
	}
	return of
}

var (
	// readers and writers are the tools whose path rules also hold for the files that commands
	// use.
	readers = namesOf("Read")
	writers = namesOf("Edit", "Write")
)

// allTrue reports whether an override lifts every command. A nil list lifts none.
func allTrue(list []bool) bool {
	return list != nil && !slices.Contains(list, false)
}

// unknown reports whether something may run that is not among the parsed commands.
func (s *execution) unknown() bool {
	return s.runs || s.unclear
}

// words returns the whole text split into words, parsed once. It is for what the syntax tree does
// not show.
func (s *execution) words() command.Text {
	if s.whole == nil {
		text := s.text
		if text == "" {
			text = strings.Join(s.argv, " ")
		}
		parsed := command.ParseText(text)
		s.whole = &parsed
	}
	return *s.whole
}

// heldBy reports whether the rule's command may stand in a text, by its words alone. It is a
// guess on the safe side, for deny rules only.
func (r commandRule) heldBy(t command.Text) bool {
	if r.form == formGlob || r.form == formOperands {
		return t.Contains(r.commandSpec())
	}
	return t.MayRun(r.commandSpec())
}

// deniesCommand returns how certain it is that a deny rule covers command i. An option that may
// run a program, or a program that is not in the table, turns a mention of the denied name into
// maybe: foo --exec rm may run rm.
func (r commandRule) deniesCommand(f *facts, i int) reach {
	c := &f.shell.program.Commands[i]
	if r.form == formTool {
		return is(r.tool != "Git" || c.Name() == "git" || strings.HasPrefix(c.Name(), "git-"))
	}
	how := r.forbids(c)
	switch {
	case how == yes || r.standsIn(f, i):
		return yes
	case how == no && r.words.First != "" && mentions(c, r.words.First) && (f.guard(i, 1) != "" || shell.Strange(c.Name())) && r.heldBy(command.ParseText(c.Rest())):
		return maybe // an option may run it, or a program that is not known here
	}
	return how
}

// standsIn reports whether the rule's words stand in the code that a command is given, such as
// the text behind python -c. A spec with shell operators is compared with the text of the whole
// program, since it is no single command; the first command stands for the program.
func (r commandRule) standsIn(f *facts, i int) bool {
	code := f.shell.program.Commands[i].Code
	switch {
	case code != "" && r.heldBy(command.ParseText(code)):
		return true
	case i > 0:
		return false
	case r.form == formGlob:
		return strings.ContainsAny(r.spec, "|;&<>$`") && f.shell.words().Contains(r.spec)
	}
	return r.form != formOperands && r.words.First == "" && r.heldBy(f.shell.words())
}

// mentions reports whether a name occurs in an argument of the command, also within a word. Case
// is ignored where the file system ignores it; name is folded. It is a cheap test before the text
// is parsed.
func mentions(c *shell.Command, name string) bool {
	return slices.ContainsFunc(c.Words[1:], func(w shell.Word) bool { return strings.Contains(glob.Fold(w.Text), name) })
}
