package permission

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"symbio/security/visible"
)

// maxLinkName is the length in bytes of a link's name that another node may send. It is shown
// to people, so it must not fill their screen.
const maxLinkName = 256

// The limits of the constraints that a node sends about the agents that it acts for. EncodeConstraints
// and DecodeConstraints both enforce them.
const (
	// maxConstraintLinks bounds the links of constraints: more than the depth to which agents
	// spawn agents.
	maxConstraintLinks = 16
	// maxConstraintRules bounds the rules of all links together: more than a person writes.
	maxConstraintRules = 2048
)

// constraintsJSON is the wire format of the constraints that a node sends with a call on
// behalf of its agents. DecodeConstraints refuses unknown fields, so a new field needs a new
// protocol version.
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
}

// EncodeConstraints writes the policies of a chain as JSON for another node; nil for an empty
// chain. Links with equal rules are written once. It leaves out allowances that mean nothing
// elsewhere: answers of people, and grants for a single call or by a skill. The error says that
// the chain is larger than DecodeConstraints accepts. It calls Granted of each link once.
func EncodeConstraints(c Chain) ([]byte, error) {
	var out constraintsJSON
	seen := map[string]bool{}
	rules := 0
	for _, l := range c {
		if l.Granted != nil {
			// Clipped, so that append does not write to the array of the policy.
			l.Policy.Allow = l.Policy.Allow[:len(l.Policy.Allow):len(l.Policy.Allow)]
			for _, g := range l.Granted() {
				if g.Call == "" && !g.Rule.ofSkill() {
					l.Policy.Allow = append(l.Policy.Allow, g.Rule)
				}
			}
		}
		digest := l.Policy.Digest()
		if seen[digest] {
			continue
		}
		seen[digest] = true
		p := l.Policy
		rules += len(p.FinalDeny) + len(p.Deny) + len(p.Override) + len(p.Allow)
		out.Links = append(out.Links, constraintLink{strings.ToValidUTF8(visible.Prefix(l.Name, maxLinkName-32), ""), texts(p.FinalDeny), texts(p.Deny), texts(p.Override), texts(p.Allow), p.Default})
	}
	switch {
	case len(out.Links) == 0:
		return nil, nil
	case len(out.Links) > maxConstraintLinks || rules > maxConstraintRules:
		return nil, fmt.Errorf("too many permissions to tell another node: %d links with %d rules", len(out.Links), rules)
	}
	return json.Marshal(out)
}

// ofSkill reports whether the rule's text would mean something else, or more, without the skill
// that it was granted to: it is narrower than its text, or names the skill's directory.
func (r Rule) ofSkill() bool {
	return r.granted || slices.ContainsFunc(skillDirs[:], func(dir string) bool { return strings.Contains(r.text, dir) })
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
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&in); err != nil {
		return nil, errors.New("they cannot be read")
	}
	// A second value would be ignored by this decoder, but not by another reader of the same
	// bytes.
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows them")
	}
	if len(in.Links) == 0 || len(in.Links) > maxConstraintLinks {
		return nil, fmt.Errorf("they have %d links", len(in.Links))
	}
	var c Chain
	rules := 0
	for _, l := range in.Links {
		if len(l.Name) > maxLinkName || strings.ContainsFunc(l.Name, func(r rune) bool { return !visible.Rune(r) }) {
			return nil, errors.New("a name in them cannot be shown")
		}
		p := Policy{Default: l.Default}
		for _, list := range []struct {
			from []string
			to   *[]Rule
		}{{l.FinalDeny, &p.FinalDeny}, {l.Deny, &p.Deny}, {l.Override, &p.Override}, {l.Allow, &p.Allow}} {
			if rules += len(list.from); rules > maxConstraintRules {
				return nil, fmt.Errorf("they have over %d rules", maxConstraintRules)
			}
			for _, text := range list.from {
				r, err := ParseRule(text)
				if err != nil {
					return nil, err
				}
				*list.to = append(*list.to, r)
			}
		}
		c = append(c, Link{Name: l.Name, Policy: p})
	}
	return c, nil
}
