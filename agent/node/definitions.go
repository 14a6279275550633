package node

import (
	"errors"
	"fmt"

	"symbio/agent/definition"
	"symbio/agent/tool/mcp"
	"symbio/internal/agent/node/models"
	"symbio/internal/agent/node/tools"
	"symbio/security/permission"
	"symbio/skills"
)

// KnownHere returns Known with the MCP servers of this machine.
func (c Config) KnownHere(catalog *skills.Catalog) (definition.Loader, error) {
	k := Known(catalog)
	servers, _, err := c.Servers(nil).List()
	k.Servers = []string{}
	for _, s := range servers {
		k.Servers = append(k.Servers, mcp.ServerPart(s.Name))
	}
	return k, err
}

// Known returns the names that definitions may use on any node: tools, forms of
// model names, and the skills of catalog if it is not nil.
func Known(catalog *skills.Catalog) definition.Loader {
	k := definition.Loader{Tools: tools.Names(), Model: models.Check}
	if catalog != nil {
		k.Skills = append([]string{}, catalog.Names()...)
	}
	return k
}

// CheckRules returns an error for each rule of the configuration whose tool does not exist.
func CheckRules(c Config) error {
	if err := errors.Join(c.Settings.Permissions.UnknownTools(c.RuleTools())...); err != nil {
		return fmt.Errorf("permissions: %w", err)
	}
	return nil
}

// RuleTools returns the tools that rules may name, without the tools of MCP servers.
func (c Config) RuleTools() permission.Tools {
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
func (c Config) Definitions(k definition.Loader) (definition.Set, error) {
	general := definition.General()
	all := definition.Set{general.Name: general}
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

// UnknownAgents returns an error for each capability whose agent has no
// definition.
func (c Config) UnknownAgents(all definition.Set) (wrong []error) {
	for _, p := range c.Settings.Capabilities {
		if _, err := all.Find(p.Agent); p.Agent != "" && err != nil {
			wrong = append(wrong, fmt.Errorf("capability %s: %w", p.Name, err))
		}
	}
	return wrong
}
