package permission

import (
	"fmt"

	"symbio/security/permission/shell"
)

// permitRun is what the allow rules and the default say, denials aside.
func (l Link) permitRun(f *facts) Verdict {
	r := f.ran()
	allow := permits{facts: f, rules: l.Policy.Allow}
	if l.Granted != nil {
		allow.granted = l.Granted()
	}
	hard := r.program.Hard()
	if r.unclear {
		hard = "its arguments are not what the tool takes"
	}
	byDefault := l.Policy.Default
	if hard != "" {
		return rest(min(byDefault, Ask), "No rule can allow this: "+hard+".")
	}
	if whole, source := allow.whole(); whole != nil {
		return Verdict{Action: Allow, Stage: StageAllow, Rule: whole.text, Source: source, Why: why(whole, "allows this") + warnings(whole)}
	}
	worst := Verdict{Action: Allow, Stage: StageDefault}
	for i := range r.program.Commands {
		if v := allow.command(i, byDefault); i == 0 || v.Action < worst.Action || v.Action == worst.Action && worst.Stage == StageDefault {
			worst = v
		}
	}
	for _, o := range r.files {
		v := l.permitFile(o, byDefault, allow.granted)
		if v.Action < worst.Action {
			worst = v
		}
	}
	if worst.Action == Allow && byDefault == Allow && l.Policy.deniesCommands() {
		for i := range r.program.Commands {
			c := &r.program.Commands[i]
			if v := allow.command(i, byDefault); v.Stage == StageDefault && (c.Unread || c.Code != "") {
				return Verdict{Action: Ask, Stage: StageDefault, Why: fmt.Sprintf("It cannot be told what %s runs, and some commands are denied. So a person has to say.", show(*c))}
			}
		}
	}
	if len(r.program.Problems) > 0 && byDefault < worst.Action {
		return rest(byDefault, "No rule for single commands can allow this: "+r.program.Problems[0].Reason+".")
	}
	if len(r.program.Commands) == 0 && len(r.files) == 0 && worst.Why == "" {
		worst.Why = "It runs nothing."
	}
	return worst
}

// deniesCommands reports whether some rule denies commands.
func (p Policy) deniesCommands() bool {
	for _, rules := range [][]Rule{p.FinalDeny, p.Deny} {
		for i := range rules {
			if rules[i].namedBy(&commandTools) {
				return true
			}
		}
	}
	return false
}

var commandTools = func() names { n := namesOf("Bash"); n.add("Git"); return n }()

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

// permits are the rules that may allow commands.
type permits struct {
	*facts
	rules   []Rule
	granted []Granted
}

// each calls yield with the rules that are about this tool, until it returns true.
func (p permits) each(yield func(r *Rule, source string) bool) {
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
func (p permits) whole() (found *Rule, source string) {
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
func (p permits) command(i int, byDefault Action) Verdict {
	c := &p.shell.program.Commands[i]
	if !c.Certain {
		return Verdict{Action: Allow, Stage: StageDefault}
	}
	r, source, but, close := p.allowing(i, 0)
	switch {
	case r != nil:
		v := Verdict{Action: Allow, Stage: StageAllow, Rule: r.text, Source: source, Why: why(r, "allows this") + warnings(r)}
		if source != "config" {
			v.Why += " It was granted by " + source + "."
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
	return rest(byDefault, fmt.Sprintf("No rule speaks of %s.", show(*c)))
}

// harmless reports whether the command is given no variable that might change it.
func harmless(c *shell.Command) bool {
	for _, a := range c.Env {
		if !shell.SafeVariable(a.Name) {
			return false
		}
	}
	return true
}

// allowing finds a rule that allows a command: by itself, or together with the command that runs it,
// when the rule spells both. close is a rule that nearly does, and but why not.
func (p permits) allowing(i, beyond int) (found *Rule, source, but string, close *Rule) {
	p.each(func(r *Rule, s string) bool {
		spelled, ok, reason := r.covers(p.facts, i)
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

// permitFile is the verdict on a redirection, as on a call of the file tool.
func (l Link) permitFile(o opened, byDefault Action, granted []Granted) Verdict {
	if r := firstAllow(l.Policy.Allow, o.facts); r != nil {
		return Verdict{Action: Allow, Stage: StageAllow, Rule: r.text, Source: "config", Why: why(r, "allows this")}
	}
	for _, g := range granted {
		if g.Rule.allows(o.facts) == yes {
			return Verdict{Action: Allow, Stage: StageAllow, Rule: g.Rule.text, Source: g.Source, Why: why(&g.Rule, "allows this")}
		}
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
