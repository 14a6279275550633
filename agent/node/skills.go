package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"symbio/actor"
	"symbio/agent"
	"symbio/agent/event"
	"symbio/agent/session"
	"symbio/agent/session/sqlite"
	"symbio/agent/skilluse"
	"symbio/agent/tool/skill"
	symbiov1 "symbio/proto/symbio/v1"
	"symbio/skills"
	"symbio/skills/bundled"
	"symbio/skills/choice"
)

// SkillsConfig returns the configuration of the registry of skills. It is empty
// if skills are switched off.
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
		cfg.Roots = skills.WithCompat(skills.StandardRoots(c.Home, c.Workspace(), c.Getenv, reading.Markers...), reading.Compat)
	}
	for _, dir := range c.Settings.Skills.Dirs {
		cfg.Roots = append(cfg.Roots, skills.Root{Path: dir, Scope: skills.ScopeConfig})
	}
	var err error
	if cfg.Choices, err = c.skillChoices(); err != nil && c.Logger != nil {
		c.Logger.Warn("cannot read all skills that were switched off", "err", err)
	}
	cfg.Duplicates, cfg.MaxActive, cfg.GrantTTL, cfg.IncludeFrontMatter = use.Duplicates, use.MaxActive, use.GrantTTL, use.IncludeFrontMatter
	return cfg
}

// skillChoices returns the choices of the configuration and those of `symbio
// skills disable` together. If the latter cannot be read it returns the former
// and an error.
func (c Config) skillChoices() (skills.Choices, error) {
	all := c.Settings.Skills.Choices
	off, err := c.State.SkillsOff().All()
	all.Disabled = slices.Concat(all.Disabled, choice.Choices(off).Disabled)
	return all, err
}

// SkillPrompt returns how the catalog of skills is written into system prompts.
func (c Config) SkillPrompt() skills.PromptOptions {
	use := c.Settings.Skills
	return skills.PromptOptions{
		Format: use.Initial.Format, MaxEntries: use.Initial.MaxEntries, MaxBytes: use.Initial.MaxBytes, Duplicates: use.Duplicates,
		Search: slices.Contains(use.Tools, skill.Search),
	}
}

// skillUse returns how agents use skills.
func (c Config) skillUse() agent.SkillUse {
	use := c.Settings.Skills
	return agent.SkillUse{
		Tools: use.Tools, Prompt: c.SkillPrompt(), DefaultLimit: use.Search.DefaultLimit, MaxLimit: use.Search.MaxLimit, UnknownFails: use.OnUnknown == "error",
	}
}

// useWindow is how far back the use of skills counts for the order of a catalog. After that time an
// activation would count a sixteenth.
const useWindow = 28 * 24 * time.Hour

// skillUses returns a function that returns how much each skill was used lately, by the events that
// the node keeps; nil if it keeps none.
func skillUses(sessions *session.Journal, logger *slog.Logger) func() map[string]float64 {
	if sessions == nil {
		return nil
	}
	file, ok := sessions.Store().(*sqlite.Store)
	if !ok {
		return nil
	}
	return func() map[string]float64 {
		now := time.Now()
		events, err := file.EventsOf(context.Background(), now.Add(-useWindow), "skill")
		if err != nil {
			logger.Warn("use of skills not known", "err", err)
		}
		return skilluse.Scores(events, now)
	}
}

// checkSkills applies strict_scan and on_unknown: it returns an error for
// invalid skills, and for definitions that name missing ones, if the
// configuration asks for that.
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

// rescanSkills fetches what is new on the node of skills.registry, reads again
// which skills are switched off, and searches the directories. Agents lose skills that are gone.
func (p *parts) rescanSkills(ctx context.Context) (skills.Catalog, error) {
	if err := (registryNode{p}).sync(ctx); err != nil {
		registryNode{p}.warn(err.Error())
	}
	choices, err := p.cfg.skillChoices()
	if err != nil {
		p.cfg.Logger.Warn("cannot read all skills that were switched off", "err", err)
	}
	if c, err := p.skills.Choose(ctx, choices); err != nil {
		return c, err
	}
	return p.skills.Rescan(ctx)
}

// listSkills returns the catalog for the command line, with the skills that
// agents have active. It looks at the disk: without rescan only for what has
// changed, so that a skill that was just written is in the list.
func (p *parts) listSkills(ctx context.Context, rescan bool) (*symbiov1.SkillsReply, error) {
	if p.skills == nil {
		return &symbiov1.SkillsReply{}, nil
	}
	look := p.skills.RefreshNow
	if rescan {
		look = p.rescanSkills
	}
	catalog, err := look(ctx)
	if err != nil {
		return nil, err
	}
	holders, err := p.skills.AgentsBySkill(ctx)
	return SkillsReply(catalog, holders), err
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

// SkillsReply converts a catalog to its message. held has the agents of each
// active skill by the id of the skill.
func SkillsReply(c skills.Catalog, held map[string][]string) *symbiov1.SkillsReply {
	r := &symbiov1.SkillsReply{Errors: skillProblems(c.Errors), Notes: skillProblems(c.Notes), Truncated: c.Truncated}
	for _, s := range c.Skills {
		r.Skills = append(r.Skills, &symbiov1.Skill{Id: s.ID, Name: s.Name, Description: s.Description, Path: s.Path, Scope: string(s.Scope), Enabled: s.Exposure != skills.Off, Active: len(held[s.ID]) > 0})
	}
	return r
}

// skillProblems converts problems to messages.
func skillProblems(all []skills.Problem) (out []*symbiov1.SkillProblem) {
	for _, p := range all {
		out = append(out, &symbiov1.SkillProblem{Path: p.Path, Message: p.Message()})
	}
	return out
}

// PromptOfSkills returns the text about skills that models get: the catalog, or
// with names the full text of those skills. form replaces the configured format
// unless it is "". It needs no running node.
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

// TakeSkill activates a skill in a registry of its own and returns it, so that
// a person can read it. It ignores the configured choices: a person may read
// any skill, also one that is switched off.
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
