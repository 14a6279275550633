package agent

import (
	"context"
	"slices"
	"strings"

	"symbio/agent/tool"
)

// takeMore takes the tools that come and go as they are now. They are not asked for where the definition names none.
func (a *Agent) takeMore(ctx context.Context) {
	more := a.life.factory.cfg.More
	if more == nil || !a.life.def.wantsMore() {
		return
	}
	a.set.Take(slices.DeleteFunc(slices.Clone(more(ctx)), func(t tool.Tool) bool { return !a.life.def.wants(t.Spec().Name) }))
}

// moreTools is how the names of tools begin that come and go.
const moreTools = "mcp__"

func (d Definition) wantsMore() bool {
	return d.Tools == nil || slices.ContainsFunc(d.Tools, func(n string) bool { return strings.HasPrefix(n, moreTools) })
}

// wants says whether the definition names a tool that comes and goes: by its name, or as mcp__SERVER__*.
func (d Definition) wants(name string) bool {
	return d.Tools == nil || slices.ContainsFunc(d.Tools, func(n string) bool {
		head, all := strings.CutSuffix(n, "*")
		return n == name || all && strings.HasPrefix(n, moreTools) && strings.HasPrefix(name, head)
	})
}
