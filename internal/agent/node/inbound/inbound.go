// Package inbound authorizes the calls of other nodes by the rules under
// authorize, and records each decision before the call is executed.
//
// Every node on whose behalf a call is made must be allowed to make it, not
// only the node that sends it. Otherwise a node with many permissions could be
// used as a proxy by one with few.
package inbound

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"syscall"

	"symbio/agent/event"
	"symbio/community"
	"symbio/internal/agent/lending"
	"symbio/internal/agent/node/artifacts"
	"symbio/internal/agent/workspace/transfer"
	"symbio/internal/security/audit"
	"symbio/internal/security/permission/authorize"
	"symbio/security/permission"
)

// Config sets up an Authorizer.
type Config struct {
	Node community.NodeID
	// Rules returns the rules in force.
	Rules func() authorize.Rules
	// Peer returns a connected node, as community.Community.Peer.
	Peer func(community.NodeID) (community.Peer, bool)
	// Proven returns a node with the role and labels that count now. Default: those of its certificate do.
	Proven func(community.Peer) community.Peer
	// Lent reports whether a member is lent to a node. Default: none is.
	Lent func(to community.NodeID, member community.MemberID) bool
	// Given reports whether a node was given an artifact, which it may fetch. Default: none was.
	Given func(to community.NodeID) bool
	// Append appends to the record of decisions. On an error the call is
	// refused.
	Append func(audit.Entry) error
	// Events gets an event for each recorded decision.
	Events *event.Stream
}

// Authorizer decides about calls of other nodes. It is safe for concurrent use.
type Authorizer struct {
	cfg   Config
	calls *audit.Calls
}

// New returns an Authorizer. The caller must call Run: it records repeated
// calls, which are counted together, in time.
func New(cfg Config) *Authorizer {
	a := &Authorizer{cfg: cfg}
	a.calls = audit.NewCalls(audit.CallsConfig{Node: string(cfg.Node), Append: cfg.Append, Told: a.report})
	return a
}

// Run records counted calls until ctx ends.
func (a *Authorizer) Run(ctx context.Context) error { return a.calls.Run(ctx) }

// Flush records the counted calls at once. Call it before the record is closed.
func (a *Authorizer) Flush() error { return a.calls.Flush() }

// report publishes a recorded decision as an event.
func (a *Authorizer) report(e audit.Entry) {
	var called audit.CallArgs
	if json.Unmarshal(e.Args, &called) != nil {
		called = audit.CallArgs{} // the entry counts several calls
	}
	a.cfg.Events.Publish(event.Event{Type: event.TypeDecision, Agent: called.Member, Name: e.Name, Why: e.Why, Part: event.Decision{
		Kind: e.Kind, From: e.Agent, Tool: e.Tool, Capability: called.Capability, Perception: called.Perception, For: e.For,
		Verdict: e.Verdict, Approved: e.Approved, Stage: e.Stage, Rule: e.Rule, Source: e.Source, Count: e.Count, Since: e.Since,
	}})
}

// Authorize returns nil if the rules allow a call of another node. Otherwise
// the error says why not; its text goes to the caller. The decision is recorded
// first: if that fails, the call is refused with ErrUnavailable.
func (a *Authorizer) Authorize(from community.Peer, c community.Call) error {
	kind, name := authorize.KindInvoke, c.Capability
	if perception, ok := strings.CutPrefix(name, community.PerceptionPrefix); ok {
		kind, name = authorize.KindSend, perception
	}
	chain := a.principals(make([]authorize.Principal, 0, 4), from, c.Requester) // which costs nothing on the heap
	v := a.cfg.Rules().JudgeChain(chain, kind, name)
	if name == transfer.Capability && kind == authorize.KindInvoke && v.Stage == permission.StageDefault {
		// An agent may bring its files wherever it may be spawned.
		v = a.cfg.Rules().JudgeChain(chain, kind, lending.Capability)
	}
	if kind == authorize.KindSend {
		v = a.allowBorrower(v, chain, c)
	} else if name == artifacts.Capability && v.Stage == permission.StageDefault && a.cfg.Given != nil && a.cfg.Given(from.ID) {
		v = permission.Verdict{Action: permission.Allow, Stage: permission.StageAllow, Source: "authorize", Rule: "given", Why: "It may fetch the artifacts that it was given."}
	}
	if err := a.record(from, c, kind, name, v); err != nil {
		why := "cannot record the decision"
		if cause := syscall.Errno(0); errors.As(err, &cause) {
			why += ": " + cause.Error() // the path is not for other nodes
		}
		return community.Explain(community.ErrUnavailable, why)
	}
	if v.Action == permission.Allow {
		return nil
	}
	return errors.New(v.Why)
}

