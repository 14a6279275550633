package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"symbio/agent/conversation"
	"symbio/agent/event"
	"symbio/agent/session"
	"symbio/agent/tool"
	"symbio/agent/tool/skill"
	"symbio/security/permission"
	"symbio/skills"
)

// SkillUse configures how agents see and activate skills. The zero value is usable.
type SkillUse struct {
	// Tools are the tools for skills that agents have, of skill.Names(). Default: skill.Default().
	Tools []string
	// Prompt configures the catalog in the system prompt and how names are resolved. Omit and
	// Search are set for each agent.
	Prompt skills.PromptOptions
	// DefaultLimit and MaxLimit bound the results of a search; see skill.Config.
	DefaultLimit, MaxLimit int
	// Uses returns how much each skill was used lately, for the order of a catalog that is too long; nil
	// = not known. An agent calls it once at most, so that its catalog keeps its order.
	Uses func() map[string]float64
	// UnknownFails makes Spawn fail if a definition names an unknown skill. Default: the agent
	// starts without the skill and reports it.
	UnknownFails bool
	// Trust stores that a person trusts a skill with these rules. hash is the SHA-256 of its SKILL.md.
	// Default: a person's approval holds for the one activation.
	Trust func(s skills.Skill, hash string, rules []string) error
}

// agentSkills manages the skills of one agent: the skills of its definition, the ones that it activated,
// and the catalog in its system prompt. It needs no lock: only Receive and the tools that Receive
// waits for use it.
type agentSkills struct {
	order    *Order
	approver *approver
	fork     func(context.Context, skills.ActivateRequest, skills.Skill) (string, error) // runs a skill in a sub-agent
	// Its Registry is nil if the node has no skills; then the methods do nothing.
	registry trustingRegistry
	rules    skillRules
	catalog  skillCatalog

	prepared  bool
	preloaded string              // the texts of the definition's skills
	lent      []skills.Activation // the borrower's skills that takeLent activated

	epoch       int    // counts how often the conversation lost messages that may have had a skill's text
	takenInTask bool   // a skill was activated in this task
	forkLost    bool   // the task goes on, and a sub-agent that it began may have been a skill's
	attached    int    // the epoch for which reattached was built
	reattached  string // the texts of skills that the conversation lost
}

// newAgentSkills returns the skills of an agent that has activated none. The caller sets fork.
func newAgentSkills(i *instance) *agentSkills {
	cfg := &i.factory.cfg
	s := &agentSkills{order: &i.order, approver: i.approver, rules: skillRules{registry: cfg.Skills, def: &i.order.Definition, approver: i.approver}}
	s.registry = trustingRegistry{cfg.Skills, i.approver, s.rules.mayDepend}
	if uses := cfg.SkillUse.Uses; uses != nil {
		s.catalog.uses = sync.OnceValue(uses)
	}
	return s
}

// enabled reports whether the node has skills.
func (s *agentSkills) enabled() bool { return s.registry.Registry != nil }

// use returns the node's settings for skills.
func (s *agentSkills) use() *SkillUse { return &s.approver.cfg.SkillUse }

// id names the agent for the registry.
func (s *agentSkills) id() string { return string(s.approver.permissions.self.ID) }

// tools returns the agent's tools for skills; none if the node has no skills.
func (s *agentSkills) tools() []tool.Tool {
	if !s.enabled() {
		return nil
	}
	use := s.use()
	shown := use.Prompt
	shown.Omit = s.rules.omits
	return skill.Tools(skill.Config{
		Registry: s.registry, Agent: s.id(), Names: use.Tools, Shown: shown,
		DefaultLimit: use.DefaultLimit, MaxLimit: use.MaxLimit,
		Epoch:       func() int { return s.epoch },
		OnActivated: s.onTaken,
		Fork:        s.fork,
	})
}

// onTaken records and reports that the agent activated a skill in this task.
func (s *agentSkills) onTaken(name string) {
	s.takenInTask = true
	s.approver.events.report(event.Event{Type: event.TypeSkill, Text: name})
}

