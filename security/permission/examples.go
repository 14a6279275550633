package permission

import (
	"fmt"
	"os"
	"strings"
)

// verify holds a rule against its examples, as a rule that denies or as one that allows.
func (t RuleText) verify(r Rule, denies bool) error {
	if len(t.Match)+len(t.NotMatch) == 0 {
		return nil
	}
	if strings.Contains(r.tool, "*") {
		return fmt.Errorf("examples stand beside a rule for one tool, and %s is many", r.tool)
	}
	for _, text := range t.Match {
		if v := r.alone(text, denies); v.Action == Allow == denies {
			return fmt.Errorf("it has to match %q, and does not: %s", text, v.Why)
		}
	}
	for _, text := range t.NotMatch {
		if v := r.alone(text, denies); v.Action == Allow != denies {
			return fmt.Errorf("it must not match %q, and does: %s", text, v.Why)
		}
	}
	return nil
}

// alone is what becomes of a call by this rule and no other: where all else is allowed, if the rule denies;
// where nothing else is, if it allows.
func (r Rule) alone(text string, denies bool) Verdict {
	call := r.example(text)
	p := Policy{Allow: []Rule{r}, Default: Deny}
	if denies {
		p = Policy{Deny: []Rule{r}, Allow: []Rule{whole(r.tool)}, Default: Allow}
	}
	return Chain{{Policy: p}}.Judge(call)
}

// whole is the rule for every call of a tool.
func whole(tool string) Rule {
	r := newRule(tool, tool, "")
	r.form = formTool
	return r
}

// example is the call of the rule's tool that a text stands for: of Bash the command, of Git its words, of
// other tools what their rules look at.
func (r Rule) example(text string) Call {
	c := Call{Tool: r.tool, Args: map[string]any{}, Dir: os.TempDir()}
	for tool, alias := range aliases {
		if alias == c.Tool {
			c.Tool = tool
		}
	}
	s := subjectOf(c.Tool)
	switch {
	case s.matter == matterGit:
		words := strings.Fields(text)
		if len(words) > 0 {
			args := make([]any, len(words)-1)
			for i, w := range words[1:] {
				args[i] = w
			}
			c.Args["command"], c.Args["args"] = words[0], args
		}
	case len(s.args) > 0:
		c.Args[s.args[0]] = text
	case r.argument() != "":
		c.Args[r.argument()] = text
	default:
		c.Args["text"] = text
	}
	return c
}
