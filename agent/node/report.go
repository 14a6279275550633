package node

import (
	"context"
	"log/slog"
	"strings"

	"symbio/agent"
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

// agent publishes an event of an agent.
func (r *reporter) agent(e agent.Event) { r.events.Publish(string(e.Type), string(e.Agent), e) }

// skill publishes an event of the registry of skills with the name of the
// agent.
func (r *reporter) skill(e skills.Event) {
	m, _ := r.community.Member(community.MemberID(e.Agent))
	r.events.Publish(string(e.Kind), e.Agent, struct {
		Name string `json:"name,omitempty"`
		skills.Event
	}{m.Name, e})
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
			r.events.Publish("gap", "", map[string]any{"missed": c.Missed, "of": "changes of members"})
		default:
			r.events.Publish(string(c.Kind), string(c.Member.ID), memberEvent{
				Name: c.Member.Name, On: r.nodeName(c.Member.Node), Local: c.Member.Node == r.id,
				Accepts: c.Member.Accepts, Provides: c.Member.Provides, Why: c.Why,
			})
		}
	}
}

// memberEvent is the event of a member that joined, changed or left.
type memberEvent struct {
	Name     string   `json:"name"`
	On       string   `json:"on"`
	Local    bool     `json:"local"`
	Accepts  []string `json:"accepts,omitempty"`
	Provides []string `json:"provides,omitempty"`
	Why      string   `json:"why,omitempty"`
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
	switch e.Kind {
	case grpcpeer.Refused:
		r.events.Publish("refused", "", event.Node{ID: string(e.Node), Name: e.Name, Addr: e.Addr, Why: e.Why})
	default:
		r.events.Publish("node", "", event.Node{ID: string(e.Node), Name: e.Name, State: string(e.Kind), Addr: e.Addr, Why: e.Why})
	}
}

// refused publishes a refused call of another node. The community limits how
// many it reports; Omitted counts the others.
func (r *reporter) refused(x community.Refusal) {
	r.events.Publish("refused", string(x.Call.Member), callEvent{
		From: string(x.From.ID), Name: x.From.Name, Capability: x.Call.Capability, Requester: x.Call.Requester,
		Reason: string(x.Reason), Why: x.Err.Error(), Omitted: x.Omitted, Trace: x.Call.Trace.String(),
	})
}

// leftOut publishes that a node offers more members or capabilities than the
// limits accept.
func (r *reporter) leftOut(of community.Peer, what string) {
	r.events.Publish("left out", "", event.Node{ID: string(of.ID), Name: of.Name, Why: what})
}

// undelivered publishes that one-way signals to a node were lost.
func (r *reporter) undelivered(u community.DeliveryFailure) {
	r.events.Publish("undelivered", string(u.Member), undeliveredEvent{
		To: string(u.Node), Name: r.nodeName(u.Node), Perception: u.Perception, Count: u.Count, Why: u.Err.Error(),
	})
}

// undeliveredEvent is the event of lost one-way signals.
type undeliveredEvent struct {
	To         string `json:"to"`
	Name       string `json:"name,omitempty"`
	Perception string `json:"perception,omitempty"`
	Count      uint64 `json:"count"`
	Why        string `json:"why"`
}

// callEvent is the event of a refused call.
type callEvent struct {
	From       string   `json:"from"`
	Name       string   `json:"name,omitempty"`
	Capability string   `json:"capability"`
	Requester  []string `json:"requester,omitempty"`
	Reason     string   `json:"reason"`
	Why        string   `json:"why"`
	Trace      string   `json:"trace,omitempty"`   // the id
	Omitted    uint64   `json:"omitted,omitempty"` // refusals of that node since the last event
}

// disarmed publishes a warning that a command left configuration or hooks that
// git would execute, and that they were renamed.
func (r *reporter) disarmed(lines []string) {
	r.events.Warn(event.Warning{Why: "a command in the sandbox left something for git to execute, which was set aside: " + strings.Join(lines, "; ")})
}

// sandboxEvent says which level of sandbox this machine has, what it lacks, and
// how to get it.
type sandboxEvent struct {
	Level   string   `json:"level"`
	Missing []string `json:"missing,omitempty"`
	Mend    string   `json:"mend,omitempty"`
}

// mcp publishes the state of an MCP server, and a warning if its start is
// repeated after a failure.
func (r *reporter) mcp(s mcp.Status) {
	r.events.Publish("mcp", "", mcpEvent{s.Server.Name, string(s.State), s.Why, s.Tools})
	if s.State == mcp.Starting && s.Why != "" {
		r.events.Warn(event.Warning{Why: "the MCP server " + s.Server.Name + ": " + s.Why})
	}
	if s.State == mcp.Ready {
		r.unmatched(r.policy().Unmatched(mcp.ToolPrefix(s.Server.Name), s.Names))
	}
}

// unmatched warns of rules that match nothing on this node as it is now.
func (r *reporter) unmatched(problems []error) {
	for _, err := range problems {
		r.log.Warn("a rule that matches nothing", "why", err)
		r.events.Warn(event.Warning{Why: "permissions: " + err.Error()})
	}
}

// mcpEvent is the state of an MCP server.
type mcpEvent struct {
	Server string `json:"server"`
	State  string `json:"state"`
	Why    string `json:"why,omitempty"`
	Tools  int    `json:"tools,omitempty"`
}

// served publishes a call of another node that was answered here. The log gets
// only the explanation of an error, because the text of a command may contain
// secrets.
func (r *reporter) served(ctx context.Context, capability string, s community.Signal, err error) {
	e := servedEvent{Capability: capability, Requester: s.Requester, Trace: community.TraceOf(ctx).String()}
	if len(s.Requester) > 0 {
		e.From = r.nodeName(community.NodeID(s.Requester[0]))
	}
	if err != nil {
		e.Error = err.Error()
		r.log.Warn("capability failed", "capability", capability, "why", community.Explanation(err))
	}
	r.events.Publish("served", "", e)
}

// servedEvent is the event of a call that was answered here.
type servedEvent struct {
	Capability string   `json:"capability"`
	From       string   `json:"from,omitempty"`
	Requester  []string `json:"requester,omitempty"`
	Trace      string   `json:"trace,omitempty"` // the id
	Error      string   `json:"error,omitempty"`
}

// sandbox publishes what the sandbox of this machine can enforce.
func (r *reporter) sandbox(s sandbox.Status) {
	r.events.Publish("sandbox", "", sandboxEvent{s.Level.String(), s.Missing, s.Mend})
}
