package permission

import "fmt"

// Policy is the rules of one agent or one configuration. The zero Policy denies every call. The order
// of the rules in a list does not matter for what is decided.
type Policy struct {
	FinalDeny []Rule // nothing lifts these
	Deny      []Rule
	Override  []Rule // lifts Deny for the calls that it means exactly; it allows nothing
	Allow     []Rule
	Default   Action // for calls that no rule decides

	at map[string]string // where a rule stands, by its list and its text; never changed once made
}

// origins says of every rule that it stands in one place.
func (p Policy) origins(where string) map[string]string {
	at := map[string]string{}
	for list, rules := range map[string][]Rule{"final_deny": p.FinalDeny, "deny": p.Deny, "override": p.Override, "allow": p.Allow} {
		for _, r := range rules {
			at[list+" "+r.text] = where
		}
	}
	return at
}

// Granted is a rule that something gave to an agent while it runs, such as an active skill. It counts
// as an Allow rule.
type Granted struct {
	Rule Rule
	// Call, if not "", is the Key of the one call that this is for, in place of a Rule. Calls that run commands
	// have rules alone.
	Call   string
	Source string // such as "skill:NAME"
}

// String is the rule, or that it is for one call, and where it comes from.
func (g Granted) String() string {
	if g.Call != "" {
		return "one call by " + g.Source
	}
	return g.Rule.String() + " by " + g.Source
}

// Link is one agent of a chain.
type Link struct {
	Name    string
	Policy  Policy
	Memory  *Memory          // nil remembers nothing
	Granted func() []Granted // asked at each evaluation, so that a grant ends when it ends; nil grants nothing

	mute bool // a guardrail that says nothing of what no rule of it denies
}

// Chain is an agent and all those it acts for: its parents up to the root, and the requester of what
// it is doing. Each link is judged by its own rules, memory and overrides.
type Chain []Link

// Judge decides a call: the strictest link's verdict, of several as strict the first's. An empty
// chain denies. It may read links of the file system to resolve paths, and calls Granted of each link
// at most once. The guardrails of Call.Within are judged beside the links, as if each were one.
func (c Chain) Judge(call Call) Verdict {
	if len(c) == 0 {
		return Verdict{Stage: StageDefault, Why: "Nobody has been given any permission here."}
	}
	f := look(call)
	var strictest Verdict
	judged := 0
	count := func(v Verdict, name string) {
		v.Link = name
		if judged++; judged == 1 || v.Action < strictest.Action {
			strictest = v
		}
	}
	for _, l := range c {
		if judged == 0 || strictest.Action > Deny {
			count(l.judge(f), l.Name)
		}
	}
	for _, r := range rails(call.Within) {
		if strictest.Action > Deny {
			count(r.judge(f), r.Name)
		}
		c = append(c[:len(c):len(c)], r.Link)
	}
	strictest.Except, strictest.Dial, strictest.Plan = except(c, f), dial(c, f), plan(c, f, strictest)
	return strictest
}

// judge goes through the six stages (spec: swiftagent.md, Security).
func (l Link) judge(f *facts) Verdict {
	if f.ran() != nil {
		return l.judgeRun(f)
	}
	p := l.Policy
	if v, never := l.unreachable(f); never {
		return v
	}
	denied, unsure := firstDeny(p.FinalDeny, f)
	if denied != nil {
		return decided(Deny, StageFinalDeny, denied, why(denied, "denies this for good"))
	}
	answer, here, remembered := l.Memory.recall(f.call, p)
	switch {
	case remembered && answer == Deny:
		return Verdict{Action: Deny, Stage: StageMemory, Source: "memory", Why: "A person has denied exactly this call before."}
	case remembered && here:
		return cautious(Verdict{Action: Allow, Stage: StageMemory, Source: "memory", Why: "A person has allowed exactly this call before."}, StageFinalDeny, unsure)
	}
	floor := StageFinalDeny
	if firstAllow(p.Override, f) == nil {
		var doubt *Rule
		if denied, doubt = firstDeny(p.Deny, f); denied != nil {
			return decided(Deny, StageDeny, denied, why(denied, "denies this"))
		}
		if unsure == nil {
			unsure, floor = doubt, StageDeny
		}
	}
	if remembered {
		return cautious(Verdict{Action: Allow, Stage: StageMemory, Source: "memory", Why: "A person has allowed exactly this call before."}, floor, unsure)
	}
	return cautious(l.permit(f), floor, unsure)
}

// permit is what the allow rules and the default say, denials aside. A URL that not everybody reads alike
// is nothing that a rule can allow.
func (l Link) permit(f *facts) Verdict {
	v := l.permitted(f)
	if odd := f.oddity(); odd != "" && v.Action == Allow {
		v.Action, v.Why = Ask, fmt.Sprintf("The URL may mean two things: %s. So a person has to say.", odd)
	}
	return v
}

func (l Link) permitted(f *facts) Verdict {
	p := l.Policy
	if r := firstAllow(p.Allow, f); r != nil {
		return decided(Allow, StageAllow, r, why(r, "allows this"))
	}
	var granted []Granted
	if l.Granted != nil {
		granted = l.Granted()
	}
	for _, g := range granted {
		if g.Call != "" && f.isCall(g.Call) {
			return Verdict{Action: Allow, Stage: StageAllow, Source: g.Source, Why: "Exactly this call has been allowed from now on. It was granted by " + g.Source + "."}
		}
		if g.Rule.allows(f) == yes {
			return Verdict{Action: Allow, Stage: StageAllow, Rule: g.Rule.text, Source: g.Source, Why: why(&g.Rule, "allows this") + " It was granted by " + g.Source + "."}
		}
	}
	if name, risk := f.protected(); name != "" && p.Default != Deny && !l.mute {
		return Verdict{Action: Ask, Stage: StageDefault, Why: risk + ", and no rule names it. So a person has to say."}
	}
	switch p.Default {
	case Allow:
		return Verdict{Action: Allow, Stage: StageDefault, Why: "No rule speaks of this, and what no rule speaks of is allowed."}
	case Ask:
		return Verdict{Action: Ask, Stage: StageDefault, Why: "No rule speaks of this, so a person has to say."}
	}
	return Verdict{Action: Deny, Stage: StageDefault, Why: "No rule allows this, and what no rule allows is denied."}
}

// cautious turns an allow into a question when a deny rule may apply.
func cautious(v Verdict, stage Stage, unsure *Rule) Verdict {
	if v.Action != Allow || unsure == nil {
		return v
	}
	return decided(Ask, stage, unsure, why(unsure, "may deny this, and it cannot be told whether it does"))
}

func why(r *Rule, does string) string { return "The rule " + r.text + " " + does + "." }

// firstDeny finds a rule that denies the call, and else one that may.
func firstDeny(rules []Rule, f *facts) (denies, may *Rule) {
	tags := f.denied.tags
	for i := range rules {
		r := &rules[i]
		if tags>>(r.tag&63)&1 == 0 {
			continue // most rules are about other tools, and end here
		}
		switch r.denies(f) {
		case yes:
			return r, nil
		case maybe:
			if may == nil {
				may = r
			}
		}
	}
	return nil, may
}

func firstAllow(rules []Rule, f *facts) *Rule {
	for i := range rules {
		if rules[i].namedBy(&f.names) && rules[i].allows(f) == yes {
			return &rules[i]
		}
	}
	return nil
}
