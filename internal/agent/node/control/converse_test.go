package control

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"symbio/agent"
	"symbio/agent/event"
	"symbio/community"
	"symbio/internal/agent/node/tasks"
	symbiov1 "symbio/proto/symbio/v1"
)

// The session is named once, at the first event that says that its task is durable, also if others are missing.
func TestConversationNamesItsSession(t *testing.T) {
	for name, tt := range map[string]struct {
		lost int // events before the others
		kept []string
		want string
	}{
		"the task":           {0, []string{event.TypeNotice, event.TypeTask, event.TypeTurn}, "[notice session task turn]"},
		"a gap and a turn":   {2000, []string{event.TypeTurn, event.TypeDone}, "[gap session turn done]"},
		"a gap and an end":   {2000, []string{event.TypeDone}, "[gap session done]"},
		"it was not durable": {0, []string{event.TypeFailed}, "[failed]"},
	} {
		stream := event.NewStream("n")
		var got []string
		d := &conversationStream{
			server: &server{cfg: Config{Drain: &tasks.Gate{}, Agents: &tasks.Spawner{Factory: agent.NewFactory(agent.Config{})}}}, member: community.Member{ID: "a"}, events: stream.Subscribe(time.Now()), tree: event.NewTree("a"), session: &event.Event{Type: event.TypeSession},
			send: func(m *symbiov1.Event) error {
				var e event.Event
				err := json.Unmarshal(m.GetJson(), &e)
				got = append(got, e.Type)
				return err
			},
		}
		for range tt.lost {
			stream.Publish(event.Event{Type: "other", Agent: "b"})
		}
		if tt.lost > 0 {
			stream.Publish(event.Event{Type: event.TypeTask, Agent: "a"})
			if err := d.sendEvents(); err != nil {
				t.Fatal(err)
			}
		}
		for _, kind := range tt.kept {
			stream.Publish(event.Event{Type: kind, Agent: "a"})
		}
		if err := d.sendEvents(); err != nil || fmt.Sprint(got) != tt.want {
			t.Errorf("%s: %v, %v, want %s", name, got, err, tt.want)
		}
		if slices.Contains(got, "task") != (tt.lost == 0 && slices.Contains(tt.kept, event.TypeTask)) {
			t.Errorf("%s: the event of the task", name)
		}
		d.events.Close()
	}
}
