package node

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"time"

	"symbio/agent"
	"symbio/cmd/symbio/internal/config"
	"symbio/community"
)

// capability makes what the configuration describes: a command, an agent or a model that answers calls of
// other nodes.
func (n *Node) capability(c config.Capability) (community.Capability, community.Provider, error) {
	if c.Model != "" {
		return n.modelCapability(c)
	}
	out := community.Capability{Name: c.Name, Description: c.Description, Idempotent: c.Idempotent}
	var err error
	if out.Input, err = schema(c.Input); err != nil {
		return out, nil, fmt.Errorf("input: %w", err)
	}
	if out.Output, err = schema(c.Output); err != nil {
		return out, nil, fmt.Errorf("output: %w", err)
	}
	if c.Agent == "" {
		run, err := n.command(c)
		n.execs = append(n.execs, run)
		return out, n.commandProvider(run), err
	}
	def, err := n.definition(c.Agent)
	out.Description = cmp.Or(out.Description, def.Description)
	if out.Output != nil {
		def.Instructions += "\n\nYour answer is read by a program: nothing but JSON that fits this JSON schema.\n" + string(out.Output)
	}
	return out, n.agentProvider(c, def), err
}

func schema(v any) (json.RawMessage, error) {
	if v == nil {
		return nil, nil
	}
	return json.Marshal(v)
}

// commandProvider runs a command for each call.
func (n *Node) commandProvider(c command) community.Provider {
	return func(ctx context.Context, s community.Signal) (community.Reply, error) {
		out, err := c.answer(ctx, s.Data)
		n.served(ctx, c.Name, s, err)
		return community.Reply{Data: out, ContentType: "application/json"}, err
	}
}

// agentProvider spawns an agent for each call, gives it the input as its task, and ends it.
func (n *Node) agentProvider(c config.Capability, def agent.Definition) community.Provider {
	return func(ctx context.Context, s community.Signal) (community.Reply, error) {
		reply, err := n.oneTask(ctx, c, def, s)
		n.served(ctx, c.Name, s, err)
		return reply, err
	}
}

func (n *Node) oneTask(ctx context.Context, c config.Capability, def agent.Definition, s community.Signal) (community.Reply, error) {
	limits := n.opts.Config.Budget
	if c.Timeout > 0 {
		limits.Wall = c.Timeout
	}
	m, err := n.factory.Spawn(ctx, agent.Order{Definition: def, Policy: n.policy, Limits: limits, Ask: n.unattended()})
	if err != nil {
		return community.Reply{}, err
	}
	s.Perception = m.Accepts[0]
	if c.Input != nil {
		s.OnBehalf = nil // a service: what it takes is checked, and it does that by its own permissions (security.md 7.3)
	}
	reply, err := n.community.Send(ctx, m.ID, s)
	if err == nil && c.Output != nil {
		reply = asJSON(reply)
	}
	endCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	if endErr := n.community.Terminate(endCtx, m.ID); endErr != nil {
		n.log.Warn("agent of a capability not terminated", "agent", m.ID, "err", endErr)
	}
	return reply, err
}

// asJSON is what an agent wrote as an output schema needs it: JSON where it is JSON, in a code block too,
// else the text as a JSON string.
func asJSON(r community.Reply) community.Reply {
	text := bytes.TrimSpace(r.Data)
	if inner, ok := bytes.CutPrefix(text, []byte("```json")); ok {
		text = bytes.TrimSpace(bytes.TrimSuffix(inner, []byte("```")))
	}
	if !json.Valid(text) {
		quoted, err := json.Marshal(string(r.Data))
		if err != nil {
			return r
		}
		text = quoted
	}
	return community.Reply{Data: text, ContentType: "application/json"}
}

// served reports a call of another node that was answered here.
func (n *Node) served(ctx context.Context, capability string, s community.Signal, err error) {
	e := servedEvent{Capability: capability, Requester: s.Requester, Trace: community.TraceOf(ctx).String()}
	if len(s.Requester) > 0 {
		e.From = n.nodeName(community.NodeID(s.Requester[0]))
	}
	if err != nil {
		e.Error = err.Error()
		n.log.Warn("capability failed", "capability", capability, "err", err)
	}
	n.events.Publish("served", "", e)
}

type servedEvent struct {
	Capability string   `json:"capability"`
	From       string   `json:"from,omitempty"`
	Requester  []string `json:"requester,omitempty"`
	Trace      string   `json:"trace,omitempty"` // the id
	Error      string   `json:"error,omitempty"`
}

// info answers node.info: what this node is, for whoever may ask.
func (n *Node) info(ctx context.Context, s community.Signal) (community.Reply, error) {
	data, err := json.Marshal(map[string]any{
		"name": n.name, "id": n.id, "version": n.opts.Version, "protocol": Protocol,
		"system": runtime.GOOS + "/" + runtime.GOARCH, "up_seconds": int(time.Since(n.started).Seconds()),
		"agents": len(n.community.Catalog().Members) - 1, // the node itself is one of them
	})
	n.served(ctx, "node.info", s, err)
	return community.Reply{Data: data, ContentType: "application/json"}, err
}
