package permission

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"symbio/security/permission/glob"
)

// InboundRule says what calls from other nodes are taken, as the configuration's authorize writes it:
//
//	authorize:
//	  - {from: "*", invoke: ["text.*"], send: [work], deny: ["text.secret"]}
//
// What an InboundRule gives is only that the call is heard. What is then done for it stands under the
// permissions of the one who does it.
type InboundRule struct {
	// From says whose calls: "*" for every authenticated node, a node's id or the beginning of one
	// with a *, "local" for nodes that this user's own authority on this machine vouches for, which
	// those of a cluster never are, "cluster/NAME" for nodes that the cluster of that name vouches for,
	// "role/NAME" for a role in the certificate: the one that `symbio cluster token --role NAME` gave,
	// "node" where it gave none. A node's name is never looked at: it can be any.
	From string `yaml:"from" json:"from"`
	// Invoke are capabilities, Send perceptions; * stands for any characters. Those that begin with OwnersPrefix
	// are meant only by patterns that begin with it, too, unless From is local.
	Invoke []string `yaml:"invoke,omitempty" json:"invoke,omitempty"`
	Send   []string `yaml:"send,omitempty" json:"send,omitempty"`
	// Deny refuses capabilities and perceptions, whatever another rule gives.
	Deny []string `yaml:"deny,omitempty" json:"deny,omitempty"`
}

// Principal is who calls, as their certificate proves it.
type Principal struct {
	Node      string // 32 hex digits
	Authority string // who vouches: "local" is this user's own authority, else the name of a cluster
	Role      string
}

// CallKind is what a call from another node wants.
type CallKind string

// The kinds.
const (
	KindInvoke CallKind = "invoke"
	KindSend   CallKind = "send"
)

// OwnersPrefix and AgentsPrefix begin the names of capabilities by which another node acts for the owner of this one: it
// answers what agents here have asked, and spawns, steers, interrupts and reads them. Who wrote "*" did not mean that:
// they have to be named.
const (
	OwnersPrefix = "approvals."
	AgentsPrefix = "agents."
)

// ownersPrefix is which of them a capability's name begins with; "" = it is like any other.
func ownersPrefix(name string) string {
	for _, prefix := range []string{OwnersPrefix, AgentsPrefix} {
		if strings.HasPrefix(name, prefix) {
			return prefix
		}
	}
	return ""
}

// perceptionPrefix is how a perception travels as a capability (architecture.md, the words).
const perceptionPrefix = "agent.perception."

// Inbound judges calls from other nodes. The zero Inbound refuses every call.
type Inbound struct {
	rules []InboundRule
}

// NewInbound reads the rules. An unclear one is an error that says which and why; the Inbound beside
// an error refuses every call. No rules refuse every call too.
func NewInbound(rules []InboundRule) (Inbound, error) {
	var in Inbound
	for i, r := range rules {
		if err := r.check(); err != nil {
			return Inbound{}, fmt.Errorf("authorize rule %d: %w", i+1, err)
		}
		r.From = strings.TrimSpace(r.From)
		in.rules = append(in.rules, r)
	}
	return in, nil
}

func (r InboundRule) check() error {
	role, isRole := strings.CutPrefix(r.From, "role/")
	cluster, isCluster := strings.CutPrefix(r.From, "cluster/")
	switch {
	case r.From == "":
		return fmt.Errorf("from is missing: write \"*\", local, cluster/NAME, role/NAME or a node's id")
	case isRole && (role == "" || strings.ContainsAny(role, "*/ ")):
		return fmt.Errorf("from %q: write role/NAME with one literal name", r.From)
	case isCluster && (cluster == "" || cluster == "local" || strings.ContainsAny(cluster, "*/ ")):
		return fmt.Errorf("from %q: write cluster/NAME with one literal name; this user's own nodes are local", r.From)
	case !isRole && !isCluster && r.From != "*" && r.From != "local" && strings.Trim(r.From, "0123456789abcdef*") != "":
		return fmt.Errorf("from %q is no node id (lower-case hex digits), cluster/NAME, role/NAME, local or \"*\": a node's name proves nothing, use its id", r.From)
	case len(r.Invoke)+len(r.Send)+len(r.Deny) == 0:
		return fmt.Errorf("from %q gives nothing: write invoke, send or deny", r.From)
	}
	for _, globs := range [][]string{r.Invoke, r.Send, r.Deny} {
		for _, g := range globs {
			if g == "" || strings.IndexFunc(g, func(c rune) bool { return !unicode.IsPrint(c) || c == ' ' }) >= 0 {
				return fmt.Errorf("from %q: %q is no name of a capability or perception", r.From, g)
			}
		}
	}
	return nil
}

