// Package skillset has the skills of a node: which there are by the configuration, the registry of a running node, those
// that it shares with other nodes or fetches from them, and the texts about them that people and models read. Package
// skills has the skills themselves.
package skillset

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"symbio/actor"
	"symbio/agent/definition"
	"symbio/agent/event"
	"symbio/agent/tool/mcp"
	"symbio/community"
	"symbio/internal/security/visible"
	symbiov1 "symbio/proto/symbio/v1"
	"symbio/skills"
)

// Node has what the skills need of a running node.
type Node struct {
	System    *actor.System
	Community *community.Community
	Events    *event.Stream
	// Report gets the events of the registry. It must not block.
	Report func(skills.Event)
	// NodeName returns the name of a node, or its id if the name is not known.
	NodeName func(community.NodeID) string
	// MaxMessage is the largest message between nodes, in bytes.
	MaxMessage int
}

// Skills are the skills of a running node. They are safe for concurrent use.
type Skills struct {
	// Registry has the skills; nil = they are switched off.
	Registry *skills.Registry

	cfg  Config
	node Node
	mu   sync.Mutex // held while skills.registry is read
}

// Open opens the registry of skills, unless they are switched off, and
// checks the skills that definitions name.
func Open(cfg Config, n Node, definitions map[string]definition.Definition) (_ *Skills, err error) {
	s := &Skills{cfg: cfg, node: n}
	if !cfg.Settings.Enabled {
		return s, nil
	}
	registry := cfg.Registry()
	registry.Report = n.Report
	if s.Registry, err = skills.NewRegistry(n.System, registry); err != nil {
		return nil, fmt.Errorf("skills: %w", err)
	}
	return s, s.check(definitions)
}

// check applies on_unknown: it returns an error for definitions that name
// missing skills, if the configuration asks for that.
func (s *Skills) check(definitions map[string]definition.Definition) error {
	if s.cfg.Settings.OnUnknown != "error" {
		return nil
	}
	var unknown []error
	for _, name := range slices.Sorted(maps.Keys(definitions)) {
		unknown = append(unknown, definitions[name].CheckSkills(s.Registry.Now().Catalog))
	}
	return errors.Join(unknown...)
}

// rescan fetches what is new on the node of skills.registry, reads again
// which skills are switched off, and searches the directories. Agents lose skills that are gone.
func (s *Skills) rescan(ctx context.Context) (skills.Catalog, error) {
	if err := s.sync(ctx); err != nil {
		s.warn(err.Error())
	}
	choices, err := s.cfg.choices()
	if err != nil {
		s.cfg.Logger.Warn("cannot read all skills that were switched off", "err", err)
	}
	if c, err := s.Registry.Choose(ctx, choices); err != nil {
		return c, err
	}
	return s.Registry.Rescan(ctx)
}

// maxSkillWarnings bounds the warnings about skills at the start of a node.
const maxSkillWarnings = 10

// Warn reports what was left out of the catalog, or noticed about it.
func (s *Skills) Warn() {
	if s.Registry == nil {
		return
	}
	c := s.Registry.Now()
	all := slices.Concat(c.Errors, c.Notes)
	for i, problem := range all {
		if i == maxSkillWarnings {
			s.node.Events.Warn(fmt.Sprintf("%d more about skills", len(all)-i), "see all: symbio skills list")
			return
		}
		s.node.Events.Warn("skills: "+problem.Path+": "+problem.Message(), "")
	}
}

// Limits of the skills that are commands: how many, and the characters of a
// description.
const (
	maxSkillCommands  = 2000
	maxCommandComment = 100
)

// commands returns a command for each name of a skill that people may
// start. Names that cannot be typed as one visible word are left out.
func commands(c skills.Catalog) (all []mcp.Prompt) {
	seen := map[string]bool{}
	for _, one := range c.Skills {
		name := one.Name
		if one.Exposure == skills.Off || one.ModelOnly || seen[name] || visible.Escape(name) != name || strings.ContainsAny(name, " /") {
			continue
		}
		seen[name] = true
		p := mcp.Prompt{Command: name, Name: name, Description: visible.TruncateRunes(skills.Line(one.Description), maxCommandComment)}
		if one.ArgumentHint != "" {
			p.Arguments = []mcp.Argument{{Name: one.ArgumentHint}}
		}
		if all = append(all, p); len(all) == maxSkillCommands {
			break
		}
	}
	return all
}

// Reply converts a catalog to its message. held has the agents of each
// active skill by the id of the skill.
func (Config) Reply(c skills.Catalog, held map[string][]string) *symbiov1.SkillsReply {
	r := &symbiov1.SkillsReply{Errors: problems(c.Errors), Notes: problems(c.Notes), Truncated: c.Truncated}
	for _, s := range c.Skills {
		r.Skills = append(r.Skills, &symbiov1.Skill{Id: s.ID, Name: s.Name, Description: s.Description, Path: s.Path,
			Scope: string(s.Scope), Enabled: s.Exposure != skills.Off, Active: len(held[s.ID]) > 0})
	}
	return r
}

// problems converts problems to messages.
func problems(all []skills.Problem) (out []*symbiov1.SkillProblem) {
	for _, p := range all {
		out = append(out, &symbiov1.SkillProblem{Path: p.Path, Message: p.Message()})
	}
	return out
}
