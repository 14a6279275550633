package agent

import (
	"context"
	"slices"

	"symbio/agent/definition"
	"symbio/agent/tool"
)

// updateDynamicTools replaces the agent's dynamic tools with what Config.DynamicTools returns now. It does
// not call that function, which may block, if the definition names no MCP tool.
func (a *Agent) updateDynamicTools(ctx context.Context) {
	more := a.instance.factory.cfg.DynamicTools
	if more == nil || !a.instance.def.MayHave(definition.MCPPrefix) {
		return
	}
	a.set.SetDynamic(slices.DeleteFunc(slices.Clone(more(ctx)), func(t tool.Tool) bool { return !a.instance.def.HasTool(t.Spec().Name) }))
}
