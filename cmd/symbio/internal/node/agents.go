package node

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"symbio/agent"
	"symbio/agent/tool/skill"
	"symbio/cmd/symbio/internal/config"
	"symbio/community"
	symbiov1 "symbio/proto/symbio/v1"
	"symbio/skills"
	"symbio/skills/bundled"
	"symbio/skills/choice"
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

// definition finds an agent's definition; "" is general.
func (n *Node) definition(name string) (agent.Definition, error) {
	return FindDefinition(n.agents, name)
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

// offer offers the configured capabilities to other nodes, node.info, and the approvals.
func (n *Node) offer() error {
	info := community.Capability{Name: "node.info", Description: "What this node is: name, version, system, how long it has been up.", Idempotent: true,
		Output: json.RawMessage(`{"type":"object","required":["name","id","version","protocol","system"]}`)}
	problems := []error{n.community.Offer(info, n.info), n.offerApprovals(), n.offerSteering(), n.shareSkills()}
	for _, c := range n.opts.Config.Capabilities {
		if c.MCP != "" {
			continue // offered when its server is ready
		}
		if c.Lends() {
			if err := n.offerLending(c); err != nil {
				problems = append(problems, fmt.Errorf("capabilities: %s: %w", c.Name, err))
			}
			continue
		}
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
	cfg := skills.Config{
		Bundled: bundled.FS(), Trust: o.State.Skills(), Logger: o.Logger,
	}
	if !o.Config.Skills.Enabled {
		return skills.Config{}
	}
	use, reading := o.Config.Skills.SkillUse, o.Config.Skills.SkillReading
	cfg.Policy = reading.Policy()
	cfg.Policy.WideGrants = o.Config.Skills.WideGrants
	cfg.MaxDepth, cfg.MaxDirs, cfg.MaxEntries, cfg.MaxSkills = reading.MaxDepth, reading.MaxDirectories, reading.MaxEntries, reading.MaxSkills
	cfg.RootsFor = func(dir string) (roots []skills.Root) {
		if o.Config.Skills.Discover {
			roots = skills.StandardRoots(o.Home, dir, o.Getenv, reading.Markers...)
		}
		for _, dir := range o.Config.Skills.Dirs {
			roots = append(roots, skills.Root{Path: dir, Scope: skills.ScopeConfig})
		}
		return roots
	}
	cfg.Roots = cfg.RootsFor(o.Workspace())
	var err error
	if cfg.Choices, err = skillChoices(o); err != nil && o.Logger != nil {
		o.Logger.Warn("not all is known that was switched off", "err", err)
	}
	cfg.Duplicates, cfg.MaxActive, cfg.GrantTTL, cfg.IncludeFrontMatter = use.Duplicates, use.MaxActive, use.GrantTTL, use.IncludeFrontMatter
	return cfg
}

// skillChoices are those of the configuration and of `symbio skills disable`. Beside an error stands what is
// known.
func skillChoices(o Options) (skills.Choices, error) {
	c := o.Config.Skills.Choices
	off, err := o.State.SkillsOff().All()
	c.Disabled = slices.Concat(c.Disabled, choice.Choices(off).Disabled)
	return c, err
}

// SkillPrompt says how models are shown the skills of a node with these options.
func SkillPrompt(o Options) skills.PromptOptions {
	use := o.Config.Skills
	return skills.PromptOptions{
		Format: use.Initial.Format, MaxEntries: use.Initial.MaxEntries, MaxBytes: use.Initial.MaxBytes, Duplicates: use.Duplicates,
		Search: slices.Contains(use.Tools, skill.Search),
	}
}

// skillUse says how agents take skills.
func (n *Node) skillUse() agent.SkillUse {
	use := n.opts.Config.Skills
	return agent.SkillUse{
		Tools: use.Tools, Prompt: SkillPrompt(n.opts), DefaultLimit: use.Search.DefaultLimit, MaxLimit: use.Search.MaxLimit, UnknownFails: use.OnUnknown == "error",
	}
}

// checkSkills holds the definitions against the skills that there are, and these against the format, where the
// configuration says so.
func (n *Node) checkSkills() error {
	if n.skills == nil {
		return nil
	}
	if err := n.skills.Now().Err(); err != nil && n.opts.Config.Skills.StrictScan {
		return fmt.Errorf("skills.strict_scan: %w", err)
	}
	if n.opts.Config.Skills.OnUnknown != "error" {
		return nil
	}
	var unknown []error
	for _, name := range slices.Sorted(maps.Keys(n.agents)) {
		unknown = append(unknown, n.agents[name].CheckSkills(n.skills.Now().Catalog))
	}
	return errors.Join(unknown...)
}

// rescanSkills takes up what the command line has written, and what is on the disk now.
func (n *Node) rescanSkills(ctx context.Context) (skills.Catalog, error) {
	choices, err := skillChoices(n.opts)
	if err != nil {
		n.log.Warn("not all is known that was switched off", "err", err)
	}
	if c, err := n.skills.Choose(ctx, choices); err != nil {
		return c, err
	}
	return n.skills.Rescan(ctx)
}

func (n *Node) listSkills(ctx context.Context, rescan bool) (*symbiov1.SkillsReply, error) {
	reply := &symbiov1.SkillsReply{}
	if n.skills == nil {
		return reply, nil
	}
	look := n.skills.Refresh
	if rescan {
		look = n.rescanSkills
	}
	catalog, err := look(ctx)
	if err != nil {
		return nil, toStatus(err)
	}
	holders, err := n.skills.Holders(ctx)
	if err != nil {
		return nil, toStatus(err)
	}
	for _, p := range catalog.Errors {
		reply.Errors = append(reply.Errors, p.Path+": "+p.Message())
	}
	for _, s := range catalog.Skills {
		reply.Skills = append(reply.Skills, &symbiov1.Skill{Id: s.ID, Name: s.Name, Description: s.Description, Path: s.Path, Scope: string(s.Scope), Enabled: s.Exposure != skills.Off, Active: len(holders[s.ID]) > 0})
	}
	return reply, nil
}
