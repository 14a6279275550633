package agent

import (
	"context"
	"slices"

	"symbio/agent/definition"
	"symbio/agent/tool"
)

// updateDynamicTools gives the agent the tools that come and go (Config.More) as they are now. It does not ask for them if
// the definition names none.
func (a *Agent) updateDynamicTools(ctx context.Context) {
	more := a.instance.factory.cfg.More
	if more == nil || !a.instance.def.MayHave(definition.MCPPrefix) {
		return
	}
	a.set.SetDynamic(slices.DeleteFunc(slices.Clone(more(ctx)), func(t tool.Tool) bool { return !a.instance.def.HasTool(t.Spec().Name) }))
}
