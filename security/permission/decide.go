package permission

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
)

// Judge decides a call. It returns the verdict of the strictest link; of several as strict, that
// of the first. An empty chain denies. The caller has to obey the verdict's Except, Dial and
// Plan: it stands for these only.
//
// Judge may read symbolic links and list directories to resolve paths, and calls Granted of each
// link a few times. The guardrails of Call.Within are judged like links. It may be called from
// many goroutines; the result is as of the state of the file system during the call.
func (c Chain) Judge(call Call) Verdict {
	if len(c) == 0 {
		return Verdict{Stage: StageDefault, Why: "The call has no agent with permissions, so it is denied."}
	}
	f := look(call)
	whole := slices.Concat(c, guardrailLinks(call.Within))
	if x := f.ran(); x != nil && call.Kept != nil {
		// The answer needs a search of the file system. So it is asked for at most once, and only if
		// a rule depends on it. It is for the denials of the whole chain, which are what the sandbox
		// gets, also of calls that guardrails ask about.
		x.kept = sync.OnceValue(func() bool { return call.Kept(whole.denied(f, true)) })
	}
	var strictest Verdict
	var box Box
	for i, l := range whole {
		// After a denial no other link can be stricter.
		if i > 0 && strictest.Action == Deny {
			break
		}
		v := l.judge(f)
		if i == 0 || v.Action < strictest.Action {
			strictest, strictest.Link = v, l.Name
		}
		box = box.Meet(v.Box)
	}
	strictest.Box = cmp.Or(box, f.askedBox())
	strictest.Except, strictest.Dial, strictest.Plan = except(whole, f), dial(whole, f), plan(whole, f, strictest)
	return strictest
}

// judgeRules goes through the six stages of one link: final deny,
// session memory, override, deny, allow, default. For a call that runs commands, deny rules are
// compared with every command that may run and every file that may be used, allow rules with each
// command that does.
//
// A deny rule that perhaps applies turns a later Allow into Ask; it
// never decides by itself.
func (l Link) judgeRules(f *facts) Verdict {
	p := l.Policy
	// The local network is closed before all rules.
	if v, never := l.unreachable(f); never {
		return v
	}
	denied, unsure := f.firstDenied(p.FinalDeny, nil, true)
	if denied != nil {
		v := decided(Deny, StageFinalDeny, denied, "denies this and cannot be overridden")
		v.Why += f.ran().about(denied, nil)
		return v
	}
	floor := StageFinalDeny
	answer, here, remembered := l.Memory.recall(f.call, p)
	if remembered && answer == Deny {
		return Verdict{Action: Deny, Stage: StageMemory, Source: "memory", Why: "A person has denied exactly this call before."}
	}
	// An allow that a person gave under this very policy lifts its Deny. One that was given under
	// another policy lifts nothing.
	if !here {
		v, denied, doubt := l.denial(f)
		if denied {
			return v
		}
		if unsure == nil || doubt != nil && needsBox(unsure) {
			unsure, floor = doubt, StageDeny
		}
	}
	v := Verdict{Action: Allow, Stage: StageMemory, Source: "memory", Why: "A person has allowed exactly this call before."}
	if !remembered {
		v = l.permit(f)
	}
	v = askIfUnsure(v, floor, unsure)
	if x := f.ran(); x != nil {
		return l.boxed(x, v, floor, unsure)
	}
	return v
}

// denial returns the verdict of a deny rule that no override lifts, and whether there is one.
// doubt is a rule that perhaps covers the call; nil if there is none.
// Redirections are judged one by one, since an override for a command does not lift denials of
// the files that it opens.
func (l Link) denial(f *facts) (v Verdict, denied bool, doubt *Rule) {
	p := l.Policy
	var lifted []bool
	var rule *Rule
	x := f.ran()
	if x != nil {
		lifted = x.lifted(p.Override)
		rule, doubt = f.firstDenied(p.Deny, lifted, false)
	} else if firstAllow(p.Override, f) == nil {
		rule, doubt = f.firstDenied(p.Deny, nil, true)
	}
	if rule != nil {
		v = decided(Deny, StageDeny, rule, "denies this")
		v.Why += x.about(rule, lifted)
		return v, true, nil
	}
	if x == nil {
		return v, false, doubt
	}
	for _, o := range x.files {
		if firstAllow(p.Override, o.facts) != nil {
			continue
		}
		rule, may := o.firstDenied(p.Deny, nil, true)
		if rule != nil {
			return decided(Deny, StageDeny, rule, "denies what it does with "+o.path), true, nil
		}
		doubt = cmp.Or(doubt, may)
	}
	return v, false, doubt
}

// decided returns a verdict by a rule of the configuration, with the sentence "The rule R does."
func decided(a Action, s Stage, r *Rule, does string) Verdict {
	return Verdict{Action: a, Stage: s, Rule: r.text, Source: "config", Why: "The rule " + r.text + " " + does + "."}
}

// askIfUnsure turns an Allow into a question when a deny rule may apply. Deny and Ask stay as
// they are. stage is the stage of the unsure rule.
func askIfUnsure(v Verdict, stage Stage, unsure *Rule) Verdict {
	if v.Action != Allow || unsure == nil {
		return v
	}
	return decided(Ask, stage, unsure, "may deny this, and it cannot be told whether it does")
}

