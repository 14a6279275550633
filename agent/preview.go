package agent

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"symbio/agent/budget"
	"symbio/agent/llm"
	"symbio/agent/tool"
	"symbio/agent/tool/skill"
	"symbio/community"
	"symbio/security/permission"
)

// ToolNames returns the sorted names of symbio's own tools, for checks of definitions and for help.
// Tools of programs and of MCP servers are not among them. The node's configuration decides which
// of them its agents have.
func ToolNames() []string {
	var all []string
	for _, p := range tool.Presets() {
		all = append(all, p.Tools...)
	}
	all = append(all, skill.Names()...)
	all = append(all, newAgent(NewFactory(Config{}).newPreviewInstance(Order{})).set.Names()...)
	slices.Sort(all)
	return slices.Compact(all)
}

// Preview describes the agent that an Order would spawn.
type Preview struct {
	// Tools are the agent's tools behind its guard. Calls that need a running agent or a community
	// fail.
	Tools *tool.Set
	// Links is the chain that would judge its calls. Guardrail is its definition's; nil = none.
	Links     permission.Chain
	Guardrail *permission.Guardrail
	Limits    budget.Limits
}

// Preview describes the agent that Spawn would start, with the dynamic tools of this moment. It
// starts no agent and opens no model, so that inspecting a definition has no effects.
func (f *Factory) Preview(ctx context.Context, o Order) (Preview, error) {
	constraints, err := constraintsOf(o.Definition, o.security, f.cfg.Dir)
	if err != nil {
		return Preview{}, fmt.Errorf("definition %s: %w", o.Definition.Name, err)
	}
	limits := o.Limits.Within(o.Definition.Budget).WithDefaults()
	i := f.newPreviewInstance(o)
	i.permissions.own = constraints
	a := newAgent(i)
	a.updateDynamicTools(ctx)
	return Preview{Tools: a.set, Links: i.permissions.links(nil), Guardrail: constraints.guardrail, Limits: limits}, nil
}

// newPreviewInstance returns an instance that is never started.
func (f *Factory) newPreviewInstance(o Order) *instance {
	o.Model = previewModel{}
	i := f.newInstance(o)
	i.setSelf(community.Member{Name: o.Definition.Name})
	return i
}

// previewModel is the model of an instance that is never started. It answers every request with
// llm.ErrInvalid.
type previewModel struct{}

func (previewModel) Name() string { return "none" }

func (previewModel) Stream(context.Context, llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) { yield(llm.Chunk{}, llm.ErrInvalid) }
}
