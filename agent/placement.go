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
	"symbio/internal/agent/team"
	"symbio/security/permission"
)

// Chooser gives sub-agents their places, on this node and on others. It is safe for concurrent use.
type Chooser interface {
	// Start waits for a place for a sub-agent and calls start, which starts it there. If another node refuses
	// (community.NotBegun) or cannot be reached, it calls start for the next place. release must be called when the place is free
	// again; it may be called more than once; nil = none was taken. The error wraps community.ErrBusy if too many wait, and says
	// so if no node fits; else it is the cause of ctx, or the error of start.
	Start(ctx context.Context, r PlaceRequest, start func(Place) error) (release func(), err error)
	// Nodes returns the nodes that fit, with free places or without. The error says so if there are none.
	Nodes(r PlaceRequest) ([]community.MemberID, error)
}

// PlaceRequest describes a sub-agent that needs a place.
type PlaceRequest struct {
	Definition string   // its name; a node that does not lend it does not fit
	Where      []string // the labels that the node must have: KEY=VALUE
	Strategy   string   // of definition.Definition.Placement; "" = the Chooser's
	NotHere    string   // why it cannot run on this node; "" = it can
	// Allowed returns why it may not run on another node. It must not block.
	Allowed func(community.Member) error
	// Waiting is called when it begins to wait, and when fewer are before it. It must not block. nil: it does not wait but runs
	// here, even if all places are taken, or gets community.ErrBusy if it cannot.
	Waiting func(before int)
}

// Place is where a sub-agent runs.
type Place struct {
	Node   community.Member // stands for the other node; the zero Member is this node
	Reason string           // why this node, for people
}

// localChooser is the Chooser of a Factory that has none.
type localChooser struct{}

// Start calls start for this node, unless the node must have labels.
func (o localChooser) Start(_ context.Context, r PlaceRequest, start func(Place) error) (release func(), err error) {
	if len(r.Where) > 0 {
		_, err := o.Nodes(r)
		return nil, err
	}
	return nil, start(Place{})
}

// Nodes returns an error.
func (localChooser) Nodes(PlaceRequest) ([]community.MemberID, error) {
	return nil, errors.New("no node fits: this node places no tasks on others: leave where out")
}

// place finds a node for a sub-agent and calls start for it: the node that the model named, that which the Chooser finds, or
// this one. A request with a task waits in the Chooser's queue, unless the agent is a sub-agent itself: that one has a place, and
// if all that have one waited for others, none would ever be free. release gives the place back; nil = none was taken.
func (s *subAgents) place(ctx context.Context, w team.SpawnRequest, local bool, start func(Place) error) (release func(), err error) {
	i := s.parent
	switch {
	case w.Node != "":
		node, err := s.lender(ctx, w)
		if err != nil {
			return nil, err
		}
		return nil, start(Place{Node: node})
	case local:
		return nil, start(Place{})
	}
	r := s.placeRequest(w.Definition, w.Where)
	r.Allowed = func(node community.Member) error { return s.mayPlace(ctx, w, r.Definition, node) }
	if w.Waiting != nil && i.parent == nil && i.permissions.borrower() == nil {
		queued := sync.OnceFunc(func() { i.events.report(event.Event{Type: event.TypeQueued, Text: w.Name}) })
		r.Waiting = func(before int) { queued(); w.Waiting(before) }
	}
	return i.factory.cfg.Chooser.Start(ctx, r, start)
}

// placeRequest describes a sub-agent for the Chooser.
func (s *subAgents) placeRequest(definition string, where []string) PlaceRequest {
	def, missing := s.definition(definition)
	r := PlaceRequest{Definition: cmp.Or(definition, s.parent.order.Definition.Name), Where: where, Strategy: def.Placement}
	if missing != nil {
		r.NotHere = missing.Error()
	}
	return r
}

// nodes returns the nodes with these labels that can have an agent of a definition.
func (s *subAgents) nodes(definition string, where []string) ([]community.MemberID, error) {
	return s.parent.factory.cfg.Chooser.Nodes(s.placeRequest(definition, where))
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