// firstDenied returns a rule that denies the call, and if there is none, one that may deny it. Of a call that runs commands,
// lifted marks those that an override lifts. With files it looks at redirections, too; without, the caller judges them, each
// with its own overrides.
func (f *facts) firstDenied(rules []Rule, lifted []bool, files bool) (denies, may *Rule) {
	return first(rules, func(r *Rule) reach {
		if x := f.ran(); x != nil {
			return commandRule{r}.deniesExecution(x, lifted, files)
		}
		return r.denies(f)
	})
}

// first returns the first rule for which means is yes; if there is none, may is the first for
// which it is maybe.
func first(rules []Rule, means func(*Rule) reach) (does, may *Rule) {
	for i := range rules {
		switch means(&rules[i]) {
		case yes:
			return &rules[i], nil
		case maybe:
			if may == nil || needsBox(may) {
				may = &rules[i]
			}
		}
	}
	return nil, may
}

// firstAllow returns the first rule that certainly covers the call; nil if none.
func firstAllow(rules []Rule, f *facts) *Rule {
	for i := range rules {
		if rules[i].namedBy(f.names.own()) && rules[i].allows(f) == yes {
			return &rules[i]
		}
	}
	return nil
}

// permit returns the verdict of the allow rules, the grants and the default. The caller has
// checked the denials before.
func (l Link) permit(f *facts) Verdict {
	if x := f.ran(); x != nil {
		return l.allowCommands(x)
	}
	v := l.allowCall(f, l.grants(f.call.Dir))
	if odd := f.oddity(); odd != "" && v.Action == Allow { // two parsers may read such a URL differently, so no rule can allow it
		v.Action, v.Why = Ask, fmt.Sprintf("The URL is ambiguous: %s. A person must approve it.", odd)
	}
	return v
}

// allowCall is permit for a call that runs no commands. The order is: a grant for exactly this
// call, allow rules and grants, then the default, which is no more than Ask for a protected name
// or a place with keys.
func (l Link) allowCall(f *facts, granted []Grant) Verdict {
	if v, found := f.byCall(granted); found {
		return v
	}
	if v, found := l.allowed(f, granted); found {
		return v
	}
	if name, risk := f.protected(); name != "" && l.Policy.Default != Deny && !l.mute {
		return Verdict{Action: Ask, Stage: StageDefault, Why: risk + ", and no rule names it. A person must approve it."}
	}
	return rest(l.Policy.Default, "No rule matches this call.")
}

// allowed returns the verdict of an allow rule or grant that covers a call which runs nothing,
// and whether there is one.
func (l Link) allowed(f *facts, granted []Grant) (v Verdict, found bool) {
	if r := firstAllow(l.Policy.Allow, f); r != nil {
		return decided(Allow, StageAllow, r, "allows this"), true
	}
	for i := range granted {
		if r := &granted[i].Rule; r.allows(f) == yes {
			return grantedBy(r, granted[i].Source), true
		}
	}
	return v, false
}

// grantedBy returns an allow by a rule. source is "config" or where a grant comes from, such
// as "skill:NAME"; the text of a grant names it, so that people can see why something was
// allowed that no configuration says.
func grantedBy(r *Rule, source string) Verdict {
	v := decided(Allow, StageAllow, r, "allows this")
	if w := r.Warning(); w != "" {
		v.Why += " Note: " + w + "."
	}
	if v.Source = source; source != "config" {
		v.Why += " It was granted by " + source + "."
	}
	return v
}

// allowCommands is permit for a call that runs commands. Every simple command and every
// redirected file needs a rule of its own; the strictest of their verdicts counts. Programs that
// no reader can follow (Program.Hard) are never allowed by rules: a person decides on the whole
// text.
func (l Link) allowCommands(x *execution) Verdict {
	allow := l.allowRules(x)
	hard := x.program.Hard()
	if x.unclear {
		hard = "its arguments are not what the tool takes"
	}
	byDefault := l.Policy.Default
	if hard != "" {
		return rest(min(byDefault, Ask), "No rule can allow this: "+hard+".")
	}
	if v, found := x.facts.byCall(allow.granted); found {
		return v
	}
	if whole, source := allow.whole(); whole != nil {
		return grantedBy(whole, source)
	}
	worst, named := Verdict{Action: Allow, Stage: StageDefault}, false
	// Of equally strict verdicts one that names a rule is the better explanation.
	for i := range x.program.Commands {
		v := allow.command(i, byDefault)
		named = named || v.Box == BoxLook
		if i == 0 || v.Action < worst.Action || v.Action == worst.Action && worst.Stage == StageDefault {
			worst = v
		}
	}
	for _, o := range x.files {
		named = named && o.call.Tool != "Write"
		if v := l.allowFile(o, byDefault, allow.granted); v.Action < worst.Action {
			worst = v
		}
	}
	// Under the default allow, code that is not read here would run denied commands.
	if worst.Action == Allow && byDefault == Allow && l.Policy.deniesCommands() {
		if c := allow.unread(); c != nil {
			return rest(Ask, fmt.Sprintf("It cannot be told what %s runs, and some commands are denied.", show(*c)))
		}
	}
	// Each command may be allowed, and yet the program does something that no command shows.
	if len(x.program.Problems) > 0 && byDefault < worst.Action {
		return rest(byDefault, "No rule for single commands can allow this: "+x.program.Problems[0].Reason+".")
	}
	if len(x.program.Commands) == 0 && len(x.files) == 0 && worst.Why == "" {
		worst.Why = "It runs nothing."
	}
	if worst.Box = ""; named && worst.Action == Allow {
		worst.Box = BoxLook
	}
	return worst
}
