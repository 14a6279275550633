package skillset

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"symbio/community"
	"symbio/internal/security/visible"
	"symbio/internal/skills/share"
)

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
