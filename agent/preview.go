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

// ToolNames are the tools that agents can have, beside those that a program makes itself and those of MCP servers. Which
// of them there are on a node is a matter of its configuration.
func ToolNames() []string {
	var all []string
	for _, p := range tool.Presets() {
		all = append(all, p.Tools...)
	}
	all = append(all, skill.Names()...)
	all = append(all, newAgent(NewFactory(Config{}).preview(Order{})).set.Names()...)
	slices.Sort(all)
	return slices.Compact(all)
}

// Outlook is what an agent of an order would have.
type Outlook struct {
	// Tools are those that it would have, behind its guard. Those that need a running agent, or a community, fail.
	Tools *tool.Set
	// Links are the permissions that it would be held to, Guardrail what would be around each call; nil = nothing.
	Links     permission.Chain
	Guardrail *permission.Guardrail
	Limits    budget.Limits
}

// Outlook returns what an agent of an order would have, with the tools that come and go as they are now. It starts no agent
// and opens no model.
func (f *Factory) Outlook(ctx context.Context, o Order) (Outlook, error) {
	constraints, err := constraintsOf(o.Definition, o.security, f.cfg.Dir)
	if err != nil {
		return Outlook{}, fmt.Errorf("definition %s: %w", o.Definition.Name, err)
	}
	limits := o.Limits.Within(o.Definition.Budget).WithDefaults()
	i := f.preview(o)
	i.permissions.own = constraints
	a := newAgent(i)
	a.updateDynamicTools(ctx)
	return Outlook{Tools: a.set, Links: i.permissions.links(nil), Guardrail: constraints.guardrail, Limits: limits}, nil
}

// preview returns an agent that is never started.
func (f *Factory) preview(o Order) *instance {
	i := f.newInstance(o).withModel(noModel{})
	i.setSelf(community.Member{Name: o.Definition.Name})
	return i
}

// noModel is the model of an agent that is never asked anything.
type noModel struct{}

func (noModel) Name() string { return "none" }

func (noModel) Stream(context.Context, llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) { yield(llm.Chunk{}, llm.ErrInvalid) }
}
