package skillset

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"symbio/actor"
	"symbio/agent"
	"symbio/agent/node/config"
	"symbio/agent/tool/skill"
	"symbio/internal/agent/node/state"
	"symbio/internal/skills/bundled"
	"symbio/internal/skills/choice"
	"symbio/internal/skills/share"
	symbiov1 "symbio/proto/symbio/v1"
	"symbio/skills"
)

// Config says which skills a node has, and how its agents use them. It needs no running node.
type Config struct {
	Settings        config.Skills
	State           state.Dir
	Home, Workspace string
	Getenv          func(string) string
	Logger          *slog.Logger // nil = silent
}

// Registry returns the configuration of the registry of skills. It is empty
// if skills are switched off.
func (c Config) Registry() skills.Config {
	cfg := skills.Config{Bundled: bundled.FS(), Trust: c.State.Skills(), Logger: c.Logger}
	if !c.Settings.Enabled {
		return skills.Config{}
	}
	cfg.Policy = c.Settings.Policy()
	if c.Settings.Discover {
		cfg.Roots = skills.WithCompat(skills.StandardRoots(c.Home, c.Workspace, c.Getenv), c.Settings.Compat)
	}
	for _, dir := range c.Settings.Dirs {
		cfg.Roots = append(cfg.Roots, skills.Root{Path: dir, Scope: skills.ScopeConfig})
	}
	var err error
	if cfg.Choices, err = c.choices(); err != nil && c.Logger != nil {
		c.Logger.Warn("cannot read all skills that were switched off", "err", err)
	}
	cfg.MaxActive, cfg.GrantTTL = c.Settings.MaxActive, c.Settings.GrantTTL
	return cfg
}

// choices returns the choices of the configuration and of `symbio
// skills disable` together. If the latter cannot be read it returns the former
// and an error.
func (c Config) choices() (skills.Choices, error) {
	all := c.Settings.Choices
	off, err := c.State.SkillsOff().All()
	all.Disabled = slices.Concat(all.Disabled, choice.Choices(off).Disabled)
	return all, err
}

// Prompt returns how the catalog of skills is written into system prompts.
func (c Config) Prompt() skills.PromptOptions {
	return skills.PromptOptions{
		MaxEntries: c.Settings.Initial.MaxEntries, MaxBytes: c.Settings.Initial.MaxBytes, Search: slices.Contains(c.Settings.Tools, skill.Search),
	}
}

// Use returns how agents use skills.
func (c Config) Use() agent.SkillUse {
	use := c.Settings
	return agent.SkillUse{Tools: use.Tools, Prompt: c.Prompt(), UnknownFails: use.OnUnknown == "error"}
}

// Trust stores that a person trusts a skill of a project with these rules.
func (c Config) Trust(s skills.Skill, hash string, rules []string) error {
	return c.State.Skills().Trust(s, hash, rules, share.Origin{}, nil)
}

// PromptText returns the text about skills that models get: the catalog, or
// with names the full text of those skills. form replaces the configured format
// unless it is "".
func (c Config) PromptText(ctx context.Context, form string, names []string) (*symbiov1.SkillPromptReply, error) {
	cfg, o := c.Registry(), c.Prompt()
	o.Format = cmp.Or(skills.PromptFormat(form), o.Format)
	if len(names) == 0 {
		catalog, err := skills.Scan(ctx, cfg)
		r := skills.Render(catalog, o)
		return &symbiov1.SkillPromptReply{Text: r.Text, Bytes: uint32(len(r.Text)), Listed: r.Listed, Shortened: r.Shortened, Dropped: r.Dropped}, err
	}
	reply := &symbiov1.SkillPromptReply{}
	var notes []string
	var all []skills.Activation
	for _, name := range names {
		one, err := c.Take(ctx, cfg, name)
		if err != nil {
			return nil, err
		}
		why := map[skills.Exposure]string{skills.Off: "it is off", skills.PeopleOnly: "for people only"}[cfg.Choices.Exposure(one.Skill)]
		if why != "" {
			notes = append(notes, fmt.Sprintf("no definition can give %s to an agent: %s", one.Skill.Name, why))
		}
		all, reply.Listed = append(all, one), append(reply.Listed, one.Skill.Name)
	}
	reply.Text = skills.PreloadPrompt(all)
	reply.Bytes = uint32(len(reply.Text))
	if len(notes) > 0 {
		reply.Notes = new(strings.Join(notes, "\n"))
	}
	return reply, nil
}

// Take activates a skill in a registry of its own and returns it, so that
// a person can read it. It ignores the configured choices: a person may read
// any skill, also one that is switched off.
func (Config) Take(ctx context.Context, cfg skills.Config, name string) (_ skills.Activation, err error) {
	system := actor.NewSystem(actor.Config{})
	defer func() { err = errors.Join(err, system.Shutdown(ctx)) }()
	cfg.Choices = skills.Choices{}
	registry, err := skills.NewRegistry(system, cfg)
	if err != nil {
		return skills.Activation{}, err
	}
	found, err := registry.Now().Resolve(name, cfg.Duplicates)
	if err != nil {
		return skills.Activation{}, err
	}
	if found.ModelOnly && found.UserOnly { // no agent and no person may take it, so it grants nothing
		skill, text, hash, err := skills.LoadFull(found.Dir, cfg.Policy)
		skill.Scope = found.Scope
		return skills.Activation{Skill: skill, Instructions: text, Hash: hash}, err
	}
	want := skills.ActivateRequest{Agent: "show", Path: found.Path, By: skills.ByPerson}
	if found.ModelOnly {
		want.By = skills.ByModel
	}
	return registry.Activate(ctx, want)
}
