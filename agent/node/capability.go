package node

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"time"

	"symbio/agent"
	"symbio/agent/llm"
	"symbio/agent/node/config"
	"symbio/community"
	"symbio/internal/agent/node/models"
)

// offerAll offers the capabilities of the node itself and of the
// configuration. Those of MCP servers are offered later, when their servers are
// ready and their schemas known. It tries all of them and joins the errors.
func (p *parts) offerAll() error {
	info := community.Capability{Name: "node.info", Description: "What this node is: name, version, system, how long it has been up.", Idempotent: true,
		Output: json.RawMessage(`{"type":"object","required":["name","id","version","protocol","system"]}`)}
	problems := []error{p.offer(info, p.info), p.calls.approvals.Offer(), p.console.steering.Offer(p.offer), p.console.fleet.Offer(),
		p.resumer.Offer(p.offer), p.calls.artifacts.Offer(), p.skills.Offer()}
	for _, c := range p.node.cfg.Settings.Capabilities {
		var err error
		switch {
		case c.MCP != "":
			continue
		case c.LendsAgents():
			err = p.agents.places.Offer(c, p.agents.factory.Lend(agent.Order{Rules: p.node.rules.Policy, Ask: p.agents.spawner.Ask}), p.offer)
		default:
			err = p.offerConfigured(c)
		}
		if err != nil {
			problems = append(problems, fmt.Errorf("capabilities: %s: %w", c.Name, err))
		}
	}
	return errors.Join(problems...)
}

// offerWork offers a capability that is work: it is withheld while the node drains, and its calls are waited for.
func (p *parts) offerWork(c community.Capability, provide community.Provider, opts ...community.OfferOption) error {
	return p.offer(c, p.node.drain.Provider(c.Name, provide), append(opts[:len(opts):len(opts)], community.WithDrain())...)
}

// offer offers a capability and publishes an event for each answered call.
func (p *parts) offer(c community.Capability, provide community.Provider, opts ...community.OfferOption) error {
	return p.calls.community.Offer(c, func(ctx context.Context, s community.Signal) (community.Reply, error) {
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
		if out, provide, err = p.agents.models.Capability(c); err != nil {
			return err
		}
	case c.Agent == "":
		command, err := p.agents.runner.Command(c)
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
		def, err := p.agents.defined.Find(c.Agent)
		if err != nil {
			return err
		}
		out.Description = cmp.Or(out.Description, def.Description)
		if out.Output != nil {
			if def.Output, err = llm.NewForm(llm.Output{Name: "answer", Schema: out.Output}); err != nil {
				return fmt.Errorf("output: %w", err)
			}
		} else if def.Output != nil {
			out.Output = def.Output.Output().Schema
		}
		provide = p.agents.spawner.Provider(c, def)
	}
	return p.offerWork(out, provide, community.WithTimeout(c.Timeout), community.WithConcurrency(cmp.Or(c.Concurrency, atOnce)))
}

// info answers node.info. It has nothing that a node of the community does not
// see anyway.
func (p *parts) info(context.Context, community.Signal) (community.Reply, error) {
	data, err := json.Marshal(map[string]any{
		"name": p.node.name, "id": p.peers.Identity.ID(), "version": p.node.cfg.Version, "protocol": Protocol,
		"system": runtime.GOOS + "/" + runtime.GOARCH, "up_seconds": int(time.Since(p.started).Seconds()),
		"agents": len(p.calls.community.Catalog().Members) - 1, // minus the node itself
	})
	return community.Reply{Data: data, ContentType: "application/json"}, err
}
