package lending

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"symbio/agent/tool/replicate"
	"symbio/community"
	"symbio/internal/actor/awake"
	"symbio/security/permission"
)

// heldTo is what the borrowing agent is held to, as its node says.
type heldTo struct {
	constraints permission.Chain
	onlyReads   bool
}

// Constraints returns the constraints of the borrowing agent and of its requesters when it borrowed, as their
// node sent them last. They are part of the chain of the agent and its descendants as long as these
// run. The caller must not change them.
func (l *Lease) Constraints() permission.Chain { return l.link.held.Load().constraints }

// OnlyReads reports whether the mode of the borrowing agent is plan; false for a nil Lease.
func (l *Lease) OnlyReads() bool { return l != nil && l.link.held.Load().onlyReads }

// tellConstraints tells the lender what the parent is held to now, if that has changed since it was told.
// An agent whose lender does not take it is stopped.
func (b *BorrowedAgent) tellConstraints(ctx context.Context) error {
	select {
	case b.constraints.telling <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-b.constraints.telling }()
	return b.tellLocked(ctx)
}

// checkConstraints is tellConstraints in the background, unless that runs. It is called with each update
// of the lender: after each turn of the agent, and at least each reportInterval. So a grant that the
// parent loses is lost there as well.
func (b *BorrowedAgent) checkConstraints(ctx context.Context) {
	if b.id() == "" {
		return
	}
	select {
	case b.constraints.telling <- struct{}{}:
	default:
		return
	}
	if !b.constraints.aside.TryGo(func() error {
		defer func() { <-b.constraints.telling }()
		_ = b.tellLocked(ctx) // the agent is stopped
		return nil
	}) {
		<-b.constraints.telling
	}
}

// tellLocked is tellConstraints; the caller must hold telling. If they cannot be encoded, the lender is told to deny all, and the
// error says why.
func (b *BorrowedAgent) tellLocked(ctx context.Context) error {
	bounded, cancel := awake.Clock{}.WithTimeoutCause(ctx, memberTimeout, nil)
	defer cancel()
	plan := b.borrower.Owner().OnlyReads()
	behalf, unknown := b.borrower.Owner().Constraints(b.leased)
	if unknown != nil { // the agent may do nothing until they can be told again
		unknown = fmt.Errorf("the agent cannot be told what it is held to now, and its calls are denied meanwhile: %w", unknown)
		behalf, _ = permission.EncodeConstraints(permission.Chain{{Name: "the parent's node, which cannot tell them", Policy: permission.Policy{Default: permission.Deny}}})
	}
	if bytes.Equal(behalf, b.constraints.told) && plan == b.constraints.toldPlan {
		return unknown
	}
	_, err := b.askOnBehalf(bounded, request{Constrain: b.id(), Plan: plan}, behalf)
	switch {
	case err == nil:
		b.constraints.told, b.constraints.toldPlan = behalf, plan
		return unknown
	case errors.Is(err, community.ErrNotFound): // the agent has ended; its final report is on the way
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, community.ErrBusy): // the next update, or the next task, tries again
		return err
	}
	err = fmt.Errorf("it cannot be told what it is held to now: %w", err)
	b.end(err)
	b.cancel()
	return err
}

// SpawnCall returns the call by which an agent that works in dir spawns a sub-agent. args are the arguments of replicate_agent.
func SpawnCall(dir string, args map[string]any) permission.Call {
	return permission.Call{Tool: replicate.Name, Args: args, Dir: dir}
}

// DecisiveCall returns the call to judge: c itself, or stricterCall if c spawns an agent on
// another node. With labels it may spawn one there; if that is denied the agent runs on this node, so
// the call itself is judged.
func DecisiveCall(chain permission.Chain, c permission.Call) permission.Call {
	if c.Tool != replicate.Name {
		return c
	}
	if node := c.Args["node"]; node != nil && node != "" {
		return stricterCall(chain, c)
	}
	if labels, ok := c.Args["where"].([]any); ok && len(labels) > 0 {
		if remote := stricterCall(chain, c); chain.Judge(remote).Action != permission.Deny {
			return remote
		}
	}
	return c
}

// stricterCall returns the call to judge for a spawn on another node: the spawn itself or the
// invocation of the capability, whichever has the stricter verdict. A rule against invoking
// capabilities must hold for spawns as well.
func stricterCall(chain permission.Chain, spawn permission.Call) permission.Call {
	invoke := permission.Call{Tool: "invoke_capability", Args: map[string]any{"capability": Capability}, Dir: spawn.Dir, Within: spawn.Within}
	if chain.Judge(invoke).Action < chain.Judge(spawn).Action {
		return invoke
	}
	return spawn
}
