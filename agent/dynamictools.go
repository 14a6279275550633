package agent

import (
	"context"
	"maps"
	"slices"
	"strings"

	"symbio/agent/definition"
	"symbio/agent/tool"
)

// updateDynamicTools replaces the agent's dynamic tools with what Config.DynamicTools returns now. It does
// not call that function, which may block, if the definition names no MCP tool. Servers that are starting are waited for
// unless a person waits for the agent. It reports whether the system prompt has to say something else of tools that are missing,
// and tells the person.
func (a *Agent) updateDynamicTools(ctx context.Context) (changed bool) {
	i := a.instance
	more := i.factory.cfg.DynamicTools
	if more == nil || !i.order.Definition.MayHave(definition.MCPPrefix) {
		return false
	}
	tools, missing := more(ctx, false)
	list, starting := listMissing(i.order.Definition, missing)
	if starting != "" && !i.order.Attended {
		i.events.notice("waits for MCP servers that are still starting, for " + starting)
		tools, missing = more(ctx, true)
		list, _ = listMissing(i.order.Definition, missing)
	}
	a.set.SetDynamic(slices.DeleteFunc(slices.Clone(tools), func(t tool.Tool) bool { return !i.order.Definition.HasTool(t.Spec().Name) }))
	if changed = list != a.missing; changed && list != "" {
		i.events.notice("goes on without " + list + "; symbio mcp list --start says more")
	}
	a.missing = list
	return changed
}

// listMissing lists the missing tools that an agent of that definition may have, and the ones among them that may come soon.
func listMissing(def definition.Definition, missing map[string]string) (list, starting string) {
	var all, soon []string
	for _, prefix := range slices.Sorted(maps.Keys(missing)) {
		if !def.MayHave(prefix) {
			continue
		}
		all = append(all, prefix+"* ("+missing[prefix]+")")
		if missing[prefix] == tool.Starting {
			soon = append(soon, prefix+"*")
		}
	}
	return strings.Join(all, ", "), strings.Join(soon, ", ")
}

// missingText tells the model which tools it cannot call yet.
const missingText = "These tools are not there now, because the MCP server that has them is not ready: %s. You get them in a later turn if it becomes ready. Go on with what you have, and say so if the task needs one of them."
