package permission

import (
	"fmt"
	"slices"
	"strings"

	"symbio/security/permission/command"
	"symbio/security/permission/glob"
	"symbio/security/permission/shell"
)

// about says which of several commands a deny rule means.
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

// lifted says which commands an override means; nil is none. The overrides are those of this link, and
// hold for single commands.
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

// deniesExecution says whether a deny rule may mean what the call runs.
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
		if r.heldBy(s.words()) {
			return yes
		}
	}
	return of
}

// deniesAny says whether the rule may mean one of the commands that are not lifted.
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
	readers = namesOf("Read")
	writers = namesOf("Edit", "Write")
)

func allTrue(list []bool) bool {
	return list != nil && !slices.Contains(list, false)
}

// unknown reports whether something may run that is not among the commands.
func (s *execution) unknown() bool {
	return s.runs || s.unclear
}

// words is the whole text as words.
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

// heldBy reports whether a command may stand in a text, by its words alone.
func (r commandRule) heldBy(t command.Text) bool {
	if r.form == formGlob || r.form == formOperands {
		return t.Contains(r.commandSpec())
	}
	return t.MayRun(r.commandSpec())
}

// deniesCommand says whether a deny rule may mean one of the commands.
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

// standsIn reports whether the rule means what stands in the code of a command, or in the text around the first: a spec
// that is no simple command is nothing but its words.
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

// mentions reports whether a name occurs in the arguments.
func mentions(c *shell.Command, name string) bool {
	return slices.ContainsFunc(c.Words[1:], func(w shell.Word) bool { return strings.Contains(glob.Fold(w.Text), name) })
}