// Judge decides a call from another node. It is a pure function of the rules and its arguments.
func (in Inbound) Judge(from Principal, kind CallKind, name string) Verdict {
	wire := name
	if p, ok := strings.CutPrefix(name, perceptionPrefix); ok && kind == KindInvoke {
		kind, name = KindSend, p
	}
	for _, r := range in.rules {
		g := r.names(from, r.Deny, name)
		if g == "" {
			g = r.names(from, r.Deny, wire)
		}
		if g != "" {
			return inboundVerdict(Deny, StageDeny, r.From, "deny", g, "refuses this call")
		}
	}
	owners := ""
	if kind == KindInvoke {
		owners = ownersPrefix(name)
	}
	for _, r := range in.rules {
		given := r.Invoke
		if kind == KindSend {
			given = r.Send
		} else if kind != KindInvoke {
			break
		}
		if owners != "" && r.From != "local" {
			given = slices.DeleteFunc(slices.Clone(given), func(g string) bool { return !strings.HasPrefix(g, owners) })
		}
		if g := r.names(from, given, name); g != "" {
			return inboundVerdict(Allow, StageAllow, r.From, string(kind), g, "takes this call")
		}
	}
	why := fmt.Sprintf("No authorize rule lets that node %s %q here.", kind, name)
	if owners != "" {
		why += fmt.Sprintf(" Capabilities of the owner have to be named: invoke: [%q].", owners+"*")
	}
	return Verdict{Stage: StageDefault, Source: "authorize", Why: why}
}

// JudgeChain decides a call that a node makes on behalf of others: every one of them has to be heard,
// as if it had called itself (security.md 7.3). The caller is the first of the chain; the strictest
// verdict counts. An empty chain is refused.
//
// Only the caller is proven. The others are what the caller says, so they can only take away: a caller
// that leaves them out is heard for itself.
func (in Inbound) JudgeChain(chain []Principal, kind CallKind, name string) Verdict {
	if len(chain) == 0 {
		return Verdict{Stage: StageDefault, Source: "authorize", Why: "Nobody calls."}
	}
	var first Verdict
	for i, p := range chain {
		v := in.Judge(p, kind, name)
		if i == 0 {
			first = v
		}
		if v.Action != Allow {
			if i > 0 {
				v.Why = fmt.Sprintf("The call is on behalf of node %.40q. %s", p.Node, v.Why)
			}
			return v
		}
	}
	return first
}

// names finds the glob that means the name, when the rule is about the caller.
func (r InboundRule) names(from Principal, globs []string, name string) string {
	if !r.about(from) || name == "" {
		return ""
	}
	for _, g := range globs {
		if glob.Match(g, name) {
			return g
		}
	}
	return ""
}

func (r InboundRule) about(p Principal) bool {
	if p.Node == "" {
		return false
	}
	if role, ok := strings.CutPrefix(r.From, "role/"); ok {
		return p.Role == role
	}
	if cluster, ok := strings.CutPrefix(r.From, "cluster/"); ok {
		return p.Authority == cluster
	}
	if r.From == "local" {
		return p.Authority == "local"
	}
	return glob.Match(r.From, p.Node)
}

func inboundVerdict(a Action, s Stage, from, list, g, does string) Verdict {
	rule := fmt.Sprintf("from %s: %s %s", from, list, g)
	return Verdict{Action: a, Stage: s, Rule: rule, Source: "authorize", Why: fmt.Sprintf("The authorize rule %q %s.", rule, does)}
}
