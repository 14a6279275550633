package permission

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"symbio/internal/security/strictjson"
	"symbio/internal/security/visible"
)

// maxLinkName is the length in bytes of a link's name that another node may send. It is shown
// to people, so it must not fill their screen.
const maxLinkName = 256

// The limits of the constraints that a node sends about the agents that it acts for. EncodeConstraints
// and DecodeConstraints both enforce them.
const (
	// maxConstraintLinks bounds the links of constraints: the agents' links, more than the depth to
	// which agents spawn agents, and as many guardrails.
	maxConstraintLinks = 32
	// maxConstraintRules bounds the rules of all links together: more than a person writes.
	maxConstraintRules = 2048
)

// constraintsJSON is the wire format of the constraints that a node sends with a call on
// behalf of its agents. DecodeConstraints refuses unknown fields: a node that does not know a field
// refuses the call, because the field may have denied it.
type constraintsJSON struct {
	// Links has at least one entry: nothing is sent for an empty chain.
	Links []constraintLink `json:"links"`
}

// constraintLink is a link without what only its own node knows: the answers of people, and
// rules about that node's files.
type constraintLink struct {
	Name      string   `json:"name"`
	FinalDeny []string `json:"final_deny,omitempty"`
	Deny      []string `json:"deny,omitempty"`
	Override  []string `json:"override,omitempty"`
	Allow     []string `json:"allow,omitempty"`
	Default   Action   `json:"default"`
	// Granted are the rules that active skills grant at that time. They are narrower than their text as
	// a rule of a configuration (ParseGrant), so they do not stand in Allow.
	Granted []grantedRule `json:"granted,omitempty"`
	// Guardrail is set for a guardrail around the work. Its overrides are complete: the overrides of other
	// guardrails of its group are among them, and on the other node none is added.
	Guardrail *constraintGuardrail `json:"guardrail,omitempty"`
}

// grantedRule is a Grant of a skill.
type grantedRule struct {
	Rule string `json:"rule"`
	// Source is Grant.Source, which names the skill whose directory the rule names.
	Source string `json:"source"`
}

// constraintGuardrail is what a guardrail has more than a link: Guardrail.Ask and Guardrail.Decides.
type constraintGuardrail struct {
	Ask     []string `json:"ask,omitempty"`
	Decides bool     `json:"decides,omitempty"`
}

// EncodeConstraints writes the policies of a chain and the guardrails around its work as JSON for
// another node; nil if there are none. Links with equal rules are written once. It leaves out allowances that mean nothing
// elsewhere: answers of people, and grants for a single call or for one directory. The error says that
// the chain is larger than DecodeConstraints accepts. It calls Granted of each link once.
func EncodeConstraints(c Chain, within ...Guardrail) ([]byte, error) {
	var out constraintsJSON
	seen := map[string]bool{}
	rules := 0
	for _, l := range slices.Concat(c, guardrailLinks(within)) {
		var granted []grantedRule
		if l.Granted != nil {
			// Clipped, so that append does not write to the array of the policy.
			l.Policy.Allow = l.Policy.Allow[:len(l.Policy.Allow):len(l.Policy.Allow)]
			for _, g := range l.Granted() {
				switch {
				case g.Call != "" || g.Dir != "":
				case g.Rule.granted:
					granted = append(granted, grantedRule{g.Rule.text, shownName(g.Source)})
				case !g.Rule.namesSkillDir():
					l.Policy.Allow = append(l.Policy.Allow, g.Rule)
				}
			}
		}
		p := l.Policy
		one := constraintLink{Name: shownName(l.Name), FinalDeny: texts(p.FinalDeny), Deny: texts(p.Deny), Override: texts(p.Override),
			Allow: texts(p.Allow), Default: p.Default, Granted: granted}
		digest := fmt.Sprintf("%s %q", p.Digest(), granted)
		if l.guardrail {
			one.Guardrail = &constraintGuardrail{texts(l.ask), !l.mute}
			digest += fmt.Sprintf(" %q %v", one.Guardrail.Ask, l.mute)
		}
		if seen[digest] {
			continue
		}
		seen[digest] = true
		rules += len(p.FinalDeny) + len(p.Deny) + len(p.Override) + len(p.Allow) + len(l.ask) + len(granted)
		out.Links = append(out.Links, one)
	}
	switch {
	case len(out.Links) == 0:
		return nil, nil
	case len(out.Links) > maxConstraintLinks || rules > maxConstraintRules:
		return nil, fmt.Errorf("too many permissions to tell another node: %d links with %d rules", len(out.Links), rules)
	}
	return json.Marshal(out)
}

