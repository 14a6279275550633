// Package authorize decides which calls from other nodes a node accepts, by the rules under authorize in its
// configuration. An accepted call is not yet permitted: the work that it gives an agent is subject to that agent's permissions.
//
// The zero Rules and rules with a mistake refuse every call. No rules let only the nodes of the same user see the agents
// (FleetPrefix).
package authorize

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"unicode"

	"symbio/internal/security/permission/glob"
	"symbio/security/permission"
)

// Rule accepts or refuses calls from other nodes, as the configuration writes it:
//
//	authorize:
//	  - {from: "*", invoke: ["text.*"], send: [work], deny: ["text.secret"]}
type Rule struct {
	// From names the callers. The forms are:
	//   - "*": every authenticated node
	//   - a node's id, or its beginning with a *
	//   - "local": nodes certified by this user's own authority on this machine, never a cluster's nodes
	//   - "cluster/NAME": nodes certified by the cluster of that name
	//   - "role/NAME": nodes with that role in the certificate, which `symbio cluster token --role NAME` sets; "node"
	//     by default
	//   - "label/KEY=VALUE": nodes with that label in the certificate, which `symbio cluster token --label KEY=VALUE` sets;
	//     "label/KEY" is any value. The labels that a node says of itself do not count.
	//
	// The name of a node proves nothing, so no form matches it.
	From string `yaml:"from" json:"from"`
	// Invoke are capabilities, Send perceptions; * stands for any characters. Capabilities that begin with OwnersPrefix,
	// AgentsPrefix, SessionsPrefix, FleetPrefix or ArtifactsPrefix match only patterns that begin with it, too, unless From is local.
	Invoke []string `yaml:"invoke,omitempty" json:"invoke,omitempty"`
	Send   []string `yaml:"send,omitempty" json:"send,omitempty"`
	// Deny refuses capabilities and perceptions, whatever other rules accept.
	Deny []string `yaml:"deny,omitempty" json:"deny,omitempty"`
}

// Principal is the identity of a caller, as its certificate proves it.
type Principal struct {
	Node      string // 32 hex digits
	Authority string // the issuer: "local" is this user's own authority, else the name of a cluster
	Role      string
	Labels    string // of its certificate: KEY=VALUE, separated by commas
}

// Kind is the kind of a call from another node.
type Kind string

// The kinds.
const (
	KindInvoke Kind = "invoke" // of a capability
	KindSend   Kind = "send"   // of a perception
)

// OwnersPrefix, AgentsPrefix, SessionsPrefix and FleetPrefix begin the names of capabilities by which another node acts
// for this node's owner: it answers the questions of agents; spawns, steers, interrupts and reads agents; reads and
// resumes conversations; sees what the agents do. A rule has to name them: "*" does not match them. The nodes of the
// same user, those with the authority local, need no rule for the capabilities of FleetPrefix; a deny refuses them all the same.
const (
	OwnersPrefix   = "approvals."
	AgentsPrefix   = "agents."
	SessionsPrefix = "sessions."
	FleetPrefix    = "fleet."
	// ArtifactsPrefix begins the capability by which another node fetches artifacts. Those that it was given it may
	// fetch without a rule.
	ArtifactsPrefix = "artifacts."
)

// ownersPrefix returns the one of them that a capability's name begins with; "" if none.
func ownersPrefix(name string) string {
	for _, prefix := range []string{OwnersPrefix, AgentsPrefix, SessionsPrefix, FleetPrefix, ArtifactsPrefix} {
		if strings.HasPrefix(name, prefix) {
			return prefix
		}
	}
	return ""
}

// labelPrefix begins the From of a rule for the nodes with a label.
const labelPrefix = "label/"

// localAuthority is the Authority of this user's own nodes.
const localAuthority = "local"

// perceptionPrefix begins the name of the capability by which a perception is sent.
const perceptionPrefix = "agent.perception."

// Rules judge calls from other nodes. They do not change, so many goroutines may use them.
type Rules struct {
	rules   []Rule
	checked bool // by New
	known   *verdicts
}

// verdicts remembers what Rules have decided: the same nodes make the same calls again and again. It is safe for concurrent use.
type verdicts struct {
	mu    sync.RWMutex
	known map[question]permission.Verdict // guarded by mu
}

// question is what a verdict depends on beside the rules.
type question struct {
	from Principal
	kind Kind
	name string
}

// The limits of verdicts: how many are kept until all are forgotten, and the longest name of one, in bytes. Other nodes choose the
// names.
const (
	maxKnown     = 1024
	maxKnownName = 256
)

// of returns the verdict on a question, which judge decides the first time.
func (v *verdicts) of(q question, judge func() permission.Verdict) permission.Verdict {
	v.mu.RLock()
	known, ok := v.known[q]
	v.mu.RUnlock()
	if ok {
		return known
	}
	verdict := judge()
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.known) >= maxKnown {
		clear(v.known)
	}
	v.known[q] = verdict
	return verdict
}

// New checks the rules. An unclear rule is an error that names the rule and the reason; the Rules beside an error refuse
// every call.
func New(rules []Rule) (Rules, error) {
	rs := Rules{checked: true, known: &verdicts{known: map[question]permission.Verdict{}}}
	for i, r := range rules {
		if err := r.check(); err != nil {
			return Rules{}, fmt.Errorf("authorize rule %d: %w", i+1, err)
		}
		r.From = strings.TrimSpace(r.From)
		rs.rules = append(rs.rules, r)
	}
	return rs, nil
}

