package agent

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"symbio/agent/definition"
	"symbio/agent/event"
	"symbio/agent/tool"
	"symbio/agent/tool/skill"
	"symbio/security/permission"
	"symbio/skills"
)

var errDeniedSkill = errors.New("denied")

// skillRules say which skills an agent may see and activate.
type skillRules struct {
	registry  *skills.Registry
	def       *definition.Definition
	approver  *approver
	preloaded map[string]bool // the ids of the skills that the agent has from the start

	// denied has the ids of the skills of snapshot that were judged: a catalog may be long, and the rules for skills do not change
	// while the agent runs. Searches may run side by side, so mu guards both.
	mu       sync.Mutex
	snapshot *skills.Snapshot
	denied   map[string]bool // true = denied
}

// omits reports whether a skill is left out of the agent's catalog: the agent has it from the
// start, or its permissions deny the activation. The model should not see a skill that it cannot
// activate.
func (r *skillRules) omits(one skills.Skill) bool {
	taking := r.activationTool()
	if taking == "" || r.preloaded[one.ID] {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := r.registry.Now(); r.snapshot != now {
		r.snapshot, r.denied = now, map[string]bool{}
	}
	denied, known := r.denied[one.ID]
	if !known {
		denied = r.approver.permissions.links(nil).Judge(r.call(taking, one)).Action == permission.Deny
		r.denied[one.ID] = denied
	}
	return denied
}

// call returns the tool call with which the agent would activate a skill, for the permission check.
func (r *skillRules) call(tool string, one skills.Skill) permission.Call {
	return permission.Call{Tool: tool, Args: map[string]any{"skillName": one.Name}, Dir: r.approver.permissions.dir,
		Within: guardrailsOf(r.approver.permissions.lineage)}
}

// activationTool returns the tool with which the agent activates skills; "" = it has none.
func (r *skillRules) activationTool() string {
	names := []string{skill.Activate, skill.Load}
	if i := slices.IndexFunc(names, r.hasTool); i >= 0 {
		return names[i]
	}
	return ""
}

// hasTool reports whether the agent has one of the tools for skills.
func (r *skillRules) hasTool(name string) bool {
	names := r.approver.cfg.SkillUse.Tools
	if names == nil {
		names = skill.Default()
	}
	return slices.Contains(names, name) && r.def.HasTool(name) && r.approver.permissions.keepsTool(name)
}

// mayDepend returns nil if the agent may activate a skill that another one depends on. Without a
// question: a person was asked about the other one. The registry calls it from another goroutine.
func (r *skillRules) mayDepend(one skills.Skill) error {
	v := r.approver.permissions.links(nil).Judge(r.call(skill.Activate, one))
	switch v.Action {
	case permission.Deny:
		return fmt.Errorf("%w: %s", errDeniedSkill, v.Why)
	case permission.Ask:
		return fmt.Errorf("a person has to approve it; activate it by itself: %s", v.Why)
	}
	return nil
}

// checkActivation judges and records the activation of a skill in place of the model's call. It is
// approved if the verdict is at least least: a person that names a skill says yes where a rule asks.
func (r *skillRules) checkActivation(one skills.Skill, by string, least permission.Action) error {
	call := r.call(skill.Activate, one)
	d := tool.Decision{Agent: string(r.approver.permissions.self.ID), Tool: call.Tool, Args: call.Args,
		Verdict: r.approver.permissions.links(nil).Judge(call), By: by}
	d.Approved = d.Verdict.Action >= least
	return r.approver.permit(d)
}

// maxNearest is how many skills are named in place of one that does not exist.
const maxNearest = 5

// noSuchSkill returns an error that names the skills that the person may have meant, else the first
// ones. It names only those that both may activate.
func (r *skillRules) noSuchSkill(name string) error {
	q := skills.Query{Text: name, Limit: maxNearest, Keep: func(one skills.Skill) bool { return one.ForModels() && !one.ModelOnly && !r.omits(one) }}
	found := r.registry.Now().Search(q)
	if found.Count == 0 {
		q.Text = ""
		found = r.registry.Now().Search(q)
	}
	var names []string
	for _, m := range found.Matches {
		names = append(names, "$"+m.Skill.Name)
	}
	return fmt.Errorf("%w; there are %s", skills.ErrNotFound, cmp.Or(strings.Join(slices.Compact(names), ", "), "none here"))
}

// skillCatalog is the catalog of skills in an agent's system prompt.
type skillCatalog struct {
	uses     func() map[string]float64 // SkillUse.Uses, called once
	snapshot *skills.Snapshot          // that text was built from; nil = none yet
	text     string
}

// maxCatalogNames bounds the names in a catalog event: enough for a line that people read.
const maxCatalogNames = 20

// report reports which skills the model sees, and logs those that were shortened or dropped.
func (c *skillCatalog) report(r skills.CatalogText, e *events, logger *slog.Logger) {
	if r.Text == "" {
		return
	}
	e.report(event.Event{Type: event.TypeCatalog, Text: strings.Join(r.Listed[:min(len(r.Listed), maxCatalogNames)], ", "),
		Part: event.Catalog{Shown: r.Listed, Total: len(r.Listed) + len(r.Dropped)}})
	if r.Truncated() {
		logger.Info("catalog of skills shortened", "agent", e.permissions.self.ID, "shortened", len(r.Shortened), "dropped", len(r.Dropped))
	}
}
