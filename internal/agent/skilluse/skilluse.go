// Package skilluse counts from the events of a node how its agents use skills: how often a skill was
// shown to a model, taken, finished, and denied. The events are in the file of the sessions, and
// nothing leaves the machine.
package skilluse

import (
	"cmp"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"time"

	"symbio/agent/event"
	"symbio/security/permission"
	"symbio/skills"
)

// Use is how often a skill was used. Its JSON is a contract.
type Use struct {
	Skill string `json:"skill"`
	// Shown counts the agents in whose catalog it was, Taken how often an agent took it, and Finished
	// how often a task was done in which it was taken.
	Shown    int `json:"shown"`
	Taken    int `json:"taken"`
	Finished int `json:"finished"`
	// Denied counts the activations that were refused, and the calls that were denied although the
	// skill asks for a rule that would allow them.
	Denied int `json:"denied"`
	// LastTaken is when it was taken last; zero = never.
	LastTaken time.Time `json:"last_taken,omitzero"`
}

// Types returns the types of the events that Count reads, as a node publishes them.
func Types() []string {
	return []string{"catalog", "skill", "skill_refused", "decision", "done", "failed"}
}

// counter has what was counted, by the name of the skill, and what matters of each agent for the
// events that follow.
type counter struct {
	uses     map[string]Use
	shown    map[[2]string]bool // by agent and skill
	taken    map[string][]string
	withheld map[string][]withheldRule
}

// withheldRule is a rule that a skill of an agent asks for and does not get.
type withheldRule struct {
	skill string
	rule  permission.Rule
}

// Count returns the use of each skill in the events, those that were taken most often first. The events
// of an agent must be in their order. Events without the shape of their type count nothing.
func Count(events []event.Event) []Use {
	c := counter{map[string]Use{}, map[[2]string]bool{}, map[string][]string{}, map[string][]withheldRule{}}
	for _, e := range events {
		c.count(e)
	}
	all := []Use{}
	for name, u := range c.uses {
		u.Skill = name
		all = append(all, u)
	}
	slices.SortStableFunc(all, func(a, b Use) int {
		return cmp.Or(cmp.Compare(b.Taken, a.Taken), strings.Compare(a.Skill, b.Skill))
	})
	return all
}

// add changes the use of a skill.
func (c counter) add(name string, change func(*Use)) {
	u := c.uses[name]
	change(&u)
	c.uses[name] = u
}

// deny counts a refusal.
func (c counter) deny(name string) { c.add(name, func(u *Use) { u.Denied++ }) }

// count counts an event.
func (c counter) count(e event.Event) {
	switch e.Type {
	case "catalog":
		for _, name := range event.PartOf[event.Catalog](e).Shown {
			if key := [2]string{e.Agent, name}; !c.shown[key] {
				c.shown[key] = true
				c.add(name, func(u *Use) { u.Shown++ })
			}
		}
	case "skill":
		c.taken[e.Agent] = append(c.taken[e.Agent], e.Text)
		c.add(e.Text, func(u *Use) { u.Taken, u.LastTaken = u.Taken+1, e.Time })
	case "skill_refused":
		c.refused(e.Agent, event.PartOf[skills.Event](e))
	case "decision":
		if f, ok := e.Part.(event.Decision); ok {
			c.decided(e.Agent, f)
		}
	case "done", "failed":
		for _, name := range c.taken[e.Agent] {
			if e.Type == "done" {
				c.add(name, func(u *Use) { u.Finished++ })
			}
		}
		delete(c.taken, e.Agent)
	}
}

// refused counts a refused activation. If the skill is active and only rules were withheld, they are
// kept for the calls that follow.
func (c counter) refused(agent string, f skills.Event) {
	if len(f.Withheld) == 0 && f.Path != "" { // without a path there is no such skill
		c.deny(f.Skill)
	}
	for _, w := range f.Withheld {
		if rule, err := permission.ParseRule(w.Rule); err == nil {
			c.withheld[agent] = append(c.withheld[agent], withheldRule{f.Skill, rule})
		}
	}
}

// decided counts a denied call: of an activation, or of one that a withheld rule alone would allow.
func (c counter) decided(agent string, f event.Decision) {
	var args map[string]any
	if f.Approved || json.Unmarshal(f.Args, &args) != nil {
		return
	}
	if name, ok := args[map[string]string{"activate_skill": "skillName", "skill_load": "name"}[f.Tool]].(string); ok {
		c.deny(name)
	}
	for _, w := range c.withheld[agent] {
		alone := permission.Chain{{Granted: func() []permission.Grant { return []permission.Grant{{Rule: w.rule}} }}}
		if alone.Judge(permission.Call{Tool: f.Tool, Args: args}).Action == permission.Allow {
			c.deny(w.skill)
		}
	}
}

// halfLife is the time in which an activation comes to count half: a skill that was taken this week is
// before one that was taken as often the week before.
const halfLife = 7 * 24 * time.Hour

// Scores returns for each skill how recently and often it was taken; more is higher.
func Scores(events []event.Event, now time.Time) map[string]float64 {
	scores := map[string]float64{}
	for _, e := range events {
		if e.Type == event.TypeSkill {
			scores[e.Text] += math.Exp2(-float64(now.Sub(e.Time)) / float64(halfLife))
		}
	}
	return scores
}
