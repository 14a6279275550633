package agent

import (
	"context"
	"fmt"
	"iter"
	"slices"

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
	all = append(all, newAgent(NewFactory(Config{}).unborn(Order{})).set.Names()...)
	slices.Sort(all)
	return slices.Compact(all)
}

// Outlook is what an agent has that does not live: what one of an order would have.
type Outlook struct {
	// Tools are those that it would have, behind its guard. Those that need an agent that lives, or a community, fail.
	Tools *tool.Set
	// Links are the permissions that it would be held to, Guardrail what would be around each call; nil = nothing.
	Links     permission.Chain
	Guardrail *permission.Guardrail
	Limits    Limits
}

// Outlook looks at what an agent of an order would have, the tools that come and go as they are now. No agent begins,
// and no model is opened.
func (f *Factory) Outlook(ctx context.Context, o Order) (Outlook, error) {
	around, err := boundsOf(o.Definition, f.cfg.Dir)
	if err != nil {
		return Outlook{}, fmt.Errorf("definition %s: %w", o.Definition.Name, err)
	}
	limits := o.Limits.Within(o.Definition.Budget).withDefaults()
	l := f.unborn(o)
	l.bounds = around
	a := newAgent(l)
	a.takeMore(ctx)
	return Outlook{Tools: a.set, Links: l.links(nil), Guardrail: around.rules, Limits: limits}, nil
}

// unborn is the life of an agent that does not begin.
func (f *Factory) unborn(o Order) *life {
	return (&life{
		def: o.Definition, policy: o.Policy, memory: new(permission.Memory), account: newAccount(o.Limits.Within(o.Definition.Budget)),
		ask: o.Ask, factory: f, self: community.Member{Name: o.Definition.Name}, brood: newBrood(),
	}).using(noModel{})
}

// noModel is the model of an agent that is never asked anything.
type noModel struct{}

func (noModel) Name() string { return "none" }

func (noModel) Stream(context.Context, llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) { yield(llm.Chunk{}, llm.ErrInvalid) }
}
