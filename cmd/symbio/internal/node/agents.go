package node

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"

	"symbio/agent"
	"symbio/cmd/symbio/internal/config"
	"symbio/community"
	symbiov1 "symbio/proto/symbio/v1"
	"symbio/skills"
	"symbio/skills/bundled"
)

// Workspace is the directory in which agents work.
func (o Options) Workspace() string {
	dir := o.Config.Workspace
	if dir == "" {
		return o.Dir
	}
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(o.Dir, dir)
	}
	return dir
}

// definitions are the configured agents, and general, unless one of that name is configured. One
// that cannot be read is an error: an agent that somebody counts on must not be missing silently.
func (n *Node) definitions() (map[string]agent.Definition, error) {
	general := agent.General()
	all := map[string]agent.Definition{general.Name: general}
	if n.opts.Config.Agents == "" {
		return all, nil
	}
	list, err := agent.LoadDefinitions(n.opts.Config.Agents)
	if err != nil {
		return nil, fmt.Errorf("agents: %w", err)
	}
	for _, d := range list {
		all[d.Name] = d
	}
	return all, nil
}

// definition finds an agent's definition; "" is general.
func (n *Node) definition(name string) (agent.Definition, error) {
	if name == "" {
		name = "general"
	}
	if d, ok := n.agents[name]; ok {
		return d, nil
	}
	return agent.Definition{}, fmt.Errorf("agent definition %q: %w", name, community.ErrNotFound)
}

// concurrency is how many calls of one capability are served at a time, unless it says otherwise: each
// is a process or an agent with a model.
const concurrency = 16

func usual(c config.Capability) int {
	if c.Model != "" {
		return modelConcurrency
	}
	return concurrency
}

// offer offers the configured capabilities to other nodes, and node.info.
func (n *Node) offer() error {
	info := community.Capability{Name: "node.info", Description: "What this node is: name, version, system, how long it has been up.", Idempotent: true,
		Output: json.RawMessage(`{"type":"object","required":["name","id","version","protocol","system"]}`)}
	problems := []error{n.community.Offer(info, n.info)}
	for _, c := range n.opts.Config.Capabilities {
		capability, provider, err := n.capability(c)
		if err == nil {
			err = n.community.Offer(capability, provider, community.WithTimeout(c.Timeout), community.WithConcurrency(cmp.Or(c.Concurrency, usual(c))))
		}
		if err != nil {
			problems = append(problems, fmt.Errorf("capabilities: %s: %w", c.Name, err))
		}
	}
	return errors.Join(problems...)
}

// SkillsConfig says where the skills of a node with these options are.
func SkillsConfig(o Options) skills.Config {
	cfg := skills.Config{Bundled: bundled.FS(), Logger: o.Logger}
	if !o.Config.Skills.Enabled {
		return skills.Config{}
	}
	if o.Config.Skills.Discover {
		cfg.Roots = skills.StandardRoots(o.Home, o.Workspace(), o.Getenv)
	}
	for _, dir := range o.Config.Skills.Dirs {
		cfg.Roots = append(cfg.Roots, skills.Root{Path: dir, Scope: skills.ScopeConfig})
	}
	return cfg
}

func (n *Node) listSkills(ctx context.Context) (*symbiov1.SkillsReply, error) {
	reply := &symbiov1.SkillsReply{}
	if n.skills == nil {
		return reply, nil
	}
	catalog, err := n.skills.Catalog(ctx)
	if err != nil {
		return nil, toStatus(err)
	}
	for _, p := range catalog.Errors {
		reply.Errors = append(reply.Errors, p.Path+": "+p.Message())
	}
	for _, s := range catalog.Skills {
		reply.Skills = append(reply.Skills, &symbiov1.Skill{Id: s.ID, Name: s.Name, Description: s.Description, Path: s.Path, Scope: string(s.Scope), Enabled: true})
	}
	return reply, nil
}
