package permission

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"symbio/internal/security/permission/shell"
)

// Explanation is a verdict, where the rule that decided is written, and the smallest change that
// would give another verdict. Every change that it names has been tried.
type Explanation struct {
	// Verdict is the verdict of Judge.
	Verdict Verdict
	// At is where the rule that decided is written: FILE:LINE:COLUMN, "preset NAME",
	// "skill:NAME", "memory", "guardrail"; "" when no rule decided.
	At string
	// To is the verdict that Changes together would give: Allow for a call that is not allowed, Deny for one that
	// is. Without Changes it means nothing.
	To Action
	// Changes are rules to add, each as narrow as the grammar lets it be.
	Changes []Change
	// Wider is a rule that would do the same for calls like this one, "" when there is no such rule or when it
	// would allow everything that the sandbox permits.
	Wider string
	// Never says why no rule can give another verdict; "" when Changes can.
	Never string
}

// Change is a rule to add to a policy so that a call gets another verdict.
type Change struct {
	// Link names the link of the chain to whose policy the rule is added.
	Link string `json:"-"`
	// List is allow, override or deny.
	List string `json:"list"`
	Rule string `json:"rule"`
}

// Explain judges a call and searches the smallest change that would give another verdict. It
// tries each change by judging again, so it costs several times what Judge does, and calls
// Granted of each link as often. It is meant for people who ask, not for every call.
func (c Chain) Explain(call Call) Explanation {
	call = call.keptOnce()
	v := c.Judge(call)
	e := Explanation{Verdict: v, At: c.at(v)}
	switch {
	case len(c) == 0:
		e.Never = "the call has no agent with permissions (an empty chain)"
	case v.Action == Allow:
		e.To, e.Changes = Deny, c.restrict(call)
		if len(e.Changes) == 0 {
			e.Never = "no rule means exactly this"
		}
	default:
		e.To = Allow
		e.Changes, e.Wider, e.Never = c.widen(call)
	}
	return e
}

// keptOnce returns the call with a Kept that is asked once: it may search the file system, and the call is judged many times,
// with rules that deny no further files.
func (c Call) keptOnce() Call {
	if kept := c.Kept; kept != nil {
		var once sync.Once
		var all bool
		c.Kept = func(d *FileDenials) bool { once.Do(func() { all = kept(d) }); return all }
	}
	return c
}

// Change returns one sentence for people: what to add to which list, or why no rule helps. It
// names the links only if the changes are for several.
func (e Explanation) Change() string {
	if e.Never != "" {
		return "No rule changes this: " + e.Never + "."
	}
	does, parts := "allow", []string(nil)
	if e.To == Deny {
		does = "deny"
	}
	several := slices.ContainsFunc(e.Changes, func(c Change) bool { return c.Link != e.Changes[0].Link })
	// Rules for the same list stand behind each other, so its name is written once.
	for i, c := range e.Changes {
		where := c.List
		if several {
			where += " of " + c.Link
		}
		if i > 0 && c.Link == e.Changes[i-1].Link && c.List == e.Changes[i-1].List {
			parts[len(parts)-1] += ", " + c.Rule
		} else {
			parts = append(parts, where+": "+c.Rule)
		}
	}
	text := fmt.Sprintf("To %s it, add to %s.", does, strings.Join(parts, " and to "))
	if e.Wider != "" {
		text += fmt.Sprintf(" %s would %s all like it.", e.Wider, does)
	}
	return text
}

// Allow returns the rules that would allow the call if they were added to the lists allow; nil if
// it takes other changes, or none helps.
func (e Explanation) Allow() (rules []string) {
	for _, c := range e.Changes {
		if e.To != Allow || c.List != "allow" {
			return nil
		}
		if !slices.Contains(rules, c.Rule) { // several links may miss the same rule
			rules = append(rules, c.Rule)
		}
	}
	return rules
}

// at returns where the rule of a verdict stands (Explanation.At); the verdict's source if that is
// not known. A verdict of the allow stage has no entry in the map of stages.
func (c Chain) at(v Verdict) string {
	if v.Source != "config" || v.Rule == "" {
		return v.Source
	}
	list := cmp.Or(map[Stage]string{StageFinalDeny: "final_deny", StageDeny: "deny", StageOverride: "override"}[v.Stage], "allow")
	for _, l := range c {
		if at := l.Policy.at[list+" "+v.Rule]; at != "" && l.Name == v.Link {
			return at
		}
	}
	return v.Source
}

