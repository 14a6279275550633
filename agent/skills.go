package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"symbio/agent/tool"
	"symbio/agent/tool/skill"
	"symbio/security/permission"
	"symbio/skills"
)

// SkillUse says how agents are shown skills and take them. The zero value is usable.
type SkillUse struct {
	// Tools are the tools for skills that agents have, of skill.Names(). Default: skill.Default().
	Tools []string
	// Prompt says how the catalog is shown, and by which rule names are resolved; Omit and Search are set for
	// each agent.
	Prompt skills.PromptOptions
	// DefaultLimit and MaxLimit of a search; see skill.Config.
	DefaultLimit, MaxLimit int
	// UnknownFails makes a definition that names a skill which there is not an error of the spawn. Default: it
	// is missed, and said so.
	UnknownFails bool
}

// CheckSkills returns an error that names each skill of the definition which the catalog does not have
// (spec: skills-orchestration.md, validation).
func (d Definition) CheckSkills(c skills.Catalog) error {
	var unknown []error
	for _, name := range d.Skills {
		if !c.Contains(name) {
			unknown = append(unknown, fmt.Errorf("Agent '%s' references unknown skill: %s", d.Name, name)) // the text is the spec's
		}
	}
	return errors.Join(unknown...)
}

// shelf is what an agent knows of its skills. Only Receive touches it, and the tools that it waits for.
type shelf struct {
	prepared  bool
	preloaded string          // the texts of the definition's skills
	has       map[string]bool // their ids

	epoch    int    // how often messages were lost that may have held a skill's text
	took     bool   // a skill was taken in this task
	attached int    // the epoch for which again was made
	again    string // the texts of skills that the conversation lost

	of    *skills.Snapshot // what shown was made of; nil = nothing yet
	shown string           // the catalog, for the system prompt

	denied denied
}

// denied remembers which skills of a catalog nothing would let the agent take: what it may do does not change in
// its life, and a catalog may be long.
type denied struct {
	mu sync.Mutex
	of *skills.Snapshot // guarded by mu
	by map[string]bool  // the skill's id; guarded by mu
}

func (d *denied) skill(now *skills.Snapshot, id string, judge func() bool) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.of != now {
		d.of, d.by = now, map[string]bool{}
	}
	answer, known := d.by[id]
	if !known {
		answer = judge()
		d.by[id] = answer
	}
	return answer
}

// skillTools are the agent's tools for skills.
func (a *Agent) skillTools() []tool.Tool {
	use := a.life.factory.cfg.SkillUse
	shown := use.Prompt
	shown.Omit = a.omits
	return skill.Tools(skill.Config{
		Registry: trusting{a.life.factory.cfg.Skills, a}, Agent: string(a.life.self.ID), Names: use.Tools, Shown: shown,
		DefaultLimit: use.DefaultLimit, MaxLimit: use.MaxLimit,
		Epoch: func() int { return a.shelf.epoch },
		Took: func(name string) {
			a.shelf.took = true
			a.report(Event{Type: EventSkill, Text: name})
		},
	})
}

// omits reports whether a skill is not to be shown to the agent: it has it from the start, or nothing would let
// it take the skill.
func (a *Agent) omits(s skills.Skill) bool {
	taking := a.takesBy()
	if taking == "" || a.shelf.has[s.ID] {
		return true
	}
	return a.shelf.denied.skill(a.life.factory.cfg.Skills.Now(), s.ID, func() bool {
		call := permission.Call{Tool: taking, Args: map[string]any{"skillName": s.Name}, Dir: a.life.factory.cfg.Dir, Within: a.life.ownGuardrails()}
		return a.life.links(nil).Judge(call).Action == permission.Deny
	})
}

// takesBy is the tool by which the agent takes skills; "" = it has none.
func (a *Agent) takesBy() string {
	for _, name := range []string{skill.Activate, skill.Load} {
		if a.hasTool(name) {
			return name
		}
	}
	return ""
}

// hasTool reports whether the agent has one of the tools for skills.
func (a *Agent) hasTool(name string) bool {
	l := a.life
	names := l.factory.cfg.SkillUse.Tools
	if names == nil {
		names = skill.Default()
	}
	return slices.Contains(names, name) && l.def.has(name) && (l.keep == nil || slices.Contains(l.keep, name))
}

// ready makes the agent's skills what they are to be for the next task.
func (a *Agent) ready(ctx context.Context) error {
	registry := a.life.factory.cfg.Skills
	if registry == nil {
		return nil
	}
	id := string(a.life.self.ID)
	if err := registry.EndTurn(ctx, id); err != nil {
		return fmt.Errorf("the skills of the last task: %w", err)
	}
	a.shelf.took = false
	if _, err := registry.Refresh(ctx); err != nil { // then what is known has to do
		a.life.factory.cfg.Logger.Warn("skills not looked at again", "agent", a.life.self.ID, "err", err)
	}
	a.preload(ctx)
	return a.reattach(ctx)
}

// reattach has the texts of active skills that the conversation lost in the system prompt.
func (a *Agent) reattach(ctx context.Context) error {
	registry := a.life.factory.cfg.Skills
	if registry == nil || a.shelf.attached == a.shelf.epoch {
		return nil
	}
	all, err := registry.Reattach(ctx, string(a.life.self.ID), a.shelf.epoch, skills.ReattachBudget{})
	if err != nil {
		return fmt.Errorf("the texts of active skills: %w", err)
	}
	a.shelf.attached, a.shelf.again = a.shelf.epoch, ""
	for _, one := range all {
		if !a.shelf.has[one.Skill.ID] { // else it is in every prompt
			a.shelf.again += "\n\n" + one.Text()
		}
	}
	return nil
}

