package node

import (
	"context"
	"encoding/json"

	"symbio/agent"
	"symbio/community"
	"symbio/skills"
)

// reportAgent puts what an agent does into the event stream.
func (n *Node) reportAgent(e agent.Event) { n.events.Publish(string(e.Type), string(e.Agent), e) }

// reportSkill puts what changes in the registry of skills into the event stream.
func (n *Node) reportSkill(e skills.Event) {
	m, _ := n.community.Member(community.MemberID(e.Agent))
	n.events.Publish(string(e.Kind), e.Agent, struct {
		Name string `json:"name,omitempty"`
		skills.Event
	}{m.Name, e})
}

// reportChanges puts the changes of the community into the event stream.
func (n *Node) reportChanges(ctx context.Context, sub *community.Subscription) error {
	defer sub.Close()
	for {
		c, err := sub.Next(ctx)
		if err != nil {
			return nil // the community has ended, and with it the changes
		}
		switch c.Kind {
		case community.Snapshot:
		case community.Gap:
			n.events.Publish("gap", "", map[string]any{"missed": c.Missed, "of": "changes of members"})
		default:
			n.events.Publish(string(c.Kind), string(c.Member.ID), memberEvent{
				Name: c.Member.Name, On: n.nodeName(c.Member.Node), Local: c.Member.Node == n.id,
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
func (n *Node) nodeName(id community.NodeID) string {
	if id == n.id {
		return n.name
	}
	if p, ok := n.community.Peer(id); ok && p.Name != "" {
		return p.Name
	}
	for _, s := range n.network.Nodes() {
		if s.ID == id && s.Name != "" {
			return s.Name
		}
	}
	return string(id)
}

// memberName is the name that an event has for its member, if any.
func (n *Node) memberName(e Event) string {
	var f struct{ Name string }
	if json.Unmarshal(e.Data, &f) != nil {
		return ""
	}
	return f.Name
}