// widen returns the rules that would allow a call, one rule that is wider ("" if there is none),
// and if nothing helps, the reason. A guardrail around the call cannot be widened: it belongs to
// the code that runs the agent, not to a configuration.
//
// Each link is widened by itself first. Then all changes together are tried on the whole chain,
// and those that are not needed are left out.
func (c Chain) widen(call Call) (changes []Change, wider, never string) {
	f := look(call)
	for _, r := range slices.Concat(c, guardrailLinks(call.Within)) {
		if v := r.judge(f); r.guardrail && v.Action != Allow {
			return nil, "", fmt.Sprintf("%s around this work says so (%s)", r.Name, strings.TrimSuffix(v.Why, "."))
		}
	}
	// The guardrails were judged above. Each link is tried without them.
	alone := call
	alone.Within = nil
	for i, l := range c {
		more, never := l.widen(alone)
		if never != "" {
			if len(c) > 1 {
				never += fmt.Sprintf(" (permissions of %s)", c[i].Name)
			}
			return nil, "", never
		}
		changes = append(changes, more...)
	}
	// A change that helps each link alone may still not help the chain: the sandbox sees the denials of
	// all.
	if c.with(changes).Judge(call).Action != Allow {
		return nil, "", "something beside the rules decides it"
	}
	changes = c.fewest(changes, call, Allow)
	if len(changes) == 1 && changes[0].List == "allow" {
		text, _ := leadingRule(changes[0].Rule)
		if r, err := ParseRule(text); err == nil && r.Warning() == "" && text != changes[0].Rule &&
			c.with([]Change{{changes[0].Link, "allow", text}}).Judge(call).Action == Allow {
			wider = text
		}
	}
	return changes, wider, ""
}

// widen adds exact rules to one link until it allows the call. It returns what was added, or why
// nothing helps. Each round answers the verdict of the round before: an override for a plain
// denial, an allow rule for the rest.
func (l Link) widen(call Call) (changes []Change, never string) {
	for range 4 { // at most an override and an allow, each once more for files
		v := Chain{l}.Judge(call)
		if v.Action == Allow {
			return changes, ""
		}
		var add []Change
		switch {
		case v.Stage == StageFinalDeny && v.Rule != "":
			return nil, fmt.Sprintf("%s is a final denial, and nothing lifts those", v.Rule)
		case v.Stage == StageMemory:
			return nil, "a person has denied exactly this call, and that holds until the agent ends"
		// An override lifts the denial. The next round asks for an allow rule, which an override
		// is not.
		case v.Stage == StageDeny:
			for _, text := range l.exact(call, false) {
				add = append(add, Change{l.Name, "override", text})
			}
		default:
			for _, text := range l.exact(call, true) {
				add = append(add, Change{l.Name, "allow", text})
			}
		}
		next := Chain{l}.with(add)[0]
		after := Chain{next}.Judge(call)
		// The rules changed nothing, so another round would not either.
		if len(add) == 0 || after.Action == v.Action && after.Stage == v.Stage && after.Why == v.Why {
			if v.Stage == StageDeny {
				return nil, fmt.Sprintf("no override means exactly this; take %s out of deny", v.Rule)
			}
			return nil, lowerFirst(strings.TrimSuffix(v.Why, " A person must approve it."))
		}
		l, changes = next, append(changes, add...)
	}
	return nil, "it takes more than rules for single calls"
}

// lowerFirst turns a sentence into a clause for use behind a colon.
func lowerFirst(text string) string {
	text = strings.TrimSuffix(text, ".")
	if text == "" || strings.HasPrefix(text, "I ") {
		return text
	}
	return strings.ToLower(text[:1]) + text[1:]
}

// restrict returns a rule for the first link that denies an allowed call; nil if no single rule
// means exactly that call. One denial is enough for the chain.
func (c Chain) restrict(call Call) []Change {
	for _, text := range c[0].exact(call, false) {
		if change := []Change{{c[0].Name, "deny", text}}; c.with(change).Judge(call).Action == Deny {
			return change
		}
	}
	return nil
}