// shownName returns the name of a link, or of where a grant comes from, as another node accepts it.
func shownName(name string) string {
	return strings.ToValidUTF8(visible.Prefix(name, maxLinkName-32), "")
}

// checkName returns an error if a name of another node cannot be shown to people.
func checkName(name string) error {
	if len(name) > maxLinkName || strings.ContainsFunc(name, func(r rune) bool { return !visible.Rune(r) }) {
		return errors.New("a name in them cannot be shown")
	}
	return nil
}

// namesSkillDir reports whether the rule means nothing without the directory of a skill.
func (r Rule) namesSkillDir() bool {
	return slices.ContainsFunc(skillDirs[:], func(dir string) bool { return strings.Contains(r.text, dir) })
}

// WithSkillDirs returns a chain of DecodeConstraints in which the rules that skills grant mean the
// directories that these skills have on this node, by Grant.Source. A rule that names the directory of
// another skill grants nothing.
func (c Chain) WithSkillDirs(dirs map[string]string) Chain {
	c = slices.Clone(c)
	for i, l := range c {
		if l.Granted == nil {
			continue
		}
		var all []Grant
		for _, g := range l.Granted() {
			if dir := dirs[g.Source]; dir != "" {
				g.Rule = g.Rule.WithSkillDir(dir)
			} else if g.Rule.namesSkillDir() {
				continue
			}
			all = append(all, g)
		}
		c[i].Granted = func() []Grant { return all }
	}
	return c
}

// texts returns the rules as they were written.
func texts(rules []Rule) []string {
	var all []string
	for _, r := range rules {
		all = append(all, r.text)
	}
	return all
}

// DecodeConstraints reads what another node wrote with EncodeConstraints; nil for no data. It is
// that node's claim, and nothing proves it, so the caller must put it beside its own links, where
// it can only restrict. On an error the caller must not run the call: the part that was not
// understood may have denied it. Sizes are bounded (maxConstraintLinks, maxConstraintRules,
// maxLinkName), and the data as a whole by the message that it came in.
func DecodeConstraints(data []byte) (Chain, error) {
	if len(data) == 0 {
		return nil, nil
	}
	var in constraintsJSON
	if err := strictjson.Unmarshal(data, &in); err != nil {
		return nil, errors.New("they cannot be read")
	}
	if len(in.Links) == 0 || len(in.Links) > maxConstraintLinks {
		return nil, fmt.Errorf("they have %d links", len(in.Links))
	}
	var c Chain
	rules := 0
	for _, l := range in.Links {
		if err := checkName(l.Name); err != nil {
			return nil, err
		}
		link := Link{Name: l.Name, Policy: Policy{Default: l.Default}}
		p, asks := &link.Policy, []string(nil)
		if g := l.Guardrail; g != nil {
			asks, link.guardrail, link.mute = g.Ask, true, !g.Decides
			if link.mute && p.Default != Allow {
				return nil, errors.New("a guardrail in them that does not decide has a default")
			}
		}
		rules += len(l.FinalDeny) + len(l.Deny) + len(l.Override) + len(l.Allow) + len(asks) + len(l.Granted)
		if rules > maxConstraintRules {
			return nil, fmt.Errorf("they have over %d rules", maxConstraintRules)
		}
		for _, list := range []struct {
			from []string
			to   *[]Rule
		}{{l.FinalDeny, &p.FinalDeny}, {l.Deny, &p.Deny}, {l.Override, &p.Override}, {l.Allow, &p.Allow}, {asks, &link.ask}} {
			for _, text := range list.from {
				r, err := ParseRule(text)
				if err != nil {
					return nil, err
				}
				*list.to = append(*list.to, r)
			}
		}
		var granted []Grant
		for _, g := range l.Granted {
			r, err := ParseGrant(g.Rule)
			if err = cmp.Or(err, checkName(g.Source)); err != nil {
				return nil, err
			}
			granted = append(granted, Grant{Rule: r, Source: g.Source})
		}
		if granted != nil {
			link.Granted = func() []Grant { return granted }
		}
		c = append(c, link)
	}
	return c, nil
}
