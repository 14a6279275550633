package permission

import "slices"

// Policy is the rules of one agent or one configuration. The zero Policy denies every call. The order
// of the rules in a list does not matter for what is decided.
type Policy struct {
	// FinalDeny are denials that nothing lifts, Deny those that an Override or an allow that a
	// person gave under this policy lifts.
	FinalDeny []Rule
	Deny      []Rule
	Override  []Rule // lifts Deny for the calls that it means exactly; it allows nothing
	Allow     []Rule
	Default   Action // for calls that no rule decides
	NoMemory  bool   // no Memory keeps or gives an answer under it

	at map[string]string // where a rule stands, by its list and its text; never changed once made
}

// origins returns where for each rule of the policy, keyed like Policy.at.
func (p Policy) origins(where string) map[string]string {
	at := map[string]string{}
	for _, r := range p.Rules() {
		at[r.List+" "+r.Rule.text] = where
	}
	return at
}

// ruleList is one list of a policy by its name in a configuration.
type ruleList struct {
	name  string
	rules *[]Rule
}

// lists returns the policy's lists with their names in a configuration, in the order in which
// they are evaluated.
func (p *Policy) lists() [4]ruleList {
	return [4]ruleList{{"final_deny", &p.FinalDeny}, {"override", &p.Override}, {"deny", &p.Deny}, {"allow", &p.Allow}}
}

// LocatedRule is a rule of a policy, with the list that it stands in and where that is.
type LocatedRule struct {
	List string // final_deny, override, deny or allow
	Rule Rule
	At   string // FILE:LINE:COLUMN, LINE:COLUMN or "preset NAME"; "" = not known
}

// Rules returns all rules of the policy with their positions, in the order in which their
// lists are evaluated.
func (p Policy) Rules() (all []LocatedRule) {
	for _, list := range p.lists() {
		for _, r := range *list.rules {
			all = append(all, LocatedRule{list.name, r, p.at[list.name+" "+r.text]})
		}
	}
	return all
}

// sortedTexts returns the texts of rules, sorted, each once, so that digests do not depend on
// the order in a file.
func sortedTexts(rules []Rule) []string {
	all := texts(rules)
	slices.Sort(all)
	return slices.Compact(all)
}

// Grant is a rule that something gave to an agent while it runs, such as an active skill. It counts
// as an Allow rule.
type Grant struct {
	Rule Rule
	// Call, if not "", is the Key of the one call that this is for, in place of a Rule.
	Call string
	// Dir, if not "", is the working directory of the calls that it counts for, where the policy asks by default: what a person
	// answered for more than a call is for what a person is asked about.
	Dir    string
	Source string // such as "skill:NAME"
}

// String is the rule, or that it is for one call, and where it comes from.
func (g Grant) String() string {
	if g.Call != "" {
		return "one call by " + g.Source
	}
	return g.Rule.String() + " by " + g.Source
}

// Link is one agent of a chain.
type Link struct {
	Name    string
	Policy  Policy
	Memory  *Memory        // nil remembers nothing
	Granted func() []Grant // asked at each evaluation, so that a grant ends when it ends; nil grants nothing

	guardrail bool   // it is made of a Guardrail
	mute      bool   // a guardrail that is silent unless a rule of it denies
	ask       []Rule // Guardrail.Ask
}

// grants returns what the link has been granted for calls in a directory.
func (l Link) grants(dir string) []Grant {
	if l.Granted == nil {
		return nil
	}
	all, other := l.Granted(), func(g Grant) bool { return g.Dir != "" && (g.Dir != dir || l.Policy.Default != Ask) }
	if slices.ContainsFunc(all, other) {
		all = slices.DeleteFunc(slices.Clone(all), other)
	}
	return all
}

// Chain is an agent and all those it acts for: its parents up to the root, and the requester
// of its work. Each link is judged by its own rules, memory and overrides, and the strictest
// verdict counts: an agent can never do more than any of them.
type Chain []Link
