// Package skillset has the skills of a node: which there are by the configuration, the registry of a running node, those
// that it shares with other nodes or fetches from them, and the texts about them that people and models read. Package
// skills has the skills themselves.
package skillset

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"symbio/actor"
	"symbio/agent/definition"
	"symbio/agent/event"
	"symbio/agent/node/config"
	"symbio/agent/tool/mcp"
	"symbio/agent/tool/peer"
	"symbio/community"
	symbiov1 "symbio/proto/symbio/v1"
	"symbio/security/visible"
	"symbio/skills"
	"symbio/skills/share"
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

// check applies strict_scan and on_unknown: it returns an error for
// invalid skills, and for definitions that name missing ones, if the
// configuration asks for that.
func (s *Skills) check(definitions map[string]definition.Definition) error {
	if err := s.Registry.Now().Err(); err != nil && s.cfg.Settings.StrictScan {
		return fmt.Errorf("skills.strict_scan: %w", err)
	}
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
		r.Skills = append(r.Skills, &symbiov1.Skill{Id: s.ID, Name: s.Name, Description: s.Description, Path: s.Path, Scope: string(s.Scope), Enabled: s.Exposure != skills.Off, Active: len(held[s.ID]) > 0})
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

// sharing is how many calls about skills are answered at a time: one reads the
// disk, the others wait for it.
const sharing = 4

// Offer offers the skills of this node to other nodes, if its
// configuration says so.
func (s *Skills) Offer() error {
	shared := s.cfg.Settings.Share
	if s.Registry == nil || !shared.IsEnabled() {
		return nil
	}
	server := share.NewServer(share.Config{Catalog: s.Registry.Catalog, All: shared.All, Names: shared.Names, MaxMessage: s.node.MaxMessage})
	list := community.Capability{Name: share.ListCapability, Description: "The skills that this node shares.", Idempotent: true}
	fetch := community.Capability{Name: share.FetchCapability, Description: "A skill that this node shares: its manifest, or a piece of its content.", Idempotent: true}
	return errors.Join(
		community.OfferFunc(s.node.Community, list, func(ctx context.Context, r share.ListRequest) (share.ListReply, error) {
			reply, err := server.List(ctx, r)
			return reply, refuse(s.cfg.Logger, err)
		}, community.WithConcurrency(sharing)),
		community.OfferFunc(s.node.Community, fetch, func(ctx context.Context, r share.FetchRequest) (share.FetchReply, error) {
			reply, err := server.Fetch(ctx, r)
			return reply, refuse(s.cfg.Logger, err)
		}, community.WithConcurrency(sharing)),
	)
}

// refuse returns why another node does not get a skill, as it may know it. The
// paths here it may not.
func refuse(logger *slog.Logger, err error) error {
	if err == nil {
		return nil
	}
	logger.Warn("skill not handed out", "err", err)
	for _, why := range []error{share.ErrNotShared, share.ErrTooLarge, share.ErrKind, share.ErrPath, share.ErrSkill} {
		if errors.Is(err, why) {
			return community.Explain(community.ErrNotFound, why.Error())
		}
	}
	return err
}

// Fetch fetches a skill from the node with this name or id ("" = the only
// one that shares) and stores it. Agents cannot use it until a person trusts
// it.
func (s *Skills) Fetch(ctx context.Context, on, name string) (share.Origin, error) {
	m, err := s.sharer(on)
	if err != nil {
		return share.Origin{}, err
	}
	pack, err := share.Fetch(ctx, skillCall(s.node.Community, m), name, "")
	if err != nil {
		return share.Origin{}, err
	}
	o, err := s.cfg.State.Skills().Store.Put(pack, string(m.Node), s.node.NodeName(m.Node))
	if err == nil {
		s.cfg.Logger.Info("skill fetched", "skill", o.Name, "hash", o.Hash, "node", o.Node)
	}
	return o, err
}

// sharer returns the node that on names by its name or id, and with "" the only
// node that shares skills. The error lists the nodes that do.
func (s *Skills) sharer(on string) (community.Member, error) {
	var names []string
	var found []community.Member
	for _, m := range s.node.Community.WhoProvides(share.FetchCapability) {
		name := s.node.NodeName(m.Node)
		names = append(names, name)
		if on == "" || visible.IsNamed(on, name, string(m.Node)) {
			found = append(found, m)
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return community.Member{}, fmt.Errorf("%w: several nodes share skills: %s; name one, by its id if names are equal", community.ErrInvalid, strings.Join(names, ", "))
	case len(names) == 0:
		return community.Member{}, fmt.Errorf("no node that can be reached shares skills: %w", community.ErrNotFound)
	}
	return community.Member{}, fmt.Errorf("node %q does not share skills here: %w; these do: %s", on, community.ErrNotFound, strings.Join(names, ", "))
}

const (
	// registryEvery is how often the skills of the registry node are compared with those here. It
	// costs a call for each skill. registryRetry is how often it is tried after a failure.
	registryEvery, registryRetry = 10 * time.Minute, 5 * time.Second
	// maxRegistrySkills is how many skills the registry node may have; the rest of the store is for
	// skills that a person fetches.
	maxRegistrySkills = 100
)

// Run keeps the skills of skills.registry as that node has them, until ctx ends. A failure leaves
// the skills that were fetched before, and is a warning once. It begins after registryRetry, when
// the nodes have met.
func (s *Skills) Run(ctx context.Context) error {
	for said, wait := "", registryRetry; ; {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
		why := ""
		wait = registryEvery
		if err := s.sync(ctx); err != nil {
			wait, why = registryRetry, err.Error()
		}
		if why != "" && why != said {
			s.warn(why)
		}
		said = why
	}
}

// warn publishes why the skills of the registry node are not the current ones.
func (s *Skills) warn(why string) {
	s.node.Events.Warn("skills.registry: "+why, "skills that were fetched before stay; symbio nodes lists the nodes and their ids")
}

// sync fetches the skills of the registry node that are not here yet, and trusts those that
// the configuration trusts. Versions that the node does not have any more are removed. It does
// nothing without skills.registry. One call runs at a time.
func (s *Skills) sync(ctx context.Context) error {
	reg := s.cfg.Settings.Registry
	if s.Registry == nil || reg.Key == "" {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	m, err := s.find(reg)
	if err != nil {
		return err
	}
	call := skillCall(s.node.Community, m)
	list, err := share.List(ctx, call)
	if err != nil {
		return err
	}
	if len(list) > maxRegistrySkills {
		return fmt.Errorf("node %q shares %d skills; at most %d are fetched", reg.Node, len(list), maxRegistrySkills)
	}
	var have, wrong = []string{}, []error(nil)
	for _, one := range list {
		hash, err := s.update(ctx, call, m.Node, one.Name)
		have, wrong = append(have, one.Name+hash), append(wrong, err)
	}
	// After an error it is not known which versions are the current ones.
	if err := errors.Join(wrong...); err != nil {
		return err
	}
	err = s.prune(reg, have)
	_, scanErr := s.Registry.Rescan(ctx)
	return errors.Join(err, scanErr)
}

// prune removes the stored versions from the registry node that are not in have, as name and hash,
// of skills that the configuration trusts.
func (s *Skills) prune(reg config.SkillRegistry, have []string) error {
	keeper := s.cfg.State.Skills()
	stored, err := keeper.Store.List()
	for _, o := range stored {
		if o.Node == reg.Key && reg.Trusts(o.Name) && !slices.Contains(have, o.Name+o.Hash) {
			err = errors.Join(err, keeper.Forget(o.Hash))
		}
	}
	return err
}

// find returns the node with the key of the configuration. A name is a claim, so a node of
// that name with another key is refused.
func (s *Skills) find(reg config.SkillRegistry) (community.Member, error) {
	why := fmt.Errorf("node %q (%s) cannot be reached, or shares no skills", reg.Node, reg.Key)
	for _, m := range s.node.Community.WhoProvides(share.FetchCapability) {
		if string(m.Node) == reg.Key {
			return m, nil
		}
		if s.node.NodeName(m.Node) == reg.Node {
			why = fmt.Errorf("node %q has the key %s, not %s: nothing is fetched from it", reg.Node, m.Node, reg.Key)
		}
	}
	return community.Member{}, why
}

// skillCall returns a function that invokes capabilities of the node of m.
func skillCall(c *community.Community, m community.Member) share.Call {
	return func(ctx context.Context, capability string, input []byte) ([]byte, error) {
		reply, err := c.Invoke(ctx, m.ID, capability, community.Signal{Data: input, ContentType: "application/json", Requester: peer.Requester(ctx)})
		return reply.Data, err
	}
}

// update fetches a skill of the registry node unless it is stored as that node has it, and
// returns its hash. If the configuration trusts its name, it is trusted with those of its rules that
// the configuration grants.
func (s *Skills) update(ctx context.Context, call share.Call, from community.NodeID, name string) (string, error) {
	keeper := s.cfg.State.Skills()
	m, err := share.FetchManifest(ctx, call, name)
	if err != nil {
		return "", err
	}
	hash := m.Hash()
	o, err := keeper.Store.Find(hash)
	if err != nil || keeper.Store.Verify(hash) != nil {
		pack, err := share.Fetch(ctx, call, name, hash)
		if err != nil {
			return "", err
		}
		if o, err = keeper.Store.Put(pack, string(from), s.node.NodeName(from)); err != nil {
			return "", err
		}
	}
	return hash, s.trust(o)
}

// trust records the trust of the configuration in a stored skill, if it has one.
func (s *Skills) trust(o share.Origin) error {
	keeper, reg := s.cfg.State.Skills(), s.cfg.Settings.Registry
	if !reg.Trusts(o.Name) {
		return nil
	}
	skill, _, sum, err := skills.LoadFull(keeper.Store.Dir(o.Hash, o.Name), s.cfg.Registry().Policy)
	if err != nil {
		return err
	}
	skill.Scope = skills.ScopePeer
	if _, ok, _ := keeper.Trusted(skill, sum); ok { // an error is no trust
		return nil
	}
	rules := []string{}
	for _, r := range skill.Manifest.Grants {
		if slices.Contains(reg.Grants, r.String()) {
			rules = append(rules, r.String())
		}
	}
	return keeper.Trust(skill, sum, rules, o, nil)
}
