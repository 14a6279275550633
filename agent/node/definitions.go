package node

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"symbio/agent"
	"symbio/agent/definition"
	"symbio/agent/llm/provider"
	"symbio/agent/tool/mcp"
	"symbio/agent/tool/peerskill"
	"symbio/agent/tool/skill"
	"symbio/community"
	"symbio/security/permission"
	"symbio/security/visible"
	"symbio/skills"
)

// KnownHere returns Known with the MCP servers of this machine.
func (c Config) KnownHere(catalog *skills.Catalog) (definition.Loader, error) {
	k := Known(catalog)
	servers, _, err := c.servers(nil).List()
	k.Servers = []string{}
	for _, s := range servers {
		k.Servers = append(k.Servers, mcp.ServerPart(s.Name))
	}
	return k, err
}

// Known returns the names that definitions may use on any node: tools, forms of
// model names, and the skills of catalog if it is not nil.
func Known(catalog *skills.Catalog) definition.Loader {
	k := definition.Loader{
		Tools: append(agent.ToolNames(), peerskill.Tool(nil).Spec().Name, skill.RunScript),
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

// CheckRules returns an error for each rule of the configuration whose tool does not exist.
func CheckRules(c Config) error {
	if err := errors.Join(c.Settings.Permissions.UnknownTools(ruleTools(c))...); err != nil {
		return fmt.Errorf("permissions: %w", err)
	}
	return nil
}

// ruleTools returns the tools that rules may name, without those of MCP servers.
func ruleTools(c Config) permission.Tools {
	return permission.Tools{Names: toolNames(c, Known(nil).Tools)}
}

// toolNames adds the tools of the program to names.
func toolNames(c Config, names []string) []string {
	for _, t := range c.Tools {
		names = append(names, t.Spec().Name)
	}
	return names
}

// Definitions returns the configured definitions by name, and the built-in
// general unless the configuration replaces it. If some are broken, it returns
// the others and an error that joins a *definition.Problem for each mistake.
func (c Config) Definitions(k definition.Loader) (map[string]definition.Definition, error) {
	general := definition.General()
	all := map[string]definition.Definition{general.Name: general}
	if c.Settings.Agents == "" {
		return all, nil
	}
	if k.Tools != nil {
		k.Tools = toolNames(c, k.Tools)
	}
	list, err := k.Load(c.Settings.Agents)
	for _, d := range list {
		all[d.Name] = d
	}
	return all, err
}

// Warned counts the definitions with warnings, and says in a line what the first is and how to see all; "" if there are none.
func Warned(all map[string]definition.Definition) (n int, text string) {
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if warnings := all[name].Warnings; len(warnings) > 0 {
			if n++; n == 1 {
				text = warnings[0].Error()
			}
		}
	}
	if n > 0 {
		text += "; symbio agents validate shows all"
	}
	return n, text
}

// FindDefinition returns the definition with this name; "" is general. The
// error is community.ErrNotFound and lists the known names.
func FindDefinition(all map[string]definition.Definition, name string) (definition.Definition, error) {
	if name == "" {
		name = "general"
	}
	if d, ok := all[name]; ok {
		return d, nil
	}
	return definition.Definition{}, fmt.Errorf("agent definition %q: %w%s; known are %s; the key agents names the directory of others", name, community.ErrNotFound, visible.Suggest(name, slices.Collect(maps.Keys(all))), strings.Join(slices.Sorted(maps.Keys(all)), ", "))
}

// OfferedBy returns the capabilities of the configuration that agents answer,
// by the name of the definition.
func (c Config) OfferedBy() map[string][]string {
	by := map[string][]string{}
	for _, p := range c.Settings.Capabilities {
		if p.Agent != "" {
			by[p.Agent] = append(by[p.Agent], p.Name)
		}
	}
	return by
}

// UnknownAgents returns an error for each capability whose agent has no
// definition.
func (c Config) UnknownAgents(all map[string]definition.Definition) (wrong []error) {
	for _, p := range c.Settings.Capabilities {
		if _, err := FindDefinition(all, p.Agent); p.Agent != "" && err != nil {
			wrong = append(wrong, fmt.Errorf("capability %s: %w", p.Name, err))
		}
	}
	return wrong
}

// definition is FindDefinition for the definitions of this node.
func (p *parts) definition(name string) (definition.Definition, error) {
	return FindDefinition(p.agents, name)
}