// dirs returns the directories of the agent's active skills, which its file tools may read.
// Sub-agents do not inherit them.
func (s *agentSkills) dirs() []string {
	if !s.enabled() {
		return nil
	}
	return s.registry.Dirs(s.id())
}

// prepare releases the skills of the last task, unless that goes on, looks for new ones, and activates
// the skills of the definition before the first task, and the skills of the agent's earlier lives. It returns
// sentences for the model about skills that are not active any more.
func (s *agentSkills) prepare(ctx context.Context, resume bool) (note string, err error) {
	if !s.enabled() {
		return "", nil
	}
	if !resume {
		if err := s.registry.EndTurn(ctx, s.id()); err != nil {
			return "", fmt.Errorf("the skills of the last task: %w", err)
		}
	}
	s.takenInTask = false
	s.forkLost = resume && slices.ContainsFunc(session.Latest(s.approver.record.past), func(e session.Entry) bool { return e.Kind == session.Child })
	s.refresh(ctx, s.registry.Refresh)
	first := !s.prepared
	if err := s.preload(ctx); err != nil {
		return "", err
	}
	if first {
		note = s.restore(ctx, resume)
	}
	return note, s.reattach(ctx)
}

// restore activates the skills again that were active when the agent ended, with their grants, if
// SKILL.md, trust and rules are as they were. It returns a sentence for the model about each other one.
func (s *agentSkills) restore(ctx context.Context, resume bool) (note string) {
	past := s.approver.record.past
	if s.registry.EndsWithTurn() {
		if past = session.Latest(past); !resume {
			past = nil
		}
	}
	for _, e := range session.ActiveSkills(past) {
		if err := s.activateAgain(ctx, e.Skill); err != nil {
			s.approver.record.add(session.Entry{Kind: session.Skill, Text: e.Text, Skill: &session.SkillUse{}})
			note += fmt.Sprintf("[The skill %s is not active any more, and its grants have ended: %v. Activate it again if you need it.]\n\n", e.Text, err)
		} else if slices.ContainsFunc(past, func(later session.Entry) bool {
			return later.ID > e.ID && (later.Kind == session.Compaction || later.Kind == session.End && later.Status != session.Done)
		}) {
			s.epoch++ // the history may have lost its text
		}
	}
	return note
}

// activateAgain activates a skill as it was. The error says, for the model, why it is not active.
func (s *agentSkills) activateAgain(ctx context.Context, was *session.SkillUse) error {
	found, err := s.registry.Now().Resolve(was.Path, s.use().Prompt.Duplicates)
	switch {
	case err != nil || found.Path != was.Path:
		return errors.New("it does not exist any more")
	case s.rules.preloaded[found.ID]:
		return nil
	case s.approver.permissions.links(nil).Judge(s.rules.call(skill.Activate, found)).Action == permission.Deny:
		return errDeniedSkill
	}
	all := s.registry.Registry // no person is asked: what a person has accepted was accepted for this SKILL.md
	now, err := all.Activate(ctx, skills.ActivateRequest{Agent: s.id(), Path: was.Path, By: skills.Initiator(was.By), Arguments: was.Arguments,
		Epoch: s.epoch, May: s.rules.mayDepend})
	with := dependencies(now)
	if err == nil && was.Accepted && now.Hash == was.Hash {
		now, err = all.Accept(ctx, s.id(), was.Path, was.Hash)
	}
	if err != nil {
		return err
	}
	if err = changedSince(was, now, with); err != nil {
		err = errors.Join(err, all.Deactivate(ctx, s.id(), was.Path))
	}
	return err
}

// changedSince returns what makes an activation another one than it was; nil if nothing does.
func changedSince(was *session.SkillUse, now skills.Activation, with []string) error {
	switch {
	case now.Hash != was.Hash:
		return errors.New("its SKILL.md has changed")
	case !slices.Equal(with, was.Depends):
		return errors.New("a skill that it depends on has changed")
	case !slices.Equal(now.Granted, was.Granted):
		return errors.New("the trust in it has changed")
	}
	return nil
}

// refreshAfterTools looks for skills again, because the agent's tools may have written a SKILL.md.
func (s *agentSkills) refreshAfterTools(ctx context.Context) {
	if s.enabled() && s.rules.activationTool() != "" {
		s.refresh(ctx, s.registry.RefreshNow)
	}
}

