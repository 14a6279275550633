package node

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"symbio/community"
	"symbio/security/visible"
	"symbio/skills"
	"symbio/skills/share"
)

// sharing is how many calls about skills are answered at a time: one reads the
// disk, the others wait for it.
const sharing = 4

// shareSkills offers the skills of this node to other nodes, if its
// configuration says so.
func (p *parts) shareSkills() error {
	shared := p.cfg.Settings.Skills.Share
	if p.skills == nil || !shared.IsEnabled() {
		return nil
	}
	server := share.NewServer(share.Config{Catalog: p.skills.Catalog, All: shared.All, Names: shared.Names, MaxMessage: p.cfg.Settings.Limits.Message})
	list := community.Capability{Name: share.ListCapability, Description: "The skills that this node shares.", Idempotent: true}
	fetch := community.Capability{Name: share.FetchCapability, Description: "A skill that this node shares: its manifest, or a piece of its content.", Idempotent: true}
	return errors.Join(
		community.OfferFunc(p.community, list, func(ctx context.Context, r share.ListRequest) (share.ListReply, error) {
			reply, err := server.List(ctx, r)
			return reply, p.refuseSkill(err)
		}, community.WithConcurrency(sharing)),
		community.OfferFunc(p.community, fetch, func(ctx context.Context, r share.FetchRequest) (share.FetchReply, error) {
			reply, err := server.Fetch(ctx, r)
			return reply, p.refuseSkill(err)
		}, community.WithConcurrency(sharing)),
	)
}

// refuseSkill is why another node does not get a skill, as it may know it. The
// paths here it may not.
func (p *parts) refuseSkill(err error) error {
	if err == nil {
		return nil
	}
	p.cfg.Logger.Warn("skill not handed out", "err", err)
	for _, why := range []error{share.ErrNotShared, share.ErrTooLarge, share.ErrKind, share.ErrPath, share.ErrSkill} {
		if errors.Is(err, why) {
			return community.Explain(community.ErrNotFound, why.Error())
		}
	}
	return err
}

// trustSkill stores that a person trusts a skill of a project with these rules.
func (c Config) trustSkill(s skills.Skill, hash string, rules []string) error {
	return c.State.Skills().Trust(s, hash, rules, share.Origin{}, nil)
}

// fetchSkill fetches a skill from the node with this name or id ("" = the only
// one that shares) and stores it. Agents cannot use it until a person trusts
// it.
func (p *parts) fetchSkill(ctx context.Context, on, name string) (share.Origin, error) {
	m, err := p.sharer(on)
	if err != nil {
		return share.Origin{}, err
	}
	pack, err := share.Fetch(ctx, skillCall(p.community, m), name, "")
	if err != nil {
		return share.Origin{}, err
	}
	o, err := p.cfg.State.Skills().Store.Put(pack, string(m.Node), p.report.nodeName(m.Node))
	if err == nil {
		p.cfg.Logger.Info("skill fetched", "skill", o.Name, "hash", o.Hash, "node", o.Node)
	}
	return o, err
}

// sharer returns the node that on names by its name or id, and with "" the only
// node that shares skills. The error lists the nodes that do.
func (p *parts) sharer(on string) (community.Member, error) {
	var names []string
	var found []community.Member
	for _, m := range p.community.WhoProvides(share.FetchCapability) {
		name := p.report.nodeName(m.Node)
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