// lose notes that messages are gone from the conversation.
func (s *shelf) lose() { s.epoch++ }

// preload activates the skills that the definition names, before the first task. One that is missing
// is missed, not an end (skills: C27).
func (a *Agent) preload(ctx context.Context) {
	if a.shelf.prepared {
		return
	}
	a.shelf.prepared, a.shelf.has = true, map[string]bool{}
	var all []skills.Activation
	for _, name := range a.life.def.Skills {
		one, err := trusting{a.life.factory.cfg.Skills, a}.Take(ctx, skills.Want{Agent: string(a.life.self.ID), Name: name, By: skills.ByDefinition})
		switch {
		case errors.Is(err, skills.ErrNotFound):
			a.notice(fmt.Sprintf("Warning: Skill '%s' not found", name))
			a.life.factory.cfg.Logger.Warn("skill not found", "agent", a.life.self.ID, "skill", name)
		case err != nil:
			a.notice(fmt.Sprintf("Error loading skill '%s': %v", name, err))
			a.life.factory.cfg.Logger.Warn("skill not loaded", "agent", a.life.self.ID, "skill", name, "err", err)
		case !a.shelf.has[one.Skill.ID]:
			a.shelf.has[one.Skill.ID] = true
			all = append(all, one)
			a.report(Event{Type: EventSkill, Text: one.Skill.Name})
			a.notice(strings.TrimSuffix(fmt.Sprintf("Loaded skill: %s v%s", one.Skill.Name, one.Skill.Version()), " v"))
		}
	}
	a.shelf.preloaded = skills.PreloadPrompt(all)
}

func (a *Agent) notice(text string) { a.report(Event{Type: EventNotice, Text: text}) }

// skillPrompt is what of skills stands in the system prompt: the catalog, the definition's, and those whose
// texts the conversation has lost.
func (a *Agent) skillPrompt() string {
	registry := a.life.factory.cfg.Skills
	if registry == nil {
		return ""
	}
	if now := registry.Now(); a.shelf.of != now {
		o := a.life.factory.cfg.SkillUse.Prompt
		o.Omit, o.Search = a.omits, a.hasTool(skill.Search)
		r := skills.Render(now.Catalog, o)
		a.shelf.of, a.shelf.shown = now, r.Text
		a.catalogShown(r)
	}
	var b strings.Builder
	if a.shelf.shown != "" {
		b.WriteString("\n\n" + a.shelf.shown)
	}
	if a.shelf.preloaded != "" {
		b.WriteString("\n\n" + strings.TrimRight(a.shelf.preloaded, "\n"))
	}
	b.WriteString(a.shelf.again)
	return b.String()
}

// mostNamed bounds the names in an event about a catalog.
const mostNamed = 20

func (a *Agent) catalogShown(r skills.Rendered) {
	if r.Text == "" {
		return
	}
	a.report(Event{Type: EventCatalog, Text: strings.Join(r.Listed[:min(len(r.Listed), mostNamed)], ", "), Total: float64(len(r.Listed) + len(r.Dropped))})
	if r.Truncated() {
		a.life.factory.cfg.Logger.Info("catalog of skills shortened", "agent", a.life.self.ID, "shortened", len(r.Shortened), "dropped", len(r.Dropped))
	}
}

// named takes the skills that a person names in a message, and returns what their agent's model is to read with
// it. The person's word is enough where a rule would ask; a denial stands.
func (a *Agent) named(ctx context.Context, message string) string {
	registry := a.life.factory.cfg.Skills
	if registry == nil {
		return ""
	}
	var b strings.Builder
	note := func(m skills.Mention, err error) {
		text := fmt.Sprintf("The message names the skill %s, which was not taken: %v", cmp.Or(m.Path, "$"+m.Name), err)
		a.notice(text)
		b.WriteString("\n\n[" + text + "]")
	}
	for _, m := range skills.Mentions(message) {
		catalog := registry.Now().Catalog
		found, err := catalog.Resolve(cmp.Or(m.Path, m.Name), a.life.factory.cfg.SkillUse.Prompt.Duplicates)
		if errors.Is(err, skills.ErrNotFound) && m.Path == "" && !slices.ContainsFunc(catalog.Names(), func(n string) bool { return strings.EqualFold(n, m.Name) }) {
			continue // some $word
		}
		if err == nil {
			err = a.allowNamed(found)
		}
		var one skills.Activation
		if err == nil {
			one, err = trusting{registry, a}.Take(ctx, skills.Want{Agent: string(a.life.self.ID), Path: found.Path, By: skills.ByPerson, Epoch: a.shelf.epoch})
		}
		if err != nil {
			note(m, err)
			continue
		}
		a.shelf.took = true
		a.report(Event{Type: EventSkill, Text: one.Skill.Name})
		b.WriteString("\n\n" + one.Context())
	}
	return b.String()
}

var errDeniedSkill = errors.New("denied")

// allowNamed judges and records that a person has the agent take a skill.
func (a *Agent) allowNamed(s skills.Skill) error {
	call := permission.Call{Tool: skill.Activate, Args: map[string]any{"skillName": s.Name}, Dir: a.life.factory.cfg.Dir, Within: a.life.ownGuardrails()}
	d := tool.Decision{Agent: string(a.life.self.ID), Tool: call.Tool, Args: call.Args, Verdict: a.life.links(nil).Judge(call), By: "the message"}
	d.Approved = d.Verdict.Action != permission.Deny
	if err := a.decided(d); err != nil {
		return fmt.Errorf("the decision could not be recorded: %w", err)
	}
	if !d.Approved {
		return fmt.Errorf("%w: %s", errDeniedSkill, d.Verdict.Why)
	}
	return nil
}
