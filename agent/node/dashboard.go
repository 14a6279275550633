package node

import (
	"context"

	"symbio/agent/node/dashboard"
	"symbio/agent/session"
	symbiov1 "symbio/proto/symbio/v1"
	"symbio/security/permission"
)

// openDashboard makes the dashboard, which listens when it is asked to. It uses
// the control API over the node's own socket, so that it can do what the command
// line can, and nothing else.
func openDashboard(p *parts) (err error) {
	if p.controller, err = p.kept.Dial(); err != nil {
		return err
	}
	p.dashboard, err = dashboard.New(dashboard.Config{
		Name: p.name, Identity: p.self, Listen: p.listener.Addr().String(), Client: symbiov1.NewControlClient(p.controller),
		Append: p.record, Rules: func(definition string) []permission.LocatedRule { return rulesOf(p, definition) },
		Sessions: p.sessions, Resume: func(ctx context.Context, id string) (session.Info, error) { return resumeSession(ctx, p, id) },
		State: p.cfg.State, Skills: p.cfg.SkillsConfig, Logger: p.cfg.Logger,
	})
	return err
}

// rulesOf returns the rules of the node and those of a definition, which both
// hold.
func rulesOf(p *parts, name string) []permission.LocatedRule {
	all := p.rules.Policy().Rules()
	if d, err := p.definition(name); err == nil {
		more, _ := d.Policy()
		all = append(all, more.Rules()...)
	}
	return all
}

// Dashboard makes the dashboard listen, if it does not yet, and returns an
// address that opens it once, within two minutes. listen is IP:PORT of
// loopback, "" = a free port. Call it while the node is ready.
func (n *Node) Dashboard(ctx context.Context, listen string) (url string, err error) {
	reply, err := n.parts.Load().dashboard.Open(ctx, &symbiov1.DashboardRequest{Listen: listen})
	return reply.GetUrl(), err
}
