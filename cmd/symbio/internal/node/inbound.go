package node

import (
	"context"
	"encoding/json"
	"time"

	"symbio/community"
	"symbio/security/audit"
	"symbio/security/permission"
)

// recordCalls prepares the record of what other nodes were allowed and refused: in the same log as the decisions
// about agents, and in the event stream.
func (n *Node) recordCalls() {
	n.calls = audit.NewCalls(audit.CallsConfig{Node: string(n.id), Append: n.audit.Append, Told: func(e audit.Entry) {
		var called audit.Called
		if json.Unmarshal(e.Args, &called) != nil {
			called = audit.Called{} // of many together
		}
		n.events.Publish("decision", called.Member, inboundEvent{
			Kind: e.Kind, From: e.Agent, Name: e.Name, Tool: e.Tool, Capability: called.Capability, Perception: called.Perception, For: e.For, Verdict: e.Verdict, Approved: e.Approved,
			Stage: e.Stage, Rule: e.Rule, Source: e.Source, Why: e.Why, Count: e.Count, Since: e.Since,
		})
	}})
}

// inboundEvent is a decision about calls of another node.
type inboundEvent struct {
	Kind       string     `json:"kind"`
	From       string     `json:"from"`
	Name       string     `json:"name,omitempty"`
	Tool       string     `json:"tool,omitempty"` // invoke or send
	Capability string     `json:"capability,omitempty"`
	Perception string     `json:"perception,omitempty"`
	For        []string   `json:"for,omitempty"`
	Verdict    string     `json:"verdict"`
	Approved   bool       `json:"approved"`
	Stage      string     `json:"stage,omitempty"`
	Rule       string     `json:"rule,omitempty"`
	Source     string     `json:"source"`
	Why        string     `json:"why,omitempty"`
	Count      uint64     `json:"count,omitempty"`
	Since      *time.Time `json:"since,omitempty"`
}

// decided has the decision about a call of another node recorded, before anything of it is done.
func (n *Node) decided(from community.Peer, c community.Call, kind permission.CallKind, name string, v permission.Verdict) error {
	in := audit.Inbound{
		Peer: string(from.ID), Name: from.Name, Verb: string(kind), What: name, Member: string(c.Member),
		Allowed: v.Action == permission.Allow, Stage: string(v.Stage), Rule: v.Rule, Why: v.Why,
	}
	if len(c.Requester) > 0 { // the first is the peer itself, which the community put there
		in.Requester = c.Requester[1:]
	}
	return n.calls.Note(in)
}

// countCalls brings the counts of repeated calls into the record, until ctx ends.
func (n *Node) countCalls(ctx context.Context) error { return n.calls.Run(ctx) }
