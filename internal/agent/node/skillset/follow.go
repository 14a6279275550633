package skillset

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"symbio/agent/node/config"
	"symbio/community"
	"symbio/internal/agent/tool/peer"
	"symbio/internal/skills/share"
	"symbio/skills"
)

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
// returns its hash. If the configuration trusts its name, it is trusted with the ones of its rules that
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
