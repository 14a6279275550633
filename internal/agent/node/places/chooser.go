package places

import (
	"context"

	"symbio/agent"
	"symbio/community"
	"symbio/internal/agent/placement"
)

// AgentChooser is the agent.Chooser of a node. Its tasks wait in the same queue as others of the Chooser.
type AgentChooser struct{ Chooser *placement.Chooser }

// Start implements agent.Chooser.
func (c AgentChooser) Start(ctx context.Context, r agent.PlaceRequest, start func(agent.Place) error) (release func(), err error) {
	want, err := requestOf(r)
	if err != nil {
		return nil, err
	}
	return c.Chooser.Start(ctx, want, func(p placement.Place) error { return start(agent.Place(p)) })
}

// Nodes implements agent.Chooser.
func (c AgentChooser) Nodes(r agent.PlaceRequest) ([]community.MemberID, error) {
	want, err := requestOf(r)
	if err != nil {
		return nil, err
	}
	return c.Chooser.Nodes(want)
}

// requestOf returns the request for a sub-agent. The error says which label has the wrong form.
func requestOf(r agent.PlaceRequest) (placement.Request, error) {
	where, err := community.ParseLabels(r.Where)
	return placement.Request{Definition: r.Definition, Where: where, Strategy: placement.Strategy(r.Strategy), NotHere: r.NotHere,
		Allowed: r.Allowed, Waiting: r.Waiting}, err
}
