package permission

import (
	"fmt"
	"slices"
	"strings"

	"symbio/internal/security/visible"
)

// Offer is an answer to a question that holds for more than the call: rules that a person allows in addition. It lifts no
// denial, and the order of a chain's stages stays as it is.
type Offer struct {
	// Kind is OfferChanges, OfferWords or OfferHost.
	Kind string `json:"kind"`
	// Text says what is allowed, as a noun with what belongs to it.
	Text string `json:"text"`
	// Rules are what is allowed, exactly.
	Rules []string `json:"rules"`
	// Covers are a few earlier calls that the rules would have allowed, for people.
	Covers []string `json:"covers,omitempty"`
}

// Keepable is what a person who is asked about a call can allow beside it: Rules say what is kept for the same call, none = nothing,
// and Offers what is for more.
type Keepable struct {
	Rules  []string `json:"rules,omitempty" jsonschema:"the rules that an activated skill grants, or what is kept for the same call from now on"`
	Offers []Offer  `json:"offers,omitempty" jsonschema:"what a person can allow beside the call: rules"`
}

// The kinds of offers.
const (
	OfferChanges = "changes" // of files below the working directory
	OfferWords   = "words"   // commands that begin with the same words
	OfferHost    = "host"    // requests to the same host
)

// Grants returns the rules of an offer as grants for calls in dir.
func Grants(rules []string, dir, source string) (all []Grant, err error) {
	for _, text := range rules {
		r, err := ParseAllow(text)
		if err != nil {
			return nil, err
		}
		all = append(all, Grant{Rule: r, Dir: dir, Source: source})
	}
	return all, nil
}

// Offers returns what a person who is asked about the call can allow with it. p is the plan of the verdict, and with returns
// the chain that judges the call, with grants in addition. Each offer has been tried: it answers this question, so none is made
// where a deny rule, a guardrail, a link without grants or a file that other programs obey is the reason to ask.
func (c Call) Offers(p *Plan, with func(...Grant) Chain) (all []Offer) {
	c = c.keptOnce()
	asking := with()
	if asking.Judge(c).Action != Ask || slices.ContainsFunc(asking, func(l Link) bool { return l.Policy.NoMemory }) {
		return nil
	}
	f := look(c)
	add := func(kind, text string, rules []string) {
		granted, err := Grants(rules, c.Dir, "offer")
		if err == nil && len(granted) > 0 && with(granted...).Judge(c).Action == Allow {
			all = append(all, Offer{Kind: kind, Text: text, Rules: rules})
		}
	}
	if want, _ := f.call.wants(); want == BoxWork || f.subject.matter == matterPath {
		add(OfferChanges, "changes of files in the workspace (tools and commands)", changing)
	}
	switch f.subject.matter {
	case matterCommand, matterGit:
		rules, words := leadingRules(p)
		add(OfferWords, "commands that begin with "+strings.Join(words, " or "), rules)
	case matterURL:
		for _, rule := range asking[0].exact(c, true) {
			add(OfferHost, "requests to "+f.targets()[0].Host, []string{rule})
		}
	}
	return all
}

// leadingRules returns a rule for each command to approve (leadingRule), and the words with which these begin; none
// if one has no such rule.
func leadingRules(p *Plan) (rules, words []string) {
	if p == nil {
		return nil, nil
	}
	for _, a := range p.Approve {
		text, begin := leadingRule(a.Rule)
		if text == "" {
			return nil, nil
		}
		if !slices.Contains(rules, text) {
			rules, words = append(rules, text), append(words, begin)
		}
	}
	return rules, words
}

// leadingRule returns the rule for all commands that begin as the one of an exact rule: with its program and the plain word
// behind it, as Bash(git log:*) for Bash(git log -1). begin is these words. It returns "" if there is none: the command is
// not literal, or the program runs whatever it is given.
func leadingRule(exact string) (text, begin string) {
	of, err := ParseRule(exact)
	all := of.words.Words()
	if err != nil || len(all) == 0 {
		return "", ""
	}
	begin = quoted(all[0])
	two := len(all) > 1 && strings.Trim(all[1], argumentName) == "" && all[1][:1] != "-"
	if two {
		begin += " " + all[1]
	}
	text = fmt.Sprintf("%s(%s:*)", of.tool, strings.TrimPrefix(begin, map[bool]string{true: "git "}[of.tool == "Git"]))
	if r, err := ParseRule(text); err != nil || !two && (r.Warning() != "" || r.tool == "Git") {
		return "", ""
	}
	return text, begin
}

// Covers reports whether the rules of the offer would have allowed an earlier call. c is the chain with the offer's grants. A
// command counts for a rule of the work box if it asked to write.
func (c Chain) Covers(o Offer, call Call) bool {
	granted, err := Grants(o.Rules, "", "")
	if err != nil {
		return false
	}
	alone := Policy{}
	for _, g := range granted {
		alone.Allow = append(alone.Allow, g.Rule)
	}
	call.HasBox, call.Kept = func(Box) bool { return true }, func(*FileDenials) bool { return true }
	v := Chain{{Policy: alone}}.Judge(call)
	return v.Action == Allow && v.Rule != "" && (call.Args[AccessArg] == "write" || !strings.Contains(v.Rule, boxMark)) && c.Judge(call).Action == Allow
}

// Subject returns the call with those arguments only that rules look at, to be kept; none for a tool that nothing is known of.
func (c Call) Subject() Call {
	args := map[string]any{}
	for _, name := range append([]string{AccessArg, "command", "args"}, subjectOf(c.Tool).args...) {
		if v, ok := c.Args[name]; ok {
			args[name] = v
		}
	}
	return Call{Tool: c.Tool, Args: args, Dir: c.Dir}
}

// String returns the tool and what rules compare of the call, on one line, shortened.
func (c Call) String() string {
	f := look(c)
	values := f.values
	if f.subject.matter == matterGit {
		values = f.ran().argv[1:]
	}
	return visible.Line(c.Tool+" "+strings.Join(values, " "), 100)
}
