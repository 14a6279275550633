package node

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"symbio/agent"
	"symbio/agent/llm/provider"
	"symbio/agent/tool/mcp"
	"symbio/agent/tool/peerskill"
	"symbio/community"
	"symbio/skills"
)

// KnownHere is Known with the MCP servers that a node with these options would have.
func (o Options) KnownHere(catalog *skills.Catalog) (agent.Known, error) {
	k := Known(catalog)
	servers, _, err := o.MCPServers()
	k.Servers = []string{}
	for _, s := range servers {
		k.Servers = append(k.Servers, mcp.ServerPart(s.Name))
	}
	return k, err
}

// Known is what definitions of agents may name on any node. Skills are among it if they are given.
func Known(catalog *skills.Catalog) agent.Known {
	k := agent.Known{
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
// joins an *agent.Problem for each thing that is wrong, stand those that can be used.
func (o Options) Definitions(k agent.Known) (map[string]agent.Definition, error) {
	general := agent.General()
	all := map[string]agent.Definition{general.Name: general}
	if o.Config.Agents == "" {
		return all, nil
	}
	list, err := k.Load(o.Config.Agents)
	for _, d := range list {
		all[d.Name] = d
	}
	return all, err
}

// FindDefinition finds one by its name; "" is general.
func FindDefinition(all map[string]agent.Definition, name string) (agent.Definition, error) {
	if name == "" {
		name = "general"
	}
	if d, ok := all[name]; ok {
		return d, nil
	}
	return agent.Definition{}, fmt.Errorf("agent definition %q: %w; there are %s", name, community.ErrNotFound, strings.Join(slices.Sorted(maps.Keys(all)), ", "))
}

// OfferedBy are the capabilities of the configuration that an agent answers, by the name of its definition.
func (o Options) OfferedBy() map[string][]string {
	by := map[string][]string{}
	for _, c := range o.Config.Capabilities {
		if c.Agent != "" {
			by[c.Agent] = append(by[c.Agent], c.Name)
		}
	}
	return by
}
