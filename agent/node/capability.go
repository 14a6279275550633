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
	"symbio/agent/budget"
	"symbio/agent/definition"
	"symbio/agent/lending"
	"symbio/agent/node/config"
	"symbio/agent/node/models"
	"symbio/agent/placement"
	"symbio/community"
)

// offerAll offers the capabilities of the node itself and those of the
// configuration. Those of MCP servers are offered later, when their servers are
// ready and their schemas known. It tries all of them and joins the errors.
func (p *parts) offerAll() error {
	info := community.Capability{Name: "node.info", Description: "What this node is: name, version, system, how long it has been up.", Idempotent: true,
		Output: json.RawMessage(`{"type":"object","required":["name","id","version","protocol","system"]}`)}
	problems := []error{p.offer(info, p.info), p.approvals.Offer(), p.steering.Offer(p.offer), p.fleet.Offer(), offerSessions(p), p.artifacts.Offer(), p.shareSkills()}
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

// offer offers a capability and publishes an event for each answered call.
func (p *parts) offer(c community.Capability, provide community.Provider, opts ...community.OfferOption) error {
	return p.community.Offer(c, func(ctx context.Context, s community.Signal) (community.Reply, error) {
		reply, err := provide(ctx, s)
		p.report.served(ctx, c.Name, s, err)
		return reply, err
	}, opts...)
}

// offerConfigured offers a capability of the configuration that is a command,
// an agent or a model.
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
		command, err := p.runner.Command(c, cmp.Or(p.cfg.Settings.Limits.JSONDepth, community.MaxDepth))
		if err != nil {
			return err
		}
		if c.Text && out.Output == nil {
			out.Output = []byte(`{"type":"string"}`)
		}
		provide = func(ctx context.Context, s community.Signal) (community.Reply, error) {
			answer, err := command.Answer(ctx, s.Data, community.NodeID(s.Requester[0])) // the calling node: the community puts it there
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

// agentProvider returns a provider that spawns an agent for each call, with the
// arguments as its task. With an input schema the capability is a service: its
// arguments are checked, and the agent uses its own permissions. Without one,
// the agent is also bound by the permissions of the requester (security.md
// 7.3).
func (p *parts) agentProvider(c config.Capability, def definition.Definition) community.Provider {
	return func(ctx context.Context, s community.Signal) (community.Reply, error) {
		limits := p.cfg.Settings.Budget.Limits
		limits.Wall = cmp.Or(c.Timeout, limits.Wall)
		if c.Input != nil {
			s.OnBehalf = nil
		}
		reply, _, err := p.oneTask(ctx, agent.Order{Definition: def, Limits: limits}, s)
		if err == nil && c.Output != nil {
			reply = asJSON(reply)
		}
		return reply, err
	}
}

// oneTask spawns an agent, sends it a task and terminates it. It returns what the agent used, too. An error after
// the spawn is ErrAgentFailed even if the signal was refused: otherwise the
// caller would send the task to another node, too.
func (p *parts) oneTask(ctx context.Context, o agent.Order, s community.Signal) (community.Reply, budget.Spent, error) {
	m, err := p.factory.Spawn(ctx, p.complete(o))
	if err != nil {
		return community.Reply{}, budget.Spent{}, err
	}
	s.Perception = m.Accepts[0]
	reply, err := p.community.Send(ctx, m.ID, s)
	if community.NotBegun(err) {
		err = fmt.Errorf("%w: %v", community.ErrAgentFailed, err)
	}
	spent, _ := p.factory.Spent(m.ID)
	endCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	if endErr := p.community.Terminate(endCtx, m.ID); endErr != nil {
		p.cfg.Logger.Warn("agent of a task not terminated", "agent", m.ID, "err", endErr)
	}
	return reply, spent, err
}

// asJSON returns the reply of an agent as JSON: as it is if it is JSON, without
// a Markdown code block around it, else as a JSON string. The schema check of
// the community decides whether it fits.
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

// offerLending offers agents.spawn, with which nodes that authorize allows
// spawn agents here.
func (p *parts) offerLending(c config.Capability) error {
	cfg := c.LenderConfig(p.cfg.Settings.Budget.Limits)
	for _, name := range c.Agents {
		def, err := p.definition(name)
		if err != nil {
			return err
		}
		cfg.Definitions = append(cfg.Definitions, def)
	}
	cfg.Community, cfg.Logger, cfg.AskTimeout = p.community, p.cfg.Logger, p.cfg.Settings.Approvals.Timeout
	cfg.Load = func() placement.Load { return loadOf(p) }
	cfg.Spawn = p.factory.Lend(agent.Order{Rules: p.rules.Policy, Ask: p.unattended()})
	p.lender = lending.NewLender(cfg)
	capability, err := p.lender.Capability()
	if err != nil {
		return err
	}
	capability.Description = cmp.Or(c.Description, capability.Description)
	if err := offerWorkspaces(p); err != nil {
		return err
	}
	return p.offer(capability, p.lender.Provide, community.WithMaxCallDuration(p.lender.MaxCallTime()))
}

// lendingTime returns the longest duration of a lease. Calls of other nodes may
// last that long, because a lease is a call.
func lendingTime(c config.Config) (longest time.Duration) {
	for _, p := range c.Capabilities {
		if p.LendsAgents() {
			longest = max(longest, lending.NewLender(p.LenderConfig(c.Budget.Limits)).MaxCallTime())
		}
	}
	return longest
}

// info answers node.info. It has nothing that a node of the community does not
// see anyway.
func (p *parts) info(context.Context, community.Signal) (community.Reply, error) {
	data, err := json.Marshal(map[string]any{
		"name": p.name, "id": p.id, "version": p.cfg.Version, "protocol": Protocol,
		"system": runtime.GOOS + "/" + runtime.GOARCH, "up_seconds": int(time.Since(p.started).Seconds()),
		"agents": len(p.community.Catalog().Members) - 1, // minus the node itself
	})
	return community.Reply{Data: data, ContentType: "application/json"}, err
}
