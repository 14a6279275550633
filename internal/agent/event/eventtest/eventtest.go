// Package eventtest makes events for tests.
package eventtest

import (
	"encoding/json"
	"strings"

	"symbio/agent/event"
)

// New returns an event of an unknown node with fields, a JSON object, as a reader decodes it. Fields of another
// shape than the type has are left out.
func New(kind, agent, fields string) (e event.Event) {
	_ = json.Unmarshal(Line(kind, "", agent, fields), &e)
	return e
}

// Line returns an event as JSON.
func Line(kind, node, agent, fields string) []byte {
	head, _ := json.Marshal(event.Event{Type: kind, Node: node, Agent: agent}) // it cannot fail
	if fields = strings.TrimSpace(strings.TrimPrefix(fields, "{")); fields == "" || fields == "}" {
		return head
	}
	return append(append(head[:len(head)-1], ','), fields...)
}
