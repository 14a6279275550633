package config

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"symbio/agent/budget"
	"symbio/internal/agent/lending"
	"symbio/internal/security/permission/authorize"
	"symbio/security/permission"
)

// Lending has the keys of the capability agents.spawn, with which agents of
// other nodes spawn agents on this node. A lent agent runs under the rules of
// both nodes and ends with its parent. Only the listed definitions can be
// spawned.
type Lending struct {
	Agents []string `yaml:"agents,omitempty"` // the names of definitions
	// PerNode is the number of concurrent lent agents of one node; 0 = 4. The
	// capability's Concurrency, 0 = 8, bounds the lent agents of all nodes together.
	PerNode int `yaml:"per_node,omitempty"`
	// Budget is the most that each lent agent may use together with its
	// descendants. The node's budget and the share that the parent assigns
	// apply as well; the smallest number wins.
	Budget *budget.Limits `yaml:"budget,omitempty"`
	// Approvals says who decides calls that need a person: "" or borrower = the
	// person whose agent it is, here = a person of this node, both = both.
	Approvals lending.Approvals `yaml:"approvals,omitempty"`
	// Workspaces says what agents of other nodes may bring along.
	Workspaces Workspaces `yaml:"workspaces,omitempty"`
}

// Workspaces bounds the workspaces that other nodes send with their agents.
type Workspaces struct {
	Off bool `yaml:"off,omitempty"` // none are taken
	// MaxSize bounds one workspace, and what its agent makes of it. 0 = 1 GiB.
	MaxSize Size `yaml:"max_size,omitempty"`
	// Read are directories outside of the workspace that its commands can read,
	// such as the caches of compilers.
	Read []string `yaml:"read,omitempty"`
}

// ReadPaths returns the paths of Read. home replaces a leading ~.
func (w Workspaces) ReadPaths(home string) []string { return expand(home, w.Read) }

// Workspaces returns the workspaces of the capability that lends agents; the defaults if
// there is none.
func (c Config) Workspaces() Workspaces {
	for _, p := range c.Capabilities {
		if p.LendsAgents() {
			return p.Lending.Workspaces
		}
	}
	return Workspaces{}
}

// The defaults of a capability that lends agents. They are small, because each
// lent agent has a model and may spawn others; half of the places for one node
// leaves room for a second borrower.
const (
	defaultLentAgents   = 8
	defaultLentPerNode  = 4
	defaultLentLifetime = 30 * time.Minute // if neither the capability nor the budget limits a task's duration
)

// LendsAgents reports whether the capability lends agents.
func (c Capability) LendsAgents() bool { return len(c.Agents) > 0 }

// LenderConfig returns how the capability lends agents on a node with the
// budget own. Call it only if LendsAgents is true.
func (c Capability) LenderConfig(own budget.Limits) lending.LenderConfig {
	limits := own
	if c.Budget != nil {
		limits = own.Within(*c.Budget)
	}
	maxAgents := cmp.Or(c.Concurrency, defaultLentAgents)
	return lending.LenderConfig{
		Limits: limits, Max: maxAgents, PerNode: min(cmp.Or(c.PerNode, defaultLentPerNode), maxAgents),
		MaxLifetime: cmp.Or(c.Timeout, limits.Wall, defaultLentLifetime), Approvals: c.Approvals,
	}
}

// checkLending returns the first mistake in the keys of Lending, nil for a
// capability that uses none of them.
func (c Capability) checkLending() error {
	named := c.Name == lending.Capability
	switch {
	case named && !c.LendsAgents():
		return errors.New("agents: list the names of the definitions that other nodes may spawn here")
	case !c.LendsAgents() && !reflect.ValueOf(c.Lending).IsZero():
		return errors.New("per_node, budget, approvals and workspaces are for the capability agents.spawn only")
	case !c.LendsAgents():
		return nil
	case !named:
		return fmt.Errorf("agents is for the capability %s only; for one agent that answers one call write agent: NAME", lending.Capability)
	case c.Input != nil || c.Output != nil || c.Idempotent:
		return fmt.Errorf("the schemas of %s are fixed; leave out input, output and idempotent", lending.Capability)
	case !slices.Contains([]lending.Approvals{"", lending.AskBorrower, lending.AskHere, lending.AskBoth}, c.Approvals):
		return fmt.Errorf("approvals: %.40q is not borrower, here or both", string(c.Approvals))
	case c.PerNode < 0:
		return errors.New("per_node is negative")
	case c.Workspaces.MaxSize < 0:
		return errors.New("workspaces: max_size is negative")
	}
	for i, name := range c.Agents {
		if name == "" || slices.Contains(c.Agents[:i], name) {
			return fmt.Errorf("agents: %q is empty or listed twice", name)
		}
	}
	if b := c.Budget; b != nil && (min(b.Depth, b.Agents, b.SpawnsPerMinute, b.ModelCalls) < 0 || b.Tokens < 0 || b.Wall < 0 || !(b.Cost >= 0)) {
		return errors.New("budget: a number is negative")
	}
	return nil
}

// Authorizes reports whether some rule of authorize allows any other node to
// invoke a capability. It tries, for each rule, a caller that matches the
// rule's from.
func (c Config) Authorizes(capability string) bool {
	in, err := authorize.New(c.Authorize)
	return err == nil && slices.ContainsFunc(c.Authorize, func(r authorize.Rule) bool {
		p := authorize.Principal{Node: cmp.Or(strings.ReplaceAll(r.From, "*", ""), "0"), Authority: r.From}
		p.Role, _ = strings.CutPrefix(r.From, "role/")
		p.Labels, _ = strings.CutPrefix(r.From, "label/")
		if cluster, ok := strings.CutPrefix(r.From, "cluster/"); ok {
			p.Authority = cluster
		}
		return in.Judge(p, authorize.KindInvoke, capability).Action == permission.Allow
	})
}

// LongestLease returns the longest duration of a lease. Calls of other nodes may
// last that long, because a lease is a call.
func (c Config) LongestLease() (longest time.Duration) {
	for _, p := range c.Capabilities {
		if p.LendsAgents() {
			longest = max(longest, lending.NewLender(p.LenderConfig(c.Budget)).MaxCallTime())
		}
	}
	return longest
}
