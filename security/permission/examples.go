package permission

import (
	"cmp"
	"fmt"
	"os"
	"strings"
)

// verify compares the rule with its examples. denies says whether the rule stands in a list that
// denies. It returns nil if all fit or there are none. Else the error says which example does not
// fit, and the verdict that it got.
func (t RuleText) verify(r Rule, denies bool) error {
	if len(t.Match)+len(t.NotMatch) == 0 {
		return nil
	}
	if strings.Contains(r.tool, "*") {
		return fmt.Errorf("examples stand beside a rule for one tool, and %s is many", r.tool)
	}
	for _, text := range t.Match {
		// A deny rule has to turn an allowed call into another verdict; a question counts as a
		// match.
		if v := r.alone(text, denies); v.Action == Allow == denies {
			return fmt.Errorf("it must match %q, but does not: %s", text, v.Why)
		}
	}
	for _, text := range t.NotMatch {
		if v := r.alone(text, denies); v.Action == Allow != denies {
			return fmt.Errorf("it must not match %q, but does: %s", text, v.Why)
		}
	}
	return nil
}

// alone returns the verdict on an example by this rule and no other: with everything else allowed
// if the rule denies, with nothing else allowed if it allows. It is an ordinary Judge, so an
// example is held to the same checks as a call.
func (r Rule) alone(text string, denies bool) Verdict {
	call := r.example(text)
	p := Policy{Allow: []Rule{r}, Default: Deny}
	if denies {
		p = Policy{Deny: []Rule{r}, Allow: []Rule{{text: r.tool, tool: r.tool, form: formTool}}, Default: Allow}
	}
	return Chain{{Policy: p}}.Judge(call)
}

// example returns the call that a text stands for: for Bash the command, for Git its words, for
// other tools the argument that their rules look at. Its directory is the temporary one, so
// relative rules and examples mean files below that.
func (r Rule) example(text string) Call {
	c := Call{Tool: r.tool, Args: map[string]any{}, Dir: os.TempDir()}
	// A rule may be written for an alias. Of several tools with one alias any will do: their
	// rules look at the same argument.
	c.Tool = cmp.Or(aliased[c.Tool], c.Tool)
	s := subjectOf(c.Tool)
	argument, _ := r.named()
	switch {
	case s.matter == matterGit:
		c.Args["command"] = text
	case len(s.args) > 0:
		c.Args[s.args[0]] = text
	default:
		c.Args[cmp.Or(argument, "text")] = text
	}
	return c
}
