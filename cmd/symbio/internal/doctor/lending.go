package doctor

import (
	"context"
	"slices"

	"symbio/agent"
	"symbio/cmd/symbio/internal/config"
)

// lending says whether agents of other nodes may have agents spawned here, which is worth knowing.
func lending(_ context.Context, w *World) []Finding {
	c := w.Options.Config
	if !slices.ContainsFunc(c.Capabilities, config.Capability.Lends) {
		return []Finding{ok("no agent of another node can spawn agents here: nothing offers " + agent.SpawnCapability)}
	}
	how, err := w.Options.Lending()
	switch {
	case err != nil:
		return []Finding{fail("correct the names under agents of "+agent.SpawnCapability+", or the definitions", "agents cannot be lent: %v", err)}
	case !c.Authorizes(agent.SpawnCapability):
		return []Finding{warn("name who may under authorize, such as {from: role/worker, invoke: ["+agent.SpawnCapability+"]}", "%s, and that lets nobody", how)}
	}
	return []Finding{ok("%s", how)}
}
