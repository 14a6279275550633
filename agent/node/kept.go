package node

import (
	"context"
	"fmt"
	"sync/atomic"

	"symbio/agent"
	"symbio/agent/event"
	"symbio/agent/node/approvals"
	"symbio/agent/session"
	"symbio/agent/tool"
	"symbio/community"
)

// keptAgent is an agent that lives again since the node was started.
type keptAgent struct {
	member community.Member
	// resumed is whom the agent asks while its interrupted task goes on with
	// the answer to an approval; nil = it asks like agents without a terminal.
	resumed atomic.Pointer[approvals.Ask]
}

// spawnKept spawns the agents of the node's directory that live again, with
// their member ids and their conversations. An agent that cannot live again is
// a warning, and is tried again at the next start.
func (p *resumer) spawnKept(ctx context.Context) error {
	p.kept = map[string]*keptAgent{}
	if p.sessions == nil {
		return nil
	}
	all, err := p.sessions.Store().Sessions(ctx, session.Filter{Dir: p.cfg.Workspace(), Roots: true, Keep: true})
	if err != nil {
		return err
	}
	for _, s := range all {
		k := &keptAgent{}
		o, err := p.resumeOrder(ctx, s.ID)
		if err == nil {
			o = p.complete(o)
			o.Ask = k.ask(o.Ask)
			k.member, err = p.factory.Spawn(ctx, o)
		}
		if err != nil {
			p.events.Warn(event.Warning{Why: fmt.Sprintf("agent %s (%s) does not live again: %v", s.Name, s.Member, err), Mend: "symbio sessions show " + s.ID})
			continue
		}
		p.kept[s.ID] = k
	}
	return nil
}

// ask returns the agent's Ask. otherwise is that of agents without a terminal;
// nil = calls that need approval are denied.
func (k *keptAgent) ask(otherwise approvals.Ask) approvals.Ask {
	return func(ctx context.Context, asked agent.ApprovalRequest) tool.Answer {
		if resumed := k.resumed.Load(); resumed != nil {
			return (*resumed)(ctx, asked)
		}
		if otherwise == nil {
			return tool.Answer{Why: "There is no person to ask, so it is denied."}
		}
		return otherwise(ctx, asked)
	}
}

// resumeKept goes on with the interrupted task of an agent that lives again.
func (p *resumer) resumeKept(ctx context.Context, k *keptAgent, ask approvals.Ask) error {
	if ask != nil {
		k.resumed.Store(&ask)
		defer k.resumed.Store(nil)
	}
	_, err := p.community.Send(ctx, k.member.ID, community.Signal{Perception: k.member.Accepts[0]})
	return err
}
