package node

import (
	"context"
	"errors"
	"strings"
	"time"

	"symbio/actor"
	"symbio/agent"
	"symbio/community"
	"symbio/internal/agent/node/approvals"
	"symbio/internal/agent/node/artifacts"
	"symbio/internal/agent/node/inbound"
	"symbio/internal/agent/node/peers"
	"symbio/internal/security/audit"
)

// calls are the community of a node, and the parts that authorize, record and approve its calls.
type calls struct {
	node      *Node
	system    *actor.System
	community *community.Community
	inbound   *inbound.Authorizer
	audit     *audit.Log
	approvals *approvals.Queue
	artifacts *artifacts.Server
}

// openCalls makes calls. The record comes first: a node that cannot record must not start. self is this node with its
// labels; lent reports whether an agent is lent to a node. With an error it returns the parts that are open so far.
func openCalls(n *Node, self community.Member, peers *peers.Peers, report *reporter, lent func(to community.NodeID, m community.MemberID) bool) (c *calls, err error) {
	c = &calls{node: n}
	cfg, l := n.cfg, n.cfg.Settings.Limits
	if c.audit, err = audit.Open(n.kept.Audit(), audit.Config{Checkpoint: n.kept.Checkpoint(), Signer: peers.Identity, Logger: cfg.Logger}); err != nil {
		return c, err
	}
	c.inbound = inbound.New(inbound.Config{
		Node: self.Node, Rules: n.rules.Inbound, Append: c.record, Events: n.events,
		Peer:   func(id community.NodeID) (community.Peer, bool) { return c.community.Peer(id) },
		Proven: peers.Proven,
		Lent:   lent,
		Given:  func(to community.NodeID) bool { return c.artifacts.HasGiven(to) },
	})
	var onCall func(context.Context, community.CallInfo) (context.Context, func(error))
	if n.telemetry != nil {
		onCall = n.telemetry.Call
	}
	c.system = actor.NewSystem(actor.Config{Logger: cfg.Logger})
	c.community = community.New(community.Config{
		Node: self.Node, Name: self.Name, Metadata: self.Metadata, System: c.system, Network: peers.Network, Draining: &n.drain.Draining, Authorize: c.authorize(lent),
		OnRefused: report.refused, OnUndelivered: report.undelivered, OnLeftOut: report.leftOut, OnCall: onCall, Logger: cfg.Logger,
		MaxMessage: l.Message, MaxNodeCalls: l.NodeCalls, MaxCall: l.CallTimeout, Drain: agentDrain,
	})
	if c.artifacts, err = artifacts.Open(artifacts.Config{
		Dir: n.kept.Artifacts(), MaxSize: int64(cfg.Settings.Artifacts.MaxSize), Community: c.community,
		Allowed:    func(from community.NodeID) bool { return c.inbound.Allowed(from, artifacts.Capability) },
		MaxMessage: l.Message, Keep: time.Duration(cfg.Settings.Artifacts.Keep), Sessions: n.sessions.Store(),
	}); err != nil {
		return c, err
	}
	c.approvals = approvals.New(approvals.Config{
		Node: self.Node, Name: self.Name, Community: c.community, Timeout: cfg.Settings.Approvals.Timeout, MaxMessage: l.Message, Events: n.events, Keep: n.rules.Keep,
	})
	return c, nil
}

// authorize returns what decides about calls of other nodes: the rules, and then whether the node drains. Then only agents
// that are lent take signals of other nodes; capabilities are withheld by the community.
func (c *calls) authorize(lent func(to community.NodeID, m community.MemberID) bool) func(community.Peer, community.Call) error {
	return func(from community.Peer, call community.Call) error {
		if err := c.inbound.Authorize(from, call); err != nil {
			return err
		}
		if strings.HasPrefix(call.Capability, community.PerceptionPrefix) && c.node.drain.Draining.IsOn() && !lent(from.ID, call.Member) {
			return c.node.drain.Check()
		}
		return nil
	}
}

// close waits until the actors have ended, and closes the record then, because an agent that ends may
// still record a decision.
func (c *calls) close() {
	if c.system != nil {
		ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
		defer cancel()
		if err := c.system.Shutdown(ctx); err != nil {
			c.node.cfg.Logger.Warn("actors still running at the end", "err", err)
		}
	}
	if c.audit != nil {
		if err := errors.Join(c.inbound.Flush(), c.audit.Close()); err != nil {
			c.node.cfg.Logger.Warn("closing the audit log", "err", err)
		}
	}
}

// recordDecision is record for a decision about a call of an agent.
func (c *calls) recordDecision(d agent.RecordedDecision) error {
	v := d.Verdict
	return c.record(audit.Entry{
		Node: string(d.Node), Agent: d.Agent, Name: d.Name, For: d.OnBehalfOf, Call: d.CallID, Tool: d.Tool, Args: d.ShownArgs,
		Verdict: v.Action.String(), Stage: string(v.Stage), Rule: v.Rule, Source: v.Source, Link: v.Link, Why: v.Why, Box: string(v.Box),
		Approved: d.Approved, By: d.By, Reason: d.Reason,
	})
}

// record appends to the record of decisions. If that fails the call is denied,
// and a warning event tells the person who runs the node.
func (c *calls) record(e audit.Entry) error {
	if c.node.telemetry != nil && !e.Approved {
		c.node.telemetry.Refused(e.Tool)
	}
	err := c.audit.Append(e)
	if err != nil {
		c.node.events.Warn("all calls are denied now: "+err.Error(), "symbio doctor")
	}
	return err
}
