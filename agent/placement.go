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

// place finds a node for a sub-agent and calls start for it: the node that the model named, that which the Chooser finds, or
// this one. A request with a task waits in the Chooser's queue, unless the agent is a sub-agent itself: that one has a place, and
// if all that have one waited for others, none would ever be free. release gives the place back; nil = none was taken.
func (s *subAgents) place(ctx context.Context, w team.SpawnRequest, local bool, start func(placement.Place) error) (release func(), err error) {
	i := s.parent
	switch {
	case w.Node != "":
		node, err := s.lender(ctx, w)
		if err != nil {
			return nil, err
		}
		return nil, start(placement.Place{Node: node})
	case local:
		return nil, start(placement.Place{})
	}
	r, err := s.placeRequest(w.Definition, w.Where)
	if err != nil {
		return nil, err
	}
	r.Allowed = func(node community.Member) error { return s.mayPlace(ctx, w, r.Definition, node) }
	if w.Waiting != nil && i.parent == nil && i.permissions.borrower() == nil {
		queued := sync.OnceFunc(func() { i.events.report(event.Event{Type: event.TypeQueued, Text: w.Name}) })
		r.Waiting = func(before int) { queued(); w.Waiting(before) }
	}
	return i.factory.cfg.Chooser.Start(ctx, r, start)
}

// placeRequest describes a sub-agent for the Chooser.
func (s *subAgents) placeRequest(definition string, where []string) (r placement.Request, err error) {
	r.Definition = cmp.Or(definition, s.parent.order.Definition.Name)
	if r.Where, err = placement.ParseLabels(where); err != nil {
		return r, err
	}
	def, missing := s.definition(definition)
	if r.Strategy = placement.Strategy(def.Placement); missing != nil {
		r.NotHere = missing.Error()
	}
	return r, nil
}

// nodes returns the nodes with these labels that can have an agent of a definition.
func (s *subAgents) nodes(definition string, where []string) ([]community.MemberID, error) {
	r, err := s.placeRequest(definition, where)
	if err != nil {
		return nil, err
	}
	return s.parent.factory.cfg.Chooser.Nodes(r)
}

// mayPlace returns why a sub-agent may not be spawned on another node that the model did not name.
// A person was asked before if the model named labels.
func (s *subAgents) mayPlace(ctx context.Context, w team.SpawnRequest, definition string, node community.Member) error {
	switch v := s.parent.permissions.judgeRemote(ctx, definition, node.Name); {
	case v.Action == permission.Deny:
		return fmt.Errorf("you may not spawn agents there: %s", v.Why)
	case v.Action == permission.Ask && len(w.Where) == 0:
		return errors.New("a person would have to allow it: with where or node the person is asked")
	}
	return nil
}

// definition finds the definition of a sub-agent; "" is the agent's own.
func (s *subAgents) definition(name string) (definition.Definition, error) {
	if own := s.parent.order.Definition; name == "" || name == own.Name {
		return own, nil
	}
	return s.parent.factory.cfg.Definition(name)
}

// maxRepeats is how often a task is started anew: more than two nodes in a row are lost only if the
// task is the reason.
const maxRepeats = 2

// repeat reports whether a failed task is to be started anew: its node is lost, and its definition
// says that it is repeatable. times is how often that was done.
func (s *subAgents) repeat(c *team.Child, w team.SpawnRequest, times int) bool {
	def, err := s.definition(w.Definition)
	why := c.Handle.Gone()
	if times >= maxRepeats || err != nil || !def.Repeatable || !errors.Is(why, lending.ErrLost) {
		return false
	}
	s.parent.factory.cfg.Report(event.Event{Type: event.TypeRepeated, Agent: string(c.Member.ID), Name: c.Member.Name,
		Parent: string(s.parent.self.ID), Why: why.Error(), Part: event.End{Spent: new(c.Account.Total())}})
	return true
}
