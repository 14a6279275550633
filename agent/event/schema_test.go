package event_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"symbio/agent/budget"
	"symbio/agent/event"
	"symbio/agent/llm"
)

func TestSchemaDescribesEveryFieldOfEvents(t *testing.T) {
	s, err := event.Schema()
	if err != nil {
		t.Fatal(err)
	}
	for key, text := range map[string]string{
		"pending_steering": "PendingSteering is the number of steering texts that no request to the model has yet.", "total": "Done and Total are a progress, in any unit; Total 0 means that it is not known.",
		"capability": "", "seq": "the number of the event on its node; it grows, also over restarts",
	} {
		if of := s.Properties[key]; of == nil || text != "" && of.Description != text {
			t.Errorf("%s: %+v", key, of)
		}
	}
	// Fields whose names say it all stand below a line that ends a comment.
	for name, of := range s.Properties {
		if of.Description == "" && !slices.Contains([]string{"skill", "server"}, name) {
			t.Errorf("%s has no description", name)
		}
	}
	resolved, err := s.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	check := func(text string) error {
		var value any
		if err := json.Unmarshal([]byte(text), &value); err != nil {
			t.Fatal(err)
		}
		return resolved.Validate(value)
	}
	text, err := json.Marshal(event.Event{Seq: 1, Time: time.Now(), Type: "result", Node: "a", Data: encode(t, event.Fields{
		Args: json.RawMessage(`{"x":1}`), Spent: &budget.Spent{Cost: 1}, Transcript: []llm.Message{{Role: llm.User, Text: "x"}}, Steps: []event.Step{{Text: "a", State: "done"}}, For: []string{"b"},
	})})
	if err != nil {
		t.Fatal(err)
	}
	if err := check(string(text)); err != nil {
		t.Error(err)
	}
	const ok = `{"time":"2030-01-01T00:00:00Z","seq":1,"type":"call","node":"a","agent":"","tool":"Read","new_field":{"a":1}}`
	if err := check(ok); err != nil {
		t.Error(err)
	}
	for _, wrong := range []string{`[]`, strings.Replace(ok, `"seq":1,`, "", 1), strings.Replace(ok, `"Read"`, `5`, 1), strings.Replace(ok, `"seq":1`, `"seq":"1"`, 1)} {
		if check(wrong) == nil {
			t.Errorf("%s is accepted", wrong)
		}
	}
}

// encode returns the fields with the keys of events, which are in lower case.
func encode(t *testing.T, f event.Fields) json.RawMessage {
	t.Helper()
	text, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	fields := map[string]any{}
	if err := json.Unmarshal(text, &fields); err != nil {
		t.Fatal(err)
	}
	for name, v := range fields {
		delete(fields, name)
		fields[strings.ToLower(name)] = v
	}
	if text, err = json.Marshal(fields); err != nil {
		t.Fatal(err)
	}
	return text
}
