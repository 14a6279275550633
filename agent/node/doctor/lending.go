package doctor

import (
	"context"
	"slices"

	"symbio/agent/lending"
	"symbio/agent/node/config"
)

// lendsAgents reports whether agents of other nodes can spawn agents on this one. Lending without a
// rule of authorize that permits it is a warning, because every such call is denied.
func lendsAgents(_ context.Context, w *World) []Finding {
	c := w.Options.Settings
	if !slices.ContainsFunc(c.Capabilities, config.Capability.LendsAgents) {
		return []Finding{ok("no agent of another node can spawn agents here: nothing offers " + lending.Capability)}
	}
	// Lending resolves the names of the lent agents to definitions; an unknown name is its error.
	how, err := w.Options.Lending()
	switch {
	case err != nil:
		return []Finding{fail("correct the names under agents of "+lending.Capability+", or the definitions", "agents cannot be lent: %v", err)}
	case !c.Authorizes(lending.Capability):
		return []Finding{warn("name who may under authorize, such as {from: role/worker, invoke: ["+lending.Capability+"]}", "%s, but no rule allows it", how)}
	}
	return []Finding{ok("%s", how)}
}