// refresh runs one of the registry's two refresh functions. On an error the agent goes on with the
// known skills.
func (s *agentSkills) refresh(ctx context.Context, refresh func(context.Context) (skills.Catalog, error)) {
	if _, err := refresh(ctx); err != nil {
		s.approver.cfg.Logger.Warn("skills not looked at again", "agent", s.id(), "err", err)
	}
}

// reattach adds the texts of active skills to the system prompt after the conversation lost the
// messages that had them.
func (s *agentSkills) reattach(ctx context.Context) error {
	if !s.enabled() || s.attached == s.epoch {
		return nil
	}
	all, err := s.registry.Reattach(ctx, s.id(), s.epoch)
	if err != nil {
		return fmt.Errorf("the texts of active skills: %w", err)
	}
	s.attached, s.reattached = s.epoch, ""
	for _, one := range all {
		if !s.rules.preloaded[one.Skill.ID] { // else it is in every prompt
			s.reattached += "\n\n" + one.Text()
		}
	}
	return nil
}

// messagesLost records that compaction removed messages: of earlier tasks, or only of this one.
func (s *agentSkills) messagesLost(earlier bool) {
	if earlier || s.takenInTask { // else no skill's text is lost
		s.epoch++
	}
}

// preload activates the skills that the definition names, before the first task. A missing one does
// not fail the task. It also activates the skill for which the agent was spawned,
// without which there is nothing to do.
func (s *agentSkills) preload(ctx context.Context) error {
	if s.prepared {
		return nil
	}
	s.prepared, s.rules.preloaded = true, map[string]bool{}
	a, logger := s.approver, s.approver.cfg.Logger
	if len(a.permissions.lineage) == 1 && a.permissions.lease == nil {
		noticeLeftOut(s)
	}
	var all []skills.Activation
	for _, name := range s.order.Definition.Skills {
		one, err := s.registry.Activate(ctx, skills.ActivateRequest{Agent: s.id(), Name: name, By: skills.ByDefinition})
		switch {
		case errors.Is(err, skills.ErrNotFound):
			a.events.notice(fmt.Sprintf("Warning: Skill '%s' not found", name))
			logger.Warn("skill not found", "agent", s.id(), "skill", name)
		case err != nil:
			a.events.notice(fmt.Sprintf("Error loading skill '%s': %v", name, err))
			logger.Warn("skill not loaded", "agent", s.id(), "skill", name, "err", err)
		default:
			all = append(all, s.loaded(one)...)
		}
	}
	if want := s.order.forked; want != nil {
		one, err := s.registry.Activate(ctx, skills.ActivateRequest{Agent: s.id(), Path: want.Path, By: want.By, Arguments: want.Arguments})
		if err != nil {
			return err
		}
		all = append(all, s.loaded(one)...)
	}
	for _, one := range s.lent {
		all = append(all, s.loaded(one)...)
	}
	s.preloaded = skills.PreloadPrompt(all)
	return nil
}

// maxLeftOut bounds the notices about skills that were left out.
const maxLeftOut = 3

// noticeLeftOut reports the skills that the node found and cannot use.
func noticeLeftOut(s *agentSkills) {
	for n, p := range s.registry.Now().LeftOut() {
		if n == maxLeftOut {
			s.approver.events.notice("More skills are left out; symbio skills list shows them all.")
			return
		}
		s.approver.events.notice(fmt.Sprintf("The skill %s is left out: %s", filepath.Base(strings.TrimSuffix(p.Path, "/SKILL.md")), p.Message()))
	}
}

// loaded records and reports a skill of the definition and those that it depends on. It returns the
// ones that were not loaded before.
func (s *agentSkills) loaded(skill skills.Activation) (all []skills.Activation) {
	for _, one := range skill.All() {
		if s.rules.preloaded[one.Skill.ID] {
			continue
		}
		s.rules.preloaded[one.Skill.ID] = true
		all = append(all, one)
		s.approver.events.report(event.Event{Type: event.TypeSkill, Text: one.Skill.Name})
		s.approver.events.notice(strings.TrimSuffix(fmt.Sprintf("Loaded skill: %s v%s", one.Skill.Name, one.Skill.Version), " v"))
	}
	return all
}

