package config

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"symbio/agent/budget"
	"symbio/agent/lending"
	"symbio/security/permission"
	"symbio/security/permission/authorize"
)

// Lending is what a capability says that lends agents of this node to agents of others: those spawn them here, under
// this node's rules and their own, and with them they end. Nothing is lent that is not named.
type Lending struct {
	Agents []string `yaml:"agents,omitempty"` // the names of definitions
	// PerNode is how many of them one node may have at a time; 0 = 4. How many there may be in all is concurrency, 0 = 8.
	PerNode int `yaml:"per_node,omitempty"`
	// Budget is what each of them, with all that it spawns, may use at most, where that is less than the node's budget.
	// It gets no more than the share that its parent gives.
	Budget *budget.Limits `yaml:"budget,omitempty"`
}

// Each lent agent is one with a model and perhaps sub-agents: a node has room for a few, and for more than one
// borrower.
const (
	lentInAll   = 8
	lentPerNode = 4
	lentLife    = 30 * time.Minute // where nothing says how long a task may take
)

// Lends reports whether the capability lends agents.
func (c Capability) Lends() bool { return len(c.Agents) > 0 }

// Lender is how the capability lends agents, of a node with that budget.
func (c Capability) Lender(own budget.Limits) lending.LenderConfig {
	limits := own
	if c.Budget != nil {
		limits = own.Within(*c.Budget)
	}
	most := cmp.Or(c.Concurrency, lentInAll)
	return lending.LenderConfig{
		Limits: limits, Max: most, PerNode: min(cmp.Or(c.PerNode, lentPerNode), most),
		Life: cmp.Or(c.Timeout, limits.Wall, lentLife),
	}
}

// checkLending says what is wrong with a capability that lends agents, or seems to.
func (c Capability) checkLending() error {
	named := c.Name == lending.Capability
	switch {
	case named && !c.Lends():
		return errors.New("agents.spawn needs agents: the names of the definitions that other nodes may spawn here")
	case !c.Lends() && (c.PerNode != 0 || c.Budget != nil):
		return errors.New("per_node and budget are for agents.spawn")
	case !c.Lends():
		return nil
	case !named:
		return fmt.Errorf("agents are lent under the name %s, so that other nodes know what it takes; one agent for one call is agent: NAME", lending.Capability)
	case c.Input != nil || c.Output != nil || c.Idempotent:
		return fmt.Errorf("what %s takes and gives is known; leave out input, output and idempotent", lending.Capability)
	case c.PerNode < 0:
		return errors.New("per_node is negative")
	}
	for i, name := range c.Agents {
		if name == "" || slices.Contains(c.Agents[:i], name) {
			return fmt.Errorf("agents: %q is there twice, or empty", name)
		}
	}
	if b := c.Budget; b != nil && (min(b.Depth, b.Agents, b.SpawnsPerMinute, b.ModelCalls) < 0 || b.Tokens < 0 || b.Wall < 0 || !(b.Cost >= 0)) {
		return errors.New("a number of the budget is negative")
	}
	return nil
}

// Authorizes reports whether the rules let some other node invoke a capability: one that a rule names.
func (c Config) Authorizes(capability string) bool {
	in, err := authorize.New(c.Authorize)
	return err == nil && slices.ContainsFunc(c.Authorize, func(r authorize.Rule) bool {
		p := authorize.Principal{Node: cmp.Or(strings.ReplaceAll(r.From, "*", ""), "0"), Authority: r.From}
		p.Role, _ = strings.CutPrefix(r.From, "role/")
		if cluster, ok := strings.CutPrefix(r.From, "cluster/"); ok {
			p.Authority = cluster
		}
		return in.Judge(p, authorize.KindInvoke, capability).Action == permission.Allow
	})
}