// with returns a copy of the chain with rules added, for a trial. Rules that cannot be parsed are
// left out. It does not change the policies of c, whose lists other goroutines may read.
func (c Chain) with(changes []Change) Chain {
	c = slices.Clone(c)
	for _, change := range changes {
		r, err := ParseRule(change.Rule)
		if err != nil {
			continue
		}
		for i := range c {
			for _, list := range c[i].Policy.lists() {
				if c[i].Name == change.Link && list.name == change.List {
					*list.rules = append(slices.Clone(*list.rules), r)
				}
			}
		}
	}
	return c
}

// fewest leaves out the changes without which the verdict is still want, one after the other. The
// result has no change too many, but there may be a smaller set.
func (c Chain) fewest(changes []Change, call Call, want Action) []Change {
	for i := 0; i < len(changes); {
		without := slices.Delete(slices.Clone(changes), i, i+1)
		if c.with(without).Judge(call).Action == want {
			changes = without
		} else {
			i++
		}
	}
	return changes
}

// exact returns rules that cover this call and as little else as the grammar can say; for a call
// that runs commands, one for each command and redirection. With open it leaves out what is
// allowed already. It returns nil if every rule would cover more. The caller has to try the
// rules: some may not parse, or not cover the call.
func (l Link) exact(call Call, open bool) []string {
	f := look(call)
	if x := f.ran(); x != nil {
		return l.exactRun(x, open)
	}
	var texts []string
	switch f.subject.matter {
	case matterPath:
		for _, at := range f.locations() {
			if at.Known {
				texts = append(texts, at.Lexical)
			}
		}
	case matterName:
		texts = append(texts, f.values...)
	case matterURL:
		for _, e := range f.targets() {
			if e.Addr.IsValid() {
				texts = append(texts, "ip:"+netip.AddrPortFrom(e.Addr, e.Port).String())
			} else {
				texts = append(texts, "domain:"+e.Host)
			}
		}
	default:
		for _, name := range sortedKeys(call.Args) {
			if s, is := call.Args[name].(string); is {
				texts = append(texts, name+"="+s)
			}
		}
	}
	for _, text := range texts {
		// The grammar has no way to write a literal *.
		if strings.Contains(text, "*") {
			continue
		}
		if r, err := ParseRule(fmt.Sprintf("%s(%s)", call.Tool, text)); err == nil && r.allows(f) == yes {
			return []string{r.text}
		}
	}
	if f.subject.matter == matterOpaque {
		return []string{call.Tool} // there is nothing narrower
	}
	return nil
}

// exactRun is exact for a call that runs commands. For a command without an exact rule it takes a
// prefix rule, if there is a sensible one.
func (l Link) exactRun(x *execution, open bool) (texts []string) {
	if open {
		for _, a := range l.open(x) {
			if a.Rule == "" {
				a.Rule = known(x.facts.call.Tool, a.Command)
			}
			texts = append(texts, a.Rule)
		}
		return texts
	}
	for i := range x.program.Commands {
		if text := exactRule(x, i); text != "" {
			texts = append(texts, text)
		}
	}
	for _, o := range x.files {
		if at := o.locations()[0]; at.Known {
			texts = append(texts, fmt.Sprintf("%s(%s)", o.call.Tool, at.Lexical))
		}
	}
	return texts
}

// known returns a prefix rule for the literal words at the beginning of the last command in a
// text; "" when there are none, or when such a rule would allow everything that the sandbox
// permits, as one for sh would.
func known(tool, command string) string {
	p := shell.Parse(command)
	if len(p.Commands) == 0 {
		return ""
	}
	var words []string
	for _, w := range p.Commands[len(p.Commands)-1].Words {
		if w.Dynamic || w.Tilde {
			break
		}
		words = append(words, quoted(w.Text))
	}
	r, err := ParseRule(fmt.Sprintf("%s(%s:*)", tool, strings.Join(words, " ")))
	if len(words) == 0 || err != nil || r.Warning() != "" {
		return ""
	}
	return r.text
}
