package grpcpeer

import (
	"strings"
	"time"
	"unicode"

	"google.golang.org/protobuf/types/known/durationpb"

	"symbio/community"
	pb "symbio/proto/symbio/v1"
)

// Messages become the community's words here, and nothing else: what a node may say of itself and ask
// for is the community's to check (Lease, Serve). Fields that are missing are empty, never a panic.

// requestTo is a call as it travels. Its trace, of at most 567 bytes, is not counted in its envelope, for
// which a stream leaves several times the room.
func requestTo(c community.Call, left time.Duration) *pb.InvokeRequest {
	return &pb.InvokeRequest{
		CallId:      c.ID,
		Member:      string(c.Member),
		Capability:  c.Capability,
		Payload:     c.Payload,
		ContentType: c.ContentType,
		Requester:   c.Requester,
		OnBehalf:    c.OnBehalf,
		Deadline:    durationpb.New(left),
		Traceparent: c.Trace.Parent(),
		Tracestate:  c.Trace.State(),
	}
}

func callFrom(r *pb.InvokeRequest) community.Call {
	return community.Call{
		ID:          r.GetCallId(),
		Member:      community.MemberID(r.GetMember()),
		Capability:  r.GetCapability(),
		Payload:     r.GetPayload(),
		ContentType: r.GetContentType(),
		Requester:   r.GetRequester(),
		OnBehalf:    r.GetOnBehalf(),
		Trace:       community.ParseTrace(r.GetTraceparent(), r.GetTracestate()),
	}
}

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

func catalogTo(c community.Catalog) *pb.Catalog {
	out := &pb.Catalog{}
	for _, m := range c.Members {
		out.Members = append(out.Members, memberTo(m))
	}
	for _, k := range c.Capabilities {
		out.Capabilities = append(out.Capabilities, &pb.Capability{
			Name: k.Name, Description: k.Description, InputSchema: k.Input, OutputSchema: k.Output, Idempotent: k.Idempotent,
		})
	}
	return out
}

func catalogFrom(c *pb.Catalog) community.Catalog {
	var out community.Catalog
	for _, m := range c.GetMembers() {
		out.Members = append(out.Members, memberFrom(m))
	}
	for _, k := range c.GetCapabilities() {
		out.Capabilities = append(out.Capabilities, community.Capability{
			Name: k.GetName(), Description: k.GetDescription(), Input: k.GetInputSchema(), Output: k.GetOutputSchema(), Idempotent: k.GetIdempotent(),
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

func memberFrom(m *pb.Member) community.Member {
	return community.Member{
		ID: community.MemberID(m.GetId()), Name: m.GetName(), Node: community.NodeID(m.GetNode()), Accepts: m.GetAccepts(),
		Provides: m.GetProvides(), Available: m.GetAvailable(), Metadata: m.GetMetadata(),
	}
}

const nameSize = 128 // bytes of a name or a reason, as a community has it

// clean makes a stranger's words fit for a terminal and a log: no control or invisible characters,
// and not too long.
func clean(s string) string {
	if len(s) > nameSize {
		s = strings.ToValidUTF8(s[:nameSize], "")
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, s)
}