// prompt returns the skills' parts of the system prompt: the catalog, the skills of the definition,
// and those whose texts the conversation has lost.
func (s *agentSkills) prompt() []conversation.Part {
	if !s.enabled() {
		return nil
	}
	if now := s.registry.Now(); s.catalog.snapshot != now {
		o := s.use().Prompt
		o.Omit, o.Search, o.Uses = s.rules.omits, s.rules.hasTool(skill.Search), s.catalog.uses
		r := skills.Render(now.Catalog, o)
		s.catalog.snapshot, s.catalog.text = now, r.Text
		s.catalog.report(r, s.approver.events, s.approver.cfg.Logger)
	}
	return slices.Concat(part("skill catalog", "%s", s.catalog.text), part("skills of the definition", "%s", strings.TrimRight(s.preloaded, "\n")),
		part("active skills", "%s", strings.TrimPrefix(s.reattached, "\n\n")))
}

// takeNamed activates the skills that a person's task names or triggers, and returns note with what the model reads behind the
// task; data, which is behind it, names none. The error is the cause of ctx if that ended, as then a person may have been asked in vain.
func (s *agentSkills) takeNamed(ctx context.Context, note, task, data string) (string, error) {
	return note + s.activateMentioned(ctx, task, data) + activateTriggered(ctx, s, task), context.Cause(ctx)
}

// activateMentioned activates the skills that a person names in a message, and returns their texts,
// which follow the message. The mention counts as the person's approval where a rule would ask. A
// deny rule still denies.
func (s *agentSkills) activateMentioned(ctx context.Context, message, data string) string {
	if !s.enabled() {
		return ""
	}
	var b strings.Builder
	for _, m := range skills.Mentions(message, data) {
		catalog := s.registry.Now().Catalog
		found, err := catalog.Resolve(cmp.Or(m.Path, m.Name), s.use().Prompt.Duplicates)
		if errors.Is(err, skills.ErrNotFound) && m.Path == "" && !slices.ContainsFunc(catalog.Names(), func(n string) bool { return strings.EqualFold(n, m.Name) }) {
			if !mayBeSkill(m.Name) {
				continue // a variable of a shell, such as $HOME
			}
			if !errors.As(err, new(*skills.LoadError)) {
				err = s.rules.noSuchSkill(m.Name)
			}
		}
		var text string
		if err == nil {
			text, err = s.takeMentioned(ctx, found, m.Arguments)
		}
		if err != nil {
			text = fmt.Sprintf("The message names the skill %s, which was not taken: %v", cmp.Or(m.Path, "$"+m.Name), err)
			s.approver.events.notice(text)
			text = "[" + text + "]"
		}
		b.WriteString("\n\n" + text)
	}
	return b.String()
}

// mayBeSkill reports whether a person may have taken a word for the name of a skill.
func mayBeSkill(name string) bool {
	return name != "" && name[0] >= 'a' && name[0] <= 'z' && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}

// takeMentioned activates a skill that a person named, or runs it in a sub-agent, and returns the
// text for the model.
func (s *agentSkills) takeMentioned(ctx context.Context, found skills.Skill, arguments string) (string, error) {
	if err := s.rules.checkActivation(found, "the message", permission.Ask); err != nil {
		return "", err
	}
	want := skills.ActivateRequest{Agent: s.id(), Path: found.Path, By: skills.ByPerson, Arguments: arguments, Epoch: s.epoch}
	if found.Fork {
		if s.forkLost {
			return "", errors.New("a sub-agent of this task had begun when the program ended, and it may be that of the skill, so it is not run again by itself")
		}
		answer, err := s.fork(ctx, want, found)
		return forkResult(found.Name, answer), err
	}
	one, err := s.registry.Activate(ctx, want)
	if err != nil {
		return "", err
	}
	for _, taken := range one.All() {
		s.onTaken(taken.Skill.Name)
	}
	return one.Context(), nil
}
