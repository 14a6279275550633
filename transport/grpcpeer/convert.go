package grpcpeer

import (
	"symbio/community"
	"symbio/internal/security/visible"
	pb "symbio/proto/symbio/v1"
)

// Catalogs and their changes are converted to and from the types of package community here. Missing fields become
// empty ones; the community checks their values (Lease).

// eventTo returns the Watch event for a change of the catalog. A gap becomes a snapshot: the
// watcher must forget the missed changes.
func eventTo(c community.Change) *pb.CatalogEvent {
	switch c.Kind {
	case community.Snapshot, community.Gap:
		return &pb.CatalogEvent{Event: &pb.CatalogEvent_Snapshot{
			Snapshot: catalogTo(community.Catalog{Members: c.Members, Capabilities: c.Capabilities}),
		}}
	case community.Joined:
		return &pb.CatalogEvent{Event: &pb.CatalogEvent_Joined{Joined: memberTo(c.Member)}}
	case community.Left:
		return &pb.CatalogEvent{Event: &pb.CatalogEvent_Left{Left: string(c.Member.ID)}}
	}
	return &pb.CatalogEvent{Event: &pb.CatalogEvent_Updated{Updated: memberTo(c.Member)}}
}

// catalogTo returns the wire form of a catalog. The catalog has local members only
// (community.Host.Catalog).
func catalogTo(c community.Catalog) *pb.Catalog {
	out := &pb.Catalog{}
	for _, m := range c.Members {
		out.Members = append(out.Members, memberTo(m))
	}
	for _, k := range c.Capabilities {
		out.Capabilities = append(out.Capabilities, &pb.Capability{
			Name: k.Name, Description: k.Description, InputSchema: k.Input, OutputSchema: k.Output, Idempotent: k.Idempotent, Places: uint32(k.Places),
		})
	}
	return out
}

// catalogFrom is the inverse of catalogTo. It does not validate: community.Lease does, and drops
// invalid entries one by one.
func catalogFrom(c *pb.Catalog) community.Catalog {
	var out community.Catalog
	for _, m := range c.GetMembers() {
		out.Members = append(out.Members, memberFrom(m))
	}
	for _, k := range c.GetCapabilities() {
		out.Capabilities = append(out.Capabilities, community.Capability{
			Name: k.GetName(), Description: k.GetDescription(), Input: k.GetInputSchema(), Output: k.GetOutputSchema(),
			Idempotent: k.GetIdempotent(), Places: int(k.GetPlaces()),
		})
	}
	return out
}

func memberTo(m community.Member) *pb.Member {
	return &pb.Member{
		Id: string(m.ID), Name: m.Name, Node: string(m.Node), Accepts: m.Accepts, Provides: m.Provides,
		Available: m.Available, Metadata: m.Metadata,
	}
}

// memberFrom is the inverse of memberTo, without validation. The node that m names is checked by
// the lease, too: a node can announce only its own members.
func memberFrom(m *pb.Member) community.Member {
	return community.Member{
		ID: community.MemberID(m.GetId()), Name: m.GetName(), Node: community.NodeID(m.GetNode()), Accepts: m.GetAccepts(),
		Provides: m.GetProvides(), Available: m.GetAvailable(), Metadata: m.GetMetadata(),
	}
}

const maxName = 128 // bytes of a name or a reason, as in a community

// clean makes the words of another node fit for a terminal and a log: no control or invisible characters, and not
// too long.
func clean(s string) string { return visible.Line(visible.Prefix(s, maxName), 0) }
