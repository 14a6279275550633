package node

import (
	"context"
	"fmt"
	"os"

	"google.golang.org/protobuf/types/known/timestamppb"

	"symbio/agent"
	"symbio/community"
	symbiov1 "symbio/proto/symbio/v1"
	"symbio/security/permission"
	"symbio/security/standing"
)

// openStanding reads what a person has allowed for good.
func (n *Node) openStanding() (err error) {
	if err := os.MkdirAll(n.opts.State.allowed(), 0o700); err != nil { // what is not there cannot be protected
		return err
	}
	if n.standing, err = standing.Open(n.opts.State.Standing(n.name)); err != nil {
		return err
	}
	n.scope = n.policy.Digest()
	n.approvals.keep = func(w *waiting, by string) error {
		return n.standing.Keep(w.lasting, n.scope, n.files.Dir(), w.Tool+" "+string(w.Args), by)
	}
	return nil
}

// granted is what is allowed now of that.
func (n *Node) granted() []permission.Granted { return n.standing.Granted(n.scope, n.files.Dir()) }

// rulesOf says what would be kept, in words.
func rulesOf(a agent.Asked) (rules []string) {
	for _, g := range a.Lasting {
		if g.Call != "" {
			rules = append(rules, "exactly this call of "+a.Tool)
		} else {
			rules = append(rules, g.Rule.String())
		}
	}
	return rules
}

// Rules lists what a person has allowed for good, and says of each whether it counts now.
func (c *control) Rules(context.Context, *symbiov1.RulesRequest) (*symbiov1.RulesReply, error) {
	n := c.node
	reply := &symbiov1.RulesReply{}
	for _, e := range n.standing.Entries() {
		r := &symbiov1.LastingRule{Id: e.ID, Rule: e.Rule, Dir: e.Dir, Since: timestamppb.New(e.Since), By: e.By}
		if e.Call != "" {
			r.Rule = e.Shown
		}
		switch {
		case e.Scope != n.scope:
			r.WhyNot = "the rules of the configuration are others than when it was allowed"
		case e.Dir != n.files.Dir():
			r.WhyNot = "this node works in another directory"
		}
		reply.Rules = append(reply.Rules, r)
	}
	return reply, nil
}

// Forget takes one of them back, at once.
func (c *control) Forget(_ context.Context, r *symbiov1.ForgetRequest) (*symbiov1.ForgetReply, error) {
	found, err := c.node.standing.Forget(r.GetId())
	if err == nil && !found {
		err = fmt.Errorf("%w: nothing of the id %q was allowed for good; `symbio approvals rules` lists what was", community.ErrNotFound, r.GetId())
	}
	if err != nil {
		return nil, toStatus(err)
	}
	return &symbiov1.ForgetReply{}, nil
}
