package event

import (
	"encoding/json"
	"fmt"
	"time"

	"symbio/agent/budget"
	"symbio/agent/llm"
)

// Fields are the fields that the Data of events have, of all types. Only those of the event's type
// are set; the part of a node that reports a type declares which. All readers decode Data to
// Fields.
type Fields struct {
	ID     string
	Name   string // of the member or node that it is about
	Parent string // of an agent: who made it
	Member string
	Text   string
	Why    string
	Error  string
	Status string // of a result
	State  string // of a node or a server
	On     string // of a member: its node
	From   string
	Kind   string

	// Of calls and decisions about them.
	Tool       string
	Call       string
	Args       json.RawMessage
	Capability string
	Verdict    string
	Source     string
	Outcome    string
	By         string
	Digest     string
	For        []string
	Rules      []string
	Approved   bool
	Allow      bool
	Failed     bool

	Skill    string
	Server   string
	Next     string // the model that is asked next
	Provides []string
	Local    bool
	Over     bool // of a result: the agent is gone

	Turn            int
	Tools           int
	Missed          int
	Omitted         uint64
	PendingSteering int           `json:"pending_steering"`
	Wait            float64       // seconds
	Done, Total     float64       // how much is done, of how much; no Total = not known
	Spent           *budget.Spent // nil = not known
	Transcript      []llm.Message
}

// Fields decodes the Data of an event. Unknown fields are ignored, so that an older reader can follow
// a newer node. An event without Data has the zero Fields. The error is about Data of another shape.
func (e Event) Fields() (Fields, error) {
	if len(e.Data) == 0 {
		return Fields{}, nil
	}
	var f Fields
	if err := json.Unmarshal(e.Data, &f); err != nil {
		return Fields{}, fmt.Errorf("the event %q: %w", e.Type, err)
	}
	return f, nil
}

// UnmarshalJSON decodes an event as MarshalJSON encodes it: the five common fields by name, and all
// others into Data.
func (e *Event) UnmarshalJSON(line []byte) error {
	var head struct {
		Time              time.Time
		Seq               uint64
		Type, Node, Agent string
	}
	if err := json.Unmarshal(line, &head); err != nil {
		return err
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(line, &fields); err != nil {
		return err
	}
	for _, name := range []string{"time", "seq", "type", "node", "agent"} {
		delete(fields, name)
	}
	data, err := json.Marshal(fields)
	*e = Event{Time: head.Time, Seq: head.Seq, Type: head.Type, Node: head.Node, Agent: head.Agent, Data: data}
	return err
}
