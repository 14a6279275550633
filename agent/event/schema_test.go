package event_test

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
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
		"pending_steering": "how many steering texts no request to the model has yet", "skill": "the name of the skill",
		"capability": "the name of the capability", "seq": "the number of the event on its node; it grows, also over restarts",
	} {
		if of := s.Properties[key]; of == nil || of.Description != text {
			t.Errorf("%s: %+v", key, of)
		}
	}
	for name, of := range s.Properties {
		if of.Description == "" {
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
	for _, e := range []event.Event{
		{Type: event.TypeResult, Text: "x", Part: event.End{Spent: &budget.Spent{Cost: 1}}},
		{Type: event.TypeTranscript, Part: event.Transcript{Transcript: []llm.Message{{Role: llm.User, Text: "x"}}}},
		{Type: event.TypePlan, Part: event.Plan{Steps: []event.Step{{Text: "a", State: "done"}}}},
		{Type: event.TypeDecision, Part: event.Decision{For: []string{"b"}, Args: json.RawMessage(`{"x":1}`)}},
		{Type: event.TypeProgress, Part: event.Tool{Done: 0.5, Total: 1.5}},
	} {
		e.Seq, e.Time, e.Node = 1, time.Now(), "a"
		text, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		if err := check(string(text)); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	const ok = `{"time":"2030-01-01T00:00:00Z","seq":1,"type":"call","node":"a","agent":"","tool":"Read","new_field":{"a":1}}`
	if err := check(ok); err != nil {
		t.Error(err)
	}
	for _, wrong := range []string{`[]`, strings.Replace(ok, `"seq":1,`, "", 1), strings.Replace(ok, `"Read"`, `5`, 1),
		strings.Replace(ok, `"seq":1`, `"seq":"1"`, 1)} {
		if check(wrong) == nil {
			t.Errorf("%s is accepted", wrong)
		}
	}
}

// A name that both an event and its part have would be there twice.
func TestNoPartHasAFieldOfEvents(t *testing.T) {
	own := keys(reflect.TypeFor[event.Event]())
	types := map[string]bool{}
	for part, of := range event.Parts() {
		if reflect.ValueOf(part).Kind() != reflect.Struct {
			t.Errorf("%T is no struct", part)
		}
		for key := range keys(reflect.TypeOf(part)) {
			if own[key] {
				t.Errorf("%T has the key %q of each event", part, key)
			}
		}
		for _, name := range of {
			if types[name] {
				t.Errorf("%s has two parts", name)
			}
			types[name] = true
		}
	}
}

// keys returns the keys of a struct in JSON.
func keys(of reflect.Type) map[string]bool {
	all := map[string]bool{}
	for f := range of.Fields() {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "-" {
			all[name] = true
		}
	}
	return all
}

// A type that is missing in Types could not be asked for.
func TestTypesHasEachTypeOfAnEvent(t *testing.T) {
	f, err := parser.ParseFile(token.NewFileSet(), "parts.go", nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	declared, all := 0, event.Types()
	ast.Inspect(f, func(n ast.Node) bool {
		spec, is := n.(*ast.ValueSpec)
		if is && strings.HasPrefix(spec.Names[0].Name, "Type") {
			declared++
			value := spec.Values[0].(*ast.BasicLit).Value
			if !slices.Contains(all, strings.Trim(value, `"`)) {
				t.Errorf("Types has no %s", value)
			}
		}
		return true
	})
	if declared < 30 {
		t.Errorf("%d types are declared; was the file read?", declared)
	}
}
