package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"symbio/agent"
	"symbio/cmd/symbio/internal/config"
	"symbio/community"
	"symbio/security/permission"
)

// offerLending lends agents of this node to those of others, as far as authorize lets them.
func (n *Node) offerLending(c config.Capability) error {
	cfg := c.Lender(n.opts.Config.Budget)
	for _, name := range c.Agents {
		def, err := n.definition(name)
		if err != nil {
			return err
		}
		cfg.Definitions = append(cfg.Definitions, def)
	}
	cfg.Factory = n.factory
	cfg.Order.Policy, cfg.Order.Ask = n.policy, n.unattended()
	n.lender = agent.NewLender(cfg)
	capability, err := n.lender.Capability()
	if err != nil {
		return err
	}
	capability.Description = cmp.Or(c.Description, capability.Description)
	provide := func(ctx context.Context, s community.Signal) (community.Reply, error) {
		reply, err := n.lender.Provide(ctx, s)
		n.served(ctx, c.Name, s, err)
		return reply, err
	}
	return n.community.Offer(capability, provide, community.WithLease(n.lender.Life()))
}

// ofBorrower allows what no rule does: that a node sends signals to an agent that is lent to it. It may have it
// because it may spawn it, and it alone may.
func (n *Node) ofBorrower(v permission.Verdict, from community.Peer, c community.Call) permission.Verdict {
	if v.Action == permission.Allow || v.Stage != permission.StageDefault || n.lender == nil || len(c.Requester) == 0 || !n.lender.Has(from.ID, c.Member) {
		return v
	}
	if rest := n.inbound.JudgeChain(n.principals(from, c.Requester), permission.KindInvoke, agent.SpawnCapability); rest.Action != permission.Allow {
		return v // somebody among those for whom it is may not
	}
	return permission.Verdict{Action: permission.Allow, Stage: permission.StageAllow, Source: "authorize", Rule: "invoke " + agent.SpawnCapability, Why: "The agent is lent to that node."}
}

// lasting is how long calls of other nodes may last that are leases.
func lasting(c config.Config) (longest time.Duration) {
	for _, p := range c.Capabilities {
		if p.Lends() {
			longest = max(longest, agent.NewLender(p.Lender(c.Budget)).Life())
		}
	}
	return longest
}

// Lending says how a node with these options lends agents, in a sentence; "" when it does not. The error says why it
// cannot as it is configured.
func (o Options) Lending() (string, error) {
	all, err := o.Definitions(Known(nil))
	if err != nil {
		return "", err
	}
	for _, c := range o.Config.Capabilities {
		if !c.Lends() {
			continue
		}
		for _, name := range c.Agents {
			_, problem := FindDefinition(all, name)
			err = errors.Join(err, problem)
		}
		cfg := c.Lender(o.Config.Budget)
		return fmt.Sprintf("other nodes may spawn %s here, as far as authorize lets them: %d at a time, %d of one node, each for up to %v",
			strings.Join(c.Agents, ", "), cfg.Max, cfg.PerNode, cfg.Life), err
	}
	return "", err
}
