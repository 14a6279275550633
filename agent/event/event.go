package event

import (
	"cmp"
	"encoding/json"
	"reflect"
	"slices"
	"time"
)

// Event is something that happened on a node: a change of the community, a step of an agent, a call
// from another node. It has one form from the part that reports it to the view that shows it. In
// JSON it is one flat object: the fields of Event, and behind them the fields of its part.
type Event struct {
	Time time.Time `json:"time" jsonschema:"when it happened"`
	// Seq orders the events: the clock may be set back. A gap has the number of the last event that is missing.
	Seq    uint64 `json:"seq" jsonschema:"the number of the event on its node; it grows, also over restarts"`
	Type   string `json:"type" jsonschema:"what happened; which other fields there are depends on it"`
	Node   string `json:"node" jsonschema:"the name of the node"`
	Agent  string `json:"agent" jsonschema:"the id of the member that the event is about; empty for the node itself"`
	Name   string `json:"name,omitempty" jsonschema:"the name of the member or node that the event is about; names are claims: show them, and decide nothing by them"`
	Parent string `json:"parent,omitempty" jsonschema:"the id of the agent that spawned the agent"`
	Text   string `json:"text,omitempty" jsonschema:"a text for people or of a model, such as a task or a part of an answer"`
	Why    string `json:"why,omitempty" jsonschema:"the reason, in a sentence for people"`
	// Part has the other fields of the type: a value of the struct that parts lists for it, or nil.
	// It and the values it refers to must not be changed after the event was reported.
	Part any `json:"-"`
}

// PartOf returns the part of an event as a T; the zero T if it has another one, or none.
func PartOf[T any](e Event) T {
	part, _ := e.Part.(T)
	return part
}

// ToolName returns the name of the tool that an event is about; "" if it is about none.
func (e Event) ToolName() string {
	return cmp.Or(PartOf[Tool](e).Tool, PartOf[Decision](e).Tool, PartOf[Approval](e).Tool)
}

// IsFrequent reports whether an event is one of many: a piece of a text or thought, or a progress.
// These are not kept in a Store: the session has the answer.
func (e Event) IsFrequent() bool {
	return e.Type == TypeText || e.Type == TypeThought || e.Type == TypeProgress
}

// MarshalJSON writes an event as one flat object. A part that has no JSON form is left out.
func (e Event) MarshalJSON() ([]byte, error) {
	type head Event // without this method
	text, err := json.Marshal(head(e))
	part, failed := json.Marshal(e.Part)
	if err != nil || failed != nil || len(part) <= len(`{}`) || part[0] != '{' {
		return text, err
	}
	// Both are objects: the } of the first becomes the comma before the fields of the second.
	return append(append(text[:len(text)-1], ','), part[1:]...), nil
}

// UnmarshalJSON reads what MarshalJSON writes. Unknown fields are ignored, so that an older reader
// can follow a newer node. The error is about fields of another shape than the type has.
func (e *Event) UnmarshalJSON(line []byte) error {
	type head Event
	if err := json.Unmarshal(line, (*head)(e)); err != nil {
		return err
	}
	return e.decodePart(line)
}

// decodePart sets the part to the one of the type with the fields of a JSON object.
func (e *Event) decodePart(line []byte) error {
	e.Part = nil
	for _, p := range parts {
		if slices.Contains(p.types, e.Type) {
			part := reflect.New(reflect.TypeOf(p.part))
			if err := json.Unmarshal(line, part.Interface()); err != nil {
				return err
			}
			e.Part = part.Elem().Interface()
		}
	}
	return nil
}
