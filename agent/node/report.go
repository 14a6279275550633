package node

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"symbio/agent/event"
	"symbio/agent/tool/mcp"
	"symbio/community"
	"symbio/security/permission"
	"symbio/security/sandbox"
	"symbio/skills"
	"symbio/transport/grpcpeer"
)

// reporter publishes what happens in the parts of a node as events. Its methods
// are callbacks of the parts and are called concurrently; they must not block,
// and publishing does not. The parts that it asks for names are set while the
// node is made, before the first callback.
type reporter struct {
	id        community.NodeID
	name      string
	events    *event.Stream
	community *community.Community
	network   *grpcpeer.Network
	log       *slog.Logger
	policy    func() permission.Policy
}

// skill publishes an event of the registry of skills with the name of the
// agent.
func (r *reporter) skill(e skills.Event) {
	m, _ := r.community.Member(community.MemberID(e.Agent))
	r.events.Publish(event.Event{Type: string(e.Kind), Agent: e.Agent, Name: m.Name, Why: e.Why, Part: e})
}

// changes publishes the changes of members until the community ends. The first
// snapshot is not published, because nothing has changed.
func (r *reporter) changes(ctx context.Context, sub *community.Subscription) error {
	defer sub.Close()
	for {
		c, err := sub.Next(ctx)
		if err != nil {
			return nil // the community has ended
		}
		switch c.Kind {
		case community.Snapshot:
		case community.Gap:
			r.events.Publish(event.Event{Type: event.TypeGap, Part: event.Gap{Missed: c.Missed, Of: "changes of members"}})
		default:
			r.events.Publish(event.Event{Type: string(c.Kind), Agent: string(c.Member.ID), Name: c.Member.Name, Why: c.Why, Part: event.Member{
				On: r.nodeName(c.Member.Node), Local: c.Member.Node == r.id, Accepts: c.Member.Accepts, Provides: c.Member.Provides,
			}})
		}
	}
}

// nodeName returns the name of a node for people, or its id if the name is
// unknown. Names are claims of the nodes, so they are not used for decisions.
func (r *reporter) nodeName(id community.NodeID) string {
	if id == r.id {
		return r.name
	}
	if peer, ok := r.community.Peer(id); ok && peer.Name != "" {
		return peer.Name
	}
	for _, s := range r.network.Nodes() {
		if s.ID == id && s.Name != "" {
			return s.Name
		}
	}
	return string(id)
}

// node publishes an event of the network.
func (r *reporter) node(e grpcpeer.Event) {
	if e.Kind == grpcpeer.Connected && e.Name == r.name && e.Node != r.id {
		r.events.Warn(fmt.Sprintf("another node of this cluster is called %s, too: %s; commands that name it are refused", e.Name, e.Node),
			"give one of them another name: stop it, symbio cluster leave, and join under another one with symbio --node NAME cluster join")
	}
	switch e.Kind {
	case grpcpeer.Refused:
		r.events.Publish(event.Event{Type: event.TypeRefused, Name: e.Name, Why: e.Why, Part: event.Call{ID: string(e.Node), Addr: e.Addr}})
	default:
		r.events.Publish(event.Event{Type: event.TypeNode, Name: e.Name, Why: e.Why, Part: event.Node{ID: string(e.Node), State: string(e.Kind), Addr: e.Addr}})
	}
}

// refused publishes a refused call of another node. The community limits how
// many it reports; Omitted counts the others.
func (r *reporter) refused(x community.Refusal) {
	r.events.Publish(event.Event{Type: event.TypeRefused, Agent: string(x.Call.Member), Name: x.From.Name, Why: x.Err.Error(), Part: event.Call{
		From: string(x.From.ID), Capability: x.Call.Capability, Requester: x.Call.Requester, Reason: string(x.Reason), Omitted: x.Omitted, Trace: x.Call.Trace.String(),
	}})
}

// leftOut publishes that a node offers more members or capabilities than the
// limits accept.
func (r *reporter) leftOut(of community.Peer, what string) {
	r.events.Publish(event.Event{Type: event.TypeLeftOut, Name: of.Name, Why: what, Part: event.Node{ID: string(of.ID)}})
}

// undelivered publishes that one-way signals to a node were lost.
func (r *reporter) undelivered(u community.DeliveryFailure) {
	r.events.Publish(event.Event{Type: event.TypeUndelivered, Agent: string(u.Member), Name: r.nodeName(u.Node), Why: u.Err.Error(),
		Part: event.Delivery{To: string(u.Node), Perception: u.Perception, Count: u.Count}})
}

// disarmed publishes a warning that a command left configuration or hooks that
// git would execute, and that they were renamed.
func (r *reporter) disarmed(lines []string) {
	r.events.Warn("a command in the sandbox left something for git to execute, which was set aside: "+strings.Join(lines, "; "), "")
}

// mcp publishes the state of an MCP server, and a warning if its start is
// repeated after a failure.
func (r *reporter) mcp(s mcp.Status) {
	r.events.Publish(event.Event{Type: event.TypeMCP, Why: s.Why, Part: event.Server{Server: s.Server.Name, State: string(s.State), Tools: s.Tools}})
	if s.State == mcp.Starting && s.Why != "" {
		r.events.Warn("the MCP server "+s.Server.Name+": "+s.Why, "")
	}
	if s.State == mcp.Ready {
		r.unmatched(r.policy().Unmatched(mcp.ToolPrefix(s.Server.Name), s.Names))
	}
}

// unmatched warns of rules that match nothing on this node as it is now.
func (r *reporter) unmatched(problems []error) {
	for _, err := range problems {
		r.log.Warn("a rule that matches nothing", "why", err)
		r.events.Warn("permissions: "+err.Error(), "")
	}
}

// served publishes a call of another node that was answered here. The log gets
// only the explanation of an error, because the text of a command may contain
// secrets.
func (r *reporter) served(ctx context.Context, capability string, s community.Signal, err error) {
	e := event.Call{Capability: capability, Requester: s.Requester, Trace: community.TraceOf(ctx).String()}
	if len(s.Requester) > 0 {
		e.From = r.nodeName(community.NodeID(s.Requester[0]))
	}
	if err != nil {
		e.Error = err.Error()
		r.log.Warn("capability failed", "capability", capability, "why", community.Explanation(err))
	}
	r.events.Publish(event.Event{Type: event.TypeServed, Part: e})
}

// sandbox publishes what the sandbox of this machine can enforce.
func (r *reporter) sandbox(s sandbox.Status) {
	r.events.Publish(event.Event{Type: event.TypeSandbox, Part: event.Sandbox{Level: s.Level.String(), Missing: s.Missing, Mend: s.Mend}})
}
