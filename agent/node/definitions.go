package node

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"symbio/agent"
	"symbio/agent/definition"
	"symbio/agent/llm/provider"
	"symbio/agent/tool/mcp"
	"symbio/agent/tool/peerskill"
	"symbio/community"
	"symbio/skills"
)

// KnownHere is Known with the MCP servers that a node with these options would have.
func (c Config) KnownHere(catalog *skills.Catalog) (definition.Loader, error) {
	k := Known(catalog)
	servers, _, err := c.servers(nil).List()
	k.Servers = []string{}
	for _, s := range servers {
		k.Servers = append(k.Servers, mcp.ServerPart(s.Name))
	}
	return k, err
}

// Known is what definitions of agents may name on any node. Skills are among it if they are given.
func Known(catalog *skills.Catalog) definition.Loader {
	k := definition.Loader{
		Tools: append(agent.ToolNames(), peerskill.Tool(nil).Spec().Name),
		Model: func(spec string) error {
			_, err := provider.ParseList(spec)
			return err
		},
	}
	if catalog != nil {
		k.Skills = append([]string{}, catalog.Names()...)
	}
	return k
}

// Definitions are the configured agents, and general, unless one of that name is configured. Beside an error, which
// joins an *definition.Problem for each thing that is wrong, stand those that can be used.
func (c Config) Definitions(k definition.Loader) (map[string]definition.Definition, error) {
	general := definition.General()
	all := map[string]definition.Definition{general.Name: general}
	if c.Settings.Agents == "" {
		return all, nil
	}
	list, err := k.Load(c.Settings.Agents)
	for _, d := range list {
		all[d.Name] = d
	}
	return all, err
}

// FindDefinition finds one by its name; "" is general.
func FindDefinition(all map[string]definition.Definition, name string) (definition.Definition, error) {
	if name == "" {
		name = "general"
	}
	if d, ok := all[name]; ok {
		return d, nil
	}
	return definition.Definition{}, fmt.Errorf("agent definition %q: %w; there are %s", name, community.ErrNotFound, strings.Join(slices.Sorted(maps.Keys(all)), ", "))
}

// OfferedBy are the capabilities of the configuration that an agent answers, by the name of its definition.
func (c Config) OfferedBy() map[string][]string {
	by := map[string][]string{}
	for _, p := range c.Settings.Capabilities {
		if p.Agent != "" {
			by[p.Agent] = append(by[p.Agent], p.Name)
		}
	}
	return by
}

// UnknownAgents says of each capability of the configuration that no agent answers, that it does not.
func (c Config) UnknownAgents(all map[string]definition.Definition) (wrong []error) {
	for _, p := range c.Settings.Capabilities {
		if _, err := FindDefinition(all, p.Agent); p.Agent != "" && err != nil {
			wrong = append(wrong, fmt.Errorf("capability %s: %w", p.Name, err))
		}
	}
	return wrong
}

// definition finds an agent's definition; "" is general.
func (p *parts) definition(name string) (definition.Definition, error) {
	return FindDefinition(p.agents, name)
}
