package permission

import (
	"fmt"
	"slices"

	"symbio/internal/security/permission/shell"
)

// deniesCommands reports whether some rule of the policy denies commands. Only then does a
// command that cannot be read need a question under the default allow.
func (p Policy) deniesCommands() bool {
	named := func(r Rule) bool { return r.namedBy(commandTools) }
	return slices.ContainsFunc(p.FinalDeny, named) || slices.ContainsFunc(p.Deny, named)
}

// commandTools are the tools that run commands. A deny rule for one of them may be about any
// command.
var commandTools = names{"Bash", "Git"}

// rest returns a verdict of the last stage with the sentence that goes with its action appended
// to why. An action that is none of the three denies.
func rest(a Action, why string) Verdict {
	switch a {
	case Allow:
		why += " The default is to allow."
	case Ask:
		why += " A person must approve it."
	default:
		a = Deny
		why += " The default is to deny."
	}
	return Verdict{Action: a, Stage: StageDefault, Why: why}
}

// allowRules has the rules and grants that may allow the commands of one call.
type allowRules struct {
	*execution
	rules   []Rule
	granted []Grant
}

// allowRules returns the allow rules of the link.
func (l Link) allowRules(x *execution) allowRules {
	return allowRules{x, l.Policy.Allow, l.grants(x.facts.call.Dir)}
}

// each calls yield for the rules and grants that are about this tool, with their source, until
// yield returns true. Rules of the configuration come first, so that they are the ones that a
// verdict names.
func (p allowRules) each(yield func(r *Rule, source string) bool) {
	for i := range p.rules {
		if p.rules[i].namedBy(p.facts.names.own()) && yield(&p.rules[i], "config") {
			return
		}
	}
	for i := range p.granted {
		if p.granted[i].Rule.namedBy(p.facts.names.own()) && yield(&p.granted[i].Rule, p.granted[i].Source) {
			return
		}
	}
}

// whole returns a rule for every command, or for exactly this text, and its source; nil if there
// is none. For Git there is none: each of its options counts.
func (p allowRules) whole() (found *Rule, source string) {
	if p.facts.subject.matter == matterGit {
		return nil, ""
	}
	p.each(func(r *Rule, s string) bool {
		if r.form == formTool || r.form == formExact && r.spec == p.text {
			found, source = r, s
		}
		return found != nil
	})
	return found, source
}

// command returns the verdict on command i. A command that may not run at all is allowed: it
// needs no permission of its own, and deny rules see it anyway. byDefault is the action for a
// command without a rule.
func (p allowRules) command(i int, byDefault Action) Verdict {
	c := &p.program.Commands[i]
	if !c.Certain {
		return Verdict{Action: Allow, Stage: StageDefault}
	}
	r, source, but, close := p.allowing(i, 0)
	switch {
	case r != nil:
		v := grantedBy(r, source)
		if r.form != formExact && (r.form != formTool || p.facts.subject.matter == matterGit) {
			v.Box = BoxLook // it names the beginning of a command, and the rest may do anything
		}
		return v
	case c.Free && harmless(c):
		return Verdict{Action: Allow, Stage: StageDefault, Why: show(*c) + " needs no permission."}
	case close != nil:
		v := rest(byDefault, fmt.Sprintf("The rule %s speaks of %s, but does not cover it, because %s; a rule that spells that out would.", close.text, show(*c), but))
		if byDefault != Allow {
			v.Rule = close.text
		}
		return v
	}
	return rest(byDefault, fmt.Sprintf("No rule matches %s.", show(*c)))
}

// unread returns a command that only the default allows and that runs text which is not parsed
// here; nil if there is none.
func (p allowRules) unread() *shell.Command {
	for i := range p.program.Commands {
		c := &p.program.Commands[i]
		if (c.Unread || c.Code != "") && p.command(i, Allow).Stage == StageDefault {
			return c
		}
	}
	return nil
}

// harmless reports whether none of the variables set before the command can change the program that it
// runs, as LD_PRELOAD or PATH would.
func harmless(c *shell.Command) bool {
	return !slices.ContainsFunc(c.Env, func(a shell.Assign) bool { return !shell.SafeVariable(a.Name) })
}

// allowing returns a rule that covers command i by itself, or that covers the command which runs
// it (such as xargs) and spells both. beyond is the number of words that must be spelled at
// least. If there is no such rule, close is one whose words match but that does not cover it, and
// but the reason, for the message.
func (p allowRules) allowing(i, beyond int) (found *Rule, source, but string, close *Rule) {
	p.each(func(r *Rule, s string) bool {
		spelled, ok, reason := commandRule{r}.covers(p.execution, i)
		if ok && spelled > beyond {
			found, source = r, s
		} else if reason != "" && close == nil {
			close, but = r, reason
		}
		return found != nil
	})
	c := p.program.Commands[i]
	// Bash(xargs grep:*) spells the inner command: it is word At of the outer one, so the rule
	// must reach beyond that.
	if found == nil && c.Outer >= 0 {
		outer, s, _, _ := p.allowing(c.Outer, c.At)
		if outer != nil {
			return outer, s, "", nil
		}
	}
	return found, source, but, close
}

// allowFile returns the verdict on a redirection. It needs the same rule as a call of Read or
// Write with that file would, and no less for protected names.
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
