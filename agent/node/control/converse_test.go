package control

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"symbio/agent"
	"symbio/agent/event"
	"symbio/community"
	symbiov1 "symbio/proto/symbio/v1"
)

// The session is named once, at the first event that says that its task is durable, also if others are missing.
func TestConversationNamesItsSession(t *testing.T) {
	for name, tt := range map[string]struct {
		lost int // events before the others
		kept []agent.EventType
		want string
	}{
		"the task":           {0, []agent.EventType{agent.EventNotice, agent.EventTask, agent.EventTurn}, "[notice session task turn]"},
		"a gap and a turn":   {2000, []agent.EventType{agent.EventTurn, agent.EventDone}, "[gap session turn done]"},
		"a gap and an end":   {2000, []agent.EventType{agent.EventDone}, "[gap session done]"},
		"it was not durable": {0, []agent.EventType{agent.EventFailed}, "[failed]"},
	} {
		stream := event.NewStream("n")
		var got []string
		d := &conversationStream{
			server: new(server), member: community.Member{ID: "a"}, events: stream.Subscribe(time.Now()), tree: &tree{members: map[string]bool{"a": true}}, session: &sessionStart{ID: "s"},
			send: func(e *symbiov1.Event) error { got = append(got, e.GetType()); return nil },
		}
		for range tt.lost {
			stream.Publish("other", "b", struct{}{})
		}
		if tt.lost > 0 {
			stream.Publish(string(agent.EventTask), "a", struct{}{})
			if err := d.sendEvents(); err != nil {
				t.Fatal(err)
			}
		}
		for _, kind := range tt.kept {
			stream.Publish(string(kind), "a", struct{}{})
		}
		if err := d.sendEvents(); err != nil || fmt.Sprint(got) != tt.want {
			t.Errorf("%s: %v, %v, want %s", name, got, err, tt.want)
		}
		if slices.Contains(got, "task") != (tt.lost == 0 && slices.Contains(tt.kept, agent.EventTask)) {
			t.Errorf("%s: the event of the task", name)
		}
		d.events.Close()
	}
}