func (r Rule) check() error {
	role, isRole := strings.CutPrefix(r.From, "role/")
	cluster, isCluster := strings.CutPrefix(r.From, "cluster/")
	label, isLabel := strings.CutPrefix(r.From, labelPrefix)
	key, value, hasValue := strings.Cut(label, "=")
	switch {
	case r.From == "":
		return fmt.Errorf("from is missing: write \"*\", local, cluster/NAME, role/NAME, label/KEY=VALUE or a node's id")
	case isRole && (role == "" || strings.ContainsAny(role, "*/ ")):
		return fmt.Errorf("from %q: write role/NAME with one literal name", r.From)
	case isCluster && (cluster == "" || cluster == "local" || strings.ContainsAny(cluster, "*/ ")):
		return fmt.Errorf("from %q: write cluster/NAME with one literal name; this user's own nodes are local", r.From)
	case isLabel && (key == "" || hasValue && value == "" || strings.ContainsAny(label, "*/, ")):
		return fmt.Errorf("from %q: write label/KEY=VALUE, or label/KEY for any value, without *", r.From)
	case !isRole && !isCluster && !isLabel && r.From != "*" && r.From != "local" && strings.Trim(r.From, "0123456789abcdef*") != "":
		return fmt.Errorf("from %q is no node id (lower-case hex digits), cluster/NAME, role/NAME, label/KEY=VALUE, local or \"*\": a node's name proves nothing, use its id", r.From)
	case len(r.Invoke)+len(r.Send)+len(r.Deny) == 0:
		return fmt.Errorf("from %q has none of invoke, send and deny: write at least one", r.From)
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

// Judge decides a call from another node. It does no I/O.
func (rs Rules) Judge(from Principal, kind Kind, name string) permission.Verdict {
	if rs.known == nil || len(name) > maxKnownName {
		return rs.judge(from, kind, name)
	}
	return rs.known.of(question{from, kind, name}, func() permission.Verdict { return rs.judge(from, kind, name) })
}

func (rs Rules) judge(from Principal, kind Kind, name string) permission.Verdict {
	wire := name
	if p, ok := strings.CutPrefix(name, perceptionPrefix); ok && kind == KindInvoke {
		kind, name = KindSend, p
	}
	for _, r := range rs.rules {
		g := r.names(from, r.Deny, name)
		if g == "" {
			g = r.names(from, r.Deny, wire)
		}
		if g != "" {
			return inboundVerdict(permission.Deny, permission.StageDeny, r.From, "deny", g, "refuses this call")
		}
	}
	owners := ""
	if kind == KindInvoke {
		owners = ownersPrefix(name)
	}
	for _, r := range rs.rules {
		given := r.Invoke
		if kind == KindSend {
			given = r.Send
		} else if kind != KindInvoke {
			break
		}
		if owners != "" && r.From != localAuthority {
			given = slices.DeleteFunc(slices.Clone(given), func(g string) bool { return !strings.HasPrefix(g, owners) })
		}
		if g := r.names(from, given, name); g != "" {
			return inboundVerdict(permission.Allow, permission.StageAllow, r.From, string(kind), g, "takes this call")
		}
	}
	if owners == FleetPrefix && rs.checked && from.Node != "" && from.Authority == localAuthority {
		return inboundVerdict(permission.Allow, permission.StageAllow, localAuthority, string(kind), FleetPrefix+"*", "is built in: the nodes of one user see each other's agents")
	}
	why := fmt.Sprintf("No authorize rule lets that node %s %q here.", kind, name)
	if owners != "" {
		why += fmt.Sprintf(" Capabilities of the owner have to be named: invoke: [%q].", owners+"*")
	}
	return permission.Verdict{Stage: permission.StageDefault, Source: "authorize", Why: why}
}

// JudgeChain decides a call that a node makes on behalf of others: the rules have to accept each of them as a
// caller. The caller is the first of the chain; the strictest verdict counts. An empty chain is refused.
//
// Only the caller's identity is proven. The caller names the others, so they can only restrict the call: a caller that
// leaves them out is judged by itself.
func (rs Rules) JudgeChain(chain []Principal, kind Kind, name string) permission.Verdict {
	if len(chain) == 0 {
		return permission.Verdict{Stage: permission.StageDefault, Source: "authorize", Why: "The call has no caller."}
	}
	var first permission.Verdict
	for i, p := range chain {
		v := rs.Judge(p, kind, name)
		if i == 0 {
			first = v
		}
		if v.Action != permission.Allow {
			if i > 0 {
				v.Why = fmt.Sprintf("The call is on behalf of node %.40q. %s", p.Node, v.Why)
			}
			return v
		}
	}
	return first
}

// names returns the pattern that matches the name if the rule is about the caller; else "".
func (r Rule) names(from Principal, globs []string, name string) string {
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

func (r Rule) about(p Principal) bool {
	if p.Node == "" {
		return false
	}
	if role, ok := strings.CutPrefix(r.From, "role/"); ok {
		return p.Role == role
	}
	if cluster, ok := strings.CutPrefix(r.From, "cluster/"); ok {
		return p.Authority == cluster
	}
	if label, ok := strings.CutPrefix(r.From, labelPrefix); ok {
		return slices.ContainsFunc(strings.Split(p.Labels, ","), func(has string) bool { return has == label || strings.HasPrefix(has, label+"=") })
	}
	if r.From == localAuthority {
		return p.Authority == localAuthority
	}
	return glob.Match(r.From, p.Node)
}

func inboundVerdict(a permission.Action, s permission.Stage, from, list, g, does string) permission.Verdict {
	rule := fmt.Sprintf("from %s: %s %s", from, list, g)
	return permission.Verdict{Action: a, Stage: s, Rule: rule, Source: "authorize", Why: fmt.Sprintf("The authorize rule %q %s.", rule, does)}
}
