package node

import (
	"context"
	"log/slog"
	"strings"

	"symbio/agent"
	"symbio/agent/event"
	"symbio/agent/tool/mcp"
	"symbio/community"
	"symbio/discovery"
	"symbio/security/sandbox"
	"symbio/skills"
	"symbio/transport/grpcpeer"
)

// reporter puts what happens to the parts of a node into its event stream. The parts that it asks for names are set as they
// are made.
type reporter struct {
	id        community.NodeID
	name      string
	events    *event.Stream
	community *community.Community
	network   *grpcpeer.Network
	roster    *discovery.Roster
	log       *slog.Logger
}

// agent puts what an agent does into the event stream.
func (r *reporter) agent(e agent.Event) { r.events.Publish(string(e.Type), string(e.Agent), e) }

// skill puts what changes in the registry of skills into the event stream.
func (r *reporter) skill(e skills.Event) {
	m, _ := r.community.Member(community.MemberID(e.Agent))
	r.events.Publish(string(e.Kind), e.Agent, struct {
		Name string `json:"name,omitempty"`
		skills.Event
	}{m.Name, e})
}

// changes puts the changes of the community into the event stream.
func (r *reporter) changes(ctx context.Context, sub *community.Subscription) error {
	defer sub.Close()
	for {
		c, err := sub.Next(ctx)
		if err != nil {
			return nil // the community has ended, and with it the changes
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

type memberEvent struct {
	Name     string   `json:"name"`
	On       string   `json:"on"`
	Local    bool     `json:"local"`
	Accepts  []string `json:"accepts,omitempty"`
	Provides []string `json:"provides,omitempty"`
	Why      string   `json:"why,omitempty"`
}

// nodeName is what a node calls itself, for people; its id when it is not known.
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

// node puts what happens to connections into the event stream, and tells discovery of
// addresses that did not answer.
func (r *reporter) node(e grpcpeer.Event) {
	switch e.Kind {
	case grpcpeer.Unreachable:
		r.roster.Failed(e.Key)
	case grpcpeer.Refused:
		r.events.Publish("refused", "", event.Node{ID: string(e.Node), Name: e.Name, Addr: e.Addr, Why: e.Why})
	default:
		r.events.Publish("node", "", event.Node{ID: string(e.Node), Name: e.Name, State: string(e.Kind), Addr: e.Addr, Why: e.Why})
	}
}

// refused puts a call of another node that was refused into the event stream.
func (r *reporter) refused(x community.Refusal) {
	r.events.Publish("refused", string(x.Call.Member), callEvent{
		From: string(x.From.ID), Name: x.From.Name, Capability: x.Call.Capability, Requester: x.Call.Requester,
		Reason: string(x.Reason), Why: x.Err.Error(), Omitted: x.Omitted, Trace: x.Call.Trace.String(),
	})
}

// leftOut puts into the event stream that a node has more than this one takes.
func (r *reporter) leftOut(of community.Peer, what string) {
	r.events.Publish("left out", "", event.Node{ID: string(of.ID), Name: of.Name, Why: what})
}

// undelivered puts into the event stream what became of one-way signals.
func (r *reporter) undelivered(u community.DeliveryFailure) {
	r.events.Publish("undelivered", string(u.Member), undeliveredEvent{
		To: string(u.Node), Name: r.nodeName(u.Node), Perception: u.Perception, Count: u.Count, Why: u.Err.Error(),
	})
}

type undeliveredEvent struct {
	To         string `json:"to"`
	Name       string `json:"name,omitempty"`
	Perception string `json:"perception,omitempty"`
	Count      uint64 `json:"count"`
	Why        string `json:"why"`
}

type callEvent struct {
	From       string   `json:"from"`
	Name       string   `json:"name,omitempty"`
	Capability string   `json:"capability"`
	Requester  []string `json:"requester,omitempty"`
	Reason     string   `json:"reason"`
	Why        string   `json:"why"`
	Trace      string   `json:"trace,omitempty"`   // the id
	Omitted    uint64   `json:"omitted,omitempty"` // refusals of that node since the last that was told
}

// disarmed tells what a command left for git to execute, whichever tool or server ran it.
func (r *reporter) disarmed(lines []string) {
	r.events.Warn(event.Warning{Why: "a command in the sandbox left something for git to execute, which was set aside: " + strings.Join(lines, "; ")})
}

// sandboxEvent says what holds commands.
type sandboxEvent struct {
	Level   string   `json:"level"`
	Missing []string `json:"missing,omitempty"`
	Mend    string   `json:"mend,omitempty"`
}

func (r *reporter) mcp(s mcp.Status) {
	r.events.Publish("mcp", "", mcpEvent{s.Server.Name, string(s.State), s.Why, s.Tools})
	if s.State == mcp.Starting && s.Why != "" {
		r.events.Warn(event.Warning{Why: "the MCP server " + s.Server.Name + ": " + s.Why})
	}
}

// mcpEvent says how an MCP server is.
type mcpEvent struct {
	Server string `json:"server"`
	State  string `json:"state"`
	Why    string `json:"why,omitempty"`
	Tools  int    `json:"tools,omitempty"`
}

// served reports a call of another node that was answered here.
func (r *reporter) served(ctx context.Context, capability string, s community.Signal, err error) {
	e := servedEvent{Capability: capability, Requester: s.Requester, Trace: community.TraceOf(ctx).String()}
	if len(s.Requester) > 0 {
		e.From = r.nodeName(community.NodeID(s.Requester[0]))
	}
	if err != nil {
		e.Error = err.Error()
		r.log.Warn("capability failed", "capability", capability, "why", community.Explanation(err)) // what it printed may be secret
	}
	r.events.Publish("served", "", e)
}

type servedEvent struct {
	Capability string   `json:"capability"`
	From       string   `json:"from,omitempty"`
	Requester  []string `json:"requester,omitempty"`
	Trace      string   `json:"trace,omitempty"` // the id
	Error      string   `json:"error,omitempty"`
}

func (r *reporter) sandbox(s sandbox.Status) {
	r.events.Publish("sandbox", "", sandboxEvent{s.Level.String(), s.Missing, s.Mend})
}
