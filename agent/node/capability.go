package node

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"time"

	"symbio/agent"
	"symbio/agent/definition"
	"symbio/agent/lending"
	"symbio/agent/node/config"
	"symbio/agent/node/models"
	"symbio/community"
)

// offerAll offers what the node itself and the configuration have for other nodes. Capabilities of MCP servers follow when
// their servers are ready.
func (p *parts) offerAll() error {
	info := community.Capability{Name: "node.info", Description: "What this node is: name, version, system, how long it has been up.", Idempotent: true,
		Output: json.RawMessage(`{"type":"object","required":["name","id","version","protocol","system"]}`)}
	problems := []error{p.offer(info, p.info), p.approvals.Offer(), p.steering.Offer(p.offer), p.shareSkills()}
	for _, c := range p.cfg.Settings.Capabilities {
		var err error
		switch {
		case c.MCP != "":
			continue
		case c.LendsAgents():
			err = p.offerLending(c)
		default:
			err = p.offerConfigured(c)
		}
		if err != nil {
			problems = append(problems, fmt.Errorf("capabilities: %s: %w", c.Name, err))
		}
	}
	return errors.Join(problems...)
}

// offer offers a capability, and reports each call that is answered.
func (p *parts) offer(c community.Capability, provide community.Provider, opts ...community.OfferOption) error {
	return p.community.Offer(c, func(ctx context.Context, s community.Signal) (community.Reply, error) {
		reply, err := provide(ctx, s)
		p.report.served(ctx, c.Name, s, err)
		return reply, err
	}, opts...)
}

// offerConfigured offers what the configuration describes: a command, an agent or a model.
func (p *parts) offerConfigured(c config.Capability) (err error) {
	out := community.Capability{Name: c.Name, Description: c.Description, Idempotent: c.Idempotent}
	if out.Input, out.Output, err = c.Schemas(); err != nil {
		return err
	}
	var provide community.Provider
	atOnce := config.Concurrency
	switch {
	case c.Model != "":
		atOnce = models.Concurrency
		if out, provide, err = p.models.Capability(c); err != nil {
			return err
		}
	case c.Agent == "":
		command := p.runner.Command(c, cmp.Or(p.cfg.Settings.Limits.JSONDepth, community.MaxDepth))
		provide = func(ctx context.Context, s community.Signal) (community.Reply, error) {
			answer, err := command.Answer(ctx, s.Data)
			return community.Reply{Data: answer, ContentType: "application/json"}, err
		}
	default:
		def, err := p.definition(c.Agent)
		if err != nil {
			return err
		}
		out.Description = cmp.Or(out.Description, def.Description)
		if out.Output != nil {
			def.Instructions += "\n\nYour answer is read by a program: nothing but JSON that fits this JSON schema.\n" + string(out.Output)
		}
		provide = p.agentProvider(c, def)
	}
	return p.offer(out, provide, community.WithTimeout(c.Timeout), community.WithConcurrency(cmp.Or(c.Concurrency, atOnce)))
}

// agentProvider spawns an agent for each call, gives it the input as its task, and ends it.
func (p *parts) agentProvider(c config.Capability, def definition.Definition) community.Provider {
	return func(ctx context.Context, s community.Signal) (community.Reply, error) {
		limits := p.cfg.Settings.Budget
		limits.Wall = cmp.Or(c.Timeout, limits.Wall)
		if c.Input != nil {
			s.OnBehalf = nil // a service: what it takes is checked, and it does that by its own permissions (security.md 7.3)
		}
		reply, err := p.oneTask(ctx, agent.Order{Definition: def, Limits: limits}, s)
		if err == nil && c.Output != nil {
			reply = asJSON(reply)
		}
		return reply, err
	}
}

// oneTask spawns an agent, gives it a task, and ends it.
func (p *parts) oneTask(ctx context.Context, o agent.Order, s community.Signal) (community.Reply, error) {
	m, err := p.factory.Spawn(ctx, p.complete(o))
	if err != nil {
		return community.Reply{}, err
	}
	s.Perception = m.Accepts[0]
	reply, err := p.community.Send(ctx, m.ID, s)
	if community.NotBegun(err) {
		err = fmt.Errorf("%w: %v", community.ErrAgentFailed, err) // the task was begun: no other node may be asked instead
	}
	endCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	if endErr := p.community.Terminate(endCtx, m.ID); endErr != nil {
		p.cfg.Logger.Warn("agent of a task not terminated", "agent", m.ID, "err", endErr)
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

// offerLending lends agents of this node to those of others, as far as authorize lets them.
func (p *parts) offerLending(c config.Capability) error {
	cfg := c.LenderConfig(p.cfg.Settings.Budget)
	for _, name := range c.Agents {
		def, err := p.definition(name)
		if err != nil {
			return err
		}
		cfg.Definitions = append(cfg.Definitions, def)
	}
	cfg.Community, cfg.Logger = p.community, p.cfg.Logger
	cfg.Spawn = p.factory.Lend(agent.Order{Rules: p.rules.Policy, Ask: p.unattended()})
	p.lender = lending.NewLender(cfg)
	capability, err := p.lender.Capability()
	if err != nil {
		return err
	}
	capability.Description = cmp.Or(c.Description, capability.Description)
	return p.offer(capability, p.lender.Provide, community.WithMaxCallDuration(p.lender.Life()))
}

// lendingTime is how long calls of other nodes may last that are leases.
func lendingTime(c config.Config) (longest time.Duration) {
	for _, p := range c.Capabilities {
		if p.LendsAgents() {
			longest = max(longest, lending.NewLender(p.LenderConfig(c.Budget)).Life())
		}
	}
	return longest
}

// info answers node.info: what this node is, for every node that may ask.
func (p *parts) info(context.Context, community.Signal) (community.Reply, error) {
	data, err := json.Marshal(map[string]any{
		"name": p.name, "id": p.id, "version": p.cfg.Version, "protocol": Protocol,
		"system": runtime.GOOS + "/" + runtime.GOARCH, "up_seconds": int(time.Since(p.started).Seconds()),
		"agents": len(p.community.Catalog().Members) - 1, // the node itself is one of them
	})
	return community.Reply{Data: data, ContentType: "application/json"}, err
}