// Allowed reports whether the rules let a connected node invoke a capability.
func (a *Authorizer) Allowed(from community.NodeID, capability string) bool {
	p, ok := a.cfg.Peer(from)
	return ok && a.cfg.Rules().Judge(a.principal(p), authorize.KindInvoke, capability).Action == permission.Allow
}

// principals appends to chain the nodes that must be allowed to make the call: the
// caller, as its certificate proves it, and the requesters that it names.
// Requesters are claims, so they can only restrict; their authority is known
// only while they are connected here. Requesters that are not nodes, such as
// users, and this node itself are skipped.
func (a *Authorizer) principals(chain []authorize.Principal, from community.Peer, requester []string) []authorize.Principal {
	chain = append(chain, a.principal(from))
	for _, r := range requester {
		id, _, _ := strings.Cut(r, "/") // NODE or NODE/MEMBER
		if id == string(from.ID) || id == string(a.cfg.Node) || !isNodeID(id) || slices.ContainsFunc(chain, func(p authorize.Principal) bool { return p.Node == id }) {
			continue
		}
		p := authorize.Principal{Node: id}
		if known, ok := a.cfg.Peer(community.NodeID(id)); ok {
			p = a.principal(known)
		}
		chain = append(chain, p)
	}
	return chain
}

// principal returns a node as rules judge it: by what the authority says of it.
func (a *Authorizer) principal(p community.Peer) authorize.Principal {
	if a.cfg.Proven != nil {
		p = a.cfg.Proven(p)
	}
	return authorize.Principal{Node: string(p.ID), Authority: p.Authority, Role: p.Role, Labels: string(p.Labels)}
}

// isNodeID reports whether a text is the id of a node.
func isNodeID(s string) bool { return len(s) == 32 && strings.Trim(s, "0123456789abcdef") == "" }

// allowBorrower changes a default denial to an approval if a node sends a
// signal to an agent that is lent to it. Without it, every lender would need a
// second rule. All requesters must be allowed to spawn here.
func (a *Authorizer) allowBorrower(v permission.Verdict, chain []authorize.Principal, c community.Call) permission.Verdict {
	if v.Action == permission.Allow || v.Stage != permission.StageDefault || a.cfg.Lent == nil || len(c.Requester) == 0 ||
		!a.cfg.Lent(community.NodeID(chain[0].Node), c.Member) {
		return v
	}
	if rest := a.cfg.Rules().JudgeChain(chain, authorize.KindInvoke, lending.Capability); rest.Action != permission.Allow {
		return v // a requester may not spawn here
	}
	return permission.Verdict{Action: permission.Allow, Stage: permission.StageAllow, Source: "authorize",
		Rule: "invoke " + lending.Capability, Why: "The agent is lent to that node."}
}

// record records the decision before anything of the call is done.
func (a *Authorizer) record(from community.Peer, c community.Call, kind authorize.Kind, name string, v permission.Verdict) error {
	in := audit.Inbound{
		Peer: string(from.ID), Name: from.Name, Verb: string(kind), What: name, Member: string(c.Member),
		Allowed: v.Action == permission.Allow, Stage: string(v.Stage), Rule: v.Rule, Why: v.Why,
	}
	if len(c.Requester) > 0 { // the community puts the caller first
		in.Requester = c.Requester[1:]
	}
	return a.calls.Note(in)
}
