package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"symbio/actor"
	"symbio/agent"
	"symbio/agent/event"
	"symbio/agent/tool/skill"
	symbiov1 "symbio/proto/symbio/v1"
	"symbio/skills"
	"symbio/skills/bundled"
	"symbio/skills/choice"
)

// SkillsConfig says where the skills of the node are.
func (c Config) SkillsConfig() skills.Config {
	cfg := skills.Config{
		Bundled: bundled.FS(), Trust: c.State.Skills(), Logger: c.Logger,
	}
	if !c.Settings.Skills.Enabled {
		return skills.Config{}
	}
	use, reading := c.Settings.Skills.SkillUse, c.Settings.Skills.SkillReading
	cfg.Policy = reading.Policy()
	cfg.Policy.WideGrants = c.Settings.Skills.WideGrants
	cfg.MaxDepth, cfg.MaxDirs, cfg.MaxEntries, cfg.MaxSkills = reading.MaxDepth, reading.MaxDirectories, reading.MaxEntries, reading.MaxSkills
	if c.Settings.Skills.Discover {
		cfg.Roots = skills.StandardRoots(c.Home, c.Workspace(), c.Getenv, reading.Markers...)
	}
	for _, dir := range c.Settings.Skills.Dirs {
		cfg.Roots = append(cfg.Roots, skills.Root{Path: dir, Scope: skills.ScopeConfig})
	}
	var err error
	if cfg.Choices, err = c.skillChoices(); err != nil && c.Logger != nil {
		c.Logger.Warn("not all is known that was switched off", "err", err)
	}
	cfg.Duplicates, cfg.MaxActive, cfg.GrantTTL, cfg.IncludeFrontMatter = use.Duplicates, use.MaxActive, use.GrantTTL, use.IncludeFrontMatter
	return cfg
}

// skillChoices are those of the configuration and of `symbio skills disable`. Beside an error stands what is
// known.
func (c Config) skillChoices() (skills.Choices, error) {
	all := c.Settings.Skills.Choices
	off, err := c.State.SkillsOff().All()
	all.Disabled = slices.Concat(all.Disabled, choice.Choices(off).Disabled)
	return all, err
}

// SkillPrompt says how models are shown the skills of the node.
func (c Config) SkillPrompt() skills.PromptOptions {
	use := c.Settings.Skills
	return skills.PromptOptions{
		Format: use.Initial.Format, MaxEntries: use.Initial.MaxEntries, MaxBytes: use.Initial.MaxBytes, Duplicates: use.Duplicates,
		Search: slices.Contains(use.Tools, skill.Search),
	}
}

// skillUse says how agents take skills.
func (c Config) skillUse() agent.SkillUse {
	use := c.Settings.Skills
	return agent.SkillUse{
		Tools: use.Tools, Prompt: c.SkillPrompt(), DefaultLimit: use.Search.DefaultLimit, MaxLimit: use.Search.MaxLimit, UnknownFails: use.OnUnknown == "error",
	}
}

// checkSkills holds the definitions against the skills that there are, and these against the format, where the
// configuration says so.
func (p *parts) checkSkills() error {
	if err := p.skills.Now().Err(); err != nil && p.cfg.Settings.Skills.StrictScan {
		return fmt.Errorf("skills.strict_scan: %w", err)
	}
	if p.cfg.Settings.Skills.OnUnknown != "error" {
		return nil
	}
	var unknown []error
	for _, name := range slices.Sorted(maps.Keys(p.agents)) {
		unknown = append(unknown, p.agents[name].CheckSkills(p.skills.Now().Catalog))
	}
	return errors.Join(unknown...)
}

// rescanSkills takes up what the command line has written, and what is on the disk now.
func (p *parts) rescanSkills(ctx context.Context) (skills.Catalog, error) {
	choices, err := p.cfg.skillChoices()
	if err != nil {
		p.cfg.Logger.Warn("not all is known that was switched off", "err", err)
	}
	if c, err := p.skills.Choose(ctx, choices); err != nil {
		return c, err
	}
	return p.skills.Rescan(ctx)
}

func (p *parts) listSkills(ctx context.Context, rescan bool) (*symbiov1.SkillsReply, error) {
	if p.skills == nil {
		return &symbiov1.SkillsReply{}, nil
	}
	look := p.skills.Refresh
	if rescan {
		look = p.rescanSkills
	}
	catalog, err := look(ctx)
	if err != nil {
		return nil, err
	}
	holders, err := p.skills.AgentsBySkill(ctx)
	if err != nil {
		return nil, err
	}
	return SkillsReply(catalog, holders), nil
}

// maxSkillWarnings bounds the warnings about skills at the start of a node.
const maxSkillWarnings = 10

// warnOfSkills reports what was left out of the catalog, or noticed about it.
func (p *parts) warnOfSkills() {
	if p.skills == nil {
		return
	}
	c := p.skills.Now()
	all := slices.Concat(c.Errors, c.Notes)
	for i, problem := range all {
		if i == maxSkillWarnings {
			p.events.Warn(event.Warning{Why: fmt.Sprintf("%d more about skills", len(all)-i), Mend: "see all: symbio skills list"})
			return
		}
		p.events.Warn(event.Warning{Why: "skills: " + problem.Path + ": " + problem.Message()})
	}
}

// SkillsReply is a catalog as the command line gets it. held are the ids of the skills that agents have.
func SkillsReply(c skills.Catalog, held map[string][]string) *symbiov1.SkillsReply {
	r := &symbiov1.SkillsReply{Errors: skillProblems(c.Errors), Notes: skillProblems(c.Notes), Truncated: c.Truncated}
	for _, s := range c.Skills {
		r.Skills = append(r.Skills, &symbiov1.Skill{Id: s.ID, Name: s.Name, Description: s.Description, Path: s.Path, Scope: string(s.Scope), Enabled: s.Exposure != skills.Off, Active: len(held[s.ID]) > 0})
	}
	return r
}

func skillProblems(all []skills.Problem) (out []*symbiov1.SkillProblem) {
	for _, p := range all {
		out = append(out, &symbiov1.SkillProblem{Path: p.Path, Message: p.Message()})
	}
	return out
}

// PromptOfSkills is what models are shown of the node's skills: the catalog, or with names those skills in full. form takes
// the place of the configured format unless it is "".
func (c Config) PromptOfSkills(ctx context.Context, form string, names []string) (*symbiov1.SkillPromptReply, error) {
	cfg, o := c.SkillsConfig(), c.SkillPrompt()
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
		one, err := TakeSkill(ctx, cfg, name)
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

// TakeSkill takes a skill from a registry of its own, as whoever may: a person who wants to read it may read any,
// also one that is switched off.
func TakeSkill(ctx context.Context, cfg skills.Config, name string) (_ skills.Activation, err error) {
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
