package permission

import (
	"fmt"
	"slices"

	"symbio/security/permission/shell"
)

// deniesCommands reports whether some rule denies commands.
func (p Policy) deniesCommands() bool {
	return slices.ContainsFunc(slices.Concat(p.FinalDeny, p.Deny), func(r Rule) bool { return r.namedBy(&commandTools) })
}

var commandTools = namesOf("Bash", "Git")

// rest is a verdict of the last stage.
func rest(a Action, why string) Verdict {
	switch a {
	case Allow:
		why += " What no rule speaks of is allowed."
	case Ask:
		why += " So a person has to say."
	default:
		a = Deny
		why += " What no rule allows is denied."
	}
	return Verdict{Action: a, Stage: StageDefault, Why: why}
}

// allowRules are the rules that may allow commands.
type allowRules struct {
	*facts
	rules   []Rule
	granted []Grant
}

// each calls yield with the rules that are about this tool, until it returns true.
func (p allowRules) each(yield func(r *Rule, source string) bool) {
	for i := range p.rules {
		if p.rules[i].namedBy(&p.names) && yield(&p.rules[i], "config") {
			return
		}
	}
	for i := range p.granted {
		if p.granted[i].Rule.namedBy(&p.names) && yield(&p.granted[i].Rule, p.granted[i].Source) {
			return
		}
	}
}

// whole finds a rule for everything, or for exactly this text.
func (p allowRules) whole() (found *Rule, source string) {
	if p.subject.matter == matterGit {
		return nil, ""
	}
	p.each(func(r *Rule, s string) bool {
		if r.form == formTool || r.form == formExact && r.spec == p.shell.text {
			found, source = r, s
		}
		return found != nil
	})
	return found, source
}

// command is the verdict on one command.
func (p allowRules) command(i int, byDefault Action) Verdict {
	c := &p.shell.program.Commands[i]
	if !c.Certain {
		return Verdict{Action: Allow, Stage: StageDefault}
	}
	r, source, but, close := p.allowing(i, 0)
	switch {
	case r != nil:
		return grantedBy(r, source)
	case c.Free && harmless(c):
		return Verdict{Action: Allow, Stage: StageDefault, Why: show(*c) + " needs no permission."}
	case close != nil:
		v := rest(byDefault, fmt.Sprintf("The rule %s speaks of %s, but does not cover it, because %s; a rule that spells that out would.", close.text, show(*c), but))
		if byDefault != Allow {
			v.Rule = close.text
		}
		return v
	}
	return rest(byDefault, fmt.Sprintf("No rule speaks of %s.", show(*c)))
}

// unread finds a command that only the default allows, and that runs what is not read here.
func (p allowRules) unread() *shell.Command {
	for i := range p.shell.program.Commands {
		c := &p.shell.program.Commands[i]
		if (c.Unread || c.Code != "") && p.command(i, Allow).Stage == StageDefault {
			return c
		}
	}
	return nil
}

// harmless reports whether the command is given no variable that might change it.
func harmless(c *shell.Command) bool {
	return !slices.ContainsFunc(c.Env, func(a shell.Assign) bool { return !shell.SafeVariable(a.Name) })
}

// allowing finds a rule that allows a command: by itself, or together with the command that runs it,
// when the rule spells both. close is a rule that nearly does, and but why not.
func (p allowRules) allowing(i, beyond int) (found *Rule, source, but string, close *Rule) {
	p.each(func(r *Rule, s string) bool {
		spelled, ok, reason := commandRule{r}.covers(p.facts, i)
		if ok && spelled > beyond {
			found, source = r, s
		} else if reason != "" && close == nil {
			close, but = r, reason
		}
		return found != nil
	})
	c := p.shell.program.Commands[i]
	if found == nil && c.Outer >= 0 {
		outer, s, _, _ := p.allowing(c.Outer, c.At)
		if outer != nil {
			return outer, s, "", nil
		}
	}
	return found, source, but, close
}

// allowFile is the verdict on a redirection, as on a call of the file tool.
func (l Link) allowFile(o redirection, byDefault Action, granted []Grant) Verdict {
	if v, found := l.allowed(o.facts, granted); found {
		return v
	}
	does := "read"
	if o.call.Tool == "Write" {
		does = "write"
	}
	if name, risk := o.protected(); name != "" && !l.mute {
		return rest(min(byDefault, Ask), fmt.Sprintf("A redirection would %s %s. %s, and no rule names it.", does, name, risk))
	}
	return rest(byDefault, fmt.Sprintf("A redirection would %s %.200q, and no %s rule allows that.", does, o.path, o.call.Tool))
}
