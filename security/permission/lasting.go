package permission

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
)

// Key names a call: another call has the same Key only when it is the same, decoded, in the same directory. "" when
// it cannot be written down exactly.
func (c Call) Key() string {
	k, ok := key(c)
	if !ok {
		return ""
	}
	sum := sha256.Sum256([]byte(k))
	return c.Tool + " " + hex.EncodeToString(sum[:])
}

// isCall reports whether the call has that Key.
func (f *facts) isCall(key string) bool {
	tool, _, _ := strings.Cut(key, " ")
	return tool == f.call.Tool && f.ran() == nil && key == f.call.Key()
}

// Lasting is what would allow this call, and nothing else that was not shown, from now on: the exact rules of a plan
// for each simple command and file, or the call itself. nil when there is no such thing: parts of a command are known
// to the shell alone, or the call cannot be written down.
func (c Call) Lasting(p *Plan) []Granted {
	if p == nil {
		if k := c.Key(); k != "" {
			return []Granted{{Call: k}}
		}
		return nil
	}
	if !p.Always() || strings.Contains(p.Script, "<<") {
		return nil // a rule for a command says nothing of a text that is given to it, and that was shown, too
	}
	var all []Granted
	for _, a := range p.Approve {
		r, err := ParseRule(a.Rule)
		if err != nil || !r.Exact() {
			return nil
		}
		all = append(all, Granted{Rule: r})
	}
	return all
}

// Exact reports whether the rule means one command with all its words, or one file by its absolute path.
func (r Rule) Exact() bool {
	switch {
	case r.star || r.ofSkill():
		return false
	case r.form == formExact:
		return r.words().head != ""
	case r.form == formPath:
		return r.base == baseRoot && !strings.Contains(r.spec, "*")
	}
	return false
}

// Digest names the policy: another has the same Digest only when it has the same rules and default. The order of the
// rules does not matter.
func (p Policy) Digest() string {
	var lists [][]string
	for _, rules := range [][]Rule{p.FinalDeny, p.Deny, p.Override, p.Allow} {
		texts := make([]string, len(rules))
		for i, r := range rules {
			texts[i] = r.text
		}
		slices.Sort(texts)
		lists = append(lists, slices.Compact(texts))
	}
	text, _ := json.Marshal(append(lists, []string{p.Default.String()})) // texts cannot fail
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}
