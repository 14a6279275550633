package lending

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"symbio/agent/event"
	"symbio/community"
)

// A borrower is told the events of the agent that it follows, and no others of the lender's node.
func TestLenderTellsEventsOfTheAgentOnly(t *testing.T) {
	stream := event.NewStream("b")
	r := newRelay(stream.Subscribe(time.Time{})).of("1")
	defer r.close()
	for _, e := range []event.Event{
		{Type: event.TypeTask, Agent: "1", Text: "mine"},
		{Type: event.TypeText, Agent: "2", Text: "of another agent"},
		{Type: event.TypeText, Agent: "3", Parent: "1", Text: "of my sub-agent"},
		{Type: event.TypeApproval, Agent: "1", Why: "for the people of the lender"},
		{Type: event.TypeDecision, Agent: "1", Part: event.Decision{Kind: "inbound"}},
		{Type: event.TypeDone, Agent: "1", Text: strings.Repeat("\x01", maxEvents)},
	} {
		stream.Publish(e)
	}
	var got []string
	for some := r.take(); len(some) > 0; some = r.take() {
		for _, line := range some {
			var e event.Event
			if err := json.Unmarshal(line, &e); err != nil || len(line) > maxEvents {
				t.Fatalf("a line of %d bytes: %v", len(line), err)
			}
			got = append(got, e.Type)
		}
	}
	if fmt.Sprint(got) != "[task text done]" {
		t.Errorf("told: %v", got)
	}
	if none := (*relay)(nil); none.of("1").ready() != nil {
		t.Error("a lease that is not followed has events")
	}
}

func TestEventsOfALenderAreSplitIntoLines(t *testing.T) {
	stream := event.NewStream("b")
	r := newRelay(stream.Subscribe(time.Time{})).of("1")
	defer r.close()
	for range 10 {
		stream.Publish(event.Event{Type: event.TypeText, Agent: "1", Text: strings.Repeat("x", maxEvents/4)})
	}
	count := 0
	for some := r.take(); len(some) > 0; some = r.take() {
		line, err := update{Events: some}.line()
		if err != nil || len(line) > maxLine {
			t.Fatalf("a line of %d bytes: %v", len(line), err)
		}
		count += len(some)
	}
	if count != 10 {
		t.Errorf("%d events came, want 10", count)
	}
}

// ownMembers is a community where each member is of this node, unless its id is that of the lent agent.
type ownMembers struct{ fakeNode }

func (ownMembers) Member(id community.MemberID) (community.Member, bool) {
	return community.Member{ID: id, Node: map[bool]community.NodeID{true: otherNode, false: "a"}[id == "theirs"]}, id != "unknown"
}

// A lender says nothing in the name of members of other nodes, and asks the person nothing by an event.
func TestHostileLenderTellsNoEventsOfOthers(t *testing.T) {
	var got []event.Event
	one := borrow(&Borrower{Community: ownMembers{}}, "1")
	one.node.Name, one.onEvent = "kitchen", func(e event.Event) { got = append(got, e) }
	one.relay([]json.RawMessage{
		[]byte(`{"type":"text","agent":"2","text":"of an agent of the borrower"}`),
		[]byte(`{"type":"text","agent":"unknown"}`),
		[]byte(`{"type":"text","agent":""}`),
		[]byte(`{"type":"approval","agent":"1","id":"1-aaaaaaaa"}`),
		[]byte(`{"type":"result","agent":"1","text":"done"}`),
		[]byte(`{"type":"session","agent":"1","id":"x"}`),
		[]byte(`{"type":"patch","agent":"1","dir":"/"}`),
		[]byte(`{"type":"text","agent":"1","turn":"x"}`),
		[]byte(`[]`), []byte(`null`), []byte(`{`),
		[]byte(`{"type":"text","agent":"theirs","node":"desk","name":"a\u001b[2J` + strings.Repeat("x", 500) + `"}`),
		[]byte(`{"type":"decision","agent":"1","source":"secret.yaml","unasked":true,"missing":["Bash"]}`),
	})
	if len(got) != 2 {
		t.Fatalf("%d events: %+v", len(got), got)
	}
	if e := got[0]; e.Node != "kitchen" || strings.Contains(e.Name, "\x1b") || len(e.Name) > 2*maxEventName {
		t.Errorf("an event of a member of the lender: %+v", e)
	}
	if d := event.PartOf[event.Decision](got[1]); d.Source != "" || d.Unasked || d.Missing != nil {
		t.Errorf("a decision of the lender: %+v", d)
	}
}
