package lending

import (
	"encoding/json"
	"time"

	"symbio/agent/event"
	"symbio/community"
	"symbio/internal/security/visible"
)

const (
	// maxEvents bounds the events of one line of a lender, in bytes.
	maxEvents = maxLine / 4
	// maxEventName bounds the name of a member in an event of a lender, in bytes.
	maxEventName = 128
)

// isRelayed reports whether a lender tells events of a type: what an agent does. Calls that need a person are told as questions.
func isRelayed(e event.Event) bool {
	if event.PartOf[event.Decision](e).Kind != "" { // about a call of a node
		return false
	}
	switch e.Type {
	case event.TypeTask, event.TypeText, event.TypeThought, event.TypeToolCall, event.TypeDecision, event.TypeProgress,
		event.TypeToolResult, event.TypeTurn, event.TypeRetry, event.TypeSpawned, event.TypeQueued, event.TypeRepeated, event.TypeSkill,
		event.TypePlan, event.TypeNotice, event.TypeSteered, event.TypeCompacted, event.TypeInterrupted, event.TypeDone, event.TypeFailed,
		event.TypeGap:
		return true
	}
	return false
}

// relay has the events of a lent agent and of its sub-agents on this node, for its borrower. It is for one goroutine. A nil
// relay has none.
type relay struct {
	events *event.Subscription
	tree   *event.Tree
	held   json.RawMessage // the event that did not fit into the last line
}

func newRelay(events *event.Subscription) *relay { return &relay{events: events} }

func (r *relay) close() { r.events.Close() }

// of sets the agent.
func (r *relay) of(id community.MemberID) *relay {
	if r != nil {
		r.tree = event.NewTree(string(id))
	}
	return r
}

// ready has a value when take may have events. Call take until it has none.
func (r *relay) ready() <-chan struct{} {
	if r == nil {
		return nil
	}
	return r.events.Ready()
}

// take returns the next events that fit into a line; none if there are no more now.
func (r *relay) take() (all []json.RawMessage) {
	for size := 0; ; {
		one := r.held
		if r.held = nil; one == nil {
			e, ok := r.events.Take()
			if !ok {
				return all
			}
			if !isRelayed(e) || !r.tree.Has(e) {
				continue
			}
			one = encodeEvent(e)
		}
		if size += len(one); size > maxEvents && len(all) > 0 {
			r.held = one
			return all
		}
		all = append(all, one)
	}
}

// encodeEvent returns an event as JSON of at most maxEvents bytes. One that is longer loses its part, and the end of its text.
func encodeEvent(e event.Event) json.RawMessage {
	line, err := json.Marshal(e)
	if err != nil || len(line) > maxEvents {
		e.Part, e.Text, e.Why = nil, visible.Prefix(e.Text, maxEvents/16), visible.Prefix(e.Why, maxEvents/16) // a byte takes up to 6 in JSON
		line, _ = json.Marshal(e)                                                                              // without a part it has a form
	}
	return line
}

// relay passes the events on that a lender tells of the agent. It drops events of other members of this community, and
// events of an unknown form: the lender may be hostile. The reader makes texts printable, as of any model.
func (b *BorrowedAgent) relay(events []json.RawMessage) {
	for _, line := range events {
		var e event.Event
		if b.onEvent == nil || json.Unmarshal(line, &e) != nil || !isRelayed(e) || e.Type != event.TypeGap && !b.owns(community.MemberID(e.Agent)) {
			continue
		}
		// The lender's rules stay there; calls that no person answered are told with update.Denied.
		if d, ok := e.Part.(event.Decision); ok {
			d.Source, d.Unasked, d.Missing = "", false, nil
			e.Part = d
		}
		e.Time, e.Node, e.Name = time.Now().UTC(), b.node.Name, visible.Line(e.Name, maxEventName)
		b.onEvent(e)
	}
}

// owns reports whether a member is the agent, or another member of its node.
func (b *BorrowedAgent) owns(id community.MemberID) bool {
	if id == b.id() {
		return id != ""
	}
	m, known := b.borrower.Member(id)
	return known && m.Node == b.node.Node
}
