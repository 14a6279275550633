package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"

	"symbio/agent/definition"
	"symbio/agent/event"
	"symbio/community"
	"symbio/internal/agent/lending"
	"symbio/internal/agent/placement"
	"symbio/internal/agent/team"
	"symbio/security/permission"
)

// place spawns a sub-agent on the node that the Chooser finds. It waits in the Chooser's queue if the
// request has a task, unless the agent is a sub-agent itself: that one has a place, and if all that
// have one waited for others, none would ever be free.
func (a *Agent) place(ctx context.Context, w team.SpawnRequest) (c *team.Child, err error) {
	i := a.instance
	where, err := placement.ParseLabels(w.Where)
	if err != nil {
		return nil, err
	}
	r := placement.Request{Definition: cmp.Or(w.Definition, i.def.Name), Where: where}
	if def, err := definitionOf(i, w.Definition); err != nil {
		r.NotHere = err.Error()
	} else {
		r.Strategy = placement.Strategy(def.Placement)
	}
	r.Allowed = func(node community.Member) error { return mayPlace(ctx, i, w, r.Definition, node) }
	if w.Waiting != nil && i.parent == nil && i.lease == nil {
		queued := sync.OnceFunc(func() { i.report(event.Event{Type: event.TypeQueued, Text: w.Name}) })
		r.Waiting = func(before int) { queued(); w.Waiting(before) }
	}
	release, err := i.factory.cfg.Chooser.Start(ctx, r, func(p placement.Place) (err error) {
		if p.Node.ID == "" {
			c, err = spawnLocal(ctx, a, w, p.Reason)
		} else {
			c, err = a.spawnOn(ctx, w, p.Node, p.Reason)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	switch b, remote := c.Handle.(*lending.BorrowedAgent); {
	case remote:
		b.OnEnd(release)
	case w.Waiting == nil:
		release() // without a task it takes no place
	default:
		c.Release = release
	}
	return c, nil
}

// nodesFor returns the nodes with these labels that can have an agent of a definition.
func nodesFor(i *instance, definition string, where []string) ([]community.MemberID, error) {
	if i.factory.cfg.Chooser == nil {
		return nil, fmt.Errorf("%w: this node places no tasks on others: leave where out", placement.ErrNone)
	}
	labels, err := placement.ParseLabels(where)
	if err != nil {
		return nil, err
	}
	r := placement.Request{Definition: definition, Where: labels}
	if _, err := definitionOf(i, definition); err != nil {
		r.NotHere = err.Error()
	}
	return i.factory.cfg.Chooser.Nodes(r)
}

// mayPlace returns why a sub-agent may not be spawned on another node that the model did not name.
// The person was asked before if the model named labels.
func mayPlace(ctx context.Context, i *instance, w team.SpawnRequest, definition string, node community.Member) error {
	switch v := judgeRemote(ctx, i, definition, node.Name); {
	case v.Action == permission.Deny:
		return fmt.Errorf("you may not spawn agents there: %s", v.Why)
	case v.Action == permission.Ask && len(w.Where) == 0:
		return errors.New("a person would have to allow it: with where or node the person is asked")
	}
	return nil
}

// definitionOf finds the definition of a sub-agent; "" is the agent's own.
func definitionOf(i *instance, name string) (definition.Definition, error) {
	if name == "" || name == i.def.Name {
		return i.def, nil
	}
	return i.factory.findDefinition(name)
}

// maxRepeats is how often a task is started anew: more than two nodes in a row are lost only if the
// task is the reason.
const maxRepeats = 2

// repeat reports whether a failed task is to be started anew: its node is lost, and its definition
// says that it is repeatable.
func repeat(i *instance, c *team.Child, w team.SpawnRequest) bool {
	def, err := definitionOf(i, w.Definition)
	why := c.Handle.Gone()
	if err != nil || !def.Repeatable || !errors.Is(why, lending.ErrLost) {
		return false
	}
	i.factory.cfg.Report(event.Event{Type: event.TypeRepeated, Agent: string(c.Member.ID), Name: c.Member.Name, Parent: string(i.self.ID),
		Why: why.Error(), Part: event.End{Spent: new(c.Account.Total())}})
	return true
}
